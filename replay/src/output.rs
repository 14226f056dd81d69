//! What the program wrote to its standard output and error, byte for byte, from replayed memory.

mod turns;

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, Selection, ThreadId};
use crate::pool;
use crate::session::{Counts, Session, Stop};
use crate::tools::Tools;
use crate::verify::{Divergence, IntervalReport, Outcome, cut_off, diverged};
use bugnet_format::complete::{Gap, Mentions};
use bugnet_format::frame::Interval;
use bugnet_format::record::{OutputStream, Record};
use bugnet_format::types::{Position, ProcessId};
use std::num::NonZeroUsize;
use turns::{Turns, in_order};

/// A piece of output: one system call's, or part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Instructions that the thread had executed before the system call, since recording began.
    pub at: u64,
    /// Where it went.
    pub stream: OutputStream,
    /// What was written.
    pub bytes: Vec<u8>,
}

/// What was wrong while output was recovered.
#[derive(Debug)]
pub struct Report {
    /// The intervals that are damaged, went another way than recorded, or could not be replayed: their output may lack
    /// something.
    pub failures: Vec<IntervalReport>,
    /// What the log lacks of the selected processes.
    pub gaps: Vec<Gap>,
}

/// Hands `sink` what the selected intervals wrote, in order: process by process, and within each in the order of its
/// threads that their dependencies tell. Of a log that keeps only the last intervals of a thread, only what they wrote.
/// Intervals are replayed `jobs` at a time, those without output not at all. One that is damaged or goes wrong does not stop
/// the others: what can be had of its output is handed on, and the rest stands in the report.
///
/// # Errors
/// Nothing is selected, the threads' dependencies cannot be read, the installation lacks something, or `sink` fails, with
/// [`ReplayError::Sink`] from it.
pub fn write_output(
    tools: &Tools,
    log: &Log,
    selection: &Selection,
    jobs: NonZeroUsize,
    mut sink: impl FnMut(&Piece) -> std::io::Result<()>,
) -> Result<Report> {
    let selected = in_time_order(log, selection.intervals_of(log)?)?;
    let mut turns = Turns::new(log, &selected)?;
    let mut sink = |piece: &Piece| sink(piece).map_err(ReplayError::Sink);
    let (mut failures, mut mentions) = (Vec::new(), Mentions::default());
    pool::in_order(
        &selected,
        jobs,
        |session, id| {
            let mut said = Mentions::default();
            (interval_output(tools, log, *id, session, &mut said), said)
        },
        |id, ((pieces, result), said)| {
            mentions.add(said);
            turns.take(id.thread, pieces, &mut sink)?;
            let outcome = match result {
                Err(fault @ ReplayError::ToolMissing { .. }) => return Err(fault),
                Err(error) => Some(Outcome::of(&error)),
                Ok(outcome) => outcome,
            };
            failures.extend(outcome.map(|outcome| IntervalReport { id: *id, outcome, counts: Counts::default() }));
            Ok(())
        },
    )?;
    Ok(Report { failures, gaps: selection.gaps(log, &mentions)? })
}

/// The last `limit` bytes that a process wrote up to the end of the log, in order: pieces of both streams, the first
/// shortened if need be. Replays only as many intervals as that takes, from the last backwards.
///
/// # Errors
/// An interval cannot be read or replayed, or diverges.
pub fn output_tail(tools: &Tools, log: &Log, selection: &Selection, limit: usize) -> Result<Vec<Piece>> {
    output_before(tools, log, selection, limit, |_| u64::MAX)
}

/// The same up to where each thread has executed so many instructions, since its recording began.
///
/// # Errors
/// As for [`output_tail`].
pub fn output_before(
    tools: &Tools,
    log: &Log,
    selection: &Selection,
    limit: usize,
    executed: impl Fn(ThreadId) -> u64,
) -> Result<Vec<Piece>> {
    let ids = in_time_order(log, selection.intervals_of(log)?)?;
    let (mut tail, mut found) = (Vec::new(), 0);
    let mut last: Option<IntervalId> = None;
    for &id in ids.iter().rev() {
        // Of what threads wrote at the same time, the order has to be known before its end can be.
        let same_time = |last: IntervalId| Ok::<_, ReplayError>(log.header(last)?.epoch == log.header(id)?.epoch);
        let beside = last.filter(|last| last.thread.pid == id.thread.pid && has_several(&ids, id.thread.pid));
        if found >= limit && !beside.map_or(Ok(false), same_time)? {
            break;
        }
        last = Some(id);
        let executed = executed(id.thread);
        if executed < u64::MAX && log.header(id)?.instructions_before >= executed {
            continue;
        }
        let (pieces, result) = interval_output(tools, log, id, &mut None, &mut Mentions::default());
        if let Some(Outcome::Divergence(divergence)) = result? {
            let Divergence { position, what, .. } = *divergence;
            return Err(ReplayError::Diverged { interval: id, position, what });
        }
        for piece in pieces.into_iter().rev().filter(|piece| piece.at < executed) {
            found += piece.bytes.len();
            tail.push((id, piece));
        }
    }
    tail.reverse();
    let mut pieces = in_order(log, tail)?;
    // The first ones go, or a part of one.
    let mut over = found.saturating_sub(limit);
    pieces.retain_mut(|piece| {
        let gone = over.min(piece.bytes.len());
        piece.bytes.drain(..gone);
        over -= gone;
        !piece.bytes.is_empty()
    });
    Ok(pieces)
}

