//! What tells a run apart from right ones, by line: which lines only it executed, which values differ first, and where control parts.

use super::Options;
use super::illegal::shares_memory;
use super::near::Line;
use super::rank::{Reason, Table};
use super::report::Report;
use crate::delta::delta;
use crate::diff::diff;
use crate::runs::both::{BAD, Both, GOOD, Which};
use crate::runs::scene::Spot;
use bugnet_format::types::{IntervalNo, ProcessId, Tid};
use bugnet_replay::Result;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Places at which two runs part that are looked at.
const PARTED: usize = 3;
/// Threads in which values are compared: of those from which the failing value follows come first.
const THREADS: usize = 8;
/// Functions of which the memory is compared, and variables and kinds of blocks.
const FUNCTIONS: usize = 6;
const OBJECTS: usize = 20;

/// In which runs a line was executed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spectrum {
    /// Right runs that executed the line.
    pub passed: u32,
    /// Right runs.
    pub all: u32,
    /// Ochiai's coefficient, of one run that failed and these: from 0 to 1.
    pub ochiai: f64,
    /// Lines that as few right runs executed, or fewer.
    pub others: u32,
    /// DStar's with the exponent 2; none if no right run executed the line, where it is infinite.
    pub dstar: Option<f64>,
}

impl Spectrum {
    /// Of a line that the run that failed has executed.
    pub fn new(passed: u32, all: u32) -> Self {
        let ochiai = 1.0 / f64::from(1 + passed).sqrt();
        Self { passed, all, ochiai, others: 0, dstar: (passed > 0).then(|| 1.0 / f64::from(passed)) }
    }
}

/// Compares the run, up to an interval if there is one, with each right one.
///
/// # Errors
/// The logs are of different programs, or cannot be replayed.
pub fn find(
    (tools, log): (&Tools, &Log),
    pid: ProcessId,
    (options, until): (&Options<'_>, Option<IntervalNo>),
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    let mut failed: BTreeSet<Line> = BTreeSet::new();
    let mut passed: BTreeMap<Line, u32> = BTreeMap::new();
    for (number, good) in options.good.iter().enumerate() {
        let which = Which { logs: [good, log], bad: pid, own: &[], any_build: false, until };
        let mut both = Both::replay(tools, which, options.jobs)?;
        for side in [GOOD, BAD] {
            let symbols = &mut both.sides[side].symbols;
            let ran = both.executed[side].ran.keys().filter_map(|at| Line::of(&Spot::of(symbols, *at)));
            let lines: BTreeSet<Line> = ran.collect();
            if side == BAD {
                failed = lines;
            } else {
                lines.into_iter().for_each(|line| *passed.entry(line).or_default() += 1);
            }
        }
        if number == 0 {
            compare(&mut both, report, table)?;
        }
    }
    if let Some(good) = options.good.first()
        && shares_memory(log, pid)?
    {
        conflicts(tools, [good, log], pid, (report, table));
    }
    let all = options.good.len() as u32;
    if all > 0 {
        let times: Vec<u32> = failed.iter().map(|line| passed.get(line).copied().unwrap_or(0)).collect();
        for (line, passed) in failed.into_iter().zip(&times) {
            let others = times.iter().filter(|times| *times <= passed).count() as u32;
            let spectrum = Spectrum { others, ..Spectrum::new(*passed, all) };
            table.spectrum(&line, spectrum);
        }
    }
    Ok(())
}

/// Conflicting accesses that only this run has, of memory that functions used from which the failing value follows.
fn conflicts(tools: &Tools, logs: [&Log; 2], pid: ProcessId, (report, table): (&mut Report, &mut Table)) {
    let mut functions: Vec<String> = Vec::new();
    for function in report.chain.iter().filter_map(|step| step.function.clone()) {
        if !functions.contains(&function) && functions.len() < FUNCTIONS {
            functions.push(function);
        }
    }
    // It may not be known where the run failed, and the other one may not have come there.
    let Ok(found) = delta(tools, logs, pid, &functions, OBJECTS) else { return };
    for memory in &found.memory {
        for conflict in memory.conflicts.iter().filter(|conflict| conflict.is_only_bad()) {
            let name = conflict.part.clone().unwrap_or_else(|| memory.object.to_string());
            let by = if conflict.by_handler { "a signal's handler" } else { "another thread" };
            let text =
                format!("{by} accesses {name} in an order that a right run does not have ({})", conflict.pattern);
            for (spot, place) in conflict.spots.iter().zip(&conflict.places) {
                if let (Some(line), Ok(place)) = (Line::of(spot), place.parse()) {
                    let is_torn = conflict.pattern.len() == 3;
                    table.illegal(line, spot.function.clone(), place, Reason::OnlyHere { text: text.clone(), is_torn });
                }
            }
        }
    }
}

/// Where the runs part, and which values differ first.
fn compare(both: &mut Both<'_>, report: &mut Report, table: &mut Table) -> Result<()> {
    let all = both.threads.len();
    if all > THREADS {
        let of_chain: BTreeSet<Tid> = report.chain.iter().map(|step| step.place.tid).collect();
        both.threads.sort_by_key(|pair| !of_chain.contains(&pair[BAD]));
        both.threads.truncate(THREADS);
        report.notes.push(format!("Of {all} threads, {THREADS} were compared with those of a right run."));
    }
    let found = diff(both, PARTED)?;
    // Lines that only this run executed may be in no slice of it.
    for only in &found.only_bad.lines {
        if let (Some(line), Ok(place)) = (Line::of(&only.spot), only.position.parse()) {
            table.seen(line, only.spot.function.clone(), place);
        }
    }
    for threads in &found.threads {
        if let Some(value) = threads.values.first() {
            let name = value.variable.as_deref().unwrap_or("memory");
            let text = format!("the first value that differs from a right run is stored here, to {name}");
            if let (Some(line), Ok(place)) = (Line::of(&value.spot), value.bad.moment.position.parse()) {
                table.seen(line.clone(), value.spot.function.clone(), place);
                table.clues(line).differs = Some(text.clone());
            }
            report.differs.push(format!("{text}: {} ({})", value.spot, value.bad.moment.position));
        }
        if let Some(parted) = threads.first() {
            let text = "a right run goes another way here, the first time".to_owned();
            if let (Some(line), Ok(place)) = (Line::of(&parted.spot), parted.bad.moment.position.parse()) {
                table.seen(line.clone(), parted.spot.function.clone(), place);
                table.clues(line).parts = Some(text.clone());
            }
            report.differs.push(format!("{text}: {} ({})", parted.spot, parted.bad.moment.position));
        }
    }
    Ok(())
}
