//! Sets of addresses that consist of ranges.

use std::collections::BTreeMap;

/// Most ranges that are told apart.
const MOST: usize = 1 << 16;

/// Ranges of addresses, which grow together where they touch.
#[derive(Default)]
pub struct Ranges {
    /// The end of each, by its start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `len` bytes from `at` on, and maybe others: of too many ranges, all memory is in the set.
    pub fn add(&mut self, at: u64, len: u64) {
        self.insert(at, len);
        if self.ends.len() > MOST {
            self.ends = BTreeMap::from([(0, u64::MAX)]);
        }
    }

    /// Adds `len` bytes from `at` on, and no others: of too many ranges, nothing is in the set any more.
    pub fn add_these(&mut self, at: u64, len: u64) {
        self.insert(at, len);
        self.drop_too_many();
    }

    /// Takes `len` bytes from `at` on out of a set without others.
    pub fn remove(&mut self, at: u64, len: u64) {
        let (start, end) = (at, at.saturating_add(len));
        if start >= end {
            return;
        }
        while let Some((&other, &other_end)) = self.ends.range(..end).next_back() {
            if other_end <= start {
                break;
            }
            self.ends.remove(&other);
            if other_end > end {
                self.ends.insert(end, other_end);
            }
            if other < start {
                self.ends.insert(other, start);
            }
        }
        self.drop_too_many();
    }

    fn drop_too_many(&mut self) {
        if self.ends.len() > MOST {
            self.ends.clear();
        }
    }

    fn insert(&mut self, at: u64, len: u64) {
        let (mut start, mut end) = (at, at.saturating_add(len));
        if start >= end || self.covers(start, end) {
            return;
        }
        while let Some((&other, &other_end)) = self.ends.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            (start, end) = (start.min(other), end.max(other_end));
            self.ends.remove(&other);
        }
        self.ends.insert(start, end);
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        self.ends.range(..=start).next_back().is_some_and(|(_, other)| *other >= end)
    }

    /// Whether the byte at this address is in it.
    pub fn contains(&self, at: u64) -> bool {
        self.ends.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// Whether any of `len` bytes from `at` on is in it.
    pub fn touches(&self, at: u64, len: u64) -> bool {
        self.ends.range(..at.saturating_add(len)).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// Which of the 64 bytes from an address on are in it, a bit each.
    pub fn bits(&self, at: u64) -> u64 {
        let behind = at.saturating_add(64);
        let overlapping = self.ends.range(..behind).rev().take_while(|(_, end)| **end > at);
        overlapping.fold(0, |bits, (start, end)| {
            let (first, last) = (start.max(&at) - at, end.min(&behind) - 1 - at);
            bits | u64::MAX >> (63 - (last - first)) << first
        })
    }

    /// Start and length of each range, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ends.iter().map(|(start, end)| (*start, end - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_is_not_in_it() {
        let mut ranges = Ranges::default();
        for (at, len) in [(10, 10), (30, 10), (20, 5)] {
            ranges.add(at, len);
        }
        ranges.remove(12, 3);
        ranges.remove(24, 8);
        ranges.remove(0, 5);
        ranges.remove(35, 0);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(10, 2), (15, 9), (32, 8)]);
        assert_eq!(ranges.bits(8), 0b11 << 2 | 0x1ff << 7 | 0xff << 24);
        assert_eq!((ranges.bits(40), ranges.bits(0) >> 10 & 0b111, ranges.bits(u64::MAX)), (0, 0b011, 0));
        let touched: Vec<u64> = (0..45).filter(|at| ranges.touches(*at, 2)).collect();
        let expected: Vec<u64> = (0..45).filter(|at| ranges.contains(*at) || ranges.contains(at + 1)).collect();
        assert_eq!(touched, expected);
        ranges.remove(0, u64::MAX);
        assert_eq!(ranges.iter().count(), 0);
    }

    /// What may have changed may be everything; what is certain of memory may not.
    #[test]
    fn too_many_are_all_or_none() {
        let (mut all, mut none, mut divided) = (Ranges::default(), Ranges::default(), Ranges::default());
        divided.add_these(0, u64::MAX);
        for at in (0..=2 * MOST as u64).step_by(2) {
            all.add(at, 1);
            none.add_these(at, 1);
            divided.remove(at, 1);
        }
        assert!(all.contains(1) && !none.contains(0) && !divided.contains(u64::MAX - 1));
    }
}
