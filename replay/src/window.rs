//! Where in the address space a replay process puts itself: where the recorded program has nothing.
//!
//! An interval that was ended says itself where its instructions access memory (`REACH` records). Of another, the
//! values are looked at: whatever address its instructions use comes from a register at its start, from a value that was
//! loaded, or from a system call's result. A part of the address space that no such value points into is very probably
//! not used; if it is after all, the replay process says that it cannot go on.

use bitvec::BitArr;
use bugnet_format::code::CodeStore;
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;

/// The address space is divided into parts of so many bytes, one of which is the window.
const PART_SHIFT: u32 = 35;
/// Where the window is if nothing speaks against it.
const USUAL: usize = 0x3000_0000_0000 >> PART_SHIFT;
/// Parts of the address space of programs.
const PARTS: usize = 1 << (47 - PART_SHIFT);
/// So many threads' pictures have room in one part, the smaller and the larger ones.
const ROOM_OF_NARROW: usize = 7;
const ROOM_OF_WIDE: usize = 3;
/// The parts that can be the window; below are programs that do not move, above stacks and libraries.
const CANDIDATES: std::ops::Range<usize> = 0x0100_0000_0000 >> PART_SHIFT..0x7d00_0000_0000 >> PART_SHIFT;

/// The parts of the address space that an interval uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used(BitArr!(for PARTS, in u64));

impl Used {
    /// What an interval uses, of which `code` is the code store.
    pub fn of(interval: &Interval, code: &CodeStore) -> Self {
        let mut used = Self::default();
        for placed in interval.ending().flatten() {
            if let Record::Reach { addr, len } = placed.record {
                used.range(addr.0, len);
            }
        }
        if used.0.not_any() {
            used = Self::by_values(interval);
        }
        code.pages.iter().for_each(|page| used.point(page.addr.0));
        used
    }

    fn by_values(interval: &Interval) -> Self {
        let mut used = Self::default();
        for placed in interval.records().flatten() {
            match placed.record {
                Record::Checkpoint { regs, .. } | Record::Signal { regs, .. } => {
                    regs.gpr.iter().chain([&regs.fs_base, &regs.gs_base]).for_each(|value| used.point(*value));
                }
                Record::Load { value, .. } if value.len() == 8 => {
                    used.point(
                        value.iter().zip((0..).step_by(8)).fold(0, |word, (byte, bit)| word | u64::from(byte) << bit),
                    );
                }
                Record::Load { value, .. } if value.len() > 8 => used.bytes(&value.to_vec()),
                Record::Memory { bytes, .. } => used.bytes(bytes),
                Record::Syscall { result, .. } => used.point(result.cast_unsigned()),
                _ => {}
            }
        }
        used
    }

    /// What either of the two uses.
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0 | other.0)
    }

    fn range(&mut self, start: u64, len: u64) {
        let parts = (start >> PART_SHIFT)..=((start + (len - 1)) >> PART_SHIFT).min(PARTS as u64 - 1);
        parts.for_each(|part| self.0.set(part as usize, true));
    }

    fn point(&mut self, value: u64) {
        if let Some(mut part) = usize::try_from(value >> PART_SHIFT).ok().and_then(|part| self.0.get_mut(part)) {
            *part = true;
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let word = |word: &[u8]| word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        bytes.chunks_exact(8).for_each(|bytes| self.point(word(bytes)));
    }

    /// Whether nothing points into the window that begins there.
    pub fn leaves(&self, window: u64) -> bool {
        !self.0[(window >> PART_SHIFT) as usize]
    }

    /// The start of a window that nothing points into, if there is one.
    pub fn free(&self) -> Option<u64> {
        let part = std::iter::once(USUAL).chain(CANDIDATES.rev()).find(|part| !self.0[*part])?;
        Some((part as u64) << PART_SHIFT)
    }

    /// Parts of the address space for [`bugnet_format::control::Request::Compare`] of so many threads, of those that nothing points into, and
    /// none of which is this window.
    pub fn rooms(&self, threads: usize, window: u64) -> Vec<u64> {
        // One stands for those that have ended. For narrow places of all, and for wide ones, while others are there.
        let regions = threads + 1;
        let most = regions.div_ceil(ROOM_OF_NARROW) + 2 * regions.div_ceil(ROOM_OF_WIDE);
        let parts = CANDIDATES.rev().filter(|part| !self.0[*part]).map(|part| (part as u64) << PART_SHIFT);
        parts.filter(|part| *part != window).take(most).collect()
    }

    /// The start of a window: one that nothing points into; the usual one if there is none.
    pub fn window(&self) -> u64 {
        self.free().unwrap_or((USUAL as u64) << PART_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LogBuilder, id};
    use bugnet_format::record::{EndReason, LoadValue};
    use bugnet_format::regs::RegisterFile;
    use bugnet_format::types::Addr;

    fn window(records: &[Record<'_>]) -> u64 {
        let regs = RegisterFile { rip: 0x1000, ..RegisterFile::default() };
        let end = Record::End { delta: 7, reason: EndReason::Full, regs: Box::new(regs.clone()) };
        let mut all: Vec<Record<'_>> = records.to_vec();
        all.push(end);
        let folder = LogBuilder::new().interval(&regs, &all);
        let log = folder.open();
        Used::of(&log.interval(id(0)).unwrap(), &CodeStore::default()).window()
    }

    #[test]
    fn it_keeps_out_of_the_way() {
        assert_eq!(window(&[]), 0x3000_0000_0000);
        let pointer = 0x3005_ddbc_0008_u64.to_le_bytes();
        let load = Record::Load { delta: 1, ordinal: 0, offset: 0, value: LoadValue::new(&pointer) };
        let moved = window(std::slice::from_ref(&load));
        assert!(moved != 0x3000_0000_0000 && moved.is_multiple_of(1 << 35), "{moved:#x}");
        // Where the interval says what it reaches, values do not matter.
        let reach = |addr: u64| Record::Reach { addr: Addr(addr), len: 1 << 30 };
        assert_eq!(window(&[load, reach(0x5000_0000_0000)]), 0x3000_0000_0000);
        assert_ne!(window(&[reach(0x5000_0000_0000), reach(0x3000_c000_0000)]), 0x3000_0000_0000);
    }
}
