//! System calls by `int 0x80`: the 32-bit ones, which have other numbers and other registers for their arguments.
//!
//! DynamoRIO takes their numbers for those of 64-bit calls, and so would everything here. The end of a thread or process is
//! recorded, and so are calls that ask for a number and change nothing. With any other the log ends.

use crate::base::memory::read_memory;
use crate::calls::exit::end;
use crate::run::thread::Thread;
use bugnet_dr::call as call_event;
use bugnet_dr::context::Machine;
use bugnet_dr::events::Bool;
use bugnet_format::record::{EndReason, OutputStream, Record, RegisterUpdates};
use bugnet_format::regs::{R11, RAX, RCX, RegisterFile};
use std::ffi::c_void;

const EXIT: i64 = 1;
const EXIT_GROUP: i64 = 252;
/// Where 32-bit calls have their first argument.
const RBX: usize = 3;

/// Whether the instruction at an address, which makes a system call, is `int 0x80`.
pub fn is_interrupt(pc: u64) -> bool {
    let mut code = [0; 2];
    read_memory(pc, &mut code) && code == [0xcd, 0x80]
}

/// The 64-bit number of a call that only asks for a number, and whose own number DynamoRIO does nothing about.
fn asks(number: i64) -> Option<i64> {
    Some(match number {
        20 => libc::SYS_getpid,
        24 => libc::SYS_getuid,
        47 => libc::SYS_getgid,
        49 => libc::SYS_geteuid,
        50 => libc::SYS_getegid,
        64 => libc::SYS_getppid,
        224 => libc::SYS_gettid,
        _ => return None,
    })
}

/// The 64-bit number of a call that ends a thread or the process.
fn ends(number: i64) -> Option<i64> {
    match number {
        EXIT => Some(libc::SYS_exit),
        EXIT_GROUP => Some(libc::SYS_exit_group),
        _ => None,
    }
}

/// Before such a call; what the pre-syscall event, in which this is, returns.
pub fn before(drcontext: *mut c_void, thread: &mut Thread, number: i64, regs: Box<RegisterFile>) -> Bool {
    let position = thread.counted() - 1;
    let status = regs.gpr[RBX] & 0xffff_ffff;
    if let Some(number) = asks(number) {
        thread.leave(position);
        thread.syscall.by_interrupt = Some(number);
        thread.syscall.before = Some(regs);
        return 1;
    }
    if let Some(number) = ends(number) {
        // DynamoRIO makes the 64-bit call in its place.
        // SAFETY: in the event.
        unsafe {
            call_event::set_number(drcontext, number);
            call_event::set_argument(drcontext, 0, status);
        }
        if thread.recording() {
            end(thread, number, status, position, *regs);
        }
        return 1;
    }
    let why = format!("the program makes the 32-bit system call {number} (int 0x80) at {:#x}", regs.rip);
    thread.stop(position, EndReason::Unsupported { why }, *regs);
    1
}

/// Behind one that asks for a number: `number` as a 64-bit call. All registers but the result are as before.
pub fn after(thread: &mut Thread, number: i64, before: &RegisterFile) {
    let Some(machine) = Machine::current() else { return };
    let after = machine.register_file();
    let mut updates = RegisterUpdates::default();
    for register in 0..after.gpr.len() {
        // Replay puts into RCX and R11 what `syscall` leaves there.
        if register == RCX || register == R11 || (register != RAX && after.gpr[register] != before.gpr[register]) {
            updates.values.push((register as u8, after.gpr[register]));
        }
    }
    let (position, result) = (thread.counted() - 1, after.gpr[RAX].cast_signed());
    let (number, args, stream, order) = (number as u64, [0; 6], OutputStream::None, 0);
    thread.record(position, |delta| Record::Syscall { delta, number, result, args, stream, order, updates });
}
