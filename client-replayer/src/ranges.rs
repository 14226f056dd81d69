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
