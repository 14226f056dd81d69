//! Replay of all threads of a process together, on one memory, in one order.

mod places;

use crate::error::Result;
use crate::log::Log;
use crate::order::{OrderedThread, Window};
use crate::patches;
use crate::process::Process;
use crate::stretch::Stretch;
use crate::tools::Tools;
use bugnet_format::control::{
    CompareCounts, Comparison, Conflict, Counts, Explanation, Hits, Request, Response, Stop, Target,
};
use bugnet_format::regs::RegisterDifference;
use bugnet_format::types::{IntervalNo, Position, ProcessId, Tid};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// Most conflicts that are printed.
const SHOWN: usize = 16;

/// What a merged replay found.
#[derive(Debug, Serialize)]
pub struct MergedReport {
    /// The process.
    #[serde(flatten)]
    pub pid: ProcessId,
    /// Its threads, as far as they take part.
    pub threads: usize,
    /// Where it began, and what it left out.
    pub window: Window,
    /// What was executed.
    #[serde(flatten, with = "CountsDef")]
    pub executed: Counts,
    /// What was compared.
    #[serde(with = "CompareCountsDef")]
    pub counts: CompareCounts,
    /// Reads that the order does not explain.
    pub conflicts: Vec<ConflictReport>,
    /// Why it ended early, if it did.
    pub failure: Option<FailureReport>,
}

#[derive(Serialize)]
#[serde(remote = "Counts")]
struct CountsDef {
    instructions: u64,
    loads: u64,
    checks: u64,
}

#[derive(Serialize)]
#[serde(remote = "CompareCounts")]
struct CompareCountsDef {
    segments: u64,
    explained: u64,
    unwritten: u64,
    system: u64,
    outside: u64,
    unknown: u64,
    conflicts: u64,
}

/// A place in a thread's execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The thread.
    pub tid: Tid,
    /// The interval.
    pub interval: IntervalNo,
    /// Instructions since its start.
    pub position: Position,
    /// Address of the instruction there, and function and source line as far as known.
    pub code: Option<String>,
}

/// A read that found other bytes than the order of the threads explains.
#[derive(Debug, Serialize)]
pub struct ConflictReport {
    /// Address of the first byte that differs.
    pub addr: u64,
    /// What the thread read, in hexadecimal.
    pub recorded: String,
    /// What memory held in the merged order.
    pub found: String,
    /// The read.
    pub reader: Place,
    /// The last write before it in the merged order.
    pub writer: Place,
}

/// Why a merged replay ended early.
#[derive(Debug, Serialize)]
pub struct FailureReport {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// Registers that differ from the recorded ones, where these are known.
    pub differences: Vec<RegisterDifference>,
}

impl MergedReport {
    /// Whether all threads ran to their recorded ends, and the order explains all that they read.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counts.conflicts == 0 && self.failure.is_none()
    }
}

/// Replays all threads of a process in one order, from the first epoch on of which the log has all.
///
/// # Errors
/// The log does not hold the process, its dependencies contradict each other, or the replay process cannot be started or
/// is lost.
pub fn replay_merged(tools: &Tools, log: &Log, pid: ProcessId) -> Result<MergedReport> {
    let window = Window::of(log, pid)?;
    let stretch = Stretch::read(log, pid, &window)?;
    let mut found = run(&mut stretch.start(tools, log)?, Explanation::Quick, stretch.rooms())?;
    if found.comparison.is_open {
        found = run(&mut stretch.start(tools, log)?, Explanation::Full, Vec::new())?;
    }
    let Run { executed, comparison, failure } = found;
    let threads = stretch.threads;
    let first = &threads.threads[0];
    let thread = |index: usize| threads.threads.get(index).unwrap_or(first);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let mut counts = comparison.counts;
    // The one order may have a child's parent elsewhere than between a write and a read between which the child wrote.
    let (of_children, conflicts): (Vec<_>, Vec<_>) = comparison.conflicts.iter().partition(|conflict| {
        let Conflict { writer, writer_at, reader, reader_at, .. } = **conflict;
        threads.may_be_of_child((writer, writer_at), (reader, reader_at))
    });
    counts.conflicts = counts.conflicts.saturating_sub(of_children.len() as u64);
    counts.system += of_children.len() as u64;
    let conflicts = conflicts.into_iter().map(|conflict| ConflictReport {
        addr: conflict.addr,
        recorded: hex(&conflict.recorded),
        found: hex(&conflict.found),
        reader: place(thread(conflict.reader), conflict.reader_at),
        writer: place(thread(conflict.writer), conflict.writer_at),
    });
    let mut conflicts: Vec<_> = conflicts.collect();
    let failure = failure.map(|Failure { thread: index, at, what, differences }| FailureReport {
        place: place(thread(index), at),
        what,
        differences,
    });
    let threads = threads.threads.len();
    places::name(tools, log, pid, &mut conflicts)?;
    Ok(MergedReport { pid, threads, window, executed, counts, conflicts, failure })
}

