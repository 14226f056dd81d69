//! Stops with the program, for a shell's job control, and goes on with it.
//!
//! Whoever started bugnet waits for bugnet to stop, as it would wait for the program. A shell continues the whole process group.
//! But somebody may have stopped the program alone, and continue or kill it alone: bugnet, which is stopped itself, would
//! not notice. So a child watches the program meanwhile.

use super::wait::{STOPPING, stopped};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::wait::waitpid;
use nix::unistd;
use rustix::process::Pid;
use std::ffi::{CStr, CString};
use std::io::Result;
use std::time::Duration;

/// So long after it has said that it stops, a thread has stopped.
const SETTLING: Duration = Duration::from_millis(1);
/// The watcher looks so often. The kernel tells nobody but the parent that a process goes on.
const PAUSE: Duration = Duration::from_millis(10);

/// Stops this process with the signal that has stopped the child, and lets the child go on when this process does.
pub fn stop_like(child: Pid, signal: i32) -> Result<()> {
    // Where there can be no watcher, this process does not stop: it is to go on when the program does.
    let Some(watcher) = watch(child) else { return wait_for_change(child) };
    let before = switches(child);
    let signal = Signal::try_from(signal).unwrap_or(Signal::SIGSTOP);
    raise(signal)?;
    let only = SigSet::from(signal);
    if STOPPING.contains(&signal) {
        only.thread_unblock()?;
        // Stopped here; a signal that stops may be ignored, and then nobody waits for this process to stop.
        only.thread_block()?;
    }
    kill(watcher, Signal::SIGKILL)?;
    waitpid(watcher, None)?;
    // A shell continues the whole process group; someone else, perhaps only this process. But the program may have gone on and
    // been stopped again.
    if stopped(child)?.is_some() && switches(child) == before {
        kill(unistd::Pid::from_raw(child.as_raw_pid()), Signal::SIGCONT)?;
    }
    Ok(())
}

/// Waits until the child goes on or has ended.
fn wait_for_change(child: Pid) -> Result<()> {
    while stopped(child)?.is_some() {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// How often the program's first thread has given up a processor. While it is stopped, it has none to give up: if this changes,
/// it went on meanwhile.
fn switches(program: Pid) -> u64 {
    let read = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", program.as_raw_pid())).unwrap_or_default();
        let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok());
        counts.sum()
    };
    // A thread that stops says so just before it gives up its processor.
    let mut before = read();
    loop {
        std::thread::sleep(SETTLING);
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Starts a process that continues this one as soon as the program is not stopped any more. It ends when it is killed, at the
/// latest together with this process. None if that is not possible.
fn watch(program: Pid) -> Option<unistd::Pid> {
    let stat = CString::new(format!("/proc/{}/stat", program.as_raw_pid())).ok()?;
    // What cannot be read now cannot be read then either.
    is_stopped(&stat)?;
    let own = std::process::id().cast_signed();
    // SAFETY: the child of this process, which may have threads, makes system calls only, and allocates nothing.
    match unsafe { libc::fork() } {
        -1 => None,
        // SAFETY: numbers only. A session of its own: what stops the process group does not stop it. Whoever waits for the
        // end of this process's output does not wait for it.
        0 => unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setsid();
            libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
            while libc::getppid() == own {
                if is_stopped(&stat) != Some(true) {
                    // Again and again: it may be about to stop.
                    libc::kill(own, libc::SIGCONT);
                }
                let pause = libc::timespec { tv_sec: 0, tv_nsec: i64::from(PAUSE.subsec_nanos()) };
                libc::nanosleep(&raw const pause, std::ptr::null_mut());
            }
            libc::_exit(0)
        },
        watcher => Some(unistd::Pid::from_raw(watcher)),
    }
}

/// Whether the process is stopped of which this is `/proc/PID/stat`, or traced and therefore not running; none if it cannot be
/// read. Allocates nothing.
fn is_stopped(stat: &CStr) -> Option<bool> {
    let mut text = [0; 256];
    // SAFETY: a string and a buffer of the given length; the descriptor is closed here.
    let len = unsafe {
        let file = libc::open(stat.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let len = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        len
    };
    let text = &text[..usize::try_from(len).ok()?];
    // The state follows the name, which may hold anything but is short.
    let name = text.iter().rposition(|byte| *byte == b')')?;
    text.get(name + 2).map(|state| matches!(state, b'T' | b't'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = unistd::Pid::from_raw(child.id().cast_signed());
        let stat = CString::new(format!("/proc/{pid}/stat")).unwrap();
        assert_eq!(is_stopped(&stat), Some(false));
        kill(pid, Signal::SIGSTOP).unwrap();
        while is_stopped(&stat) != Some(true) {
            std::thread::sleep(PAUSE);
        }
        child.kill().unwrap();
        while is_stopped(&stat) != Some(false) {
            std::thread::sleep(PAUSE);
        }
        child.wait().unwrap();
        assert_eq!(is_stopped(&stat), None);
    }
}
