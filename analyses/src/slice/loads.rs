//! What `LOAD` records say of memory, on the way back: so many bytes had these values before the instruction at a position.

use bugnet_events::stretch::Access;
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;
use bugnet_format::types::{IntervalNo, Position};

/// A record, without its bytes.
struct Load {
    position: Position,
    ordinal: u8,
    offset: u64,
    /// Where its bytes begin; they end where those of the next one do.
    start: usize,
}

/// The records of an interval that one has not come to.
pub struct Loads {
    /// Which one.
    pub interval: IntervalNo,
    all: Vec<Load>,
    bytes: Vec<u8>,
}

impl Loads {
    /// Those of an interval.
    pub fn of(number: IntervalNo, interval: &Interval) -> Self {
        let (mut all, mut bytes) = (Vec::new(), Vec::new());
        for placed in interval.records().flatten() {
            if let Record::Load { ordinal, offset, value, .. } = placed.record {
                all.push(Load { position: placed.position, ordinal, offset, start: bytes.len() });
                bytes.extend(value.iter());
            }
        }
        Self { interval: number, all, bytes }
    }

    /// Leaves out the records at a position, and behind it.
    pub fn skip_to(&mut self, position: Position) {
        while let Some(last) = self.all.pop_if(|last| last.position >= position) {
            self.bytes.truncate(last.start);
        }
    }

    /// The position of the last ones.
    #[inline]
    pub fn last(&self) -> Option<Position> {
        self.all.last().map(|last| last.position)
    }

    /// Behind the position of the last ones; zero if there are none.
    pub fn behind_last(&self) -> u64 {
        self.last().map_or(0, |last| last.0 + 1)
    }

    /// Takes the last ones, whose instruction has these accesses: first bytes, and what they had.
    pub fn take(&mut self, accesses: &[Access], found: &mut dyn FnMut(u64, &[u8])) {
        let Some(position) = self.last() else { return };
        while let Some(last) = self.all.pop_if(|last| last.position == position) {
            let reads = accesses.iter().filter(|access| access.reads);
            // A mask decides which lanes a gather reads: the number does not tell which of these it is.
            let is_clear = last.ordinal == 0 || reads.clone().all(|access| access.whole);
            if let Some(read) = reads.clone().nth(last.ordinal.into()).filter(|_| is_clear) {
                found(read.addr.wrapping_add(last.offset), &self.bytes[last.start..]);
            }
            self.bytes.truncate(last.start);
        }
    }
}
