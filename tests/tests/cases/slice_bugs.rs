//! For programs with real classes of faults, the line of the fault is in the slice from the failure, which is a part of what was executed.
//!
//! For each program it prints which place the line has among the program's own lines in the slice, the last one first, and how large the
//! slices are against all that was executed.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run};
use bugnet_tests::sample::one_of;
use bugnet_tests::slices::bugs::{Faulty, Kind};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Instructions of which a thin slice may be a large part.
const SHORT: u64 = 1000;

/// Each once, in their order.
fn each_once(lines: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    lines.filter(|line| seen.insert(*line)).collect()
}

/// The lines of the program's own source that were executed at all.
fn executed(faulty: &Faulty, log: &Path) -> Result<Vec<u32>> {
    let output = must_pass(&["stats", "--json", "--top", "1000000"], log)?;
    let stats: Value = serde_json::from_slice(&output.stdout)?;
    let lines = stats["hottest"]["lines"].as_array().context("no lines")?.iter();
    let start = format!("{}:", faulty.source.display());
    Ok(each_once(lines.filter_map(|line| {
        let (number, _) = line["name"].as_str()?.strip_prefix(&start)?.split_once(' ')?;
        number.parse().ok()
    })))
}

/// What the slice of the failure says.
struct Found {
    lines: Vec<u32>,
    executed: u64,
    walked: u64,
}

impl Found {
    fn new(faulty: &Faulty, question: &[&str], log: &Path) -> Result<Self> {
        let output = must_pass(&[&["slice", "--json", "--lines", "0"], question].concat(), log)?;
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let count = |name: &str| report["counts"][name].as_u64().context("no count");
        let lines = report["lines"].as_array().context("no lines")?.iter();
        let is_own = |line: &&Value| line["file"].as_str().is_some_and(|file| Path::new(file) == faulty.source);
        let numbers = lines.filter(is_own).filter_map(|line| u32::try_from(line["line"].as_u64()?).ok());
        Ok(Self { lines: each_once(numbers), executed: count("executed")?, walked: count("walked")? })
    }

    /// The line's place, from 1.
    fn rank(&self, line: u32) -> Option<usize> {
        Some(self.lines.iter().position(|other| *other == line)? + 1)
    }

    fn shown(&self, line: u32, all: usize) -> String {
        let rank = self.rank(line).map_or("-".to_owned(), |rank| rank.to_string());
        format!("line {rank} of {} of {all}, {} of {} instructions", self.lines.len(), self.executed, self.walked)
    }
}

fn check(faulty: &Faulty, optimisation: &str) -> Result<()> {
    let name = format!("{}-{}", faulty.name(), &optimisation[1..]);
    let kind = if optimisation == "-O0" { faulty.plain } else { faulty.optimised };
    let workshop = Workshop::new(&format!("slice-bugs-{name}"))?;
    let [program, repaired] = faulty.build(optimisation, &workshop.path)?;
    let job = |program: &Path| Job::new(&workshop.path, [program.to_string_lossy()]);
    let right = run(&mut job(&repaired).native()?)?;
    ensure!(right.status.success(), "repaired, it is still wrong\n{}", printed(&right));
    let log = workshop.path.join("log");
    let failed = run(&mut job(&program).recorded(&log, &[])?)?;
    let question = faulty.question(&failed, &right)?;
    let question: Vec<&str> = question.iter().map(String::as_str).collect();

    let executed = executed(faulty, &log)?;
    let thin = Found::new(faulty, &question, &log)?;
    let full = Found::new(faulty, &[&question[..], &["--full=all"]].concat(), &log)?;
    let line = faulty.line;
    println!("{name}: thin: {}; full: {}", thin.shown(line, executed.len()), full.shown(line, executed.len()));
    let is_in = |found: &Found| found.rank(line).is_some();
    match kind {
        Kind::Thin => ensure!(is_in(&thin), "line {line} is not in the thin slice, which has {:?}", thin.lines),
        Kind::Full => ensure!(is_in(&full), "line {line} is not in the full slice, which has {:?}", full.lines),
        Kind::Gone => ensure!(!is_in(&full), "line {line} is not gone, but in the slice {:?}", full.lines),
    }
    ensure!(thin.lines.len() < executed.len(), "all lines are in the thin slice: {:?}", thin.lines);
    ensure!(
        thin.executed * 10 < thin.walked.max(SHORT),
        "{} of {} instructions are in the thin slice",
        thin.executed,
        thin.walked
    );
    ensure!(thin.executed <= full.executed, "the thin slice is not in the full one");
    ensure!(thin.lines.iter().all(|line| full.lines.contains(line)), "the thin slice is not in the full one");
    for other in &faulty.others {
        ensure!(executed.contains(other) || optimisation != "-O0", "line {other} is not executed");
        ensure!(!thin.lines.contains(other), "line {other} has nothing to do with it, but is in the thin slice");
    }
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for faulty in Faulty::all()? {
        for optimisation in ["-O0", "-O2"] {
            let faulty = faulty.clone();
            let name = format!("{}{optimisation}", faulty.name());
            let failed = |error: anyhow::Error| Failed::from(format!("{error:?}"));
            trials.push(Trial::test(name, move || check(&faulty, optimisation).map_err(failed)));
        }
    }
    Ok(one_of(4, trials))
}
