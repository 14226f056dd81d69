//! Forwards through all that the threads of a process executed, in their recorded order.

use crate::code::Blocks;
use crate::stretch::{Ran, Stretch};
use crate::walk::{Happened, Run, Visit, epochs_of, runs_of};
use bugnet_format::types::{IntervalNo, Position, ProcessId};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::order::{OrderedThread, Threads};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Tracer;
use bugnet_replay::{ReplayError, Result};
use std::ops::ControlFlow;

/// The interval in which a thread is.
struct Present {
    number: IntervalNo,
    tracer: Tracer,
    blocks: Blocks,
    happened: Happened,
}

/// Goes on from a place to the end of the log, or until `visit` ends it. The instruction at the place is the first.
///
/// # Errors
/// The log does not hold the place, or cannot be read, replayed or traced; its order contradicts itself.
pub fn walk_on(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    from: Place,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let start = IntervalId { thread: ThreadId { pid, tid: from.tid }, interval: from.interval };
    let first = log.header(start)?.epoch;
    for epoch in epochs_of(log, pid)?.into_iter().filter(|epoch| *epoch >= first) {
        let (threads, mut runs) = runs_of(log, pid, epoch)?;
        if epoch == first {
            cut(&mut runs, &threads, from);
        }
        let mut present: Vec<Option<Present>> = threads.threads.iter().map(|_| None).collect();
        for run in runs {
            let (thread, present) = (&threads.threads[run.thread], &mut present[run.thread]);
            if go(tools, log, thread, present, &run, visit)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Goes on through a run of a thread.
fn go(
    tools: &Tools,
    log: &Log,
    thread: &OrderedThread,
    present: &mut Option<Present>,
    run: &Run,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let mut at = run.counts.start;
    while at < run.counts.end {
        let (number, position) = thread.place(at);
        let id = IntervalId { thread: thread.id, interval: number };
        if present.as_ref().is_none_or(|present| present.number != number) {
            let interval = log.interval(id)?;
            let before = present.take().map(|present| present.tracer);
            let mut tracer = Tracer::start(tools, log, id, &interval, before)?;
            let mut blocks = Blocks::default();
            while tracer.position() < position {
                let Some(chunk) = tracer.next(position)? else { break };
                blocks.learn(&chunk);
            }
            *present = Some(Present { number, tracer, blocks, happened: Happened::of(&interval) });
        }
        let Some(Present { tracer, blocks, happened, .. }) = present else { break };
        let until = Position(position.0 + (run.counts.end - at));
        let Some(chunk) = tracer.next(until)? else {
            return Err(ReplayError::OutOfRange(format!("{id} has no instruction {position}")));
        };
        blocks.learn(&chunk);
        let stretch = Stretch::of(&chunk, blocks);
        at += stretch.end().0 - stretch.first().0;
        for ran in stretch.ran(blocks) {
            let place = Place { tid: thread.id.tid, interval: number, position: ran.position };
            if visit_block(&ran, place, happened, visit).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Visits a block; handlers that begin at one of its instructions come before that.
fn visit_block(
    ran: &Ran<'_>,
    place: Place,
    happened: &Happened,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let count = ran.block.instructions.len();
    let at = |index: usize| Place { position: Position(place.position.0 + index as u64), ..place };
    let part = |from: usize, until: usize, visit: &mut dyn FnMut(Visit<'_>) -> ControlFlow<()>| {
        if from == until {
            return ControlFlow::Continue(());
        }
        match ran.block.traced.skipped.then(|| happened.did.get(&ran.position.0)).flatten() {
            Some(did) => visit(Visit::Skipped { place: at(from), ran: *ran, did }),
            None => visit(Visit::Ran { place: at(from), ran: *ran, instructions: from..until }),
        }
    };
    let delivered = &happened.delivered;
    let first = delivered.partition_point(|(position, ..)| *position < place.position.0);
    let mut done = 0;
    for (position, signal, frame) in &delivered[first..] {
        let begin = (position - place.position.0) as usize;
        if begin >= count {
            break;
        }
        part(done, begin, visit)?;
        done = begin;
        visit(Visit::Delivered { place: at(begin), signal: *signal, frame: *frame })?;
    }
    part(done, count, visit)
}

/// Leaves out what comes before a place.
fn cut(runs: &mut Vec<Run>, threads: &Threads, from: Place) {
    let Some(thread) = threads.threads.iter().position(|thread| thread.id.tid == from.tid) else { return };
    let interval = threads.threads[thread].intervals.iter().find(|interval| interval.number == from.interval);
    let Some(at) = interval.map(|interval| interval.before.saturating_add(from.position.0)) else { return };
    if let Some(first) = runs.iter().position(|run| run.thread == thread && run.counts.contains(&at)) {
        runs.drain(..first);
        runs[0].counts.start = at;
    } else {
        // It is at the thread's end.
        let last = runs.iter().rposition(|run| run.thread == thread).map_or(0, |last| last + 1);
        runs.drain(..last);
    }
}
