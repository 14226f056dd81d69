//! Pages of a thread's shadow that are made before they are touched.
//!
//! What is read first is compared with the shadow, for which the kernel lends one page of zeros to all; when the picture
//! takes what was read, it makes a page, and interrupts all processors that run threads of the program. So where first loads
//! come from several pages of a chunk, the rest of its pages is made at once.

use crate::base::pages::Pages;
use std::ops::Range;

const PAGE: u64 = 4096;
/// Pages of a chunk.
const PAGES: u64 = u16::BITS as u64;
/// All of a chunk's pages.
const ALL: u16 = u16::MAX;
/// So many pages with first loads, and the rest is made.
const CROWD: u32 = 4;
/// The same beside a chunk whose pages were all made.
const CROWD_BESIDE: u32 = 2;
/// Chunks that are remembered: those of 128 MiB. To make one again costs as much as a first load.
const CHUNKS: u64 = 2048;

/// Where first loads of an interval were; where chunks share an entry, the later one begins anew.
pub struct Populated {
    last: u64,
    /// Number of a chunk, cut short, and its pages as bits.
    chunks: Pages<(u32, u16)>,
}

impl Populated {
    /// No first loads yet.
    pub fn new() -> Self {
        // SAFETY: numbers.
        Self { last: 0, chunks: unsafe { Pages::zeroed(CHUNKS as usize) } }
    }

    /// An interval begins.
    pub fn clear(&mut self) {
        self.last = 0;
        self.chunks.clear();
    }

    fn entry(&mut self, chunk: u64) -> &mut (u32, u16) {
        &mut self.chunks[(chunk % CHUNKS) as usize]
    }

    /// There is a first load at this address: the addresses around it whose shadow is to be made.
    pub fn note(&mut self, address: u64) -> Option<Range<u64>> {
        let page = address / PAGE;
        if page == self.last {
            return None;
        }
        self.last = page;
        let chunk = page / PAGES;
        let beside =
            [chunk.wrapping_sub(1), chunk + 1].into_iter().any(|other| *self.entry(other) == (other as u32, ALL));
        let entry = self.entry(chunk);
        if entry.0 != chunk as u32 {
            *entry = (chunk as u32, 0);
        }
        if entry.1 == ALL {
            return None;
        }
        entry.1 |= 1 << (page % PAGES);
        if entry.1.count_ones() < if beside { CROWD_BESIDE } else { CROWD } {
            return None;
        }
        entry.1 = ALL;
        let size = PAGE * PAGES;
        Some(chunk * size..(chunk + 1) * size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_pages_bring_the_others_of_their_chunk_once() {
        let mut ahead = Populated::new();
        let first = [0x10_0000, 0x10_0008, 0x10_4000, 0x10_2000].map(|address| ahead.note(address));
        assert_eq!(first, [None, None, None, None]);
        assert_eq!(ahead.note(0x10_f000), Some(0x10_0000..0x11_0000));
        assert_eq!(ahead.note(0x10_1000), None);
    }

    #[test]
    fn a_run_goes_on_sooner() {
        let mut ahead = Populated::new();
        let mut made = (0..64).filter(|page| ahead.note(0x40_0000 + page * PAGE).is_some());
        assert_eq!(made.by_ref().collect::<Vec<u64>>(), [3, 17, 33, 49]);
    }
}
