//! `si_code` of the signals that come to a thread, which DynamoRIO does not hand on.

use crate::run::thread;
use std::sync::atomic::{AtomicI32, Ordering};

/// That of no signal.
const NONE: i32 = i32::MIN;
/// Where a signal's description has it, in words of 4 bytes.
const CODE: usize = 2;

/// The codes of the signals that have come to a thread last, by their numbers.
#[derive(Debug)]
pub struct Codes([AtomicI32; super::SIGNALS as usize + 1]);

impl Codes {
    /// Of a thread to which none has come.
    pub const fn new() -> Self {
        Self([const { AtomicI32::new(NONE) }; super::SIGNALS as usize + 1])
    }

    /// That of a signal that is delivered now; none if the kernel has not sent it, so that DynamoRIO has.
    pub fn take(&self, signal: i32) -> Option<i32> {
        let code = self.0.get(signal as usize)?.swap(NONE, Ordering::Relaxed);
        (code != NONE).then_some(code)
    }
}

/// A signal has come, and goes on to DynamoRIO.
///
/// # Safety
/// In the signal's handler, with the kernel's description.
pub(super) unsafe extern "C" fn note(signal: i32, info: *const i32) {
    // SAFETY: the caller's promise.
    let code = unsafe { info.add(CODE).read() };
    // SAFETY: the codes are only accessed by this thread and its handlers, each at once.
    if let Some(place) = unsafe { thread::codes().as_ref() }.and_then(|codes| codes.0.get(signal as usize)) {
        place.store(code, Ordering::Relaxed);
    }
}
