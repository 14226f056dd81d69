//! Where in the address space a replay process puts itself: where the recorded program has nothing.
//!
//! Whatever address an interval's instructions use comes from a register at its start, from a value that was loaded, or
//! from a system call's result. A part of the address space that no such value points into is very probably not used;
//! if it is after all, the replay process says that it cannot go on.

use bugnet_format::frame::Interval;
use bugnet_format::record::Record;

/// The address space is divided into parts of so many bytes, one of which is the window.
const PART_SHIFT: u32 = 40;
/// Where the window is if nothing speaks against it.
const USUAL: u64 = 0x30;
/// The parts that can be the window.
const PARTS: std::ops::Range<u64> = 1..0x7d;

/// The parts of the address space that an interval's values point into.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used(u128);

impl Used {
    /// Looks at all values of an interval.
    pub fn of(interval: &Interval) -> Self {
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
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn point(&mut self, value: u64) {
        self.0 |= 1u128 << (value >> PART_SHIFT).min(127);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let word = |word: &[u8]| word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        bytes.chunks_exact(8).for_each(|bytes| self.point(word(bytes)));
    }

    /// Whether nothing points into the window that begins there.
    pub fn leaves(self, window: u64) -> bool {
        self.0 >> (window >> PART_SHIFT).min(127) & 1 == 0
    }

    /// The start of a window that nothing points into; the usual one if there is none.
    pub fn window(self) -> u64 {
        let mut parts = std::iter::once(USUAL).chain(PARTS.rev()).map(|part| part << PART_SHIFT);
        parts.find(|window| self.leaves(*window)).unwrap_or(USUAL << PART_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LogBuilder, id};
    use bugnet_format::record::{EndReason, LoadValue};
    use bugnet_format::regs::RegisterFile;

    fn window(records: &[Record<'_>]) -> u64 {
        let regs = RegisterFile { rip: 0x1000, ..RegisterFile::default() };
        let end = Record::End { delta: 7, reason: EndReason::Full, regs: Box::new(regs.clone()) };
        let mut all: Vec<Record<'_>> = records.to_vec();
        all.push(end);
        Used::of(&LogBuilder::new().interval(&regs, &all).open().interval(id(0)).unwrap()).window()
    }

    #[test]
    fn it_keeps_out_of_the_way() {
        assert_eq!(window(&[]), 0x3000_0000_0000);
        let pointer = 0x30a5_ddbc_0008_u64.to_le_bytes();
        let load = Record::Load { delta: 1, ordinal: 0, offset: 0, value: LoadValue::new(&pointer) };
        let moved = window(&[load]);
        assert!(moved != 0x3000_0000_0000 && moved.is_multiple_of(1 << 40), "{moved:#x}");
    }
}
