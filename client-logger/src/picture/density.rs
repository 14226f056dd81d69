//! Where first loads crowd, what lies around them is logged before it is loaded: one record of many bytes instead of
//! many records, and one visit to the slow path instead of many.

use crate::base::pages::Pages;
use std::ops::Range;

/// Bytes of a line.
const LINE: u64 = 64;
/// Bytes of a page, beyond which nothing is taken along: the next one may not be readable.
const PAGE: u64 = 4096;
/// So many first loads in a line, and the line is taken whole.
const CROWD: u8 = 2;
/// Lines and pages that are remembered, as powers of two: those of a walk through the columns of a matrix with so many rows.
const LINES: u32 = 12;
const PAGES: u32 = 10;

/// Counts of the first loads of an interval, in lines and pages; where two share an entry, the later one begins anew.
pub struct Density {
    lines: Counts<LINES>,
    pages: Counts<PAGES>,
}

/// 2 to the power of `SHIFT` counts, with numbers of what they count, cut short.
struct Counts<const SHIFT: u32>(Pages<(u32, u8)>);

impl<const SHIFT: u32> Counts<SHIFT> {
    fn new() -> Self {
        // SAFETY: numbers.
        Self(unsafe { Pages::zeroed(1 << SHIFT) })
    }

    fn count(&mut self, number: u64) -> u8 {
        let number = number as u32;
        // What lies at regular distances gets entries of its own.
        let entry = &mut self.0[(number.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SHIFT)) as usize];
        *entry = if entry.0 == number { (number, entry.1.saturating_add(1)) } else { (number, 1) };
        entry.1
    }
}

impl Density {
    /// No first loads yet.
    pub fn new() -> Self {
        Self { lines: Counts::new(), pages: Counts::new() }
    }

    /// An interval begins.
    pub fn clear(&mut self) {
        self.lines.0.clear();
        self.pages.0.clear();
    }

    /// There is a first load at this address: the addresses around it that are to be logged along with it.
    pub fn note(&mut self, address: u64) -> Option<Range<u64>> {
        if self.lines.count(address / LINE) < CROWD {
            return None;
        }
        // The more lines of a page were taken, the more of it comes along with the next.
        let taken = self.pages.count(address / PAGE);
        let size = (LINE << (taken / 4).min(6)).min(PAGE);
        let start = address & !(size - 1);
        Some(start..start + size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_whole_with_its_second_load() {
        let mut density = Density::new();
        assert_eq!(density.note(0x1008), None);
        assert_eq!(density.note(0x1048), None);
        assert_eq!(density.note(0x1000), Some(0x1000..0x1040));
    }

    #[test]
    fn lines_at_regular_distances_are_counted_each() {
        let mut density = Density::new();
        let column = |n: u64| (0..512).map(move |row| 0x7000_0000 + row * 0x4000 + n * 16);
        assert_eq!(column(0).filter_map(|address| density.note(address)).count(), 0);
        assert!(column(1).filter_map(|address| density.note(address)).count() > 400);
    }

    #[test]
    fn a_crowded_page_comes_in_larger_parts_and_never_more_than_whole() {
        let mut density = Density::new();
        let taken: Vec<u64> =
            (0..64).filter_map(|i| density.note(0x5000 + i / 2 * LINE)).map(|r| r.end - r.start).collect();
        assert_eq!(taken[..4], [64, 64, 64, 128]);
        assert_eq!(taken.iter().max(), Some(&PAGE));
        assert_eq!(density.note(0x5fff), None);
        assert_eq!(density.note(0x5fff), Some(0x5000..0x6000));
    }
}