/// What came of a run of all threads.
struct Run {
    executed: Counts,
    comparison: Comparison,
    failure: Option<Failure>,
}

/// Why a run ended early.
struct Failure {
    /// Index of the thread that could not go on.
    thread: usize,
    /// Instructions that it had executed since its recording began.
    at: u64,
    what: String,
    differences: Vec<RegisterDifference>,
}

/// Runs all threads to their ends, and compares what each of them reads.
fn run(process: &mut Process, explain: Explanation, rooms: Vec<u64>) -> Result<Run> {
    patches::compare(process, explain, rooms)?;
    process.send(&Request::RunTo { target: Target::End, hits: Hits::Ignore, output: false })?;
    let (executed, failure) = match process.receive()? {
        Response::Stopped { stop: Stop::Divergence { what, expected }, thread, at, regs, counts, .. } => {
            let differences = expected.map(|expected| expected.differences(&regs)).unwrap_or_default();
            (counts, Some(Failure { thread: thread as usize, at, what, differences }))
        }
        Response::Stopped { stop: Stop::End | Stop::CutOff, counts, .. } => (counts, None),
        other => return Err(process.unexpected(&other)),
    };
    process.send(&Request::Compared)?;
    match process.receive()? {
        Response::Compared(comparison) => Ok(Run { executed, comparison: *comparison, failure }),
        other => Err(process.unexpected(&other)),
    }
}

fn place(thread: &OrderedThread, at: u64) -> Place {
    let (interval, position) = thread.place(at);
    Place { tid: thread.id.tid, interval, position, code: None }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} interval {} instruction {}", self.tid, self.interval, self.position)?;
        self.code.as_ref().map_or(Ok(()), |code| write!(f, ", {code}"))
    }
}

impl fmt::Display for MergedReport {
    /// What is not exact (of many conflicts, some), and last lines that sum up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One of each kind: the others are, most often, the next rounds of the same.
        let mut shown = BTreeSet::new();
        for ConflictReport { addr, recorded, found, reader, writer } in &self.conflicts {
            if shown.len() < SHOWN && shown.insert((&reader.code, &writer.code)) {
                writeln!(f, "conflict at {addr:#x}: {reader}\n  read {recorded}")?;
                writeln!(f, "  but memory held {found}, as last written by {writer}")?;
            }
        }
        let more = self.counts.conflicts.saturating_sub(shown.len() as u64);
        if more > 0 {
            writeln!(f, "and {more} more")?;
        }
        if let Some(FailureReport { place, what, .. }) = &self.failure {
            writeln!(f, "divergence: {place}: {what}")?;
        }
        let Counts { instructions, loads, .. } = self.executed;
        let CompareCounts { segments, explained, unwritten, system, outside, unknown, conflicts } = self.counts;
        let (threads, window) = (self.threads, self.window);
        write!(f, "{window}")?;
        writeln!(f, "{threads} threads, {instructions} instructions in {segments} segments")?;
        writeln!(f, "{loads} recorded loads, {explained} of them found in the memory of all threads")?;
        writeln!(
            f,
            "{} reads from outside: {unwritten} of what was there before, {system} of what system calls wrote, {outside} others",
            unwritten + system + outside
        )?;
        if unknown > 0 {
            writeln!(
                f,
                "{unknown} reads that come after what the log does not hold, as it was cut off, cannot be explained"
            )?;
        }
        let exact = if self.failure.is_some() {
            "the merged replay did not reach its end"
        } else if conflicts > 0 {
            "not the order of the recording"
        } else if unknown > 0 {
            "every other read is explained"
        } else {
            "every read is explained"
        };
        write!(f, "{conflicts} conflicts: {exact}")
    }
}
