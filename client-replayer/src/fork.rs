//! A copy of the process, which is where this one is: a snapshot to which a session goes back.
//!
//! It is made without DynamoRIO knowing, between blocks: the process has one thread, and nothing in it depends on its id. The
//! copy keeps the code cache, which is what makes it cheap, and the confinement.

use bugnet_format::control::CONTROL_FD;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::arch::asm;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::AsFd;

const SYS_DUP2: usize = 33;
const SYS_CLONE: usize = 56;
const SYS_WAIT4: usize = 61;
const WNOHANG: usize = 1;
/// Also for children that send no signal at their end.
const WAIT_ALL: usize = 0x4000_0000;
/// Longest run without a look at the control socket, in instructions: some milliseconds.
pub const LOOK_EVERY: u64 = 1 << 24;

/// Which of the two processes goes on.
pub enum Forked {
    /// The one that there was.
    Parent,
    /// The copy, whose control socket is a new one.
    Copy,
}

/// # Safety
/// As the system call.
unsafe fn call(number: usize, args: [usize; 4]) -> isize {
    let result: isize;
    // SAFETY: the caller's promise; the kernel changes RCX, R11 and the result alone.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") 0,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// Receives the copy's control socket, and makes the copy.
///
/// # Errors
/// No socket comes, or the kernel refuses.
pub fn fork(control: &File) -> Result<Forked, String> {
    let socket = receive_descriptor(control).map_err(|e| format!("no socket came for a copy: {e}"))?;
    // SAFETY: copies that have ended are waited for; nobody else in this process waits for anything.
    while unsafe { call(SYS_WAIT4, [usize::MAX, 0, WNOHANG | WAIT_ALL, 0]) } > 0 {}
    // SAFETY: in a clean call, where the only thread executes no code of the program's. Without flags, the copy has its own
    // memory and descriptors, and sends no signal at its end, which replay would take for one of the program's.
    match unsafe { call(SYS_CLONE, [0, 0, 0, 0]) } {
        0 => {
            // SAFETY: the copy's socket takes the place of the one that is the other process's; its owner goes on with it.
            let copied = unsafe { call(SYS_DUP2, [socket.as_raw_fd() as usize, CONTROL_FD as usize, 0, 0]) };
            if copied < 0 { Err("a copy has no socket".into()) } else { Ok(Forked::Copy) }
        }
        error if error < 0 => {
            Err(format!("no copy of the process can be made: {}", Errno::from_raw_os_error(-error as i32)))
        }
        _ => Ok(Forked::Parent),
    }
}

/// Receives a descriptor, which is this one from then on.
///
/// # Errors
/// None comes.
pub fn receive_as(control: &File, number: i32) -> Result<(), Errno> {
    let received = receive_descriptor(control)?;
    if received.as_raw_fd() == number {
        std::mem::forget(received);
        return Ok(());
    }
    // SAFETY: a system call on numbers; whoever calls this owns what the number was.
    match unsafe { call(SYS_DUP2, [received.as_raw_fd() as usize, number as usize, 0, 0]) } {
        error if error < 0 => Err(Errno::from_raw_os_error(-error as i32)),
        _ => Ok(()),
    }
}

fn receive_descriptor(control: &File) -> Result<OwnedFd, Errno> {
    let mut byte = [0];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    recvmsg(control.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(Errno::BADF)
}

/// Whether the other side has said something, or is gone.
pub fn is_called() -> bool {
    // SAFETY: open as long as the process.
    let control = unsafe { BorrowedFd::borrow_raw(CONTROL_FD) };
    let mut byte = [0];
    let mut ancillary = RecvAncillaryBuffer::new(&mut []);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let looked = recvmsg(control, &mut parts, &mut ancillary, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(looked, Err(Errno::AGAIN | Errno::INTR))
}
