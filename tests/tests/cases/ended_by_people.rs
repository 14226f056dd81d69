//! What people do to programs that wait, at random moments of their lives: Ctrl-C, `kill`, a terminal that is closed,
//! `kill -9`. All of it replays, thread by thread and merged.

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed};
use bugnet_tests::sample::one_of;
use bugnet_tests::small::build_named;
use fastrand::Rng;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SIGNALS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL];

/// A program that waits for good.
#[derive(Clone, Copy)]
struct Program {
    name: &'static str,
    /// A first word that is no path names a program of the tests.
    command: &'static [&'static str],
    /// It does what it does for good by then, nearly always.
    life: Duration,
}

const PROGRAMS: [Program; 6] = [
    Program { name: "cat", command: &["/bin/cat"], life: Duration::from_millis(200) },
    Program {
        name: "pipe",
        command: &["/bin/bash", "-c", "/bin/sleep 1000 | /bin/cat; echo over"],
        life: Duration::from_millis(600),
    },
    Program { name: "deadlock", command: &["waits", "mutex", "threads"], life: Duration::from_millis(300) },
    Program { name: "accept", command: &["waits", "accept", "alone"], life: Duration::from_millis(300) },
    Program {
        name: "redis",
        command: &["/usr/bin/redis-server", "--port", "0", "--unixsocket", "socket", "--save", ""],
        life: Duration::from_secs(2),
    },
    Program {
        name: "http_server",
        command: &["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "0"],
        life: Duration::from_secs(4),
    },
];

/// Whom a signal hits.
#[derive(Clone, Copy, Debug)]
enum Whom {
    /// Everything that the terminal started, with `bugnet record`.
    Group,
    /// The recorded program.
    Program,
}

impl Program {
    fn job(&self, dir: &Path) -> Result<Job> {
        let (first, rest) = self.command.split_first().context("no command")?;
        if first.starts_with('/') {
            return Ok(Job::new(dir, self.command.iter().copied()));
        }
        let binary = build_named(&format!("waits/{first}.c"), &["-pthread"], dir)?;
        Ok(Job::new(dir, [binary.to_string_lossy().as_ref()].iter().chain(rest).copied()))
    }

    /// Records it so often with each signal.
    fn end(&self, title: &str, count: u32) -> Result<()> {
        let workshop = Workshop::new(title)?;
        let job = self.job(&workshop.path)?;
        let mut rng = Rng::with_seed(14);
        for number in 0..count {
            for signal in SIGNALS {
                let whom = if rng.bool() { Whom::Group } else { Whom::Program };
                let moment = self.life.mul_f64(rng.f64());
                let log = workshop.path.join(format!("log-{number}-{signal}"));
                self.end_one(&job, &log, signal, whom, moment).with_context(|| {
                    format!("recording {number}: {signal} to {whom:?} {moment:?} after the log was there")
                })?;
            }
        }
        workshop.done()
    }

    /// Sends each signal so often as soon as there is a process: what records it may not be there yet.
    fn end_at_once(&self, title: &str, count: u32) -> Result<()> {
        let workshop = Workshop::new(title)?;
        let job = self.job(&workshop.path)?;
        for number in 0..count {
            for signal in SIGNALS {
                let log = workshop.path.join(format!("log-{number}-{signal}"));
                let mut command = job.recorded(&log, &[])?;
                let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
                let pid = loop {
                    if let Some(pid) = program_of(&child) {
                        break pid;
                    }
                    ensure!(child.try_wait()?.is_none(), "bugnet record has ended by itself");
                };
                kill(pid, signal)?;
                let status = end_of(&mut child, Duration::from_secs(60))?.context("the recording goes on")?;
                let output = child.wait_with_output()?;
                let about = || format!("{signal}: bugnet record ended with {status}\n{}", printed(&output));
                ensure!(status.signal() == Some(signal as i32), about());
                if log.exists() {
                    must_pass(&["check"], &log).with_context(about)?;
                }
            }
        }
        workshop.done()
    }

    fn end_one(&self, job: &Job, log: &Path, signal: Signal, whom: Whom, moment: Duration) -> Result<()> {
        let mut command = job.recorded(log, &["--check-every", "10k"])?;
        // Standard input stays open, and has nothing.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        while !log.join("recording.json").exists() {
            if let Some(status) = child.try_wait()? {
                bail!("bugnet record ended with {status} without a log");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(moment);
        match whom {
            Whom::Group => killpg(group, signal)?,
            // It may have ended by itself, which it should not have done, or not have begun.
            Whom::Program => program_of(&child).into_iter().try_for_each(|pid| kill(pid, signal))?,
        }
        let status = match end_of(&mut child, Duration::from_secs(3))? {
            Some(status) => status,
            // The signal does not end this program: redis does not heed SIGHUP, nor bash while a child of its runs.
            None => {
                killpg(group, Signal::SIGKILL)?;
                end_of(&mut child, Duration::from_secs(60))?.context("the recording goes on after SIGKILL")?
            }
        };
        // Programs may outlive bugnet for a moment; a group without members cannot be signalled.
        while killpg(group, Signal::SIGKILL).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !log.exists() {
            // The program was killed before its first instruction.
            ensure!(status.signal() == Some(signal as i32), "there is no log, but bugnet record ended with {status}");
            return Ok(());
        }
        let output = child.wait_with_output()?;
        let replays = || -> Result<()> {
            must_pass(&["check"], log)?;
            must_pass(&["replay"], log)?;
            if began(log)? {
                must_pass(&["replay", "--merged"], log)?;
            }
            Ok(())
        };
        replays().with_context(|| format!("recorded: {status}\n{}", printed(&output)))?;
        fs::remove_dir_all(log).context("removing the log")
    }
}

/// Whether the program had come to its first instruction: a thread makes its folder before that.
fn began(log: &Path) -> Result<bool> {
    for process in below(log, b"p")? {
        if !below(&process, b"t")?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is in a folder with names that begin so.
fn below(folder: &Path, beginning: &[u8]) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let wanted = entries.iter().filter(|entry| entry.file_name().as_bytes().starts_with(beginning));
    Ok(wanted.map(DirEntry::path).collect())
}

fn end_of(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() > end {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The process that `bugnet record` waits for.
fn program_of(bugnet: &Child) -> Option<Pid> {
    let pid = bugnet.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Some(Pid::from_raw(children.split_whitespace().next()?.parse().ok()?))
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let trial = |program: Program, (title, count, usual): (&str, u32, bool)| {
        let title = format!("{}_{title}", program.name);
        let workshop = format!("ended-by-people-{title}");
        let test = move || program.end(&workshop, count).map_err(|e| Failed::from(format!("{e:?}")));
        Trial::test(title, test).with_ignored_flag(!usual)
    };
    let (small, servers) = PROGRAMS.split_at(4);
    let table = |programs: &[Program], how| programs.iter().map(|program| trial(*program, how)).collect::<Vec<_>>();
    // The many take minutes: make soak.
    let (once, often) = (("once", 1, true), ("often", 25, false));
    let tables = [table(small, once), one_of(servers.len(), table(servers, once)), table(&PROGRAMS, often)];
    let at_once = || PROGRAMS[0].end_at_once("ended-by-people-at-once", 5).map_err(|e| Failed::from(format!("{e:?}")));
    Ok(tables.into_iter().flatten().chain([Trial::test("cat_at_once", at_once)]).collect())
}
