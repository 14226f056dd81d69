//! Calls on memory that is the recorder's, of which the program knows from `/proc/self/maps` at the most: where there is nothing, for it.

use crate::base::maps;
use crate::base::own_memory;
use crate::kernel::joined;
use crate::kernel::results::error;
use bugnet_dr::space::is_tool;
use bugnet_format::types::Addr;
use rangemap::RangeSet;
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

/// What becomes of a call that changes what is mapped in a range, if there is something of the recorder's; `is_shadow`: whether what is at an address
/// makes way.
pub fn instead(number: i64, range: &Range<u64>, is_shadow: impl Fn(u64) -> bool) -> Option<Instead> {
    let is_own = |address| is_tool(address) && !is_shadow(address);
    let (first, last) = (range.start, range.end.saturating_sub(Addr::PAGE));
    let asked = range.end - range.start > LONG || is_own(first) || is_own(last) || own_memory::is_in(range);
    if range.is_empty() || !asked {
        return None;
    }
    let (own, mut ours, mut others) = (own_memory::all(), false, RangeSet::new());
    for region in maps::all() {
        let Range { start, end } = region.range;
        let part = start.max(range.start)..end.min(range.end);
        if part.is_empty() {
        } else if is_shadow(start) {
            others.insert(part);
        } else {
            let here = joined::not_the_programs(&(start..end), &own);
            ours |= here.overlaps(&part);
            here.gaps(&part).for_each(|left| others.insert(left));
        }
    }
    if !ours {
        return None;
    }
    let others: Vec<Range<u64>> = others.into_iter().collect();
    Some(match (number, &others[..]) {
        (libc::SYS_munmap, []) => Instead::Result(0),
        (libc::SYS_munmap, [part]) => Instead::Part(part.clone()),
        (libc::SYS_mremap, []) => Instead::Result(error(libc::EFAULT)),
        (_, []) => Instead::Result(error(libc::ENOMEM)),
        _ => Instead::Refused,
    })
}
