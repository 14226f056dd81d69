//! Robust to death: recordings killed with SIGKILL at random moments. Whatever was written is a sound log, replays to
//! the end that it states, and gives the beginning of what the program printed.

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run, same_behaviour, verify_and_index};
use bugnet_tests::many_loads;
use bugnet_tests::sample::some_of;
use bugnet_tests::threaded::programs;
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const SEED: u64 = 20;
const OPTIONS: [&str; 4] = ["--interval", "10M", "--check-every", "50k"];

/// Whom SIGKILL hits.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The recorded program and `bugnet record` at once.
    All,
    /// The recorded program; `bugnet record` sees it die.
    Program,
}

/// A job that prints all the time it runs.
fn job(dir: &Path) -> Result<Job> {
    fs::write(dir.join("loop.sh"), include_str!("../../programs/loop.sh"))?;
    Ok(Job::new(dir, ["/bin/bash", "loop.sh", "400"]))
}

fn kill_recordings(test: &str, count: usize, job: fn(&Path) -> Result<Job>) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let job = job(&workshop.path)?;
    let native = run(&mut job.native()?)?;
    let log = workshop.path.join("log-whole");
    let start = Instant::now();
    same_behaviour(&native, &run(&mut job.recorded(&log, &OPTIONS)?)?)?;
    let duration = start.elapsed();
    fs::remove_dir_all(&log)?;
    let mut rng = Rng::with_seed(SEED);
    let mut examined = 0;
    for number in 0..count {
        let victim = [Victim::All, Victim::Program][number % 2];
        // Every tenth moment is one of the first: that is where files come into being.
        let span = if number % 10 == 0 { duration / 20 } else { duration };
        let delay = span.mul_f64(rng.f64());
        let log = workshop.path.join(format!("log-{number}"));
        let about = || format!("recording {number}: {victim:?} killed {delay:?} after the log appeared");
        if kill_one(&job, &log, victim, delay).with_context(about)? {
            examine(&log, &native.stdout).with_context(about)?;
            examined += 1;
            fs::remove_dir_all(&log)?;
        }
    }
    ensure!(examined >= count * 3 / 4, "only {examined} of {count} recordings left a log");
    workshop.done()
}

/// Whether there is a log: a program that dies before its first instruction leaves none, and `bugnet record` ends as it does.
fn kill_one(job: &Job, log: &Path, victim: Victim, delay: Duration) -> Result<bool> {
    let mut command = job.recorded(log, &OPTIONS)?;
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?;
    while !log.join("recording.json").exists() {
        if let Some(status) = child.try_wait()? {
            bail!("bugnet record ended with {status} without a log");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(delay);
    let group = Pid::from_raw(-child.id().cast_signed());
    match victim {
        Victim::All => kill(group, Signal::SIGKILL)?,
        // It may have ended by itself already, which is one of the moments, too.
        Victim::Program => program_of(&child).into_iter().try_for_each(|pid| kill(pid, Signal::SIGKILL))?,
    }
    let status = child.wait()?;
    // The program may outlive bugnet for a moment; a group without members cannot be signalled.
    while kill(group, Signal::SIGKILL).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = status.signal() == Some(Signal::SIGKILL as i32);
    ensure!(log.exists() || killed, "there is no log, but bugnet record ended with {status}");
    Ok(log.exists())
}

/// The process that `bugnet record` waits for.
fn program_of(bugnet: &Child) -> Option<Pid> {
    let pid = bugnet.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Some(Pid::from_raw(children.split_whitespace().next()?.parse().ok()?))
}

fn examine(log: &Path, native_output: &[u8]) -> Result<()> {
    must_pass(&["check"], log)?;
    verify_and_index(log)?;
    let output = must_pass(&["replay", "--output=stdout"], log)?;
    ensure!(native_output.starts_with(&output.stdout), "not what the program printed\n{}", printed(&output));
    Ok(())
}

#[test]
fn killed_10() -> Result<()> {
    kill_recordings("killed-10", 10, job)
}

/// With two threads and many frames, most of which are under way in `bugnet record`.
#[test]
fn killed_10_with_many_frames() -> Result<()> {
    kill_recordings("killed-10-frames", 10, |dir| many_loads::job(dir, 150, 2, 0))
}

/// Threads that are killed while they share memory: none of their logs ends where another one does.
#[test]
fn killed_threads_are_in_order_up_to_there() -> Result<()> {
    let workshop = Workshop::new("killed-threads")?;
    for name in ["condition_variables", "spinlock_convoy", "robust_mutex"] {
        let program = programs()?.into_iter().find(|program| program.name == name).context("no such program")?;
        let binary = program.build("O2", &workshop.path)?;
        let job = Job::new(&workshop.path, [&binary.to_string_lossy(), "100000000"]);
        for number in some_of(2, 0..4) {
            let (log, delay) = (workshop.path.join(format!("log-{name}-{number}")), 100 + 150 * number);
            if kill_one(&job, &log, Victim::Program, Duration::from_millis(delay))? {
                verify_and_index(&log)?;
                must_pass(&["replay", "--merged"], &log).with_context(|| format!("{name}, recording {number}"))?;
                fs::remove_dir_all(&log)?;
            }
        }
    }
    workshop.done()
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn killed_200() -> Result<()> {
    kill_recordings("killed-200", 200, job)
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn killed_200_with_many_frames() -> Result<()> {
    kill_recordings("killed-200-frames", 200, |dir| many_loads::job(dir, 150, 2, 0))
}
