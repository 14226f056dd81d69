//! Throws all blocks away where those that are built from then on have to be others.

use crate::base::process;
use crate::emitted::by_rip;
use bugnet_dr::fragments;

/// All blocks are built anew where they are wanted. In a pre-syscall event.
fn throw_blocks_away() {
    // SAFETY: no lock is held; the whole address space.
    unsafe { fragments::flush_all() };
}

/// A second thread is about to be started, by the calling thread, which is in a system call: from here on, blocks
/// have what threads need.
pub fn become_threaded() {
    if process::become_threaded() {
        throw_blocks_away();
    }
}

/// A thread is about to be started, or a process that has the same memory, by the calling thread, which is in a system call:
/// both execute blocks of this process.
pub fn share_blocks() {
    if by_rip::end() {
        throw_blocks_away();
    }
}
