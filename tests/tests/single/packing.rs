//! Frames that `bugnet record` compresses for the program's threads: it does, and the program does not depend on it.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Workshop, headers, must_pass, printed, run, same_behaviour, same_bytes};
use bugnet_tests::many_loads;
use bugnet_tests::sample::some_of;
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SEED: u64 = 31;
/// Some frames an interval.
const OPTIONS: &[&str] = &["--no-pack", "--interval", "2M", "--check-every", "100k"];
const SHORT: Duration = Duration::from_millis(1);

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// The process that `bugnet record` waits for, once it is there.
fn program_of(bugnet: &Child) -> Result<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", bugnet.id());
    loop {
        let children = fs::read_to_string(&path).context("bugnet record has ended early")?;
        if let Some(pid) = children.split_whitespace().next() {
            return Ok(Pid::from_raw(pid.parse()?));
        }
        std::thread::sleep(SHORT);
    }
}

/// Whether a process is there and has not ended.
fn runs(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// What a process has written so far, in bytes.
fn written_by(process: Pid) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
}

/// A recording that has begun to write frames.
struct Begun {
    bugnet: Child,
    program: Pid,
}

/// Starts `command` with the program's output in `output`, and waits until frames are handed over.
fn begin(command: &mut Command, log: &Path, output: &Path) -> Result<Begun> {
    let mut bugnet = command.stdout(File::create(output)?).stderr(Stdio::null()).spawn()?;
    let program = program_of(&bugnet)?;
    let tail = log.join(format!("p{program}/t{program}/tail2"));
    while !tail.exists() {
        ensure!(bugnet.try_wait()?.is_none(), "bugnet record ended before a frame was handed over");
        std::thread::sleep(SHORT);
    }
    Ok(Begun { bugnet, program })
}

/// The log is that of the whole run, which printed this.
fn examine(log: &Path, printed: &[u8]) -> Result<()> {
    let check = must_pass(&["check"], log)?;
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    ensure!(text.contains("whole"), "the log is not whole: {text}");
    let replay = must_pass(&["replay", "--output=stdout"], log)?;
    same_bytes("replayed output", printed, &replay.stdout)
}

#[test]
fn bugnet_compresses_frames() -> Result<()> {
    let workshop = Workshop::new("packing")?;
    let job = many_loads::job(&workshop.path, 400, 2, 0)?;
    let native = run(&mut job.native()?)?;
    let log = workshop.path.join("log");
    let output = workshop.path.join("recorded.out");
    let Begun { mut bugnet, .. } = begin(&mut job.recorded(&log, OPTIONS)?, &log, &output)?;
    let mut written = 0;
    while bugnet.try_wait()?.is_none() {
        written = written_by(pid_of(&bugnet)).unwrap_or(written).max(written);
        std::thread::sleep(SHORT);
    }
    ensure!(written > 1 << 20, "bugnet has written {written} bytes itself");
    examine(&log, &native.stdout)?;
    for name in [".handover", "recording.json.new"] {
        ensure!(!log.join(name).exists(), "{name} is still there");
    }
    workshop.done()
}

