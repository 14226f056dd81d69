//! gdb's own recorder beside bugnet, on a program that is small enough for it.

use super::gdb::Gdb;
use super::moment::Moment;
use super::questions::median;
use crate::measure::timed;
use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run};
use bugnet_tests::programs::compile;
use serde::Serialize;
use std::path::Path;
use std::process::Command;

/// Its name for `--only`.
pub const NAME: &str = "record-full";

/// Rounds for gdb, of 21 instructions each: about two million instructions, and a tenth of that for a look.
const FEW: [u64; 2] = [10_000, 100_000];
/// Rounds natively and for bugnet.
const MANY: [u64; 2] = [20_000_000, 200_000_000];
/// Steps back of which the median is taken.
const STEPS: usize = 20;

/// What one recorder does.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Instructions between the program's two breakpoints.
    pub instructions: u64,
    /// CPU time of recording, relative to native; of gdb, its own.
    pub slowdown: f64,
    /// The median of steps back by one instruction, in seconds.
    pub step_back: f64,
    /// What going back costs for a million instructions, in seconds.
    pub back: f64,
}

/// bugnet and its peers.
#[derive(Clone, Debug, Serialize)]
pub struct Peers {
    /// bugnet.
    pub bugnet: Pace,
    /// gdb's `record full`.
    pub gdb: Pace,
    /// How it is with rr here.
    pub rr: String,
}

/// Measures them.
///
/// # Errors
/// There is no compiler or no gdb, or one of them comes elsewhere than it should.
pub fn measure(is_quick: bool) -> Result<Peers> {
    let workshop = Workshop::new("travel-bench-record-full")?;
    let measured = measure_in(&workshop.path, usize::from(!is_quick));
    workshop.done()?;
    measured
}

fn measure_in(folder: &Path, size: usize) -> Result<Peers> {
    let program = folder.join("sums");
    compile(&["gcc", "-g", "-O1"], include_str!("../../programs/sums.c"), &program)?;
    let job = |rounds: u64| Job::new(folder, [program.display().to_string(), rounds.to_string()]);
    let (native, outcome) = timed(job(MANY[size]).native()?, folder)?;
    ensure!(outcome.is_success() && native.cpu > 0.0, "the program ended with {}", outcome.status);
    let log = folder.join("log");
    let (recorded, outcome) = timed(job(MANY[size]).recorded(&log, &[])?, folder)?;
    ensure!(outcome.is_success(), "recorded, the program ended with {}", outcome.status);
    let bugnet = bugnet(&log, recorded.cpu / native.cpu).context("bugnet")?;
    // What so few instructions take natively cannot be measured, but it follows.
    let native_few = native.cpu * FEW[size] as f64 / MANY[size] as f64;
    let gdb = record_full(&program, FEW[size], native_few).context("gdb's record full")?;
    let expected = bugnet.instructions as f64 * FEW[size] as f64 / MANY[size] as f64;
    let found = gdb.instructions as f64;
    ensure!((found / expected - 1.0).abs() < 0.05, "gdb has recorded {found} instructions, {expected} were expected");
    Ok(Peers { bugnet, gdb, rr: rr(folder) })
}

fn breakpoint_hit(gdb: &mut Gdb, command: &str, function: &str) -> Result<f64> {
    let answer = gdb.run(command)?;
    let there = ["reason=\"breakpoint-hit\"", &format!("func=\"{function}\"")];
    ensure!(there.iter().all(|part| answer.record.contains(part)), "{command}: {}", answer.record.trim_end());
    Ok(answer.seconds)
}

fn steps_back(gdb: &mut Gdb) -> Result<f64> {
    let mut steps = Vec::new();
    for _ in 0..STEPS {
        let answer = gdb.run("-exec-step-instruction --reverse")?;
        ensure!(answer.record.contains("end-stepping-range"), "a step back: {}", answer.record.trim_end());
        steps.push(answer.seconds);
    }
    median(&steps).context("no steps")
}

fn bugnet(log: &Path, slowdown: f64) -> Result<Pace> {
    let mut command = Command::new(binary()?);
    command.arg("debug").arg(log).args(["--", "-nx", "-i=mi3"]);
    let (mut gdb, _) = Gdb::start(command)?;
    gdb.console("break begin")?;
    gdb.console("break finish")?;
    breakpoint_hit(&mut gdb, "-exec-continue --reverse", "finish")?;
    let finish = Moment::find(&gdb.console("when")?.text)?;
    let step_back = steps_back(&mut gdb)?;
    let back = breakpoint_hit(&mut gdb, "-exec-continue --reverse", "begin")?;
    let begin = Moment::find(&gdb.console("when")?.text)?;
    gdb.end()?;
    let instructions = finish.time - begin.time;
    Ok(Pace { instructions, slowdown, step_back, back: back * 1e6 / (instructions - STEPS as u64) as f64 })
}

fn record_full(program: &Path, rounds: u64, native: f64) -> Result<Pace> {
    let mut command = Command::new("gdb");
    command.args(["-q", "-nx", "-i=mi3", "--args"]).arg(program).arg(rounds.to_string());
    let (mut gdb, _) = Gdb::start(command)?;
    for command in [
        "set confirm off",
        "set startup-with-shell off",
        "set record full insn-number-max unlimited",
        "break begin",
        "break finish",
    ] {
        gdb.console(command)?;
    }
    breakpoint_hit(&mut gdb, "-exec-run", "begin")?;
    gdb.console("record full")?;
    let before = used(&mut gdb)?;
    breakpoint_hit(&mut gdb, "-exec-continue", "finish")?;
    let recording = used(&mut gdb)? - before;
    let said = gdb.console("info record")?.text;
    let number = said.split_once("Highest recorded instruction number is ").and_then(|(_, rest)| rest.split_once('.'));
    let instructions: u64 = number.with_context(|| said.clone())?.0.parse()?;
    let step_back = steps_back(&mut gdb)?;
    // To where recording began, which is where the breakpoint is.
    let answer = gdb.run("-exec-continue --reverse")?;
    ensure!(answer.record.contains("func=\"begin\""), "back: {}", answer.record.trim_end());
    gdb.end()?;
    let back = answer.seconds * 1e6 / (instructions - STEPS as u64) as f64;
    Ok(Pace { instructions, slowdown: recording / native, step_back, back })
}

/// CPU time that gdb has used, in seconds.
fn used(gdb: &mut Gdb) -> Result<f64> {
    let said = gdb.console("python import time; print(time.process_time())")?.text;
    said.trim().parse().with_context(|| format!("gdb's CPU time: {said}"))
}

/// Whether rr could be beside them.
fn rr(folder: &Path) -> String {
    let mut command = Command::new("rr");
    command.args(["record", "true"]).env("_RR_TRACE_DIR", folder.join("rr"));
    match run(&mut command) {
        Err(_) => "rr is not installed".to_owned(),
        Ok(output) if output.status.success() => "rr runs here, and was not measured".to_owned(),
        Ok(output) => format!("rr does not run here, as it does not where there are no counters: {}", printed(&output)),
    }
}
