//! Ranges of addresses, each a start and a length.

/// Ranges in any order, ascending, and joined where they touch.
pub fn joined(ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    ranges.into_iter().for_each(|(start, len)| add(&mut all, start, len));
    all
}

/// Adds a range to others, which ascend and do not touch.
pub fn add(ranges: &mut Vec<(u64, u64)>, start: u64, len: u64) {
    let (mut start, mut end) = (start, start.saturating_add(len));
    if start == end {
        return;
    }
    let first = ranges.partition_point(|(at, len)| at + len < start);
    let behind = ranges.partition_point(|(at, _)| *at <= end);
    if let (Some((low, _)), Some((high, len))) = (ranges.get(first), ranges[..behind].last())
        && first < behind
    {
        (start, end) = (start.min(*low), end.max(high + len));
    }
    ranges.splice(first..behind, [(start, end - start)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = Vec::new();
        for (start, len) in [(10, 5), (30, 5), (20, 5), (15, 5), (50, 0), (40, 10), (34, 3), (0, u64::MAX - 5)] {
            add(&mut ranges, start, len);
            assert!(ranges.is_sorted_by(|(a, len), (b, _)| a + len < *b), "{ranges:?}");
            if start == 40 {
                assert_eq!(ranges, [(10, 15), (30, 5), (40, 10)]);
            }
        }
        assert_eq!(ranges, [(0, u64::MAX - 5)]);
    }
}
