//! Memory that the kernel has joined: what its list has as one region may be the program's in one part, and the recorder's or DynamoRIO's in others.

use bugnet_dr::space;
use bugnet_format::types::Addr;
use rangemap::RangeSet;
use std::ops::Range;

const PAGE: u64 = Addr::PAGE;
/// Of something longer than this, both of whose ends are DynamoRIO's, all is: it reserves its memory in one piece.
const LONG: u64 = 64 << 20;

/// What of a region is not the program's. `others`: what is the recorder's, beside what DynamoRIO knows of.
pub fn not_the_programs(region: &Range<u64>, others: &[Range<u64>]) -> RangeSet<u64> {
    ours(region, others, space::is_tool)
}

/// What of it is, ascending.
pub fn the_programs(region: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    not_the_programs(region, others).gaps(region).collect()
}

/// A range without others, ascending.
pub fn without(range: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    set(others.iter().cloned()).gaps(range).collect()
}

/// Ranges, some of which may be empty.
fn set(ranges: impl Iterator<Item = Range<u64>>) -> RangeSet<u64> {
    ranges.filter(|range| !range.is_empty()).collect()
}

/// As [`not_the_programs`]. `is_tool`: whether DynamoRIO knows a page as its own, or as one of a library of the recorder's.
fn ours(region: &Range<u64>, others: &[Range<u64>], is_tool: impl Fn(u64) -> bool) -> RangeSet<u64> {
    let inside = |range: &Range<u64>| range.start.max(region.start)..range.end.next_multiple_of(PAGE).min(region.end);
    let others = set(others.iter().map(inside));
    let tools = others.gaps(region).flat_map(|part| tools_of(&part, &is_tool));
    set(others.iter().cloned().chain(tools))
}

/// What is DynamoRIO's at the ends of a part: it is nowhere between what is the program's.
fn tools_of(part: &Range<u64>, is_tool: impl Fn(u64) -> bool) -> [Range<u64>; 2] {
    if part.end - part.start > LONG && is_tool(part.start) && is_tool(part.end - PAGE) {
        return [part.clone(), 0..0];
    }
    let (mut first, mut behind) = (part.start, part.end);
    while first < behind && is_tool(first) {
        first += PAGE;
    }
    while behind > first && is_tool(behind - PAGE) {
        behind -= PAGE;
    }
    [part.start..first, behind..part.end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn the_ends_of_what_is_joined_are_found() {
        let region = 0x1000..0x9000;
        let ours = |others: &[Range<u64>], tools: &[Range<u64>]| {
            let is_tool = |page: u64| tools.iter().any(|tool| tool.contains(&page));
            super::ours(&region, others, is_tool).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(ours(&[], &[]), []);
        assert_eq!(ours(&[], &[0x1000..0x3000, 0x8000..0xa000]), [0x1000..0x3000, 0x8000..0x9000]);
        assert_eq!(ours(&[], from_ref(&(0..0x10000))), from_ref(&region));
        // DynamoRIO's lies behind memory of the recorder's.
        assert_eq!(
            ours(&[0x800..0x2010, 0x6000..0x7000], from_ref(&(0x3000..0x5000))),
            [0x1000..0x5000, 0x6000..0x7000]
        );
        // Nobody looks at each page of what is long.
        let long = 0..1 << 40;
        assert_eq!(super::ours(&long, &[], |_| true), set([long.clone()].into_iter()));
    }

    #[test]
    fn others_are_left_out() {
        let without = |others: &[Range<u64>]| -> Vec<(u64, u64)> {
            super::without(&(10..20), others).into_iter().map(|left| (left.start, left.end)).collect()
        };
        assert_eq!(without(&[]), [(10, 20)]);
        assert_eq!(without(&[15..16, 12..13]), [(10, 12), (13, 15), (16, 20)]);
        assert_eq!(without(&[5..12, 11..13, 18..30]), [(13, 18)]);
        assert_eq!(without(&[0..10, 20..30]), [(10, 20)]);
        assert_eq!(without(from_ref(&(0..40))), []);
    }
}
