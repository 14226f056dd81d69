//! The handler in front of DynamoRIO's: which signals go on to DynamoRIO, which wait, and what is noted of them.

use super::actions::{ASYNCHRONOUS, BLOCKED, DYNAMORIO, NOT_TAKEN, kills};
use super::frame::{FRAME_MASK, Frame};
use super::leave::TAKEN;
use super::own;
use super::send::send_to_this_thread;
use super::sets::{FAULTS, bit};
use super::{held, stopped, suspended, unborn};
use crate::base::memory::{read_word, write_memory};
use crate::base::stuck;
use std::sync::atomic::Ordering;

/// Asynchronous signals that DynamoRIO would deliver in the middle of a block, or fail at if they interrupt a callout; unless
/// they interrupt a system call.
const WAITING: u64 =
    bit(libc::SIGABRT) | bit(libc::SIGPIPE) | bit(libc::SIGSTKFLT) | bit(libc::SIGXCPU) | bit(libc::SIGSYS);
/// `si_code` of signals that the kernel sends by itself.
const SI_KERNEL: i32 = 128;

std::arch::global_asm!(
    ".globl bugnet_signal_in_front",
    ".hidden bugnet_signal_in_front",
    // RDI is the signal, RSI its description, RDX the context. RAX and RCX are free.
    "bugnet_signal_in_front:",
    "lea eax, [rdi - 1]",
    "mov ecx, eax",
    "bt [rip + {asynchronous}], rax",
    "jnc 2f",
    "mov rax, [rip + {blocked}]",
    "or [rdx + {mask}], rax",
    "lock inc qword ptr [rip + {taken}]",
    "push rdi",
    "push rsi",
    "push rdx",
    "call {wait}",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test al, al",
    "jz 1f",
    "ret",
    "1: jmp [rip + {dynamorio}]",
    // What an instruction causes has a positive code.
    "2: cmp dword ptr [rsi + 8], 0",
    "jg 3f",
    "mov rax, {faults}",
    "shr rax, cl",
    "test al, 1",
    "jz 1b",
    "push rdi",
    "push rsi",
    "push rdx",
    "call {hold}",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test al, al",
    "jz 1b",
    "ret",
    "3: push rdi",
    "push rsi",
    "push rdx",
    "call {note}",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "jmp 1b",
    asynchronous = sym ASYNCHRONOUS,
    blocked = sym BLOCKED,
    dynamorio = sym DYNAMORIO,
    taken = sym TAKEN,
    wait = sym wait,
    faults = const FAULTS,
    hold = sym hold,
    note = sym note,
    mask = const FRAME_MASK,
);

unsafe extern "C" {
    fn bugnet_signal_in_front();
}

/// The handler's address.
pub fn address() -> u64 {
    bugnet_signal_in_front as *const () as u64
}

/// A signal has come, and goes on to DynamoRIO.
///
/// # Safety
/// In the signal's handler, with the kernel's description.
unsafe extern "C" fn note(signal: i32, info: *const i32) {
    // SAFETY: the codes are only accessed by this thread and its handlers, each at once; the description is the caller's promise.
    unsafe {
        if let Some(codes) = own::codes().as_ref() {
            codes.note(signal, info);
        }
    }
}

/// Whether a signal that has come with this context has interrupted a system call, of the program's or not: the kernel comes back
/// behind its instruction, or to it where it makes the call again. One that DynamoRIO had stopped may be over by that.
fn is_in_call(frame: Frame) -> bool {
    // SAFETY: the thread is in no event that refers to it, if it is where this changes anything.
    if let Some(retry) = unsafe { own::retry().as_mut() } {
        retry.end_by_signal(frame);
    }
    frame.is_behind_call() || frame.is_at_call()
}

/// An asynchronous signal has arrived; behind the handler, the thread has all of them blocked. One for a thread that has not begun is
/// sent again. One of [`WAITING`], unless it has interrupted a system call, is sent to the same thread again; [`super::mask::Mask::open`] lets it
/// in. Returns whether that was done.
///
/// # Safety
/// In the signal's handler, with the kernel's pointers.
unsafe extern "C" fn wait(signal: i32, info: *mut i32, context: *mut u8) -> bool {
    const CODE: usize = 2;
    // SAFETY: the caller's promise.
    unsafe {
        let frame = Frame::new(context);
        if suspended::put_off(signal, info, frame) || unborn::put_off(signal, info) {
            return true;
        }
        note(signal, info);
        let in_call = is_in_call(frame);
        if bit(signal) & WAITING != 0 {
            if !in_call && send_to_this_thread(signal, info) == 0 {
                return true;
            }
            // DynamoRIO tells by this that no instruction has caused it.
            if *info.add(CODE) == SI_KERNEL {
                *info.add(CODE) = 0;
            }
        }
        if let Some(pending) = own::pending().as_ref() {
            pending.add(signal);
        }
        false
    }
}

/// The description, at this address, that a handler gets of one of [`WAITING`], as the kernel has made it.
pub fn describe(signal: i32, description: u64) {
    const CODE: u64 = 8;
    // Not from another process, nor from this one.
    if signal == libc::SIGXCPU
        && read_word(description + CODE) == Some(0)
        && read_word(description + 2 * CODE) == Some(0)
    {
        write_memory(description + CODE, &SI_KERNEL.to_le_bytes());
    }
}

/// Whether it is a signal by which DynamoRIO stops a thread: one with an error number, which no libc sends.
///
/// # Safety
/// The kernel's description.
unsafe fn is_dynamorios(signal: i32, info: *const u8) -> bool {
    // SAFETY: the caller's promise.
    let [_, errno, code] = unsafe { info.cast::<[i32; 3]>().read() };
    signal == libc::SIGILL && code == libc::SI_QUEUE && errno != 0
}

/// A signal that looks like a fault, but was sent, has come. Unless it has interrupted a system call of the program's, it is held.
/// Returns whether it is. That by which DynamoRIO stops the thread is not.
///
/// # Safety
/// In the signal's handler, with the kernel's pointers.
unsafe extern "C" fn hold(signal: i32, info: *mut u8, context: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    if let Some(pc) = unsafe { stuck::calls_back(info) } {
        // SAFETY: as above.
        let there = unsafe { Frame::new(context) }.pc() == pc && own::is_called_back();
        if there {
            // SAFETY: as above.
            unsafe { stuck::make_fault(info) };
        }
        return !there;
    }
    // SAFETY: the caller's promise.
    if unsafe { is_dynamorios(signal, info) } {
        // SAFETY: as above.
        unsafe { stopped::begin(context) };
        return false;
    }
    TAKEN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { note(signal, info.cast()) };
    // SAFETY: as above.
    let in_call = is_in_call(unsafe { Frame::new(context) });
    let not_taken = bit(signal) & NOT_TAKEN != 0;
    // What DynamoRIO does not take in a client's code it does not take in a client's system call either.
    if in_call && !(not_taken && own::is_in_own_call()) {
        return false;
    }
    if not_taken && !kills(signal) {
        return false;
    }
    // SAFETY: as above.
    unsafe { held::keep(signal, info) }
}
