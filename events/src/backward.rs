//! An interval backwards: copies of the replay process are left on the way to its end, and the stretch behind each is run again, the last one
//! first. However long the interval is, no more than one such stretch is in memory.

use crate::code::{Blocks, Known};
use crate::stretch::Stretch;
use bugnet_format::frame::Interval;
use bugnet_format::types::Position;
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::{Met, Tracer};
use bugnet_replay::{ReplayError, Result};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

/// Instructions from one copy to the next.
const PIECE: u64 = 8 << 20;

/// What is between a copy and the next one.
struct Piece {
    stretches: Vec<Stretch>,
    blocks: Blocks,
}

/// An interval, of which stretches come, the last one first. The next piece is traced while one looks at the present one.
pub struct Backward {
    pieces: Receiver<Result<Piece>>,
    present: Option<Piece>,
    /// Takes stretches of which nobody needs anything any more: their memory is used again.
    used: Sender<Stretch>,
}

impl Backward {
    /// From `end`, or the end of the interval if it comes before, on backwards.
    ///
    /// # Errors
    /// The interval cannot be replayed.
    pub fn start(tools: &Tools, log: &Log, id: IntervalId, interval: &Interval, end: Position) -> Result<Self> {
        Self::in_pieces(tools, log, id, interval, end, PIECE)
    }

    /// The same, of blocks some of which may be known from other intervals.
    pub(crate) fn knowing(
        (tools, log): (&Tools, &Log),
        id: IntervalId,
        interval: &Interval,
        end: Position,
        known: &Known,
    ) -> Result<Self> {
        Self::with((tools, log), id, interval, end, PIECE, known)
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
        Self::with((tools, log), id, interval, end, piece, &Known::default())
    }

    fn with(
        (tools, log): (&Tools, &Log),
        id: IntervalId,
        interval: &Interval,
        end: Position,
        piece: u64,
        known: &Known,
    ) -> Result<Self> {
        let blocks = Blocks::knowing(known);
        let tracer = Tracer::start(tools, log, id, interval, None)?;
        // One ahead.
        let (sender, pieces) = sync_channel(0);
        let (used, spare) = channel();
        let work = move || {
            // Whoever does not want any more has gone.
            let send = |piece| sender.send(piece).is_ok();
            if let Err(error) = trace((tracer, blocks), end, piece, &spare, &send) {
                send(Err(error));
            }
        };
        std::thread::Builder::new()
            .name("backward".into())
            .spawn(work)
            .map_err(ReplayError::system("start a thread"))?;
        Ok(Self { pieces, present: None, used })
    }

    /// Goes to the stretch before, at first to the last one; whether there is one.
    ///
    /// # Errors
    /// The interval cannot be replayed up to there, or the replay process is lost.
    pub fn retreat(&mut self) -> Result<bool> {
        if let Some(stretch) = self.present.as_mut().and_then(|piece| piece.stretches.pop()) {
            // Who traces may have come to the start.
            let _ = self.used.send(stretch);
        }
        while self.present.as_ref().is_none_or(|piece| piece.stretches.is_empty()) {
            let Ok(piece) = self.pieces.recv() else { return Ok(false) };
            self.present = Some(piece?);
        }
        Ok(true)
    }

    /// The present stretch, with the blocks of which it is made; none before the first call of [`Self::retreat`], and behind the last.
    #[must_use]
    pub fn stretch(&self) -> Option<(&Stretch, &Blocks)> {
        let piece = self.present.as_ref()?;
        Some((piece.stretches.last()?, &piece.blocks))
    }
}

/// Leaves copies on the way to the end, and hands over what is behind each, the last one first, as long as it is wanted.
fn trace(
    (mut tracer, mut known): (Tracer, Blocks),
    end: Position,
    piece: u64,
    spare: &Receiver<Stretch>,
    send: &dyn Fn(Result<Piece>) -> bool,
) -> Result<()> {
    // What a copy knows when it is made need not be decoded for each.
    let mut copies = Vec::new();
    while tracer.position() < end {
        known.learn_all(tracer.fetch()?);
        copies.push(tracer.fork()?);
        let next = Position(tracer.position().0.saturating_add(piece).min(end.0));
        tracer.skip(next)?;
        if tracer.position() < next {
            break;
        }
    }
    let end = tracer.position();
    while let Some(mut tracer) = copies.pop() {
        let end = Position(tracer.position().0.saturating_add(piece).min(end.0));
        // Each copy goes on with numbers of its own.
        let (mut blocks, mut stretches) = (known.first(tracer.blocks()), Vec::new());
        while let Some(chunk) = tracer.next_unread(end)? {
            blocks.learn(&chunk);
            let mut stretch = spare.try_recv().unwrap_or_default();
            let mut runs = chunk.read_runs(Met::default());
            stretch.fill(&chunk, &mut runs, blocks.plans());
            if !runs.is_whole() {
                return Err(tracer.makes_no_sense());
            }
            stretches.push(stretch);
        }
        if !send(Ok(Piece { stretches, blocks })) {
            break;
        }
    }
    Ok(())
}
