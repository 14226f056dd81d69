//! Epochs: all threads end their intervals together. Where only the last epochs are kept, what is left is the same stretch of all
//! threads: it replays together, without conflicts, whichever threads computed and whichever waited. With `--include-ignored`,
//! many runs with many lengths of intervals.

use anyhow::{Context, Result, ensure};
use bugnet_format::folder::Recording;
use bugnet_format::frame::IntervalHeader;
use bugnet_tests::bugnet::{Job, Workshop, binary, headers, must_pass, printed, run};
use bugnet_tests::sample::some_of;
use bugnet_tests::threaded::{Threaded, programs};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// After so many seconds, a recording counts as hanging.
const PATIENCE: &str = "200";

/// Programs of which each has its own way to come, to wait and to go.
const PROGRAMS: [&str; 10] = [
    "busy_and_idle",
    "cancellation",
    "condition_variables",
    "endings",
    "exit_while_others_run",
    "fork_while_others_wait",
    "many_short_threads",
    "robust_mutex",
    "signals_to_threads",
    "threads_by_the_thousand",
];

fn named(name: &str) -> Result<Threaded> {
    programs()?.into_iter().find(|program| program.name == name).with_context(|| format!("no program {name}"))
}

/// Records a job, which must not hang.
fn record(job: &Job, log: &Path, options: &[&str]) -> Result<Output> {
    let recorded = job.recorded(log, options)?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE]).arg(recorded.get_program()).args(recorded.get_args());
    command.env_clear().envs(recorded.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(&job.dir).stdin(Stdio::null());
    let output = run(&mut command)?;
    ensure!(!matches!(output.status.code(), Some(124 | 137)), "it hangs\n{}", printed(&output));
    Ok(output)
}

/// Checks and replays a log, each thread alone and all together. Returns what the merged replay printed.
fn verify(log: &Path) -> Result<String> {
    must_pass(&["check"], log)?;
    must_pass(&["replay"], log)?;
    must_pass(&["order"], log)?;
    Ok(String::from_utf8(must_pass(&["replay", "--merged"], log)?.stdout)?)
}

/// Records programs with these options and verifies what is kept.
fn campaign(test: &str, names: &[&str], options: &[&[&str]]) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let cases = names.iter().flat_map(|name| options.iter().map(move |options| (name, options)));
    for (name, options) in some_of(options.len(), cases) {
        let program = named(name)?;
        let binary = program.build("O1", &workshop.path)?;
        let job = Job::new(&workshop.path, [&[binary.to_string_lossy().into_owned()], &program.test[..]].concat());
        let log = workshop.path.join("log");
        let recorded = record(&job, &log, options)?;
        ensure!(recorded.status.code() == Some(program.status), "{name} {options:?}\n{}", printed(&recorded));
        verify(&log).with_context(|| format!("{name} {options:?}"))?;
        fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

#[test]
fn programs_of_which_the_last_epochs_are_kept() -> Result<()> {
    campaign("epochs-kept", &PROGRAMS, &[&["--interval", "20k", "--keep", "2"], &["--interval", "150k", "--keep", "1"]])
}

#[test]
fn many_short_epochs() -> Result<()> {
    campaign("epochs-short", &["busy_and_idle", "signals_to_threads", "cancellation"], &[&["--interval", "3k"]])
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn epochs_of_many_lengths() -> Result<()> {
    let lengths = ["2k", "5k", "11k", "30k", "70k", "200k", "500k"];
    let options: Vec<[&str; 4]> = lengths
        .iter()
        .flat_map(|length| ["0", "1", "2", "5"].map(|keep| ["--interval", length, "--keep", keep]))
        .collect();
    let options: Vec<&[&str]> = options.iter().map(<[&str; 4]>::as_slice).collect();
    campaign("epochs-lengths", &PROGRAMS, &options)
}

/// What is kept of a thread that computes and of those that wait is the same stretch of time; and an interval that ends in a
/// call goes on with it.
#[test]
fn a_ring_of_busy_and_idle_threads_fits_together() -> Result<()> {
    let workshop = Workshop::new("epochs-ring")?;
    let binary = named("busy_and_idle")?.build("O2", &workshop.path)?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [&*binary.to_string_lossy(), "200"]);
    let recorded = record(&job, &log, &["--interval", "100k", "--keep", "3"])?;
    ensure!(recorded.stdout == b"done\n", "{}", printed(&recorded));
    let headers = headers(&log)?;
    let last = headers.iter().map(|header| header.epoch.0).max().context("no interval")?;
    ensure!(last > 20, "only {last} epochs");
    // Of each thread, nothing is kept but the last epochs before its end, or before it waits for good.
    let last_of = |header: &IntervalHeader| {
        headers.iter().filter(|other| other.tid == header.tid).map(|other| other.epoch.0).max().unwrap_or_default()
    };
    ensure!(headers.iter().all(|header| header.epoch.0 + 3 > last_of(header)), "{headers:?}");
    let merged = verify(&log)?;
    ensure!(merged.contains(&format!("from epoch {} on", last - 2)), "{merged}");
    ensure!(merged.contains("0 conflicts: every read is explained"), "{merged}");
    workshop.done()
}

/// Of threads that ended long ago, nothing is left.
#[test]
fn threads_that_have_ended_are_not_kept_for_ever() -> Result<()> {
    let workshop = Workshop::new("epochs-ended")?;
    let program = named("many_short_threads")?;
    let binary = program.build("O2", &workshop.path)?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [&*binary.to_string_lossy(), "300"]);
    let recorded = record(&job, &log, &["--interval", "20k", "--keep", "2"])?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let threads = Recording::open(&log)?.threads()?.len();
    ensure!(threads < 150, "{threads} threads are there");
    verify(&log)?;
    workshop.done()
}

