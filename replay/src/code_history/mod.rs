//! The versions of the code at an address: what they were, when each was first run, and what wrote it.
//!
//! A replay of the intervals in which the code picture has the address reports every run of the instruction there with
//! other bytes than at the run before, and for each byte what wrote it last. Where that lies before the interval, the
//! intervals before it are searched backwards.

mod display;
mod writers;

pub use writers::Writer;

use crate::disassembly::{self, Line};
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, Selection};
use crate::pool;
use crate::session::{LastWriter, Ran, Session, Stop};
use crate::symbols::Symbolizer;
use crate::tools::Tools;
use bugnet_format::types::{Addr, CodeSeq, Position, ProcessId, Tid};
use serde::Serialize;
use std::num::NonZeroUsize;
use writers::Writers;

/// Changes of one interval that are kept; a program that changes its code in every turn of a loop has many.
const KEPT: usize = 1000;

/// Where to look, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Address of an instruction.
    pub at: Addr,
    /// So many bytes from it on make a version, fewer if an instruction among them transfers control or stores; at most [`bugnet_format::control::MAX_WATCH`].
    pub len: u64,
    /// Only the process with this id; none if all processes but one have no code there.
    pub pid: Option<ProcessId>,
    /// Only as this thread ran it.
    pub tid: Option<Tid>,
}

/// The versions of the code at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct History {
    /// The address.
    pub at: Addr,
    /// The process.
    #[serde(flatten)]
    pub pid: ProcessId,
    /// In the order in which they were first run. A version that comes back is listed again.
    pub versions: Vec<Version>,
    /// How many more there are, which were too many to list.
    pub omitted: u64,
}

/// What the code was from one run on to the run of the next version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Where it was first run.
    #[serde(flatten)]
    pub interval: IntervalId,
    /// Instructions since the interval's start.
    pub position: Position,
    /// The number of the first version, from 1, that had the same bytes, if there was one.
    pub same_as: Option<usize>,
    /// Disassembled.
    pub code: Vec<Line>,
    /// Which of the bytes are others than in the version before, hexadecimal digits' index; all in the first.
    pub changed: Vec<usize>,
    /// What wrote those, each once, in the order of the bytes.
    pub written_by: Vec<Writer>,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// What one interval's replay has reported.
struct Watched {
    ran: Vec<Ran>,
    omitted: u64,
    writers: Vec<LastWriter>,
}

/// Replays an interval with a watch on the code; up to the end, or to where the log is cut off.
fn watch(tools: &Tools, log: &Log, id: IntervalId, query: Query) -> Result<Watched> {
    let mut session = Session::open(tools, log, id)?;
    session.watch(query.at, query.len)?;
    let mut ran = Vec::new();
    let mut omitted = 0;
    let stop = session.run_watching(Position(u64::MAX), &mut |run| {
        if ran.len() < KEPT { ran.push(run) } else { omitted += 1 }
    })?;
    if let Stop::Divergence { what, .. } = stop {
        return Err(session.diverged(what));
    }
    Ok(Watched { ran, omitted, writers: session.writers()? })
}

/// The intervals in which code at the address can have been run: those whose code picture has its page.
fn candidates(log: &Log, query: Query) -> Result<Vec<IntervalId>> {
    let selection = Selection { processes: query.pid.map(|pid| vec![pid]), tid: query.tid, intervals: None };
    let mut out = Vec::new();
    for id in selection.intervals_of(log)? {
        let code = log.code(id.thread.pid)?;
        let Some(page) = code.pages.iter().find(|page| page.addr == query.at.page()) else { continue };
        let next = log.intervals(id.thread)?.iter().find(|interval| **interval > id.interval);
        let at_end = match next {
            None => CodeSeq(u64::MAX),
            Some(&interval) => log.header(IntervalId { interval, ..id })?.code_seq,
        };
        if page.seq <= at_end {
            out.push(id);
        }
    }
    Ok(out)
}

/// Finds the versions of the code at an address.
///
/// # Errors
/// No code was ever run in the address's page, or in several processes; the log cannot be read or replayed.
pub fn code_history(tools: &Tools, log: &Log, query: Query, jobs: NonZeroUsize) -> Result<History> {
    let intervals = candidates(log, query)?;
    let Some(first) = intervals.first() else {
        return Err(ReplayError::OutOfRange(format!(
            "no code was run in the page of {} while it was recorded",
            query.at
        )));
    };
    let pid = first.thread.pid;
    if let Some(other) = intervals.iter().find(|id| id.thread.pid != pid) {
        let (a, b) = (pid, other.thread.pid);
        return Err(ReplayError::OutOfRange(format!(
            "processes {a} and {b} both ran code there: choose one with --process"
        )));
    }
    let mut events: Vec<(CodeSeq, u64, IntervalId, Ran)> = Vec::new();
    let mut omitted = 0;
    let mut writers = Writers::new(tools, log, query, Symbolizer::new(log, pid)?);
    pool::in_order(
        &intervals,
        jobs,
        |(): &mut (), id| watch(tools, log, *id, query),
        |id, watched| {
            let watched = watched?;
            let sequence = log.header(*id)?.sequence;
            events.extend(watched.ran.into_iter().map(|ran| (ran.seq, sequence, *id, ran)));
            omitted += watched.omitted;
            writers.known(*id, watched.writers);
            Ok(())
        },
    )?;
    // Of one thread, they are in order already. Versions that several threads ran have the code store's order.
    events.sort_by_key(|(seq, sequence, id, ran)| (*seq, *sequence, *id, ran.position));
    let mut versions: Vec<Version> = Vec::new();
    for (_, _, id, ran) in events {
        let before = versions.last();
        if before.is_some_and(|version| version.bytes == ran.bytes) {
            continue;
        }
        let changed = |index: &usize| before.is_none_or(|version| version.bytes.get(*index) != ran.bytes.get(*index));
        let changed: Vec<usize> = (0..ran.bytes.len()).filter(changed).collect();
        let version = Version {
            interval: id,
            position: Position(ran.position),
            same_as: versions.iter().position(|version| version.bytes == ran.bytes).map(|index| index + 1),
            code: disassembly::disassemble(query.at, &ran.bytes),
            written_by: writers.of(id, &ran, &changed)?,
            changed,
            bytes: ran.bytes,
        };
        versions.push(version);
    }
    Ok(History { at: query.at, pid, versions, omitted })
}
