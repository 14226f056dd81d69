//! The program's signal handlers: how they begin, and what a return from one restores.

use super::si_code::{SEGV_ACCERR, SEGV_MAPERR, SI_KERNEL};
use crate::base::failure::attempt;
use crate::base::fs_base::Guard;
use crate::base::memory::{read_memory, read_word, write_memory};
use crate::emitted::branches;
use crate::kernel::program_break;
use crate::log::recording;
use crate::run::parts::call;
use crate::run::signals::in_front::describe;
use crate::run::thread::{self, Thread};
use bugnet_dr::context::{Machine, View};
use bugnet_dr::events::{Transfer, TransferKind};
use bugnet_dr::fpu;
use bugnet_format::record::{Record, SignalStep};
use bugnet_format::regs::{FPU_UNKNOWN, RSP, RegisterFile};
use std::ffi::c_void;

/// Numbers of registers in which a handler gets its second and third argument.
const RSI: usize = 6;
const RDX: usize = 2;

/// Where RIP is in a signal frame's `ucontext`: the field `uc_mcontext.rip`.
const CONTEXT_RIP: u64 = 168;

/// Where the kernel finds x87 and vector state in a signal frame whose `ucontext` the stack pointer points at: the
/// field `uc_mcontext.fpregs`.
const FRAME_FPREGS: u64 = 224;

/// x87 state, MXCSR and vector registers that a return from a handler loads, from the frame that RSP points at.
fn frame_state(rsp: u64, regs: &mut RegisterFile) {
    let mut pointer = [0; 8];
    let mut image = fpu::Image::default();
    let found = read_memory(rsp + FRAME_FPREGS, &mut pointer) && pointer != [0; 8];
    if found && read_memory(u64::from_le_bytes(pointer), image.bytes_mut()) {
        image.unpack(regs);
    } else {
        regs.rflags_known |= FPU_UNKNOWN;
    }
}

/// The program's instruction at which a signal is delivered.
fn interrupted_at(info: &Transfer) -> Option<u64> {
    info.source().map(View::pc)
}

/// A jump to where nothing is mapped is found out by DynamoRIO, which gives it another `si_code` than the kernel; and behind the break
/// there is a reservation, where natively nothing is; and a branch to an address that is none has none. Puts the kernel's into the description that the handler gets, with its registers.
fn name_missing_memory(handler: &RegisterFile) {
    const SI_CODE: u64 = 8;
    const SI_ADDR: u64 = 16;
    let description = handler.gpr[RSI];
    let (mut code, mut address) = ([0; 4], [0; 8]);
    let known = read_memory(description + SI_CODE, &mut code) && read_memory(description + SI_ADDR, &mut address);
    let address = u64::from_le_bytes(address);
    let code = i32::from_le_bytes(code);
    if !known {
        return;
    }
    let is_at_zero = || read_word(handler.gpr[RDX] + CONTEXT_RIP) == Some(0) && !read_memory(0, &mut [0; 1]);
    // With other codes, these bytes may say who has sent it.
    match code {
        // What DynamoRIO says of a branch to address 0, where nothing is mapped, it says of one to an address that is none, too.
        SI_KERNEL if address == 0 && is_at_zero() => {
            write_memory(description + SI_CODE, &SEGV_MAPERR.to_le_bytes());
        }
        SI_KERNEL if branches::is_none(address) => {
            write_memory(description + SI_ADDR, &0u64.to_le_bytes());
        }
        SI_KERNEL if address != 0 && !read_memory(address, &mut [0; 1]) => {
            write_memory(description + SI_CODE, &SEGV_MAPERR.to_le_bytes());
        }
        SEGV_ACCERR if program_break::is_reserved(address) => {
            write_memory(description + SI_CODE, &SEGV_MAPERR.to_le_bytes());
        }
        _ => {}
    }
}

/// A signal is delivered that has interrupted the thread at this address: where that is a system call, it comes before the call, which its
/// block has counted.
fn come_before_call(thread: &mut Thread, at: Option<u64>) {
    // DynamoRIO gives a system call up when a signal arrives just before it.
    let given_up = thread.syscall.before.take_if(|before| Some(before.rip) == at).is_some();
    let pending = at.is_some() && at == call::pending_pc();
    if (given_up || pending) && thread.recording() {
        thread.recount(thread.counted() - 1);
    }
}

/// The kernel moves the thread elsewhere.
///
/// # Safety
/// DynamoRIO's kernel transfer event.
pub unsafe extern "C" fn on_kernel_transfer(drcontext: *mut c_void, info: *const Transfer) {
    let _own = Guard::new();
    // SAFETY: in the event.
    attempt(|| unsafe { transfer(drcontext, info) });
}

/// # Safety
/// In the event of a transfer by the kernel.
unsafe fn transfer(drcontext: *mut c_void, info: *const Transfer) {
    // SAFETY: the event hands out a valid description.
    let info = unsafe { &*info };
    // SAFETY: in the event.
    let Some(thread) = (unsafe { thread::of(drcontext) }) else { return };
    if info.kind() == TransferKind::Delivery {
        // SAFETY: in the event.
        unsafe { thread.signals.mask.delivered(drcontext, info.signal()) };
    }
    // A return from a handler has no second half.
    thread.signals.in_call = false;
    if recording::over() {
        thread.follow_end();
    }
    if info.kind() == TransferKind::Delivery
        && let Some(source) = info.source()
    {
        // The signal has come in an `execve` that has failed, or before one.
        thread.resume(&source.register_file());
    }
    let begins = match info.kind() {
        TransferKind::Delivery => true,
        TransferKind::Return => false,
        TransferKind::Other => return,
    };
    let Some(target) = Machine::current() else { return };
    let mut regs = Box::new(target.register_file());
    thread.complete(&mut regs);
    if begins && info.signal() == libc::SIGSEGV {
        name_missing_memory(&regs);
    }
    if begins {
        describe(info.signal(), regs.gpr[RSI]);
    }
    let (step, position, number) = if begins {
        thread.begin_handler(&mut regs);
        come_before_call(thread, interrupted_at(info));
        (SignalStep::Delivery, thread.counted(), info.signal() as u64)
    } else {
        let before = thread.syscall.before.take();
        frame_state(before.map_or(0, |regs| regs.gpr[RSP]), &mut regs);
        thread.open_soon();
        (SignalStep::Return, thread.counted() - 1, 0)
    };
    if thread.recording() {
        thread.record(position, |delta| Record::Signal { delta, step, number, regs });
    }
    if begins {
        thread.limit_soon();
    }
}