#[test]
fn pigz_of_which_the_last_epochs_are_kept() -> Result<()> {
    let workshop = Workshop::new("epochs-pigz")?;
    let text: String =
        (0..60_000).map(|n: u32| format!("line {} of {n}\n", n.wrapping_mul(2_654_435_761) % 1000)).collect();
    fs::write(workshop.path.join("text"), text)?;
    let job = Job::new(&workshop.path, ["/usr/bin/pigz", "-p", "3", "-b", "128", "-nc", "text"]);
    let native = run(&mut job.native()?)?;
    for options in [["--interval", "2M", "--keep", "2"], ["--interval", "300k", "--keep", "5"]] {
        let log = workshop.path.join("log");
        let recorded = record(&job, &log, &options)?;
        ensure!(recorded.stdout == native.stdout, "other output\n{}", printed(&recorded));
        let merged = verify(&log)?;
        ensure!(merged.contains("from epoch "), "{merged}");
        fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

/// A ring is sound at every moment in which its program can be killed.
#[test]
fn killed_while_epochs_are_thrown_away() -> Result<()> {
    let workshop = Workshop::new("epochs-killed")?;
    let binary = named("busy_and_idle")?.build("O2", &workshop.path)?;
    let job = Job::new(&workshop.path, [&*binary.to_string_lossy(), "100000000"]);
    for number in 0..8 {
        let log = workshop.path.join(format!("log-{number}"));
        let mut command = job.recorded(&log, &["--interval", "30k", "--keep", "2"])?;
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?;
        std::thread::sleep(Duration::from_millis(700 + 130 * number));
        let group = Pid::from_raw(-child.id().cast_signed());
        kill(group, Signal::SIGKILL)?;
        child.wait()?;
        while kill(group, Signal::SIGKILL).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        must_pass(&["check"], &log)?;
        must_pass(&["replay"], &log)?;
        let merged = must_pass(&["replay", "--merged"], &log).with_context(|| format!("recording {number}"))?;
        ensure!(String::from_utf8_lossy(&merged.stdout).contains("from epoch "), "{}", printed(&merged));
        fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

/// Stopped and continued again and again, as by a shell, a program goes on, and its epochs with it.
#[test]
fn stopped_while_epochs_are_started() -> Result<()> {
    let workshop = Workshop::new("epochs-stopped")?;
    let binary = named("busy_and_idle")?.build("O2", &workshop.path)?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [&*binary.to_string_lossy(), "400"]);
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=5", PATIENCE]).arg(self::binary()?);
    command
        .args(["record", "--quiet", "--interval", "30k", "--keep", "2", "-o"])
        .arg(&log)
        .arg("--")
        .args(&job.command);
    let mut child =
        command.current_dir(&workshop.path).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn()?;
    let group = Pid::from_raw(-child.id().cast_signed());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(70));
        if kill(group, Signal::SIGSTOP).is_ok() {
            std::thread::sleep(Duration::from_millis(30));
            let _ = kill(group, Signal::SIGCONT);
        }
    };
    ensure!(status.success(), "{status}");
    verify(&log)?;
    workshop.done()
}
