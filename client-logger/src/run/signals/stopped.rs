//! While DynamoRIO has stopped a thread, by a signal of its own, as it does when another thread forks.
//!
//! The handler of that signal lets others in while it waits. DynamoRIO would keep them to itself until the thread is in its dispatcher
//! again; but behind the handler, the kernel makes the system call once more that was interrupted, which may wait for ever. So they are
//! blocked until that handler returns: they come then, in their order, and interrupt the call.
//!
//! A call that the kernel does not make once more by itself is made so here: see [`super::retry`].

use super::actions::BLOCKED;
use super::frame::Frame;
use super::own;
use super::sets::{FAULTS, UNBLOCKABLE, bit};
use std::sync::atomic::Ordering;

/// Where a signal frame has `uc_link`, of which nobody makes any use.
const FRAME_LINK: usize = 8;
/// Signals that cannot be blocked here: DynamoRIO also ends threads by the signal by which it stops them.
const OPEN: u64 = bit(libc::SIGILL) | UNBLOCKABLE;

std::arch::global_asm!(
    ".globl bugnet_return_from_stop",
    ".hidden bugnet_return_from_stop",
    // Where the handler returns to: RSP is the kernel's pointer to the context, at which the stack is aligned.
    "bugnet_return_from_stop:",
    "mov rdi, rsp",
    "call {resume}",
    "mov eax, {sigreturn}",
    "syscall",
    "ud2",
    resume = sym resume,
    sigreturn = const libc::SYS_rt_sigreturn,
);

unsafe extern "C" {
    fn bugnet_return_from_stop();
}

/// DynamoRIO's handler is about to stop the thread, and waits with the mask that the frame has: all are blocked.
///
/// # Safety
/// In the handler of that signal, with the kernel's pointer into the frame, which nobody else uses.
pub(super) unsafe fn begin(context: *mut u8) {
    // SAFETY: the caller's promise; below the context is where the handler returns to.
    unsafe {
        let frame = Frame::new(context);
        frame.set(FRAME_LINK, frame.mask());
        // Those that look like faults were sent: nothing faults here.
        frame.set_mask(frame.mask() | (BLOCKED.load(Ordering::SeqCst) | FAULTS) & !OPEN);
        context.cast::<u64>().sub(1).write(bugnet_return_from_stop as *const () as u64);
    }
}

/// The thread is about to go on, with the mask that it had.
///
/// # Safety
/// At the end of that handler, with the same pointer, and with all signals blocked.
unsafe extern "C" fn resume(context: *mut u8) {
    // SAFETY: the caller's promise.
    let frame = unsafe { Frame::new(context) };
    frame.set_mask(frame.word(FRAME_LINK));
    // SAFETY: the thread is in no event that refers to it, if it is where this changes anything.
    if let Some(retry) = unsafe { own::retry().as_mut() } {
        retry.repeat(frame);
    }
}
