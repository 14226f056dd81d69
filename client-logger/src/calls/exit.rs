//! The end of a thread or of the process, by a system call.

use crate::base::process;
use crate::run::lifetime;
use crate::run::snapshot::{self, How};
use crate::run::thread::Thread;
use bugnet_format::record::EndReason;
use bugnet_format::regs::{RSP, RegisterFile};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a thread could not be created.
static CLONE_FAILED: AtomicBool = AtomicBool::new(false);

/// A thread could not be created.
pub fn note_clone_failed() {
    CLONE_FAILED.store(true, Ordering::Relaxed);
}

/// Whether the process has one thread only, or cannot have another.
pub fn alone() -> bool {
    !process::threaded() || CLONE_FAILED.load(Ordering::Relaxed)
}

/// Before a call of `exit` or `exit_group`, which is its `number`, by a thread that is recorded.
pub fn end(thread: &mut Thread, number: i64, status: u64, position: u64, regs: RegisterFile) {
    if number == libc::SYS_exit_group {
        thread.end_others();
    }
    thread.leave(position);
    if number == libc::SYS_exit_group || alone() || thread.is_last() {
        snapshot::keep(thread, position, regs.gpr[RSP], How::Exited);
    }
    thread.stop(position, EndReason::Exit { status: status as i32 }, regs);
    if number == libc::SYS_exit_group && alone() {
        end_process(status);
    }
}

/// Ends the process, as `exit_group` does.
pub fn end_process(status: u64) {
    lifetime::finish();
    // SAFETY: ends the process. DynamoRIO would only take apart what goes with the process, and wait for a thread that could not be
    // created.
    unsafe { libc::syscall(libc::SYS_exit_group, status) };
}
