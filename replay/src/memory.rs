//! The recorded program's memory, wherever it comes from.

use crate::error::Result;
use crate::log::{IntervalId, Log};
use bugnet_format::control::MAX_READ;
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;
use bugnet_format::types::{Addr, ProcessId};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Something that can be asked for the recorded program's memory.
pub trait Memory {
    /// The bytes from `addr` on, `len` of them or fewer: up to the first that is not known.
    ///
    /// # Errors
    /// Whoever has the memory cannot be asked any more.
    fn read_memory(&mut self, addr: Addr, len: u64) -> Result<Vec<u8>>;

    /// `len` bytes from `addr` on, or fewer; `None` for each that is not known.
    ///
    /// # Errors
    /// As for [`Self::read_memory`].
    fn read_known(&mut self, addr: Addr, len: u64) -> Result<Vec<Option<u8>>> {
        Ok(self.read_memory(addr, len)?.into_iter().map(Some).collect())
    }
}

/// A part of memory, with what it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// So many bytes from this offset on.
    Bytes { offset: usize, len: u64 },
    /// So many zeros.
    Zeros { len: u64 },
}

impl Piece {
    fn len(self) -> u64 {
        match self {
            Self::Bytes { len, .. } | Self::Zeros { len } => len,
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    /// By their first address.
    pieces: BTreeMap<u64, Piece>,
    /// What they refer to.
    bytes: Vec<u8>,
    omitted: Vec<Range<u64>>,
}

/// Memory of a process as the log itself holds it for the end of a thread. A copy costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Snapshots(Arc<Kept>);

/// How much memory there is of an end, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Whose bytes the log has.
    pub kept: u64,
    /// That held zeros.
    pub zeros: u64,
    /// That was left out, as it was more than `record --snapshot` is to keep.
    pub omitted: u64,
}

impl Amount {
    /// Adds what a record says.
    pub fn add(&mut self, record: &Record<'_>) {
        let (sum, len) = match record {
            Record::Snapshot { bytes, .. } => (&mut self.kept, bytes.len() as u64),
            Record::Zeros { len, .. } => (&mut self.zeros, *len),
            Record::Omitted { len, .. } => (&mut self.omitted, *len),
            _ => return,
        };
        *sum = sum.saturating_add(len);
    }
}

impl Snapshots {
    /// What the records of `interval` hold.
    #[must_use]
    pub fn of(interval: &Interval) -> Self {
        let mut kept = Kept::default();
        for placed in interval.ending().flatten() {
            match placed.record {
                Record::Snapshot { addr, bytes } if !bytes.is_empty() => {
                    let piece = Piece::Bytes { offset: kept.bytes.len(), len: bytes.len() as u64 };
                    kept.bytes.extend_from_slice(bytes);
                    kept.pieces.insert(addr.0, piece);
                }
                Record::Zeros { addr, len } => {
                    kept.pieces.insert(addr.0, Piece::Zeros { len });
                }
                // A reader of records refuses those that reach beyond the top.
                Record::Omitted { addr, len } => kept.omitted.push(addr.0..addr.0 + len),
                _ => {}
            }
        }
        Self(Arc::new(kept))
    }

    /// Memory as it was at the end of a process, from the log of the thread that ended it. Nothing, where that has none.
    ///
    /// # Errors
    /// The last interval of a thread cannot be read.
    pub fn of_process(log: &Log, process: ProcessId) -> Result<Self> {
        for thread in log.threads().filter(|thread| thread.pid == process) {
            let Some(&interval) = log.intervals(thread)?.last() else { continue };
            let found = Self::of(&log.interval(IntervalId { thread, interval })?);
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Self::default())
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self.0 == Kept::default()
    }

    /// Whether a byte of the process's memory was left out, as there was more than was to be kept.
    #[must_use]
    pub fn lacks(&self, addr: Addr) -> bool {
        self.0.omitted.iter().any(|range| range.contains(&addr.0))
    }

    /// How much was left out, in bytes.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.0.omitted.iter().fold(0, |sum, range| sum.saturating_add(range.end - range.start))
    }

