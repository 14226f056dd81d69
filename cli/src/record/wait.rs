//! Waits for the program as its parent, such that whoever started bugnet sees what it would see of the program alone.
//!
//! The terminal sends its signals to bugnet and to the program, which are in one process group: the program's answer
//! counts, so bugnet ignores them, and [stops](super::stopping) when the program has stopped. What someone sends to bugnet alone
//! is passed on.

use super::inherited::set_handler;
use super::leftover::GRACE;
use super::stopping::stop_like;
use bugnet_format::folder::Ending;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, kill};
use nix::unistd;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use std::io::{Error, ErrorKind, Result};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Passed on to the program, unless the terminal sends them.
const FORWARDED: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];
/// By these of them, people end programs.
const INTERRUPTING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
/// With these a terminal stops programs.
pub const STOPPING: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
/// `si_code` of a signal that the kernel sends by itself, as for a terminal.
const SI_KERNEL: i32 = 0x80;

/// The signals that [`wait`] takes; to be blocked before the program is started.
pub fn taken_signals() -> SigSet {
    FORWARDED.into_iter().chain(STOPPING).chain([Signal::SIGCHLD]).collect()
}

/// What has come of a program.
#[derive(Clone, Debug)]
pub struct Waited {
    /// How it ended.
    pub ending: Ending,
    /// The signal by which somebody has asked for the end of all of it meanwhile.
    pub interrupted: Option<Signal>,
    /// Whether it was ended because it took too long.
    pub timed_out: bool,
}

/// Waits until the child has ended. The signals of [`taken_signals`] are blocked. If it takes longer than `limit`, it gets SIGTERM, and
/// SIGKILL if that does not end it.
pub fn wait(child: unistd::Pid, limit: Option<Duration>) -> Result<Waited> {
    let child = Pid::from_raw(child.as_raw()).ok_or_else(|| Error::other("a process without a number"))?;
    let send = |signal| kill(unistd::Pid::from_raw(child.as_raw_pid()), signal);
    let mut deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let (mut interrupted, mut timed_out) = (None, false);
    loop {
        if let Some(status) = status(child, WaitIdOptions::EXITED)? {
            let interrupted = interrupted.or(take_interruption());
            let killed = status.terminating_signal().map(|signal| Ending::Killed { signal });
            let exited = status.exit_status().map(|status| Ending::Exited { status });
            let ending = killed.or(exited).ok_or_else(|| Error::other("the program ended in an unknown way"))?;
            return Ok(Waited { ending, interrupted, timed_out });
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let (signal, next) =
                if timed_out { (Signal::SIGKILL, None) } else { (Signal::SIGTERM, Some(Instant::now() + GRACE)) };
            // Where it has just ended, the next round sees that.
            let _ = send(signal);
            (deadline, timed_out) = (next, true);
        }
        if let Some(signal) = stopped(child)? {
            stop_like(child, signal)?;
            continue;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let Some((signal, code)) = next_signal(left)? else { continue };
        interrupted = interrupted.or(Some(signal).filter(|signal| INTERRUPTING.contains(signal)));
        if code != SI_KERNEL && FORWARDED.contains(&signal) {
            // Where the child has just ended, the next round sees that.
            let _ = send(signal);
        }
    }
}

/// Takes the next of the [`taken_signals`], for which it waits so long, or for ever: it, and its `si_code`. This needs no
/// descriptor, of which there may be none left.
fn next_signal(patience: Option<Duration>) -> Result<Option<(Signal, i32)>> {
    let signals = taken_signals();
    let patience = patience
        .map(|time| libc::timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() });
    let patience = patience.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: a set, room for what is told, and null or a time.
    let signal = unsafe { libc::sigtimedwait(signals.as_ref(), info.as_mut_ptr(), patience) };
    if signal == -1 {
        let error = Error::last_os_error();
        return match error.kind() {
            ErrorKind::Interrupted | ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the call has succeeded, so it wrote `info`.
    Ok(Some((Signal::try_from(signal)?, unsafe { info.assume_init() }.si_code)))
}

/// Takes the signals that are pending: the terminal sent them to the program, which may have ended by them. The first that asks for the end
/// of all of it is the result.
pub fn take_interruption() -> Option<Signal> {
    let mut interruption = None;
    while let Ok(Some((signal, _))) = next_signal(Some(Duration::ZERO)) {
        interruption = interruption.or(Some(signal).filter(|signal| INTERRUPTING.contains(signal)));
    }
    interruption
}

/// What has happened to the child, if one of `events` has.
fn status(child: Pid, events: WaitIdOptions) -> Result<Option<WaitIdStatus>> {
    Ok(waitid(WaitId::Pid(child), events | WaitIdOptions::NOHANG)?)
}

/// The signal that has stopped the child, if it is stopped now.
pub fn stopped(child: Pid) -> Result<Option<i32>> {
    // NOWAIT: asking does not take the answer away, so it is always about now.
    match status(child, WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT) {
        Ok(status) => Ok(status.and_then(|status| status.stopping_signal())),
        // It has just ended: that is no answer to this.
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ends this process by `signal`, as the recorded program ended, without a core dump of its own.
///
/// Returns only if that is not possible.
pub fn die_by(signal: i32) -> Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // Where cores are piped to a program, the limit does not count.
    prctl::set_dumpable(false)?;
    match Signal::try_from(signal) {
        // These two cannot be set or blocked.
        Ok(Signal::SIGKILL | Signal::SIGSTOP) => {}
        Ok(known) => {
            set_handler(known, SigHandler::SigDfl)?;
            SigSet::from(known).thread_unblock()?;
        }
        // A real-time signal: nothing here changes those.
        Err(_) => {}
    }
    // SAFETY: takes a number; any value is allowed.
    match unsafe { libc::raise(signal) } {
        0 => Err(Error::other("the signal is blocked or ignored")),
        _ => Err(Error::last_os_error()),
    }
}
