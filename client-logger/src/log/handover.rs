//! Where frames are handed over to be compressed: to bugnet, as long as the program lets the recorder make the system calls for that.

use crate::base::options;
use bugnet_handover::Handover;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Also that of forked children.
static HANDOVER: OnceLock<Option<Handover>> = OnceLock::new();

/// Whether the program may forbid the system calls that it takes.
static RESTRICTED: AtomicBool = AtomicBool::new(false);

/// The process begins.
pub fn begin() {
    // It is gone once bugnet is.
    HANDOVER.get_or_init(|| Handover::open(&options::get().log).ok());
}

/// Where frames are handed over, if that is possible.
pub fn get() -> Option<Handover> {
    HANDOVER.get().copied().flatten().filter(|_| !is_restricted())
}

/// The program restricts its system calls: from here on each thread compresses what it writes.
pub fn restrict() {
    RESTRICTED.store(true, Ordering::Relaxed);
}

/// Whether the program may forbid system calls.
pub fn is_restricted() -> bool {
    RESTRICTED.load(Ordering::Relaxed)
}
