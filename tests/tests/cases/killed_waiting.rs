//! Programs that a signal kills while they wait, which is how people record a hang: in each system call that waits, by each
//! signal that kills, in one thread and in several, in children, from outside and from themselves, by turns (with `--include-ignored`, all of it with all). All of it replays, thread by
//! thread and merged, and `bugnet info` says in which system call it was.

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, source_tree};
use bugnet_tests::sample::one_of;
use bugnet_tests::small::{Header, build};
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What `waits` can wait in, and the system call that this is.
const CALLS: [(&str, &str); 35] = [
    ("read", "read"),
    ("readv", "readv"),
    ("write", "write"),
    ("accept", "accept"),
    ("recv", "recvfrom"),
    ("recvmsg", "recvmsg"),
    ("send", "sendto"),
    ("poll", "poll"),
    ("poll_timed", "poll"),
    ("ppoll", "ppoll"),
    ("select", "pselect6"),
    ("pselect", "pselect6"),
    ("epoll_wait", "epoll_wait"),
    ("epoll_pwait", "epoll_pwait"),
    ("nanosleep", "clock_nanosleep"),
    ("nanosleep_rest", "clock_nanosleep"),
    ("clock_nanosleep", "clock_nanosleep"),
    ("pause", "pause"),
    ("sigsuspend", "rt_sigsuspend"),
    ("sigwait", "rt_sigtimedwait"),
    ("sigtimedwait", "rt_sigtimedwait"),
    ("futex", "futex"),
    ("futex_timed", "futex"),
    ("mutex", "futex"),
    ("wait4", "wait4"),
    ("waitid", "waitid"),
    ("flock", "flock"),
    ("fcntl_lock", "fcntl"),
    ("open_fifo", "openat"),
    ("eventfd", "read"),
    ("timerfd", "read"),
    ("inotify", "read"),
    ("semop", "semtimedop"),
    ("msgrcv", "msgrcv"),
    ("none", ""),
];
/// Where a signal from outside meets it, and where it sends one itself.
const PLACES: [&str; 4] = ["alone", "thread", "threads", "child"];
const ITSELF: [&str; 2] = ["itself", "itself-thread"];
const SETTINGS: usize = PLACES.len() + ITSELF.len();
/// Calls that each signal ends, with what they are, and where.
const SOME: [(&str, &str, &str); 4] =
    [("read", "read", "alone"), ("futex", "futex", "thread"), ("accept", "accept", "child"), ("none", "", "alone")];
const LIMIT: Duration = Duration::from_secs(60);

struct Case {
    call: &'static str,
    name: &'static str,
    place: &'static str,
    /// Sent from outside; none where the program does that itself.
    signal: Option<i32>,
}

fn program(workshop: &Workshop) -> Result<PathBuf> {
    let header = Header { flags: vec!["-pthread".into()], ..Header::default() };
    build(&source_tree().join("tests/programs/waits/waits.c"), &header, &workshop.path)
}

/// Whether each thread of a process sleeps.
fn sleeps(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with('S'))
    })
}

/// Waits until the process `pid` does what it does for good: it sleeps, or it has had time for that.
fn settle(pid: i32, busy: bool) {
    let end = Instant::now() + Duration::from_secs(if busy { 0 } else { 5 });
    let mut quiet = 0;
    while quiet < 4 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        quiet = if sleeps(pid) { quiet + 1 } else { 0 };
    }
    if busy {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn end_of(child: &mut Child) -> Result<std::process::ExitStatus> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > end {
            let group = Pid::from_raw(child.id().cast_signed());
            let _ = signal::killpg(group, Signal::SIGKILL);
            bail!("the recording is not over after {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Case {
    fn title(&self) -> String {
        let by = self.signal.map_or_else(|| "itself".to_owned(), |signal| format!("signal-{signal}"));
        format!("{}-{}-{by}", self.call, self.place)
    }

    fn run(&self) -> Result<()> {
        let workshop = Workshop::new(&format!("killed-waiting-{}", self.title()))?;
        let job = Job::new(&workshop.path, [&program(&workshop)?.to_string_lossy(), self.call, self.place]);
        let log = workshop.path.join("log");
        // In a loop, the signal then comes while the recorder is busy with an interval's files.
        let interval = if self.call == "none" { "50k" } else { "100M" };
        let mut command = job.recorded(&log, &["--check-every", "1k", "--interval", interval])?;
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let pid: i32 = line.trim().parse().with_context(|| format!("it printed: {line}"))?;
        if let Some(signal) = self.signal {
            settle(pid, self.call == "none" || self.place == "threads");
            // SAFETY: two numbers.
            ensure!(unsafe { libc::kill(pid, signal) } == 0, "the process is gone");
        }
        let status = end_of(&mut child)?;
        let signal = self.signal.unwrap_or(libc::SIGTERM);
        let expected = if self.place == "child" { (Some(signal), None) } else { (None, Some(signal)) };
        let output = child.wait_with_output()?;
        ensure!((status.code(), status.signal()) == expected, "it ended with {status}\n{}", printed(&output));
        ensure!(output.stderr.is_empty(), "{}", printed(&output));
        self.replays(&log, pid)?;
        workshop.done()
    }

    fn replays(&self, log: &Path, pid: i32) -> Result<()> {
        must_pass(&["check"], log)?;
        must_pass(&["replay"], log)?;
        // A process at a time.
        let pid = pid.to_string();
        must_pass(&["replay", "--merged", "-p", &pid], log)?;
        let info = must_pass(&["info", "-p", &pid], log)?;
        let text = String::from_utf8_lossy(&info.stdout).into_owned();
        let waited =
            text.lines().any(|line| line.trim_start().starts_with(&format!("{}(", self.name)) && !line.contains(" = "));
        // A timer may be early.
        let expected = !self.name.is_empty() && self.signal.is_some();
        ensure!(!expected || waited, "`bugnet info` names no {} that has not returned\n{text}", self.name);
        Ok(())
    }
}

/// Each call with [`SETTINGS`], where it is made and what ends it.
fn calls() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, (call, name)) in CALLS.into_iter().enumerate() {
        let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
        for (k, place) in PLACES.into_iter().enumerate() {
            let signal = Some(signals[(n + k) % signals.len()]);
            cases.push(Case { call, name, place, signal });
        }
        cases.extend(ITSELF.map(|place| Case { call, name, place, signal: None }));
    }
    cases
}

/// Each signal, where some of the calls are made.
fn signals() -> Vec<Case> {
    let signals = [
        libc::SIGHUP,
        libc::SIGABRT,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGKILL,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPOLL,
        libc::SIGPROF,
        libc::SIGVTALRM,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGSTKFLT,
        libc::SIGPWR,
        libc::SIGRTMIN(),
        libc::SIGRTMAX() - 1,
    ];
    let mut cases = Vec::new();
    for signal in signals {
        for (call, name, place) in SOME {
            // What SIGKILL leaves cannot say what was under way.
            let name = if signal == libc::SIGKILL { "" } else { name };
            cases.push(Case { call, name, place, signal: Some(signal) });
        }
    }
    cases
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let trial = |case: Case| Trial::test(case.title(), move || case.run().map_err(|e| Failed::from(format!("{e:?}"))));
    let calls = one_of(SETTINGS, calls().into_iter().map(trial).collect());
    let signals = one_of(SOME.len(), signals().into_iter().map(trial).collect());
    Ok(calls.into_iter().chain(signals).collect())
}
