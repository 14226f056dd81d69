//! Where first loads crowd, what lies around them is logged before it is loaded: one record of many bytes instead of
//! many records, and one visit to the slow path instead of many.

use std::ops::Range;

/// Bytes of a line.
const LINE: u64 = 64;
/// Bytes of a page, beyond which nothing is taken along: the next one may not be readable.
const PAGE: u64 = 4096;
/// So many first loads in a line, and the line is taken whole.
const CROWD: u8 = 2;
/// Lines and pages that are remembered.
const LINES: usize = 1024;
const PAGES: usize = 256;

/// Counts of the first loads of an interval, in lines and pages; where two share an entry, the later one begins anew.
pub struct Density {
    lines: Box<[(u64, u8); LINES]>,
    pages: Box<[(u64, u8); PAGES]>,
}

fn count<const N: usize>(table: &mut [(u64, u8); N], key: u64) -> u8 {
    let entry = &mut table[key as usize % N];
    *entry = if entry.0 == key { (key, entry.1.saturating_add(1)) } else { (key, 1) };
    entry.1
}

impl Density {
    /// No first loads yet.
    pub fn new() -> Self {
        Self { lines: Box::new([(0, 0); LINES]), pages: Box::new([(0, 0); PAGES]) }
    }

    /// There is a first load at this address: the addresses around it that are to be logged along with it.
    pub fn note(&mut self, address: u64) -> Option<Range<u64>> {
        if count(&mut self.lines, address / LINE) < CROWD {
            return None;
        }
        // The more lines of a page were taken, the more of it comes along with the next.
        let taken = count(&mut self.pages, address / PAGE);
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
