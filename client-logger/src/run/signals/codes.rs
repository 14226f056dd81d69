//! `si_code` of the signals that come to a thread, which DynamoRIO does not hand on.

use super::sets::SIGNALS;
use std::sync::atomic::{AtomicI32, Ordering};

/// That of no signal.
const NONE: i32 = i32::MIN;
/// Where a signal's description has it, in words of 4 bytes.
const CODE: usize = 2;

/// The codes of the signals that have come to a thread last, by their numbers.
#[derive(Debug)]
pub struct Codes([AtomicI32; SIGNALS as usize + 1]);

impl Codes {
    /// Of a thread to which none has come.
    pub const fn new() -> Self {
        Self([const { AtomicI32::new(NONE) }; SIGNALS as usize + 1])
    }

    /// That of a signal that is delivered now; none if the kernel has not sent it, so that DynamoRIO has.
    pub fn take(&self, signal: i32) -> Option<i32> {
        let code = self.0.get(signal as usize)?.swap(NONE, Ordering::Relaxed);
        (code != NONE).then_some(code)
    }

    /// A signal has come, and goes on to DynamoRIO.
    ///
    /// # Safety
    /// In the signal's handler, with the kernel's description.
    pub unsafe fn note(&self, signal: i32, info: *const i32) {
        // SAFETY: the caller's promise.
        let code = unsafe { info.add(CODE).read() };
        if let Some(place) = self.0.get(signal as usize) {
            place.store(code, Ordering::Relaxed);
        }
    }
}
