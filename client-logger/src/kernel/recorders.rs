//! Calls on memory that is the recorder's, of which the program knows from `/proc/self/maps` at the most: where there is nothing, for it.

use crate::base::maps;
use crate::base::own_memory;
use crate::kernel::joined;
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

/// What of the given regions lies in a range, where pieces that touch are one.
fn within(range: &Range<u64>, regions: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    for region in regions {
        let part = region.start.max(range.start)..region.end.min(range.end);
        match parts.last_mut() {
            _ if part.is_empty() => {}
            Some(last) if last.end == part.start => last.end = part.end,
            _ => parts.push(part),
        }
    }
    parts
}

/// What becomes of a call that changes what is mapped in a range, if there is something of the recorder's; `is_shadow`: whether what is at an address
/// makes way.
pub fn instead(number: i64, range: &Range<u64>, is_shadow: impl Fn(u64) -> bool) -> Option<Instead> {
    let is_own = |address| is_tool(address) && !is_shadow(address);
    let (first, last) = (range.start, range.end.saturating_sub(Addr::PAGE));
    let asked = range.end - range.start > LONG || is_own(first) || is_own(last) || own_memory::is_in(range);
    if range.is_empty() || !asked {
        return None;
    }
    let (all, own) = (maps::all(), own_memory::all());
    let there = || all.iter().map(|region| &region.range).filter(|at| at.start < range.end && range.start < at.end);
    if there()
        .filter(|region| !is_shadow(region.start))
        .all(|region| within(range, joined::not_the_programs(region, &own).into_iter()).is_empty())
    {
        return None;
    }
    let others = there().flat_map(|region| match is_shadow(region.start) {
        true => vec![region.clone()],
        false => joined::the_programs(region, &own),
    });
    Some(match (number, &within(range, others)[..]) {
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
    fn what_lies_in_a_range_is_one_where_it_touches() {
        let regions = || [0x1000..0x4000, 0x6000..0x8000, 0x8000..0x9000, 0x9000..0xa000].into_iter();
        assert_eq!(within(&(0x2000..0x7000), regions()), [0x2000..0x4000, 0x6000..0x7000]);
        assert_eq!(within(&(0x6000..0xb000), regions()), [0x6000..0xa000, 0..0][..1]);
        assert_eq!(within(&(0x4000..0x6000), regions()), []);
    }
}
