//! Calls on memory that is the recorder's, of which the program knows from `/proc/self/maps` at the most: where there is nothing, for it.

use crate::base::maps;
use crate::base::own_memory;
use crate::kernel::results::error;
use bugnet_dr::space::is_tool;
use bugnet_format::types::Addr;
use std::ops::Range;

/// Of a range that is longer than this, all that is mapped there is asked for.
const LONG: u64 = 64 << 20;

/// What becomes of a call on a range.
#[derive(Debug, PartialEq, Eq)]
pub enum Instead {
    /// Its result: there is nothing but the recorder's.
    Result(i64),
    /// It is for this part alone, in which there is nothing of the recorder's.
    Part(Range<u64>),
    /// It cannot be made: what is the program's lies on both sides of what is the recorder's.
    Refused,
}

/// Parts of a range in which there is something that is not the recorder's. `is_ours`: whether what is mapped at an address is.
fn parts(
    range: &Range<u64>,
    mapped: impl Iterator<Item = Range<u64>>,
    ours: &[Range<u64>],
    is_ours: impl Fn(u64) -> bool,
) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut add = |part: Range<u64>| match parts.last_mut() {
        Some(last) if last.end == part.start => last.end = part.end,
        _ => parts.push(part),
    };
    for region in mapped.filter(|region| region.start < range.end && range.start < region.end && !is_ours(region.start))
    {
        // The kernel may have joined it with what is the recorder's.
        let mut at = region.start.max(range.start);
        let end = region.end.min(range.end);
        let mut within: Vec<_> = ours.iter().filter(|own| own.start < end && at < own.end).collect();
        within.sort_unstable_by_key(|own| own.start);
        for own in within {
            if at < own.start {
                add(at..own.start);
            }
            at = at.max(own.end);
        }
        if at < end {
            add(at..end);
        }
    }
    parts
}

/// Ranges with the pages that they end in.
fn whole_pages(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.iter_mut().for_each(|range| range.end = range.end.next_multiple_of(Addr::PAGE));
    ranges
}

/// What becomes of a call that changes what is mapped in a range, if there is something of the recorder's; `is_shadow`: whether what is at an address
/// makes way.
pub fn instead(number: i64, range: &Range<u64>, is_shadow: impl Fn(u64) -> bool) -> Option<Instead> {
    let is_own = |address| is_tool(address) && !is_shadow(address);
    let touches = |own: &Range<u64>| own.start < range.end && range.start < own.end;
    let (first, last) = (range.start, range.end.saturating_sub(Addr::PAGE));
    let asked = range.end - range.start > LONG || is_own(first) || is_own(last) || own_memory::is_in(range);
    if range.is_empty() || !asked {
        return None;
    }
    let all = maps::all();
    let mapped = || all.iter().map(|region| region.range.clone());
    if !own_memory::is_in(range) && !mapped().any(|region| touches(&region) && is_own(region.start)) {
        return None;
    }
    Some(match (number, &parts(range, mapped(), &whole_pages(own_memory::all()), is_own)[..]) {
        (libc::SYS_munmap, []) => Instead::Result(0),
        (libc::SYS_munmap, [part]) => Instead::Part(part.clone()),
        (libc::SYS_mremap, []) => Instead::Result(error(libc::EFAULT)),
        (_, []) => Instead::Result(error(libc::ENOMEM)),
        _ => Instead::Refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_programs_is_found() {
        let mapped = || [0x1000..0x4000, 0x6000..0x8000, 0x8000..0x9000, 0x9000..0xa000].into_iter();
        let none = |_| false;
        assert_eq!(parts(&(0x2000..0x7000), mapped(), &[], none), [0x2000..0x4000, 0x6000..0x7000]);
        assert_eq!(parts(&(0x6000..0xb000), mapped(), &[], none), [0x6000..0xa000, 0..0][..1]);
        assert_eq!(parts(&(0x6000..0xb000), mapped(), &[], |at| at == 0x8000), [0x6000..0x8000, 0x9000..0xa000]);
        let ours = [0x3000..0x4000, 0x1000..0x2000];
        assert_eq!(parts(&(0..0x5000), mapped(), &ours, none), [0x2000..0x3000, 0..0][..1]);
        assert_eq!(parts(&(0x3000..0x6000), mapped(), &ours, none), []);
    }
}
