//! Blocks in the code cache, which DynamoRIO calls fragments: how they are thrown away.

use crate::sys;
use std::ffi::c_void;
use std::os::raw::c_int;

/// Throws all blocks away, at once.
///
/// # Safety
/// In an event of a system call, or one in which DynamoRIO allows it as well; the caller holds no lock. Threads that are in the middle of a
/// block are moved, so that what the block has counted does not hold for them: there are none, or nobody relies on it.
pub unsafe fn flush_all() {
    // SAFETY: the caller's promise; the whole address space.
    unsafe { sys::dr_flush_region(std::ptr::null_mut(), usize::MAX) };
}

/// Throws blocks away that were made of code at these addresses, once threads come to DynamoRIO's dispatcher.
pub fn flush_later(start: u64, len: usize) {
    // SAFETY: may be asked for anywhere.
    unsafe { sys::dr_delay_flush_region(start as sys::app_pc, len, 0, None) };
}

/// Throws all blocks away, once threads come to DynamoRIO's dispatcher; `then` is called when none is left that was there when this was asked
/// for.
pub fn flush_all_later(then: Option<unsafe extern "C" fn(c_int)>) {
    // SAFETY: may be asked for anywhere; the whole address space.
    unsafe { sys::dr_delay_flush_region(std::ptr::null_mut(), usize::MAX, 0, then) };
}

/// Lets DynamoRIO forget the block with a tag when control next leaves a clean call.
///
/// # Safety
/// In a clean call, holding no lock, in the only thread, whose blocks are its own.
pub unsafe fn delete(tag: u64) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_delete_fragment(sys::dr_get_current_drcontext(), tag as *mut c_void) };
}
