//! The system call in which a thread is.

use crate::base::descriptors;
use crate::base::slots::Slot;
use crate::kernel::apart::Apart;
use crate::kernel::exclusion;
use crate::kernel::executing;
use crate::kernel::lending;
use crate::kernel::limits::Limits;
use crate::kernel::program_break::Step;
use crate::kernel::streams::Streams;
use crate::kernel::substitute::Substitution;
use crate::kernel::turns::Turn;
use crate::run::parts::exec::Exec;
use crate::run::parts::last_program::LastProgram;
use bugnet_format::regs::RegisterFile;
use std::ffi::c_void;

/// Length of a `syscall` instruction.
pub const SYSCALL_BYTES: u64 = 2;

/// What a thread remembers between the two halves of a system call.
#[derive(Default)]
pub struct SyscallState {
    /// The number that a call by `int 0x80` has as a 64-bit one.
    pub by_interrupt: Option<i64>,
    /// Registers before the call; none outside of one.
    pub before: Option<Box<RegisterFile>>,
    /// Registers before the last call, if a signal has interrupted that: what the signal does to the thread is still to come.
    pub interrupted: Option<Box<RegisterFile>>,
    /// A system call that the kernel gets in another form, between its two halves.
    pub substitution: Option<Substitution>,
    /// The call that the kernel gets in the place of one that lends memory.
    pub apart: Option<Apart>,
    /// Whether it sleeps in place of a `sched_yield`, as a process looks at it from outside.
    pub sleeps: bool,
    /// What becomes of a `brk`, between its two halves.
    pub program_break: Option<Step>,
    /// An `execve` between its two halves.
    pub exec: Option<Exec>,
    /// Whether it makes memory both writable and executable in a way that [`crate::picture::writable_code`] may know.
    pub writable_code: bool,
    /// What descriptors refer to in a child of `vfork`, which has its parent's memory, but descriptors of its own.
    pub own_streams: Option<Streams>,
    /// What a child of `vfork` executes because a signal kills it.
    pub last_program: Option<LastProgram>,
    /// The limit of descriptors of a child of `vfork`.
    pub own_limits: Option<Limits>,
    /// What others wait for, while the call is made.
    pub lending: Option<lending::Call>,
    /// The same.
    pub executing: Option<executing::Call>,
    /// Whether it takes a descriptor's number or gives one.
    pub concerns_numbers: bool,
    /// Whether one that does is being made, for which the recorder waits.
    pub keeps_numbers: bool,
    /// Its turn at writing, until there is a record of the call.
    pub turn: Option<Turn>,
    /// Whether the kernel gets a call that waits for the thread's turn.
    pub awaits_turn: bool,
    /// Whether the thread has waited there, and is at its own call again.
    pub waited: bool,
    /// Registers before the call that the thread then makes again.
    pub resumed: Option<Box<RegisterFile>>,
    /// The call's place among those of all threads, if it has one from before it was made.
    pub order: Option<u64>,
}

impl SyscallState {
    /// A call is about to be made, if it is made.
    pub fn begins(&mut self, made: bool) {
        self.ends();
        self.keeps_numbers = std::mem::take(&mut self.concerns_numbers) && made;
        if self.keeps_numbers {
            descriptors::call_begins();
        }
    }

    /// It has been made, or will not be.
    pub fn ends(&mut self) {
        if std::mem::take(&mut self.keeps_numbers) {
            descriptors::call_ends();
        }
    }

    /// Nobody has to wait any more for the call that the thread with this context has made.
    pub fn let_others_go_on(&mut self, context: *mut c_void) {
        if let Some(call) = self.executing.take() {
            call.over(context);
            if call == executing::Call::Lends {
                exclusion::gave_back(context);
            }
        }
        if let Some(call) = self.lending.take() {
            call.over(context);
        }
        self.turn = None;
    }
}

/// The address of the system call instruction that the thread's last block ends with, if it has not been executed yet.
pub fn pending_pc() -> Option<u64> {
    // SAFETY: the calling thread's own slot.
    Some(unsafe { *Slot::SyscallPc.address() }).filter(|pc| *pc != 0)
}

/// The same, once.
pub fn take_pending_pc() -> Option<u64> {
    let pc = pending_pc();
    // SAFETY: the calling thread's own slot.
    unsafe { *Slot::SyscallPc.address() = 0 };
    pc
}

/// The flags, as a system call leaves them in R11.
pub fn left_in_r11(before: &RegisterFile) -> u64 {
    before.rflags & 0x3c_7fd7 | 0x202
}
