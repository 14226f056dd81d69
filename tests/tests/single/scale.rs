//! What must not grow: memory and disk of a recording that keeps only its last intervals, however long the program runs
//! and however much code it makes, loads and drops. And threads by the hundred. With `--include-ignored`, at full length, with a thousand
//! forks, and with thousands of threads.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run, same_behaviour, source_tree, verify_log};
use bugnet_tests::threaded::programs;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn compile(source: &str, workshop: &Workshop) -> Result<PathBuf> {
    let program = workshop.path.join("program");
    let mut command = Command::new("gcc");
    command.args(["-O1", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o"]).arg(&program);
    let output = run(command.arg(source_tree().join("tests/programs").join(source)))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}

fn churn(program: &Path, folder: &Path, rounds: u64, steps: u64) -> Job {
    let arguments = [rounds.to_string(), steps.to_string(), "resident".to_owned()];
    Job::new(folder, std::iter::once(program.to_string_lossy().into_owned()).chain(arguments))
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(sum)
}

/// Records a program that makes and drops code all the time; at its end, neither its memory nor the log may be much
/// larger than need be: `most` bytes for the log.
fn stays_flat(test: &str, rounds: u64, steps: u64, options: &[&str], most: u64) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let program = compile("scale/churn.c", &workshop)?;
    let native = run(&mut churn(&program, &workshop.folder("native")?, rounds, steps).native()?)?;
    let folder = workshop.folder("recorded")?;
    let log = workshop.path.join("log");
    // Copies of ELF files, and of what debug information this machine has for them, do not grow.
    let options = [options, &["--no-pack"]].concat();
    let output = run(&mut churn(&program, &folder, rounds, steps).recorded(&log, &options)?)?;
    same_behaviour(&native, &output)?;
    let resident = fs::read_to_string(folder.join("resident"))?;
    let resident: Vec<u64> = resident.lines().map(str::parse).collect::<Result<_, _>>()?;
    let (half, end) = (resident[resident.len() / 2], resident.last().copied().context("no sample")?);
    ensure!(end < half + half / 4, "resident memory grows: {resident:?} kB");
    let size = size(&log)?;
    ensure!(size < most, "the log has {size} bytes");
    must_pass(&["check"], &log)?;
    must_pass(&["replay"], &log)?;
    workshop.done()
}

#[test]
fn code_that_comes_and_goes_takes_no_more_and_more_room() -> Result<()> {
    // Every version of every page would be 14 MB.
    stays_flat("scale-churn", 1600, 1000, &["--interval", "1M", "--keep", "3"], 6 << 20)
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn a_hundred_billion_instructions_take_no_more_and_more_room() -> Result<()> {
    stays_flat("scale-churn-long", 20_000, 650_000, &["--keep", "4"], 64 << 20)
}

#[test]
fn a_store_from_which_pages_leave_is_whole_whenever_the_program_is_killed() -> Result<()> {
    let workshop = Workshop::new("scale-killed")?;
    let program = compile("scale/churn.c", &workshop)?;
    let mut rng = fastrand::Rng::with_seed(3);
    for number in 0..6 {
        let folder = workshop.folder(&format!("run-{number}"))?;
        let log = folder.join("log");
        let mut command =
            churn(&program, &folder, 100_000, 1000).recorded(&log, &["--interval", "200k", "--keep", "2"])?;
        let mut child = command.stdout(Stdio::null()).process_group(0).spawn()?;
        let patience = Instant::now() + Duration::from_secs(60);
        while size(&log).unwrap_or(0) < 1 << 20 {
            ensure!(Instant::now() < patience && child.try_wait()?.is_none(), "the recording does not get on");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(rng.u64(0..1500)));
        killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
        child.wait()?;
        must_pass(&["check"], &log)?;
        must_pass(&["replay"], &log)?;
    }
    workshop.done()
}

#[test]
#[ignore = "takes minutes: make soak"]
fn a_thousand_forks() -> Result<()> {
    let workshop = Workshop::new("scale-forks")?;
    let program = compile("scale/forks.c", &workshop)?;
    let job = |folder: &Path| Job::new(folder, [program.to_string_lossy().into_owned(), "1000".to_owned()]);
    let native = run(&mut job(&workshop.folder("native")?).native()?)?;
    let log = workshop.path.join("log");
    same_behaviour(&native, &run(&mut job(&workshop.folder("recorded")?).recorded(&log, &[])?)?)?;
    let processes = String::from_utf8(must_pass(&["ps"], &log)?.stdout)?;
    ensure!(processes.lines().filter(|line| line.contains("program")).count() >= 1001, "{processes}");
    verify_log(&log, &native)?;
    workshop.done()
}

#[test]
fn a_program_that_uses_up_its_descriptors_goes_on() -> Result<()> {
    let workshop = Workshop::new("scale-descriptors")?;
    let program = compile("scale/descriptors.c", &workshop)?;
    let limited = |command: &Command| {
        let mut limited = Command::new("/usr/bin/prlimit");
        limited.arg("--nofile=256:256").arg(command.get_program()).args(command.get_args());
        limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(&mut limited)
    };
    let job = Job::new(&workshop.path, [program.to_string_lossy()]);
    let native = limited(&job.native()?)?;
    ensure!(native.status.success(), "{}", printed(&native));
    let log = workshop.path.join("log");
    same_behaviour(&native, &limited(&job.recorded(&log, &["--interval", "1M"])?)?)?;
    verify_log(&log, &native)?;
    workshop.done()
}

/// Records so many threads at the same time, and so many one after the other, of which each may take 2 MB.
fn threads(test: &str, live: u32, sequence: u32, patience: Duration, checks: &[&[&str]]) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let programs = programs()?;
    let program = programs.iter().find(|program| program.name == "threads_by_the_thousand");
    let program = program.context("no such program")?.build("O2", &workshop.path)?;
    let job = Job::new(&workshop.path, [&program.to_string_lossy(), &*live.to_string(), &*sequence.to_string()]);
    let native = run(&mut job.native()?)?;
    let log = workshop.path.join("log");
    let recorded = job.recorded(&log, &[])?;
    let mut timed = Command::new("timeout");
    timed.args(["--kill-after=5", &patience.as_secs().to_string()]).arg(recorded.get_program());
    timed.args(recorded.get_args()).current_dir(&workshop.path);
    timed.env_clear().envs(recorded.get_envs().filter_map(|(name, value)| Some((name, value?))));
    same_behaviour(&native, &run(&mut timed)?)?;
    for command in checks {
        must_pass(command, &log)?;
    }
    workshop.done()
}

#[test]
fn three_hundred_threads_at_once() -> Result<()> {
    threads("scale-threads-some", 300, 0, Duration::from_secs(120), &[&["check"], &["replay", "--merged"]])
}

#[test]
fn a_thousand_threads_one_after_the_other() -> Result<()> {
    let checks: [&[&str]; 3] = [&["check"], &["replay"], &["replay", "--merged"]];
    threads("scale-threads-some-sequence", 0, 1000, Duration::from_secs(120), &checks)
}

#[test]
#[ignore = "takes minutes: make soak"]
fn fifteen_hundred_threads_at_once() -> Result<()> {
    threads("scale-threads-live", 1500, 0, Duration::from_secs(120), &[&["check"], &["replay", "--merged"]])
}

#[test]
#[ignore = "takes minutes: make soak"]
fn five_thousand_threads_one_after_the_other() -> Result<()> {
    let checks: [&[&str]; 3] = [&["check"], &["replay"], &["replay", "--merged"]];
    threads("scale-threads-sequence", 0, 5000, Duration::from_secs(120), &checks)
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn five_thousand_threads_at_once_and_a_hundred_thousand_one_after_the_other() -> Result<()> {
    let checks: [&[&str]; 3] = [&["check"], &["replay"], &["replay", "--merged"]];
    threads("scale-threads-live-long", 5000, 0, Duration::from_secs(3600), &checks)?;
    threads("scale-threads-sequence-long", 0, 100_000, Duration::from_secs(3600), &checks)
}
