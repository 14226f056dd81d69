//! What the program has set for its signals, as DynamoRIO has it, where each `sigaction` changes it at once, whatever other threads set at the same
//! time. A patch (`dr/patches/signal.patch`) lets a client ask.

use std::ffi::{c_int, c_void};

/// What is set for a signal, `struct sigaction` as the system call has it: handler, flags, restorer and mask.
pub type Words = [u64; 4];

unsafe extern "C" {
    fn dr_get_delivered_action(context: *mut c_void, action: *mut Words);
    fn dr_get_app_action(context: *mut c_void, signal: c_int, action: *mut Words);
}

/// That by which DynamoRIO delivers a signal, whatever is set for it meanwhile.
///
/// # Safety
/// In the event of the signal, or in that of its delivery, with the event's context.
#[must_use]
pub unsafe fn delivered(context: *mut c_void) -> Words {
    let mut action = Words::default();
    // SAFETY: the caller's promise; the structure is the kernel's.
    unsafe { dr_get_delivered_action(context, &raw mut action) };
    action
}

/// What is set for a signal now.
///
/// # Safety
/// The context of a thread of the process, or of a child of `vfork` for what that has set; a signal that there is.
#[must_use]
pub unsafe fn of(context: *mut c_void, signal: i32) -> Words {
    let mut action = Words::default();
    // SAFETY: the caller's promise; the structure is the kernel's.
    unsafe { dr_get_app_action(context, signal, &raw mut action) };
    action
}
