//! The program's signal masks and dispositions, made true in the kernel.
//!
//! DynamoRIO takes every signal and emulates masks, so that a blocked signal waits in DynamoRIO, where neither `sigwait`
//! nor `signalfd` nor `sigpending` nor another thread finds it; and an ignored one interrupts system calls. Here:
//!
//! - the kernel's mask of a thread is the program's, for all signals that are not faults;
//! - in front of DynamoRIO's handler stands one that leaves all signals blocked when it returns, until the program's
//!   handler begins with its own mask: DynamoRIO holds one signal at a time ([`pending`]), and the others wait in the
//!   kernel, in their order. While DynamoRIO looks through those that it holds, it drops what comes, so it never does that
//!   with the mask open;
//! - around a system call that the kernel opens a mask for at once with its wait, the mask is closed: a signal that comes
//!   before ends the wait;
//! - signals that DynamoRIO takes for faults, wherever they arrive, wait in the kernel until the thread opens its mask in a
//!   system call of the recorder's;
//! - signals that look like faults but were sent are held until then ([`held`]), since faults cannot be blocked;
//! - what the program ignores, or what is ignored or stops by default, the kernel does by itself.

pub mod actions;
pub mod codes;
pub mod frame;
pub mod held;
pub mod in_front;
pub mod leave;
mod left;
pub mod mask;
pub mod own;
pub mod pending;
pub mod retry;
pub mod send;
pub mod sets;
mod stopped;
mod suspended;
mod unborn;

use actions::{
    Action, BLOCKED, DYNAMORIO, FRONT, IGNORE, IN_FRONT, INHERITED, PROGRAMS, follow_blocked, follow_kills, handler,
    lock,
};
use sets::{FAULTS, LEFT_TO_KERNEL, NEVER_BLOCKED, SET_BYTES, SIGNALS, bit};
use std::sync::atomic::Ordering;

/// The calling thread's mask in the kernel.
fn kernels_mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: asks only.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, std::ptr::null::<u64>(), &raw mut mask, SET_BYTES);
    }
    mask
}

/// The client starts, before DynamoRIO takes any signal: the mask that the program inherits, and what it ignores.
pub fn start() {
    let ignored = |signal: &i32| Action::of(*signal).is_some_and(|action| action.handler == IGNORE);
    for signal in (1..=SIGNALS).filter(ignored) {
        lock(&PROGRAMS)[signal as usize] = Some(Action { handler: IGNORE, ..Action::default() });
        follow_kills(signal, IGNORE);
    }
    let blocked = kernels_mask();
    INHERITED.store(blocked, Ordering::Relaxed);
    left::take(blocked & !NEVER_BLOCKED);
}

/// The program's first instruction is about to be executed; DynamoRIO's handlers are there.
pub fn begin() {
    let Some(dynamorio) = Action::of(libc::SIGUSR1) else { return };
    DYNAMORIO.store(dynamorio.handler, Ordering::SeqCst);
    FRONT.store(in_front::address(), Ordering::SeqCst);
    let mut in_front = lock(&IN_FRONT);
    in_front.push(Action::default());
    for signal in 1..=SIGNALS {
        let mut action = Action::of(signal).unwrap_or_default();
        if action.handler == dynamorio.handler && bit(signal) & NEVER_BLOCKED == 0 {
            action.handler = in_front::address();
            let set = match handler(signal) {
                IGNORE => Action { handler: IGNORE, ..Action::default() },
                _ if bit(signal) & LEFT_TO_KERNEL != 0 => Action::default(),
                _ => action,
            };
            if set.handler != action.handler {
                BLOCKED.fetch_and(!bit(signal), Ordering::SeqCst);
            }
            set.set(signal);
        } else if action.handler == dynamorio.handler && bit(signal) & FAULTS != 0 {
            let in_front = Action { handler: in_front::address(), ..action };
            in_front.set(signal);
            // The program's disposition changes nothing in the kernel.
            action.handler = 0;
        } else {
            // Not to be touched.
            action.handler = 0;
        }
        in_front.push(action);
    }
    drop(in_front);
    follow_blocked();
    mask::set(INHERITED.load(Ordering::Relaxed));
    left::give_back();
}

/// Sends the calling thread a signal that kills it as soon as it is not blocked any more, which it is, as all are.
pub fn leave_pending(signal: i32) {
    Action::default().set(signal);
    let all = u64::MAX;
    // SAFETY: the program does not come to run again.
    unsafe {
        let none = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, none, SET_BYTES);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
    }
}

/// Ends the process by a signal, as the signal would without DynamoRIO.
pub fn die_by(signal: i32) -> ! {
    Action::default().set(signal);
    let all = 0u64;
    // SAFETY: the process ends here.
    unsafe {
        let none = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, none, SET_BYTES);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
    }
    bugnet_dr::process::abort(128 + signal)
}
