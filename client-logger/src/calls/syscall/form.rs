//! System calls that the kernel gets in another form than the program's.

use crate::calls::helper;
use crate::kernel::arguments::ARGUMENTS;
use crate::kernel::executing;
use crate::kernel::program_break;
use crate::kernel::substitute::{Substitution, highest_descriptor};
use crate::run::parts::exec::Exec;
use crate::run::thread::Thread;
use bugnet_dr::call as call_event;
use bugnet_dr::context::Machine;
use bugnet_dr::events::Bool;
use std::ffi::c_void;

/// Before a program is executed, just before DynamoRIO sees to that.
pub fn execute(thread: &mut Thread, drcontext: *mut c_void) {
    let call = executing::Call::Executes;
    call.begins(drcontext, thread.is_foreign());
    thread.syscall.executing = Some(call);
}

/// Gives the kernel some system calls in another form, whether or not the thread is recorded; 0 if it is not to get
/// one at all.
pub fn substitute(thread: &mut Thread, drcontext: *mut c_void, number: i64) -> Bool {
    if helper::let_go(number) {
        // For some milliseconds.
        static TIME: [u64; 2] = [0, 10_000_000];
        let arguments = [(0, TIME.as_ptr() as u64), (1, 0)];
        thread.syscall.substitution = Substitution::make(drcontext, libc::SYS_nanosleep, &arguments);
        thread.syscall.sleeps = true;
        return 1;
    }
    if !matches!(number, libc::SYS_execve | libc::SYS_execveat | libc::SYS_close_range | libc::SYS_brk) {
        return 1;
    }
    let Some(machine) = Machine::current() else { return 1 };
    let regs = machine.register_file();
    let args = ARGUMENTS.map(|reg| regs.gpr[reg]);
    if number == libc::SYS_brk {
        let step = program_break::before(args[0]);
        thread.syscall.substitution = program_break::substitute(drcontext, &step);
        thread.syscall.program_break = Some(step);
    } else if number != libc::SYS_close_range {
        let own = (thread.syscall.own_limits, thread.syscall.own_streams.as_ref());
        match Exec::prepare(drcontext, number, &args, own) {
            Ok(exec) => {
                thread.syscall.exec = exec;
                // The program inherits it.
                thread.signals.mask.reopen();
                execute(thread, drcontext);
            }
            Err(result) => {
                thread.syscall.before = None;
                thread.signals.mask.not_called();
                // SAFETY: in the pre-syscall event.
                unsafe { call_event::set_result(drcontext, result as u64) };
                return 0;
            }
        }
    } else if let Some(highest) = highest_descriptor().filter(|highest| args[0] <= args[1] && *highest < args[1]) {
        // DynamoRIO looks at each number, and there are 2^32.
        thread.syscall.substitution = Substitution::make(drcontext, number, &[(1, highest.max(args[0]))]);
    }
    1
}
