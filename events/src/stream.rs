//! Analyses of what was executed: intervals are traced at the same time, each by itself, and what was found in them is joined in order.

use crate::code::Blocks;
use bugnet_format::frame::Interval;
use bugnet_format::types::Position;
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::{Chunk, Tracer};
use bugnet_replay::work::Over;
use bugnet_replay::{ReplayError, Result, pool};
use std::num::NonZeroUsize;

/// Something that is found out from all that was executed.
pub trait Analysis: Sync {
    /// What is found in an interval.
    type Part: Send;

    /// An interval begins.
    fn begin(&self, id: IntervalId, interval: &Interval) -> Self::Part;

    /// A stretch of it was executed; stretches come in order. `blocks` has all blocks of the chunk.
    fn chunk(&self, part: &mut Self::Part, chunk: &Chunk<'_>, blocks: &Blocks);

    /// No stretch of the interval follows. `blocks` has all that were executed.
    fn end(&self, _part: &mut Self::Part, _blocks: &Blocks) {}

    /// An interval is over; intervals come in the order in which they were asked for.
    fn join(&mut self, id: IntervalId, part: Self::Part);
}

/// What goes from interval to interval.
#[derive(Default)]
pub struct Worker {
    tracer: Option<Tracer>,
    blocks: Blocks,
}

impl Worker {
    /// Runs an analysis over an interval.
    ///
    /// # Errors
    /// It cannot be replayed, or diverges from what was recorded.
    pub fn run<A: Analysis>(
        &mut self,
        (tools, log): (&Tools, &Log),
        (id, interval): (IntervalId, &Interval),
        analysis: &A,
    ) -> Result<A::Part> {
        let mut part = analysis.begin(id, interval);
        let before = self.tracer.take();
        let tracer = self.tracer.insert(Tracer::start(tools, log, id, interval, before)?);
        while let Some(chunk) = tracer.next(Position(u64::MAX))? {
            self.blocks.learn(&chunk);
            analysis.chunk(&mut part, &chunk, &self.blocks);
        }
        analysis.end(&mut part, &self.blocks);
        Ok(part)
    }
}

/// Runs an analysis over intervals, `jobs` at a time. `progress` is called after each with how many are done.
///
/// # Errors
/// An interval cannot be read or replayed, or diverges from what was recorded.
pub fn run<A: Analysis>(
    tools: &Tools,
    log: &Log,
    intervals: &[IntervalId],
    jobs: NonZeroUsize,
    analysis: &mut A,
    progress: impl FnMut(usize),
) -> Result<()> {
    run_some(tools, log, intervals, jobs, analysis, progress)?.map_or(Ok(()), |over| Err(ReplayError::Over(over)))
}

/// The same, as far as there is time: says why the work was over before the last interval, if it was. Those that were done by then are the first ones.
///
/// # Errors
/// As [`run`], but for that.
pub fn run_some<A: Analysis>(
    tools: &Tools,
    log: &Log,
    intervals: &[IntervalId],
    jobs: NonZeroUsize,
    analysis: &mut A,
    mut progress: impl FnMut(usize),
) -> Result<Option<Over>> {
    let mut parts = Vec::new();
    let shared = &*analysis;
    let ran = pool::in_order(
        intervals,
        jobs,
        |worker: &mut Worker, id| -> Result<A::Part> { worker.run((tools, log), (*id, &log.interval(*id)?), shared) },
        |id, part| {
            parts.push((*id, part?));
            progress(parts.len());
            Ok(())
        },
    );
    let over = match ran {
        Err(ReplayError::Over(over)) => Some(over),
        ran => ran.map(|()| None)?,
    };
    for (id, part) in parts {
        analysis.join(id, part);
    }
    Ok(over)
}
