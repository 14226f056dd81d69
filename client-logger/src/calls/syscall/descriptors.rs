//! What calls mean for descriptors: which are of the standard streams, and which are the recorder's.

use crate::kernel::arguments::ARGUMENTS;
use crate::kernel::{descriptor_list, streams};
use crate::run::thread::Thread;
use bugnet_dr::call as call_event;
use bugnet_dr::context::Machine;
use bugnet_format::regs::RAX;
use std::ffi::c_void;

/// Leaves the recorder's descriptors out of a list that the program has just read; in the post-syscall event.
pub fn hide(drcontext: *mut c_void, number: i64) {
    if number != libc::SYS_getdents64 {
        return;
    }
    let Some(machine) = Machine::current() else { return };
    let regs = machine.register_file();
    let [fd, address, ..] = ARGUMENTS.map(|reg| regs.gpr[reg]);
    if let Some(len) = descriptor_list::filter(fd, address, regs.gpr[RAX].cast_signed()) {
        // SAFETY: in the event.
        unsafe { call_event::set_result(drcontext, len) };
    }
}

/// Keeps track of descriptors, whether or not the thread is recorded.
pub fn follow(thread: &mut Thread, number: i64) {
    let known = matches!(
        number,
        libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_fcntl
            | libc::SYS_close
            | libc::SYS_close_range
            | libc::SYS_pidfd_getfd
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_openat2
    );
    if !known {
        return;
    }
    let Some(machine) = Machine::current() else { return };
    let regs = machine.register_file();
    // The kernel leaves all registers as they are but the result's, RCX and R11.
    let (args, result) = (ARGUMENTS.map(|reg| regs.gpr[reg]), regs.gpr[RAX].cast_signed());
    if result < 0 {
        return;
    }
    match &mut thread.syscall.own_streams {
        Some(own) => own.follow(number, &args, result),
        None => streams::of_process().follow(number, &args, result),
    }
}
