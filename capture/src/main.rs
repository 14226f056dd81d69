//! Runs a program natively and keeps what comes to it from outside: the start, what system calls give, signals, time stamps.
//!
//! `bugnet-capture LOG ORIGIN STREAMS ANSWERS ELF NAME COMM ARGUMENTS...`, executed in the place of a program ([`exec`]).
//!
//! The program lies at an address of its own, with its log, which is a file that memory is shared with ([`log`]): SIGKILL loses nothing. It loads the
//! recorded program and its interpreter ([`start`]), asks the kernel for a signal in the place of each system call that is not made from its own code (syscall
//! user dispatch), and of RDTSC and CPUID, and jumps to the program. The handler of that signal ([`trap`]) makes the call, and keeps what it gave ([`calls`]).
//! All handlers of signals are this program's ([`signals`]); it delivers them to the program's at the ends of calls, as the kernel does.
//!
//! What cannot be kept exactly ends the light part of the log with a sentence ([`end`]): the program goes on as if it had been started alone.
#![no_std]
#![no_main]

mod accesses;
mod answers;
mod borrowed;
#[path = "../../replay-host/src/builtins.rs"]
mod builtins;
mod calls;
mod chaos;
mod cpuid;
mod death;
mod elf;
mod end;
mod epoch;
mod exec;
mod expand;
mod files;
mod folder;
mod fork;
#[path = "../../client-logger/src/run/hidden.rs"]
mod hidden;
mod hot;
#[path = "../../system-calls/src/kernel.rs"]
#[allow(dead_code)]
mod kernel;
#[path = "../../lib-format/src/light/layout.rs"]
#[allow(dead_code)]
mod layout;
mod log;
mod members;
mod moment;
mod own;
#[path = "../../lib-format/src/light/reach.rs"]
#[allow(dead_code)]
mod reach;
mod ready;
mod shared;
mod signals;
mod snapshot;
mod special;
mod stack;
mod start;
mod state;
mod streams;
mod sys;
mod table;
mod taken;
mod text;
mod thread;
mod threads;
mod trap;
mod turn;

use core::arch::global_asm;

global_asm!(
    ".globl _start",
    ".type _start, @function",
    "_start:",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {enter}",
    "ud2",
    enter = sym start::enter,
);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    text::fail("internal error: panic", 0)
}
