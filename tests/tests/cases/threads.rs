//! Programs with threads: recorded, they behave as natively; each thread replays alone, and all of them replay together in
//! one order that explains every load. A program that hangs fails. Each is tried in one of two ways, and recorded lightly; with `--include-ignored`, in both,
//! with a hundred runs of each, and one at full length.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run, same_behaviour, source_tree, take_messages};
use bugnet_tests::sample::one_of;
use bugnet_tests::threaded::{Threaded, programs};
use libtest_mimic::{Failed, Trial};
use std::path::Path;
use std::process::{Command, Output};

/// After so many seconds, a command counts as hanging.
const TEST_PATIENCE: u32 = 300;
const SOAK_PATIENCE: u32 = 7200;

/// Optimisation, and options to record with.
const VARIANTS: [(&str, &[&str]); 2] =
    [("O2", &["--check-every", "10k"]), ("O1", &["--interval", "1M", "--check-every", "1k"])];

/// The same of light recording.
const LIGHT: (&str, &[&str]) = ("O1", &["--light"]);
/// What is not recorded lightly: what the kernel does at its own times, and loops of which no moment is found soon, as nothing but memory tells their rounds apart.
const NOT_LIGHT: [&str; 2] = ["asynchronous_reads", "signals_in_loops"];

/// Runs a command that is killed, with all that it started, if it does not end.
fn run_within(patience: u32, command: &Command) -> Result<Output> {
    let mut timed = Command::new("timeout");
    timed.args(["--kill-after=5", &patience.to_string()]).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        timed.current_dir(dir);
    }
    timed.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    timed.stdin(std::process::Stdio::null());
    let output = run(&mut timed)?;
    ensure!(!matches!(output.status.code(), Some(124 | 137)), "it hangs\n{}", printed(&output));
    Ok(output)
}

fn replay(patience: u32, log: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new(binary()?);
    command.args(options).arg(log);
    let output = run_within(patience, &command)?;
    ensure!(output.status.success(), "bugnet {} {}\n{}", options.join(" "), log.display(), printed(&output));
    Ok(())
}

/// How a program is run.
#[derive(Clone)]
struct Effort {
    args: Vec<String>,
    runs: u32,
    patience: u32,
}

fn run_program(program: &Threaded, effort: &Effort, variant: (&str, &[&str]), test: &str) -> Result<()> {
    let (level, options) = variant;
    let patience = effort.patience;
    let workshop = Workshop::new(test)?;
    let binary = program.build(level, &workshop.path)?;
    let job = Job::new(&workshop.path, [&[binary.to_string_lossy().into_owned()], &effort.args[..]].concat());
    for _ in 0..effort.runs {
        let native = run_within(patience, &job.native()?).context("natively")?;
        ensure!(native.status.code() == Some(program.status), "natively\n{}", printed(&native));
        let log = workshop.path.join("log");
        let mut recorded = run_within(patience, &job.recorded(&log, options)?).context("recorded")?;
        if options == LIGHT.1 {
            let messages = take_messages(&mut recorded);
            ensure!(messages.is_empty(), "{messages}");
            replay(patience, &log, &["expand"])?;
        }
        same_behaviour(&native, &recorded).context("recorded instead of natively run")?;
        replay(patience, &log, &["check"])?;
        replay(patience, &log, &["replay"]).context("each thread alone")?;
        replay(patience, &log, &["replay", "--merged"]).context("all threads together")?;
        std::fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

/// No store becomes visible late under recording, although the processor would let it.
fn stores_are_in_time() -> Result<()> {
    let workshop = Workshop::new("threads-stores_are_in_time")?;
    let programs = programs()?;
    let program =
        programs.iter().find(|program| program.name == "litmus_store_buffering").context("no such program")?;
    let binary = program.build("O2", &workshop.path)?;
    let job = Job::new(&workshop.path, [&binary.to_string_lossy(), "20000", "count"]);
    let recorded = run_within(TEST_PATIENCE, &job.recorded(&workshop.path.join("log"), &[])?)?;
    ensure!(recorded.stdout == b"0 of 10000\n", "both threads read old values\n{}", printed(&recorded));
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    ensure!(source_tree().is_dir(), "no source tree");
    let in_time = || stores_are_in_time().map_err(|e| Failed::from(format!("{e:?}")));
    let (mut trials, mut lightly) = (Vec::new(), Vec::new());
    for program in programs()? {
        let test = Effort { args: program.test.clone(), runs: 1, patience: TEST_PATIENCE };
        let hundred = Effort { runs: 100, ..test.clone() };
        let soak = program.soak.clone().map(|args| Effort { args, patience: SOAK_PATIENCE, ..test.clone() });
        let efforts = [(Some(test), ""), (Some(hundred), "-hundred"), (soak, "-soak")];
        for (effort, suffix) in efforts.iter().filter(|_| !NOT_LIGHT.contains(&program.name.as_str())) {
            let Some(effort) = effort.clone() else { continue };
            let (test, program) = (format!("threads-{}-light{suffix}", program.name), program.clone());
            let name = format!("{}-light{suffix}", program.name);
            let body = move || run_program(&program, &effort, LIGHT, &test).map_err(|e| Failed::from(format!("{e:?}")));
            lightly.push(Trial::test(name, body).with_ignored_flag(!suffix.is_empty()));
        }
        for variant in VARIANTS {
            for (effort, suffix) in &efforts {
                let Some(effort) = effort.clone() else { continue };
                let name = format!("{}-{}{suffix}", program.name, variant.0);
                let (test, program) = (format!("threads-{name}"), program.clone());
                let body =
                    move || run_program(&program, &effort, variant, &test).map_err(|e| Failed::from(format!("{e:?}")));
                trials.push(Trial::test(name, body).with_ignored_flag(!suffix.is_empty()));
            }
        }
    }
    let mut trials = one_of(VARIANTS.len(), trials);
    trials.append(&mut lightly);
    trials.push(Trial::test("stores_are_in_time", in_time));
    Ok(trials)
}
