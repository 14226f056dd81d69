//! Since when a thread that did not end executed nothing but what it executes at the end: what comes later tells nothing new, and may be
//! billions of instructions.

use super::ran::LastRuns;
use bugnet_events::code::Blocks;
use bugnet_events::stream::{Analysis, run};
use bugnet_format::frame::Interval;
use bugnet_format::types::ProcessId;
use bugnet_replay::Result;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Chunk;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

/// Intervals at the end that tell what is executed there: the last one may be short.
const LAST: usize = 2;
/// How many instructions behind the last other one to look: a loop should have gone round, but not so often that nothing else is in sight.
const BEHIND: [u64; 3] = [100_000, 2_000_000, 50_000_000];

/// Times at which a process of one thread did what it did at the end, an early one first, and how many instructions each lies behind the last one
/// that it does not execute at the end, or more. None if it came to that late, or has several threads.
///
/// Intervals in between are not all looked at: it may have done something else in one, and come back.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn find(tools: &Tools, log: &Log, pid: ProcessId, jobs: NonZeroUsize) -> Result<Vec<(u64, u64)>> {
    let threads: Vec<ThreadId> = log.threads().filter(|thread| thread.pid == pid).collect();
    let [thread] = threads[..] else { return Ok(Vec::new()) };
    let ids: Vec<IntervalId> =
        log.intervals(thread)?.iter().map(|interval| IntervalId { thread, interval: *interval }).collect();
    let Some(before) = ids.len().checked_sub(LAST).filter(|before| *before > 1) else { return Ok(Vec::new()) };
    let executed = |ids: &[IntervalId], known: &BTreeSet<u64>| -> Result<Executed> {
        let mut executed = Executed { known: known.clone(), ..Executed::default() };
        run(tools, log, ids, jobs, &mut executed, |_| {})?;
        Ok(executed)
    };
    let known = executed(&ids[before..], &BTreeSet::new())?.instructions;
    // Once it does what it does at the end, it goes on so.
    let (mut other, mut same) = (0, before);
    while other < same {
        let middle = usize::midpoint(other, same);
        let is_same = executed(&ids[middle..=middle], &known)?.last_other.is_none();
        if is_same { same = middle } else { other = middle + 1 }
    }
    let Some(last) = same.checked_sub(1).filter(|_| same < before) else { return Ok(Vec::new()) };
    let Some(position) = executed(&ids[last..=last], &known)?.last_other else { return Ok(Vec::new()) };
    let before_it = |id: IntervalId| log.header(id).map(|header| header.instructions_before);
    let (start, at_the_end) = (before_it(ids[0])?, before_it(ids[before])?);
    let settled = before_it(ids[last])? + position;
    let behind = BEHIND.into_iter().filter(|behind| settled + behind < at_the_end);
    Ok(behind.map(|behind| (settled - start + behind, behind)).collect())
}

/// The instructions that are executed, by their addresses.
#[derive(Default)]
struct Executed {
    instructions: BTreeSet<u64>,
    /// Those that one looks for others than.
    known: BTreeSet<u64>,
    /// The position of the last block with another one, in the last interval.
    last_other: Option<u64>,
}

/// What was executed in an interval.
#[derive(Default)]
struct Part {
    blocks: LastRuns,
    last_other: Option<u64>,
    instructions: Vec<u64>,
}

impl Analysis for Executed {
    type Part = Part;

    fn begin(&self, _id: IntervalId, _interval: &Interval) -> Part {
        Part::default()
    }

    fn chunk(&self, part: &mut Part, chunk: &Chunk<'_>, _blocks: &Blocks) {
        part.blocks.chunk(chunk);
    }

    fn end(&self, part: &mut Part, blocks: &Blocks) {
        for (block, last) in part.blocks.all(blocks) {
            let instructions = block.instructions.iter().map(|decoded| decoded.instruction.ip());
            if instructions.clone().any(|at| !self.known.contains(&at)) {
                part.last_other = part.last_other.max(Some(last));
            }
            part.instructions.extend(instructions);
        }
    }

    fn join(&mut self, _id: IntervalId, part: Part) {
        self.instructions.extend(part.instructions);
        self.last_other = part.last_other;
    }
}
