//! A few instructions of a thread once more, with what they accessed.

use super::side::Recorded;
use bugnet_events::code::{Blocks, Decoded};
use bugnet_events::stretch::{Access, Stretch};
use bugnet_format::types::{Position, Tid};
use bugnet_replay::Result;
use bugnet_replay::trace::Tracer;
use std::collections::VecDeque;

/// Instructions that are kept.
const KEPT: usize = 400;

/// An instruction of the program's own code that was executed.
pub struct Did {
    /// Instructions of the thread before it.
    pub count: u64,
    /// What it is.
    pub decoded: Decoded,
    /// What it accessed.
    pub accesses: Vec<Access>,
}

/// What a thread did last.
#[derive(Default)]
pub struct Last {
    /// The last instructions of the program's own code, in order.
    pub own: VecDeque<Did>,
    /// An instruction of other code that was executed behind them, the last one.
    pub other: Option<u64>,
}

/// What a thread did between two counts of its instructions.
///
/// # Errors
/// An interval cannot be read or replayed.
pub fn retrace(recorded: &Recorded<'_>, tid: Tid, from: u64, until: u64) -> Result<Last> {
    let mut last = Last::default();
    let intervals = recorded.intervals(tid);
    let first = intervals.iter().rposition(|(_, before)| *before <= from).unwrap_or(0);
    for &(id, before) in intervals[first..].iter().take_while(|(_, before)| *before < until) {
        let mut tracer = Tracer::start(recorded.tools, recorded.log, id, &recorded.log.interval(id)?, None)?;
        let mut blocks = Blocks::default();
        let (from, until) = (Position(from.saturating_sub(before)), Position(until - before));
        while tracer.position() < until {
            let next = if tracer.position() < from { from } else { until };
            let is_wanted = tracer.position() >= from;
            let Some(chunk) = tracer.next(next)? else { break };
            blocks.learn(&chunk);
            if is_wanted {
                last.add(&Stretch::of(&chunk, &blocks), &blocks, before, recorded);
            }
        }
    }
    Ok(last)
}

impl Last {
    fn add(&mut self, stretch: &Stretch, blocks: &Blocks, before: u64, recorded: &Recorded<'_>) {
        for ran in stretch.ran(blocks) {
            if !recorded.objects.is_own(ran.block.traced.pc) {
                self.other = ran.block.instructions.last().map(|decoded| decoded.instruction.ip());
                continue;
            }
            self.other = None;
            for (number, decoded) in ran.block.instructions.iter().enumerate() {
                let count = before + ran.position.0 + number as u64;
                let accesses = ran.accesses(number).collect();
                self.own.push_back(Did { count, decoded: decoded.clone(), accesses });
            }
            let surplus = self.own.len().saturating_sub(KEPT);
            self.own.drain(..surplus);
        }
    }
}
