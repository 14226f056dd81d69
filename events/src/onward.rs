//! Forwards through all that the threads of a process executed, in their recorded order.

use crate::ahead::{Ahead, Batch, Part};
use crate::code::Blocks;
use crate::stretch::{Ran, Stretch};
use crate::walk::{Each, Happened, Visit, Visitor};
use bugnet_format::types::{IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use bugnet_replay::{ReplayError, Result};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

/// Stretches that wait to be used again; memory of others is freed.
const SPARE: usize = 8;

/// Goes on from a place to the end of the log, or until `visit` ends it. The instruction at the place is the first. What is `wanted` stands in
/// the blocks that ran ([`Ran::register`], [`crate::calls`]).
///
/// # Errors
/// The log does not hold the place, or cannot be read, replayed or traced; its order contradicts itself.
pub fn walk_on(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    from: Place,
    wanted: &Arc<Wanted>,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> Result<()> {
    walk_with(tools, log, pid, from, wanted, &mut Each(visit))
}

/// The same, for somebody who passes over most blocks.
///
/// # Errors
/// As [`walk_on`].
pub fn walk_with(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    from: Place,
    wanted: &Arc<Wanted>,
    visitor: &mut impl Visitor,
) -> Result<()> {
    walk_behind(tools, log, pid, (from, &[]), wanted, visitor)
}

/// What a thread does comes behind what another one does, though no record says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The thread.
    pub tid: Tid,
    /// How many instructions it has executed, since the beginning of its recording, before the one that comes behind.
    pub at: u64,
    /// The other one.
    pub other: Tid,
    /// How many that one has executed then.
    pub until: u64,
}

/// The same, in an order of the threads that agrees with more than the records say.
///
/// # Errors
/// As [`walk_on`]; what is said contradicts the records.
pub fn walk_behind(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    (from, behind): (Place, &[Behind]),
    wanted: &Arc<Wanted>,
    visitor: &mut impl Visitor,
) -> Result<()> {
    let start = IntervalId { thread: ThreadId { pid, tid: from.tid }, interval: from.interval };
    let first = log.header(start)?.epoch;
    // One is looked at, one waits, and one is made.
    let (sender, batches) = sync_channel(1);
    let (used, spare) = channel();
    std::thread::scope(|scope| {
        let ahead = Ahead::new((tools, log, pid, wanted), behind, (sender, spare));
        std::thread::Builder::new()
            .name("ahead".into())
            .spawn_scoped(scope, move || ahead.trace(from, first))
            .map_err(ReplayError::system("start a thread"))?;
        look(batches, &used, visitor)
    })
}

/// What is known of a tracer, and the thread whose it is.
#[derive(Default)]
struct Present {
    blocks: Blocks,
    happened: Happened,
}

/// Looks at what comes. Whoever traces it is told that nobody wants more by the end of `batches`.
fn look(batches: Receiver<Batch>, used: &Sender<Stretch>, visitor: &mut impl Visitor) -> Result<()> {
    let mut lanes: Vec<Present> = Vec::new();
    for (parts, error) in batches {
        let mut spare = 0;
        for part in parts {
            let Part { tid, interval, lane, fresh, happened, stretch, positions } = part;
            if lanes.len() <= lane {
                lanes.resize_with(lane + 1, Present::default);
            }
            let present = &mut lanes[lane];
            present.blocks.take(fresh);
            if let Some(happened) = happened {
                present.happened = happened;
            }
            if present.visit(tid, interval, &stretch, positions, visitor).is_break() {
                return Ok(());
            }
            if let Some(stretch) = Arc::into_inner(stretch).filter(|_| spare < SPARE) {
                spare += 1;
                // Who traces may have come to the end.
                let _ = used.send(stretch);
            }
        }
        error.map_or(Ok(()), Err)?;
    }
    Ok(())
}

impl Present {
    /// Visits what was executed in a part of a stretch.
    fn visit(
        &self,
        tid: Tid,
        interval: IntervalNo,
        stretch: &Stretch,
        positions: Range<u64>,
        visitor: &mut impl Visitor,
    ) -> ControlFlow<()> {
        let delivered = &self.happened.delivered;
        let next = |from: u64| delivered.partition_point(|(position, ..)| *position < from);
        let signal_at = |from: u64| delivered.get(next(from)).map_or(u64::MAX, |(position, ..)| *position);
        let mut signal = signal_at(positions.start);
        for index in stretch.holding(Position(positions.start))..stretch.len() {
            let ran = stretch.at(index, &self.blocks);
            let start = ran.position.0;
            if start >= positions.end {
                break;
            }
            let count = ran.block.instructions.len();
            let end = start + count as u64;
            if start >= positions.start && end <= positions.end && end <= signal && !ran.block.is_skipped {
                if visitor.passes(tid, &ran) {
                    continue;
                }
                // The place is made where it is needed: whoever copies what was just written in parts waits for that.
                let place = Place { tid, interval, position: ran.position };
                visitor.visit(Visit::Ran { place, ran: &ran, instructions: 0..count })?;
                continue;
            }
            let from = positions.start.saturating_sub(start) as usize;
            let until = (positions.end.min(end) - start) as usize;
            let place = Place { tid, interval, position: ran.position };
            visit_parts(&ran, place, from..until, &self.happened, &mut |visit| visitor.visit(visit))?;
            signal = signal_at(end);
        }
        ControlFlow::Continue(())
    }
}

/// Visits instructions of a block; handlers that begin at one of them come before that.
fn visit_parts(
    ran: &Ran<'_>,
    place: Place,
    instructions: Range<usize>,
    happened: &Happened,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let at = |index: usize| Place { position: Position(place.position.0 + index as u64), ..place };
    let mut part = |from: usize, until: usize, signal: Option<(u64, u64)>| {
        if from < until {
            match ran.block.is_skipped.then(|| happened.did.get(&ran.position.0)).flatten() {
                Some(did) => visit(Visit::Skipped { place: at(from), ran, did })?,
                None => visit(Visit::Ran { place: at(from), ran, instructions: from..until })?,
            }
        }
        match signal {
            Some((signal, frame)) => visit(Visit::Delivered { place: at(until), signal, frame }),
            None => ControlFlow::Continue(()),
        }
    };
    let delivered = &happened.delivered;
    let mut done = instructions.start;
    let first = delivered.partition_point(|(position, ..)| *position < at(done).position.0);
    for (position, signal, frame) in &delivered[first..] {
        let begin = (position - place.position.0) as usize;
        if begin >= instructions.end {
            break;
        }
        part(done, begin, Some((*signal, *frame)))?;
        done = begin;
    }
    part(done, instructions.end, None)
}
