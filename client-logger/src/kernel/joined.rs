//! Memory that the kernel has joined: what its list has as one region may be the program's in one part, and the recorder's or DynamoRIO's in others.

use bugnet_dr::space;
use bugnet_format::types::Addr;
use std::ops::Range;

const PAGE: u64 = Addr::PAGE;
/// Of something longer than this, both of whose ends are DynamoRIO's, all is: it reserves its memory in one piece.
const LONG: u64 = 64 << 20;

/// What of a region is not the program's, ascending. `others`: what is the recorder's, beside what DynamoRIO knows of.
pub fn not_the_programs(region: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    ours(region, others, space::is_tool)
}

/// What of it is.
pub fn the_programs(region: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    without(region.clone(), &not_the_programs(region, others))
}

/// As [`not_the_programs`]. `is_tool`: whether DynamoRIO knows a page as its own, or as one of a library of the recorder's.
fn ours(region: &Range<u64>, others: &[Range<u64>], is_tool: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let inside = |range: &Range<u64>| range.start.max(region.start)..range.end.next_multiple_of(PAGE).min(region.end);
    let mut ours: Vec<_> = others.iter().map(inside).collect();
    ours.extend(without(region.clone(), &ours).iter().flat_map(|part| tools_of(part, &is_tool)));
    ours.retain(|range| !range.is_empty());
    ours.sort_unstable_by_key(|range| range.start);
    ours
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

/// A range without others.
pub fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut others: Vec<_> = others.iter().filter(|other| other.start < range.end && other.end > range.start).collect();
    others.sort_by_key(|other| other.start);
    let mut left = Vec::new();
    let mut at = range.start;
    for other in others {
        left.push(at..other.start);
        at = at.max(other.end);
    }
    left.push(at..range.end);
    left.retain(|range| !range.is_empty());
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn the_ends_of_what_is_joined_are_found() {
        let region = 0x1000..0x9000;
        let ours = |others: &[Range<u64>], tools: &[Range<u64>]| {
            super::ours(&region, others, |page| tools.iter().any(|tool| tool.contains(&page)))
        };
        assert_eq!(ours(&[], &[]), []);
        assert_eq!(ours(&[], &[0x1000..0x3000, 0x8000..0xa000]), [0x1000..0x3000, 0x8000..0x9000]);
        assert_eq!(ours(&[], from_ref(&(0..0x10000))), [region.clone(), 0..0][..1]);
        // DynamoRIO's lies behind memory of the recorder's.
        assert_eq!(
            ours(&[0x800..0x2010, 0x5000..0x6000], from_ref(&(0x3000..0x5000))),
            [0x1000..0x3000, 0x3000..0x5000, 0x5000..0x6000]
        );
        // Nobody looks at each page of what is long.
        let long = 0..1 << 40;
        assert_eq!(super::ours(&long, &[], |_| true), [long.clone(), 0..0][..1]);
    }

    #[test]
    fn others_are_left_out() {
        let without = |others: &[Range<u64>]| -> Vec<(u64, u64)> {
            super::without(10..20, others).into_iter().map(|left| (left.start, left.end)).collect()
        };
        assert_eq!(without(&[]), [(10, 20)]);
        assert_eq!(without(&[15..16, 12..13]), [(10, 12), (13, 15), (16, 20)]);
        assert_eq!(without(&[5..12, 11..13, 18..30]), [(13, 18)]);
        assert_eq!(without(&[0..10, 20..30]), [(10, 20)]);
        assert_eq!(without(std::slice::from_ref(&(0..40))), []);
    }
}
