//! What the kernel says about the signal that ends a program, and what a log does.

use anyhow::{Context, Result, ensure};
use bugnet_format::record::{EndReason, Record};
use bugnet_replay::log::{IntervalId, Log};
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Number and `si_code` of the signal that kills a program natively, which is run for that once more; none where it ends otherwise.
///
/// # Errors
/// It cannot be started or traced.
pub fn natively(mut command: Command) -> Result<Option<(i32, i32)>> {
    // SAFETY: `ptrace(PTRACE_TRACEME)` is one system call: safe between fork and exec.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().context("starting under ptrace")?;
    let pid = child.id().cast_signed();
    let (mut last, mut begun) = (None, false);
    loop {
        let mut status = 0;
        // SAFETY: waits for the child; of `libc`, since the other has no real-time signals.
        ensure!(unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid, "it cannot be waited for");
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            return Ok(last.filter(|(number, _)| *number == signal));
        }
        if !libc::WIFSTOPPED(status) {
            return Ok(None);
        }
        // The first stop is the trap behind `execve`; one without a signal's information is a stop of the whole process.
        let mut signal = 0;
        if begun && let Ok(info) = ptrace::getsiginfo(Pid::from_raw(pid)) {
            signal = libc::WSTOPSIG(status);
            last = Some((info.si_signo, info.si_code));
        }
        begun = true;
        // SAFETY: lets the child go on, with its signal.
        let cont = unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, signal as libc::c_long) };
        ensure!(cont == 0, "it cannot go on");
    }
}

/// The same as a log has it of its first process.
///
/// # Errors
/// It cannot be read.
pub fn in_log(path: &Path) -> Result<Option<(i32, i32)>> {
    let log = Log::open(path)?;
    let first = log.last_of_first_process()?;
    let mut found = None;
    for thread in log.threads().filter(|thread| Some(thread.pid) == first) {
        for &interval in log.intervals(thread)? {
            for placed in log.interval(IntervalId { thread, interval })?.records().flatten() {
                if let Record::End { reason: EndReason::Signal { signo, code, .. }, .. } = placed.record {
                    found = Some((signo.cast_signed(), code));
                }
            }
        }
    }
    Ok(found)
}
