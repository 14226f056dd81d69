//! A thread ends the process.

use crate::picture::moment::Index;
use crate::picture::peer;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether one does.
static EXITING: AtomicBool = AtomicBool::new(false);

/// The calling thread, whose number this is, ends the process. DynamoRIO then waits until the other threads are where
/// it can end them, which in instrumented code is rarely the case: they are led out of it at their next access to
/// memory.
pub fn begin(me: Index) {
    EXITING.store(true, Ordering::SeqCst);
    peer::all().iter().filter(|peer| peer.index != me).for_each(|peer| peer.revoke());
}

/// Whether a thread ends the process.
pub fn has_begun() -> bool {
    EXITING.load(Ordering::SeqCst)
}

/// In a forked child: none does.
pub fn forget() {
    EXITING.store(false, Ordering::SeqCst);
}
