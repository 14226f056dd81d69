//! An interval backwards: copies of the replay process are left on the way to its end, and the stretch behind each is run again, the last one
//! first. However long the interval is, no more than one such stretch is in memory.

use crate::code::Blocks;
use crate::stretch::Stretch;
use bugnet_format::frame::Interval;
use bugnet_format::types::Position;
use bugnet_replay::Result;
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Tracer;

/// Instructions from one copy to the next.
const PIECE: u64 = 4 << 20;

/// An interval, of which stretches come, the last one first.
pub struct Backward {
    /// Where each copy is; the first one is at the start.
    copies: Vec<Tracer>,
    /// Behind the last of them.
    end: Position,
    /// What is there from its copy on, up to and including the present one.
    stretches: Vec<Stretch>,
    blocks: Blocks,
    piece: u64,
}

impl Backward {
    /// From `end`, or the end of the interval if it comes before, on backwards.
    ///
    /// # Errors
    /// The interval cannot be replayed up to there.
    pub fn start(tools: &Tools, log: &Log, id: IntervalId, interval: &Interval, end: Position) -> Result<Self> {
        Self::in_pieces(tools, log, id, interval, end, PIECE)
    }

    /// As [`Self::start`], with a copy every so many instructions.
    ///
    /// # Errors
    /// As there.
    pub fn in_pieces(
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
        end: Position,
        piece: u64,
    ) -> Result<Self> {
        let mut tracer = Tracer::start(tools, log, id, interval, None)?;
        let mut copies = Vec::new();
        'pieces: while tracer.position() < end {
            copies.push(tracer.fork()?);
            let next = Position(tracer.position().0.saturating_add(piece).min(end.0));
            while tracer.position() < next {
                if tracer.next(next)?.is_none() {
                    break 'pieces;
                }
            }
        }
        let end = tracer.position();
        Ok(Self { copies, end, stretches: Vec::new(), blocks: Blocks::default(), piece })
    }

    /// Goes to the stretch before, at first to the last one; whether there is one.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn retreat(&mut self) -> Result<bool> {
        self.stretches.pop();
        while self.stretches.is_empty() {
            let Some(mut tracer) = self.copies.pop() else { return Ok(false) };
            let end = Position(tracer.position().0.saturating_add(self.piece).min(self.end.0));
            // Each copy goes on with numbers of its own.
            self.blocks = Blocks::default();
            while let Some(chunk) = tracer.next(end)? {
                self.blocks.learn(&chunk);
                self.stretches.push(Stretch::of(&chunk, &self.blocks));
            }
        }
        Ok(true)
    }

    /// The present stretch, with the blocks of which it is made; none before the first call of [`Self::retreat`], and behind the last.
    #[must_use]
    pub fn stretch(&self) -> Option<(&Stretch, &Blocks)> {
        Some((self.stretches.last()?, &self.blocks))
    }
}
