//! What there is of a thread's signals, also for the handler of one that has interrupted the thread.

use super::codes::Codes;
use super::leave::Leave;
use super::mask::Mask;
use super::pending::Pending;
use super::retry::Retry;
use crate::base::slots::Slot;

/// What there is of a thread's signals.
pub struct OwnSignals {
    /// Which the program blocks.
    pub mask: Mask,
    /// What the kernel said of those that came to it.
    pub codes: Codes,
    /// When it looks whether there are any.
    pub leave: Leave,
    /// Whether the next block is a signal handler's first, and has to set the x87 state and MXCSR that handlers begin with.
    pub handler_begins: bool,
    /// The system call that it waits in.
    pub retry: Retry,
    /// Whether it is in a system call of the program's, and not in one that the logger makes before or behind it.
    pub in_call: bool,
    /// Whether the fault that comes next is none, but [calls the thread back](crate::base::stuck).
    pub called_back: bool,
}

impl OwnSignals {
    /// Of a thread that begins; `foreign`: of a process that shares its parent's memory.
    pub fn new(foreign: bool) -> Self {
        let (mask, codes, leave, retry) = (Mask::inherited(foreign), Codes::new(), Leave::new(), Retry::default());
        Self { mask, codes, leave, handler_begins: false, retry, in_call: false, called_back: false }
    }
}

/// Where the calling thread, which begins, has its signals; null where it ends.
pub fn show(own: *mut OwnSignals) {
    // SAFETY: the calling thread's own slot.
    unsafe { *Slot::Signals.address() = own as u64 };
}

/// Whether the calling thread, which a signal has interrupted in a system call, is in one of the logger's or of DynamoRIO's, and not of
/// the program's; for a signal handler.
pub(super) fn is_in_own_call() -> bool {
    let flag = part(|own| {
        // SAFETY: as in `retry`.
        unsafe { &raw mut (*own).in_call }
    });
    // SAFETY: this byte is read alone.
    !flag.is_null() && unsafe { !flag.read() }
}

/// The calling thread is called back; for a signal handler. `false` if it is not one of the program's.
pub(super) fn is_called_back() -> bool {
    let flag = part(|own| {
        // SAFETY: as in `retry`.
        unsafe { &raw mut (*own).called_back }
    });
    if flag.is_null() {
        return false;
    }
    // SAFETY: this byte is written alone.
    unsafe { flag.write(true) };
    true
}

/// A part of the calling thread's signals; null for a thread that is not the program's.
fn part<T>(of: impl FnOnce(*mut OwnSignals) -> *mut T) -> *mut T {
    let own = Slot::Signals.read() as *mut OwnSignals;
    if own.is_null() { std::ptr::null_mut() } else { of(own) }
}

/// What the calling thread waits in, for a signal handler; null for a thread that is not the program's.
pub(super) fn retry() -> *mut Retry {
    // SAFETY: the structure lives as long as the slot refers to it.
    part(|own| unsafe { &raw mut (*own).retry })
}

/// What DynamoRIO holds of the calling thread's signals, for a signal handler; null for a thread that is not the program's.
pub(super) fn pending() -> *const Pending {
    // SAFETY: as in `retry`.
    part(|own| unsafe { &raw mut (*own).mask.pending })
}

/// The codes of the signals that have come to the calling thread, for a signal handler; null for a thread that is not the program's.
pub(super) fn codes() -> *const Codes {
    // SAFETY: as in `retry`.
    part(|own| unsafe { &raw mut (*own).codes })
}
