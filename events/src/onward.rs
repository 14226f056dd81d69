//! Forwards through all that the threads of a process executed, in their recorded order.

use crate::ahead::{Ahead, Batch, Part};
use crate::code::{Block, Blocks};
use crate::stretch::{Ran, Stretch};
use crate::walk::{Between, Each, Happened, Visit, Visitor};
use bugnet_format::types::{Position, ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::looked::Suspect;
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
pub(crate) struct Present {
    blocks: Blocks,
    happened: Arc<Happened>,
}

/// Looks at what comes. Whoever traces it is told that nobody wants more by the end of `batches`.
pub(crate) fn look(batches: Receiver<Batch>, used: &Sender<Stretch>, visitor: &mut impl Visitor) -> Result<()> {
    let mut lanes: Vec<Present> = Vec::new();
    for (parts, error) in batches {
        let mut spare = 0;
        for part in parts {
            if Present::of(&mut lanes, &part).visit(&part, visitor).is_break() || visitor.has_enough() {
                return Ok(());
            }
            if let Some(stretch) = Arc::into_inner(part.stretch).filter(|_| spare < SPARE) {
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
    /// That of a part which comes next in its lane.
    pub fn of<'a>(lanes: &'a mut Vec<Self>, part: &Part) -> &'a mut Self {
        if lanes.len() <= part.lane {
            lanes.resize_with(part.lane + 1, Self::default);
        }
        let present = &mut lanes[part.lane];
        present.blocks.take(part.fresh.clone());
        if let Some(happened) = &part.happened {
            present.happened = happened.clone();
        }
        present
    }

    /// Visits what was executed in a part of a stretch.
    pub fn visit(&self, part: &Part, visitor: &mut impl Visitor) -> ControlFlow<()> {
        let Part { tid, interval, stretch, positions, suspects, .. } = part;
        let (tid, interval) = (*tid, *interval);
        visitor.executes(positions.end - positions.start);
        let happened = &*self.happened;
        let mut gaps = Gaps {
            happened,
            suspects,
            at: positions.start,
            place: |at| Place { tid, interval, position: Position(at) },
            stretch,
            blocks: &self.blocks,
        };
        let next_signal = |from: u64| {
            let next = happened.between.partition_point(|(position, ..)| *position < from);
            happened.between.get(next).map_or(u64::MAX, |(position, ..)| *position)
        };
        let mut signal = next_signal(positions.start);
        let mut index = stretch.holding(Position(positions.start));
        while index < stretch.len() {
            let ran = stretch.at(index, &self.blocks);
            let start = ran.position.0;
            if start >= positions.end {
                break;
            }
            let count = ran.block.instructions.len();
            let end = start + count as u64;
            if gaps.at < start {
                // In an outline.
                gaps.go_to(start, index, visitor)?;
            }
            index += 1;
            let is_next = gaps.suspects.first().is_some_and(|(suspect, _)| suspect.at < end);
            if start >= positions.start && end <= positions.end && end <= signal && !ran.block.is_skipped && !is_next {
                gaps.at = end;
                if visitor.passes(tid, &ran) {
                    continue;
                }
                // The place is made where it is needed: whoever copies what was just written in parts waits for that.
                let place = Place { tid, interval, position: ran.position };
                visitor.visit(Visit::Ran { place, ran: &ran, instructions: 0..count })?;
                continue;
            }
            let place = Place { tid, interval, position: ran.position };
            let mut from = positions.start.saturating_sub(start) as usize;
            let until = (positions.end.min(end) - start) as usize;
            while let Some((suspect, _)) =
                gaps.suspects.first().filter(|(suspect, _)| suspect.at < start + until as u64)
            {
                let here = (suspect.at - start) as usize;
                visit_parts(&ran, place, from..here, happened, &mut |visit| visitor.visit(visit))?;
                from = from.max(here);
                gaps.suspect(visitor)?;
            }
            visit_parts(&ran, place, from..until, happened, &mut |visit| visitor.visit(visit))?;
            gaps.at = gaps.at.max(start + until as u64);
            signal = next_signal(end.max(gaps.at));
        }
        gaps.go_to(positions.end, index, visitor)
    }
}

/// What happens where an outline has no blocks.
struct Gaps<'a, P> {
    happened: &'a Happened,
    /// Those that are still to come.
    suspects: &'a [(Suspect, Arc<Block>)],
    /// What comes before this position has been visited.
    at: u64,
    place: P,
    stretch: &'a Stretch,
    blocks: &'a Blocks,
}

impl<P: Fn(u64) -> Place> Gaps<'_, P> {
    fn suspect(&mut self, visitor: &mut impl Visitor) -> ControlFlow<()> {
        let Some(((suspect, block), rest)) = self.suspects.split_first() else { return ControlFlow::Continue(()) };
        self.suspects = rest;
        visitor.suspects((self.place)(suspect.at), suspect, block)
    }

    /// Visits what comes before a position, up to which there is no block but those before the one with this index.
    fn go_to(&mut self, until: u64, next: usize, visitor: &mut impl Visitor) -> ControlFlow<()> {
        let between = &self.happened.between;
        let first = between.partition_point(|(position, ..)| *position < self.at);
        for (position, what) in between[first..].iter().take_while(|(position, ..)| *position < until) {
            while self.suspects.first().is_some_and(|(suspect, _)| suspect.at < *position) {
                self.suspect(visitor)?;
            }
            self.run_untold(*position, next, visitor);
            visitor.visit(what.visit((self.place)(*position)))?;
        }
        while self.suspects.first().is_some_and(|(suspect, _)| suspect.at < until) {
            self.suspect(visitor)?;
        }
        self.run_untold(until, next, visitor);
        ControlFlow::Continue(())
    }

    /// Goes on to a position, to which no handler begins.
    fn run_untold(&mut self, until: u64, next: usize, visitor: &mut impl Visitor) {
        if self.at < until {
            let untold = self.stretch.untold(next, self.at..until, self.blocks);
            visitor.runs_untold((self.place)(self.at), &untold);
            self.at = until;
        }
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
    let mut part = |from: usize, until: usize, between: Option<Between>| {
        if from < until {
            match ran.block.is_skipped.then(|| happened.did.get(&ran.position.0)).flatten() {
                Some(did) => visit(Visit::Skipped { place: at(from), ran, did })?,
                None => visit(Visit::Ran { place: at(from), ran, instructions: from..until })?,
            }
        }
        match between {
            Some(between) => visit(between.visit(at(until))),
            None => ControlFlow::Continue(()),
        }
    };
    let between = &happened.between;
    let mut done = instructions.start;
    let first = between.partition_point(|(position, ..)| *position < at(done).position.0);
    for (position, what) in &between[first..] {
        let begin = (position - place.position.0) as usize;
        if begin >= instructions.end {
            break;
        }
        part(done, begin, Some(*what))?;
        done = begin;
    }
    part(done, instructions.end, None)
}