    /// The bytes from `addr` on, `most` of them or fewer: up to the end of the piece that holds it. Empty if none does.
    pub(crate) fn at(&self, addr: u64, most: u64) -> Cow<'_, [u8]> {
        let Some((start, piece)) = self.0.pieces.range(..=addr).next_back() else { return Cow::default() };
        let skipped = addr - start;
        let len = piece.len().saturating_sub(skipped).min(most) as usize;
        match piece {
            Piece::Bytes { offset, .. } if len > 0 => {
                let from = offset + skipped as usize;
                Cow::Borrowed(&self.0.bytes[from..from + len])
            }
            _ => Cow::Owned(vec![0; len]),
        }
    }

    /// The pages of which there is something; those of zeros only if these are no more bytes than that.
    pub(crate) fn pages(&self, most_zeros: u64) -> impl Iterator<Item = u64> {
        let zeros = self.0.pieces.values().map(|piece| match piece {
            Piece::Zeros { len } => *len,
            Piece::Bytes { .. } => 0,
        });
        let takes_zeros = zeros.fold(0, u64::saturating_add) <= most_zeros;
        let pieces = self.0.pieces.iter().filter(move |(_, piece)| takes_zeros || matches!(piece, Piece::Bytes { .. }));
        pieces.flat_map(|(start, piece)| {
            let first = start & !(Addr::PAGE - 1);
            (first..start.saturating_add(piece.len())).step_by(Addr::PAGE as usize)
        })
    }

    /// The lowest start of a piece above `addr`.
    pub(crate) fn next_after(&self, addr: u64) -> Option<u64> {
        self.0.pieces.range((Bound::Excluded(addr), Bound::Unbounded)).next().map(|(start, _)| *start)
    }
}

impl Memory for Snapshots {
    fn read_memory(&mut self, addr: Addr, len: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(at) = addr.0.checked_add(out.len() as u64) {
            // As much of zeros there may be as the log says.
            let bytes = self.at(at, (len - out.len() as u64).min(MAX_READ));
            if bytes.is_empty() || out.len() as u64 >= MAX_READ {
                break;
            }
            out.extend_from_slice(&bytes);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LogBuilder, id};
    use bugnet_format::record::EndReason;
    use bugnet_format::regs::RegisterFile;

    fn snapshots() -> Snapshots {
        let records = [
            Record::Snapshot { addr: Addr(0x20), bytes: b"cd" },
            Record::Snapshot { addr: Addr(0x1e), bytes: b"ab" },
            Record::Zeros { addr: Addr(0x30), len: 3 },
            Record::Omitted { addr: Addr(0x40), len: 0x10 },
            Record::End { delta: 1, reason: EndReason::Full, regs: Box::default() },
        ];
        let log = LogBuilder::new().interval(&RegisterFile::default(), &records);
        Snapshots::of_process(&log.open(), id(0).thread.pid).unwrap()
    }

    #[test]
    fn snapshots_join_where_they_touch() {
        let mut snapshots = snapshots();
        assert_eq!(snapshots.read_memory(Addr(0x1f), 100).unwrap(), b"bcd");
        assert_eq!(snapshots.read_memory(Addr(0x1e), 3).unwrap(), b"abc");
        assert_eq!(snapshots.read_memory(Addr(0x22), 1).unwrap(), b"");
        assert_eq!(snapshots.read_memory(Addr(0x2f), 1).unwrap(), b"");
        assert_eq!(snapshots.read_memory(Addr(0x31), 9).unwrap(), [0, 0]);
        assert_eq!(snapshots.read_memory(Addr(u64::MAX), u64::MAX).unwrap(), b"");
        assert_eq!((snapshots.next_after(0x20), snapshots.next_after(0x30)), (Some(0x30), None));
    }

    #[test]
    fn pages_are_those_of_pieces() {
        let records = [
            Record::Snapshot { addr: Addr(0x1fff), bytes: b"ab" },
            Record::Zeros { addr: Addr(0x8000), len: 0x2000 },
            Record::End { delta: 1, reason: EndReason::Full, regs: Box::default() },
        ];
        let log = LogBuilder::new().interval(&RegisterFile::default(), &records);
        let snapshots = Snapshots::of_process(&log.open(), id(0).thread.pid).unwrap();
        assert_eq!(snapshots.pages(0x2000).collect::<Vec<_>>(), [0x1000, 0x2000, 0x8000, 0x9000]);
        assert_eq!(snapshots.pages(0x1fff).collect::<Vec<_>>(), [0x1000, 0x2000]);
    }

    #[test]
    fn what_was_left_out_is_said() {
        let snapshots = snapshots();
        assert!(snapshots.lacks(Addr(0x40)) && !snapshots.lacks(Addr(0x50)) && !snapshots.lacks(Addr(0x30)));
        assert_eq!((snapshots.omitted(), snapshots.is_empty()), (0x10, false));
        assert!(Snapshots::default().is_empty());
    }
}
