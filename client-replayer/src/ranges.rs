//! Sets of addresses that consist of ranges.

use std::collections::BTreeMap;

/// Most ranges that are told apart: of more, all memory is in the set.
const MOST: usize = 1 << 16;

/// Ranges of addresses, which grow together where they touch.
#[derive(Default)]
pub struct Ranges {
    /// The end of each, by its start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `len` bytes from `at` on.
    pub fn add(&mut self, at: u64, len: u64) {
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
        if self.ends.len() > MOST {
            self.ends = BTreeMap::from([(0, u64::MAX)]);
        }
    }

    /// Takes `len` bytes from `at` on out.
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
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        self.ends.range(..=start).next_back().is_some_and(|(_, other)| *other >= end)
    }

    /// Whether the byte at this address is in it.
    pub fn contains(&self, at: u64) -> bool {
        self.ends.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
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
        ranges.remove(0, u64::MAX);
        assert_eq!(ranges.iter().count(), 0);
    }
}