/// Whether intervals are those of several threads of a process.
fn has_several(ids: &[IntervalId], pid: ProcessId) -> bool {
    let mut of_process = ids.iter().filter(|id| id.thread.pid == pid);
    of_process.next().is_some_and(|first| of_process.any(|id| id.thread != first.thread))
}

/// Orders intervals by when their process began, and those of a process by when they began.
fn in_time_order(log: &Log, mut ids: Vec<IntervalId>) -> Result<Vec<IntervalId>> {
    if ids.iter().any(|id| id.thread != ids[0].thread) {
        let processes: Vec<_> = log.processes()?.into_iter().map(|(id, _)| id).collect();
        let mut keyed = Vec::new();
        for id in ids {
            let process = processes.iter().position(|process| *process == id.thread.pid);
            // Damage is for whoever reads the interval to report.
            keyed.push((process, log.header(id).map_or(u64::MAX, |header| header.sequence), id));
        }
        keyed.sort();
        ids = keyed.into_iter().map(|(.., id)| id).collect();
    }
    Ok(ids)
}

/// What an interval wrote, up to where something is wrong, and what that is. `last` is the session of an interval before
/// and becomes that of this one; `said` is what its records say of other parts of the log.
fn interval_output(
    tools: &Tools,
    log: &Log,
    id: IntervalId,
    last: &mut Option<Session>,
    said: &mut Mentions,
) -> (Vec<Piece>, Result<Option<Outcome>>) {
    let mut pieces = Vec::new();
    let result = log.interval(id).and_then(|interval| {
        *said = Mentions::of(id.thread.pid, &interval);
        collect(tools, log, id, &interval, last, &mut pieces)
    });
    (pieces, result)
}

fn collect(
    tools: &Tools,
    log: &Log,
    id: IntervalId,
    interval: &Interval,
    session: &mut Option<Session>,
    pieces: &mut Vec<Piece>,
) -> Result<Option<Outcome>> {
    // Positions of the calls that wrote, and how many bytes each.
    let mut calls: Vec<(Position, u64)> = Vec::new();
    let mut end = Position(0);
    for placed in interval.records().flatten() {
        end = placed.position;
        if let Some(len) = written(&placed.record) {
            calls.push((placed.position, len));
        }
    }
    let damage = if interval.complete { None } else { Some(cut_off(log, id, interval, end)?) };
    let damage = damage.filter(|outcome| !outcome.is_exact());
    let Some(&(last, _)) = calls.last() else { return Ok(damage) };
    let started = Session::start_behind(session.take(), tools, log, id, interval)?;
    let session = session.insert(started);
    let before = interval.header.instructions_before;
    let mut calls = calls.into_iter().peekable();
    let mut sink = |stream, bytes: &[u8]| {
        while calls.next_if(|(_, left)| *left == 0).is_some() {}
        let Some((position, left)) = calls.peek_mut() else { return };
        *left = left.saturating_sub(bytes.len() as u64);
        pieces.push(Piece { at: before.saturating_add(position.0), stream, bytes: bytes.to_vec() });
    };
    let stop = session.run_to_with_output(Position(last.0 + 1), &mut sink)?;
    match stop {
        Stop::Divergence { what, expected } => diverged(log, session, what, expected).map(Some),
        _ => Ok(damage),
    }
}

/// How many bytes a record says that were written to standard output or error; `None` for no such record.
fn written(record: &Record<'_>) -> Option<u64> {
    match record {
        Record::Syscall { stream: OutputStream::Stdout | OutputStream::Stderr, result, .. } => {
            Some(u64::try_from(*result).unwrap_or(0))
        }
        _ => None,
    }
}