#[test]
fn the_program_outlives_bugnet() -> Result<()> {
    let workshop = Workshop::new("packing-killed")?;
    let job = many_loads::job(&workshop.path, 300, 2, 0)?;
    let native = run(&mut job.native()?)?;
    let mut rng = Rng::with_seed(SEED);
    for number in some_of(3, 0..6) {
        let log = workshop.path.join(format!("log-{number}"));
        let output = workshop.path.join("recorded.out");
        let Begun { mut bugnet, program } = begin(&mut job.recorded(&log, OPTIONS)?, &log, &output)?;
        let delay = Duration::from_micros(rng.u64(..40_000));
        std::thread::sleep(delay);
        kill(pid_of(&bugnet), Signal::SIGKILL)?;
        bugnet.wait()?;
        ensure!(runs(program), "recording {number}: the program had ended {delay:?} later");
        while runs(program) {
            std::thread::sleep(SHORT);
        }
        let about = || format!("recording {number}: bugnet killed after {delay:?}");
        same_bytes("standard output", &native.stdout, &fs::read(&output)?).with_context(about)?;
        examine(&log, &native.stdout).with_context(about)?;
        fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

#[test]
fn the_program_goes_on_while_bugnet_is_stopped() -> Result<()> {
    let workshop = Workshop::new("packing-stopped")?;
    let job = many_loads::job(&workshop.path, 300, 2, 0)?;
    let native = run(&mut job.native()?)?;
    let mut rng = Rng::with_seed(SEED);
    for number in some_of(2, 0..4) {
        let log = workshop.path.join(format!("log-{number}"));
        let output = workshop.path.join("recorded.out");
        let Begun { mut bugnet, program } = begin(&mut job.recorded(&log, OPTIONS)?, &log, &output)?;
        std::thread::sleep(Duration::from_micros(rng.u64(..30_000)));
        kill(pid_of(&bugnet), Signal::SIGSTOP)?;
        ensure!(runs(program), "recording {number}: the program had ended");
        while runs(program) {
            std::thread::sleep(SHORT);
        }
        kill(pid_of(&bugnet), Signal::SIGCONT)?;
        let status = bugnet.wait()?;
        ensure!(status.success(), "recording {number}: {status}");
        same_bytes("standard output", &native.stdout, &fs::read(&output)?)?;
        examine(&log, &native.stdout).with_context(|| format!("recording {number}"))?;
        fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

#[test]
fn answers_that_come_late_do_no_harm() -> Result<()> {
    let workshop = Workshop::new("packing-late")?;
    let job = many_loads::job(&workshop.path, 600, 3, 0)?;
    let native = run(&mut job.native()?)?;
    let log = workshop.path.join("log");
    let output = workshop.path.join("recorded.out");
    let Begun { mut bugnet, .. } = begin(&mut job.recorded(&log, OPTIONS)?, &log, &output)?;
    let mut rng = Rng::with_seed(SEED);
    // Longer than threads wait, and shorter.
    let pauses = [1200, 5, 1, 1200, 30].map(Duration::from_millis);
    for pause in pauses.iter().cycle() {
        if bugnet.try_wait()?.is_some() {
            break;
        }
        kill(pid_of(&bugnet), Signal::SIGSTOP)?;
        std::thread::sleep(*pause);
        kill(pid_of(&bugnet), Signal::SIGCONT)?;
        std::thread::sleep(Duration::from_micros(rng.u64(..20_000)));
    }
    ensure!(bugnet.wait()?.success(), "bugnet record failed");
    same_bytes("standard output", &native.stdout, &fs::read(&output)?)?;
    examine(&log, &native.stdout)?;
    workshop.done()
}

#[test]
fn forked_children_leave_their_parents_frames_alone() -> Result<()> {
    let workshop = Workshop::new("packing-forked")?;
    let job = many_loads::job(&workshop.path, 200, 1, 9)?;
    let native = run(&mut job.native()?)?;
    let log = workshop.path.join("log");
    same_behaviour(&native, &run(&mut job.recorded(&log, OPTIONS)?)?)?;
    examine(&log, &native.stdout)?;
    workshop.done()
}

#[test]
fn only_the_last_intervals_are_kept() -> Result<()> {
    let workshop = Workshop::new("packing-keep")?;
    let job = many_loads::job(&workshop.path, 300, 2, 0)?;
    let native = run(&mut job.native()?)?;
    let log = workshop.path.join("log");
    let options = [OPTIONS, &["--keep", "2"]].concat();
    let recorded = run(&mut job.recorded(&log, &options)?)?;
    same_behaviour(&native, &recorded)?;
    must_pass(&["check"], &log)?;
    must_pass(&["replay"], &log)?;
    let headers = headers(&log)?;
    for header in &headers {
        // A thread may have several intervals in an epoch.
        let last = headers.iter().filter(|other| other.tid == header.tid).map(|other| other.epoch.0).max();
        ensure!(last.is_some_and(|last| last > 20 && header.epoch.0 + 2 > last), "{headers:?}\n{}", printed(&recorded));
    }
    workshop.done()
}
