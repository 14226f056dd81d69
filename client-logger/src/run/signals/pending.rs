//! What DynamoRIO holds of a thread's signals: they have come, and are not delivered yet.
//!
//! DynamoRIO drops what comes while it looks through them (`receive_pending_signal`), and delivers two of one number in the wrong order. So
//! the kernel's mask stays closed as long as there is one; and as DynamoRIO looks once more behind each, until it has done that too.

use super::sets::bit;
use std::sync::atomic::{AtomicU64, Ordering};

/// A set of signals, which a signal handler adds to.
#[derive(Debug, Default)]
pub struct Pending(AtomicU64);

impl Pending {
    /// One has come, and goes on to DynamoRIO.
    pub(super) fn add(&self, signal: i32) {
        self.0.fetch_or(bit(signal), Ordering::SeqCst);
    }

    /// It is delivered, or ignored.
    pub fn remove(&self, signal: i32) {
        self.0.fetch_and(!bit(signal), Ordering::SeqCst);
    }

    /// In a forked child, which has none.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Whether there is one.
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}
