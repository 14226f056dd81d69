//! The recorded program's memory, wherever it comes from.

use crate::error::Result;
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;
use bugnet_format::types::Addr;

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

/// Memory as the log itself holds it for an interval's end: the stack of a crash.
#[derive(Clone, Debug, Default)]
pub struct Snapshots(Vec<(u64, Vec<u8>)>);

impl Snapshots {
    /// What the records of `interval` hold.
    #[must_use]
    pub fn of(interval: &Interval) -> Self {
        let snapshot = |record| match record {
            Record::Snapshot { addr, bytes } => Some((addr.0, bytes.to_vec())),
            _ => None,
        };
        Self(interval.ending().flatten().filter_map(|placed| snapshot(placed.record)).collect())
    }

    /// The bytes from `addr` up to the end of the snapshot that holds it; empty if none does.
    pub(crate) fn at(&self, addr: u64) -> &[u8] {
        let from = |(start, bytes): &'_ (u64, Vec<u8>)| {
            let offset = addr.checked_sub(*start).and_then(|offset| usize::try_from(offset).ok())?;
            (offset < bytes.len()).then_some(offset)
        };
        self.0.iter().find_map(|snapshot| from(snapshot).map(|offset| &snapshot.1[offset..])).unwrap_or_default()
    }

    /// The lowest start of a snapshot above `addr`.
    pub(crate) fn next_after(&self, addr: u64) -> Option<u64> {
        self.0.iter().map(|(start, _)| *start).filter(|start| *start > addr).min()
    }
}

impl Memory for Snapshots {
    fn read_memory(&mut self, addr: Addr, len: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(at) = addr.0.checked_add(out.len() as u64) {
            let bytes = self.at(at);
            let left = usize::try_from(len - out.len() as u64).unwrap_or(usize::MAX);
            if bytes.is_empty() || left == 0 {
                break;
            }
            out.extend_from_slice(&bytes[..bytes.len().min(left)]);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_join_where_they_touch() {
        let mut snapshots = Snapshots(vec![(0x20, b"cd".to_vec()), (0x1e, b"ab".to_vec()), (0x30, b"x".to_vec())]);
        assert_eq!(snapshots.read_memory(Addr(0x1f), 100).unwrap(), b"bcd");
        assert_eq!(snapshots.read_memory(Addr(0x1e), 3).unwrap(), b"abc");
        assert_eq!(snapshots.read_memory(Addr(0x22), 1).unwrap(), b"");
        assert_eq!(snapshots.read_memory(Addr(u64::MAX), u64::MAX).unwrap(), b"");
        assert_eq!((snapshots.next_after(0x20), snapshots.next_after(0x30)), (Some(0x30), None));
    }
}
