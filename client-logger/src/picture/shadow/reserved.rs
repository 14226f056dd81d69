//! Address space that the program has reserved for nothing: large mappings at addresses of its choice that nobody can access, as those by which ThreadSanitizer
//! keeps others out of all that lies between its own parts. Shadows lie there as in memory that is free, and the program has its mapping around them.

use super::all::{Shadows, shadows};
use super::sizes::{ADDRESS_BITS, GRANULE};
use crate::base::lock::{Mutex, MutexGuard};
use crate::base::maps;
use rangemap::RangeSet;
use std::ops::Range;
use std::sync::LazyLock;

static RESERVED: LazyLock<Mutex<RangeSet<u64>>> = LazyLock::new(|| Mutex::new(RangeSet::new()));

fn reserved() -> MutexGuard<'static, RangeSet<u64>> {
    RESERVED.lock()
}

/// Whether all of a range is.
pub fn contains(range: &Range<u64>) -> bool {
    reserved().get(&range.start).is_some_and(|part| range.end <= part.end)
}

/// All of it.
pub fn all() -> Vec<Range<u64>> {
    reserved().iter().cloned().collect()
}

/// What of a range is not.
pub fn without(range: &Range<u64>) -> Vec<Range<u64>> {
    reserved().gaps(range).collect()
}

/// The program is about to do something else with a range, from which all of ours has gone.
pub fn forget(range: &Range<u64>) {
    if !range.is_empty() {
        reserved().remove(range.clone());
    }
}

/// Maps a part of the program's reservation.
///
/// # Safety
/// Nobody uses what is there.
unsafe fn map(range: &Range<u64>) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let (at, len) = (range.start as *mut libc::c_void, (range.end - range.start) as usize);
    // SAFETY: the caller's promise.
    unsafe { libc::mmap(at, len, libc::PROT_NONE, flags, -1, 0) == at }
}

/// Unmaps a mapping of ours: the program's is there again, where it has reserved the place.
///
/// # Safety
/// Nobody uses it.
pub(super) unsafe fn unmap(range: &Range<u64>) {
    // SAFETY: the caller's promise.
    unsafe {
        if !contains(range) || !map(range) {
            libc::munmap(range.start as *mut libc::c_void, (range.end - range.start) as usize);
        }
    }
}

/// Reserves a range in the kernel's place. `false` if the kernel is to do it, as there is something of the program's.
pub fn reserve(range: &Range<u64>) -> bool {
    if range.end - range.start < GRANULE || range.end >> ADDRESS_BITS != 0 {
        return false;
    }
    let inside: Vec<Range<u64>> = maps::all()
        .into_iter()
        .map(|region| region.range)
        .filter(|other| other.start < range.end && range.start < other.end)
        .collect();
    let done = shadows(|all| {
        let is_ours = |region: &Range<u64>| all.is_ours_alone(region);
        // SAFETY: there is nothing in these parts.
        inside.iter().all(is_ours) && free_parts(range, &inside).iter().all(|part| unsafe { map(part) })
    });
    if done {
        reserved().insert(range.clone());
    }
    done
}

/// What is left of a range between others, which ascend.
fn free_parts(range: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    let mut at = range.start;
    for other in others {
        parts.push(at..other.start.max(at));
        at = at.max(other.end);
    }
    parts.push(at..range.end.max(at));
    parts.retain(|part| !part.is_empty());
    parts
}

impl Shadows {
    /// Whether all of a region is of shadows and tables.
    fn is_ours_alone(&self, region: &Range<u64>) -> bool {
        (region.start..region.end).step_by(GRANULE as usize).chain([region.end - 1]).all(|at| self.has(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between() {
        let parts = |others: &[Range<u64>]| -> Vec<(u64, u64)> {
            free_parts(&(10..20), others).into_iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(parts(&[]), [(10, 20)]);
        assert_eq!(parts(&[5..12, 15..16]), [(12, 15), (16, 20)]);
        assert_eq!(parts(&[5..12, 15..30]), [(12, 15)]);
        assert_eq!(parts(std::slice::from_ref(&(5..30))), []);
    }
}
