//! A child of `vfork` that was killed, of which DynamoRIO still has the record of a thread that lives.
//!
//! DynamoRIO keeps such a child as a thread of its parent's, and marks the record once the child is about to execute a program: it then
//! leaves it alone, and removes it some time later. One that SIGKILL kills before is never marked, and whenever the parent forks, DynamoRIO
//! tries to stop it, for almost a minute, or for ever where nobody has waited for the child. A patch (`dr/patches/dynamo.patch`) lets a client
//! set the mark.

use std::ffi::c_void;

unsafe extern "C" {
    fn dr_mark_thread_gone(context: *mut c_void);
}

/// Marks a child that has died as one that executes another program, unless it is.
///
/// # Safety
/// The context is one of DynamoRIO's that it has not freed, of a thread that does not run and never will.
pub unsafe fn mark(context: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { dr_mark_thread_gone(context) }
}
