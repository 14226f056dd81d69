//! The system call that an event of DynamoRIO's is about.

use crate::sys;
use std::ffi::c_void;

unsafe extern "C" {
    fn dr_give_up_for_signal(context: *mut c_void) -> bool;
}

/// Whether DynamoRIO holds a signal that is to be delivered to the calling thread: if so, it gives the call up that is about to be made, and that is made again
/// behind the handler (`dr/patches/dispatch.patch`).
///
/// # Safety
/// In the pre-syscall event, with its context; a client that is told so does nothing more about the call.
#[must_use]
pub unsafe fn give_up_for_signal(context: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    unsafe { dr_give_up_for_signal(context) }
}

/// In the pre-syscall event, with a call that is not to be made, or in the post-syscall event: what the program gets.
///
/// # Safety
/// In one of these, with its context.
pub unsafe fn set_result(context: *mut c_void, result: u64) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_syscall_set_result(context, result) };
}

/// The kernel gets another value for the argument with this number.
///
/// # Safety
/// In the pre-syscall event, or the post-syscall event before [`make_another`], with its context; the value is right for the call.
pub unsafe fn set_argument(context: *mut c_void, argument: usize, value: u64) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_syscall_set_param(context, argument as i32, value) };
}

/// The kernel gets another call.
///
/// # Safety
/// As for [`set_argument`].
pub unsafe fn set_number(context: *mut c_void, number: i64) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_syscall_set_sysnum(context, number as i32) };
}

/// Another call is made at once, with what was set.
///
/// # Safety
/// In the post-syscall event, with its context, behind [`set_number`].
pub unsafe fn make_another(context: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_syscall_invoke_another(context) };
}
