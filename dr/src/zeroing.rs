//! Makes memory zero again of which much will be used again.
//!
//! A page that the kernel has to make anew takes microseconds, and twice as many if it is read before it is written; one
//! that is overwritten, a tenth of one. So pages stay, and are overwritten where something was written to them.

use std::ops::Range;

const PAGE: usize = 4096;
/// Pages that the kernel is asked about at once.
const WINDOW: usize = 4096;

/// Every so many times, pages go in which nothing was written since the time before.
const SWEEP: u64 = 8;

/// Makes ranges of private anonymous memory zero, for the `turn`-th time; `most`: how many bytes may stay. An error is the start of a
/// range with which the kernel refuses to. Of pages that are not whole in a range, that part is overwritten.
///
/// # Safety
/// No reference to the memory is held, and no other thread uses it meanwhile.
pub unsafe fn zero_again(ranges: impl IntoIterator<Item = Range<u64>>, turn: u64, most: usize) -> Result<(), u64> {
    let mut room = most / PAGE;
    let sweep = turn.is_multiple_of(SWEEP);
    for range in ranges {
        let start = range.start;
        let page = PAGE as u64;
        let whole = range.start.next_multiple_of(page)..range.end & !(page - 1);
        if whole.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { overwrite(range) };
            continue;
        }
        // SAFETY: the caller's promise.
        unsafe {
            overwrite(range.start..whole.start);
            overwrite(whole.end..range.end);
            zero(whole, sweep, &mut room).then_some(()).ok_or(start)?;
        }
    }
    Ok(())
}

/// The same of one range, `room` being how many pages may stay. `false` if the kernel refuses.
///
/// # Safety
/// As for [`zero_again`].
unsafe fn zero(range: Range<u64>, sweep: bool, room: &mut usize) -> bool {
    let mut resident = [0u8; WINDOW];
    // From here on, nothing has been decided.
    let mut open = range.start;
    for window in range.clone().step_by(WINDOW * PAGE) {
        let pages = ((range.end - window) as usize / PAGE).min(WINDOW);
        // SAFETY: asks about memory, with room for the answer.
        if *room == 0 || unsafe { libc::mincore(window as *mut _, pages * PAGE, resident.as_mut_ptr()) } != 0 {
            break;
        }
        for (n, _) in resident[..pages].iter().enumerate().filter(|(_, there)| **there & 1 != 0) {
            let page = window + (n * PAGE) as u64;
            // SAFETY: a page of the range: the caller's promise.
            if *room > 0 && (unsafe { overwrite(page..page + PAGE as u64) } || !sweep) {
                *room -= 1;
                // What is not in memory may be swapped out.
                // SAFETY: as above.
                if open < page && !unsafe { free(open..page) } {
                    return false;
                }
                open = page + PAGE as u64;
            }
        }
    }
    // SAFETY: as above.
    open == range.end || unsafe { free(open..range.end) }
}

/// Which pages of private anonymous memory were written to, or read, since it was mapped or freed; all others are zero.
pub struct Used {
    /// First bytes, in ascending order, and a byte for each page.
    ranges: Vec<(u64, Vec<u8>)>,
}

impl Used {
    /// In these ranges, which ascend. `None`: nobody knows, as the kernel may have put pages elsewhere, or does not tell.
    #[must_use]
    pub fn find(ranges: impl Iterator<Item = Range<u64>>) -> Option<Self> {
        // SAFETY: plain data, for which all zeros is a value.
        let mut system: libc::sysinfo = unsafe { std::mem::zeroed() };
        // SAFETY: has room for the answer.
        let is_told = unsafe { libc::sysinfo(&raw mut system) } == 0;
        if !is_told || system.totalswap != 0 {
            return None;
        }
        let page = PAGE as u64;
        let find = |range: Range<u64>| {
            let (start, end) = (range.start & !(page - 1), range.end.next_multiple_of(page));
            let mut pages = vec![0; (end - start) as usize / PAGE];
            // SAFETY: asks about memory, with room for the answer.
            let is_told = unsafe { libc::mincore(start as *mut _, (end - start) as usize, pages.as_mut_ptr()) } == 0;
            is_told.then_some((start, pages))
        };
        Some(Self { ranges: ranges.map(find).collect::<Option<_>>()? })
    }

    /// Their first bytes. Of the ranges' first and last pages, too, where not all of them is in a range.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.ranges.iter().flat_map(|(start, pages)| {
            let used = pages.iter().enumerate().filter(|(_, page)| **page & 1 != 0);
            used.map(move |(number, _)| start + (number * PAGE) as u64)
        })
    }
}

/// Overwrites memory that is not zero. Whether it was not.
///
/// # Safety
/// As for [`zero_again`].
unsafe fn overwrite(range: Range<u64>) -> bool {
    // SAFETY: the caller's promise. The kernel's one page of zeros must not be written to, or it is copied.
    let bytes = unsafe { std::slice::from_raw_parts_mut(range.start as *mut u8, (range.end - range.start) as usize) };
    let (lines, rest) = bytes.as_chunks::<64>();
    let is_used = |line: &[u8]| line.iter().fold(0, |all, byte| all | byte) != 0;
    let used = lines.iter().any(|line| is_used(line)) || is_used(rest);
    if used {
        bytes.fill(0);
    }
    used
}

/// Gives whole pages back to the kernel: they are zero when they are used again. `false` if it refuses.
///
/// # Safety
/// As for [`zero_again`].
pub unsafe fn free(range: Range<u64>) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(range.start as *mut _, (range.end - range.start) as usize, libc::MADV_DONTNEED) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 3 * WINDOW + 5;

    fn resident(at: *mut u8) -> Vec<usize> {
        let mut there = vec![0; PAGES];
        // SAFETY: as in the code tested.
        assert_eq!(unsafe { libc::mincore(at.cast(), PAGES * PAGE, there.as_mut_ptr()) }, 0);
        (0..PAGES).filter(|n| there[*n] & 1 != 0).collect()
    }

    #[test]
    fn what_was_used_stays_and_is_zero() {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, and its pages.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), PAGES * PAGE, protection, flags, -1, 0).cast::<u8>();
            let range = at as u64..at as u64 + (PAGES * PAGE) as u64;
            let used = [0, 1, 7, WINDOW - 1, WINDOW, 2 * WINDOW + 9, PAGES - 1];
            used.iter().for_each(|n| at.add(n * PAGE + n % PAGE).write(1));
            // Only read, and written with zero.
            assert_eq!(at.add(3 * PAGE).read_volatile(), 0);
            at.add(5 * PAGE).write_volatile(0);
            let all_zero = || (0..PAGES * PAGE).step_by(8).all(|n| at.add(n).cast::<u64>().read() == 0);
            let mut room = 100;
            assert!(zero(range.clone(), false, &mut room));
            assert_eq!((resident(at), room), (vec![0, 1, 3, 5, 7, WINDOW - 1, WINDOW, 2 * WINDOW + 9, PAGES - 1], 91));
            // What has not been used since goes, and so does what there is no room for.
            used[2..].iter().for_each(|n| at.add(n * PAGE).write(1));
            let mut room = 3;
            assert!(zero(range.clone(), true, &mut room));
            assert_eq!((resident(at), room), (used[2..5].to_vec(), 0));
            assert!(zero(range.clone(), false, &mut 0));
            assert!(resident(at).is_empty());
            used.iter().for_each(|n| at.add(n * PAGE + 8).write(1));
            assert!(zero(range.clone(), false, &mut 5));
            assert!(all_zero());
            // Parts of pages: nothing around them is touched.
            for (from, to) in [(10, 30), (PAGE - 64, 3 * PAGE + 64), (4 * PAGE + 64, 5 * PAGE)] {
                at.write_bytes(1, 6 * PAGE);
                assert_eq!(
                    zero_again(std::iter::once(range.start + from as u64..range.start + to as u64), 1, 100),
                    Ok(())
                );
                assert!(
                    (0..6 * PAGE).all(|n| at.add(n).read() == u8::from(!(from..to).contains(&n))),
                    "{from} to {to}"
                );
            }
            libc::munmap(at.cast(), PAGES * PAGE);
        }
    }

    #[test]
    fn pages_that_were_used_are_known() {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, and its pages.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), 64 * PAGE, protection, flags, -1, 0).cast::<u8>();
            libc::madvise(at.cast(), 64 * PAGE, libc::MADV_NOHUGEPAGE);
            at.add(3 * PAGE + 7).write_volatile(1);
            at.add(40 * PAGE).write_volatile(1);
            let page = |n: usize| at as u64 + (n * PAGE) as u64;
            // Ranges of which the first and the last page are not whole.
            let ranges = [page(0)..page(3) + 10, page(5)..page(6), page(40) + 8..page(41) + 8];
            // With swap, nobody knows.
            if let Some(used) = Used::find(ranges.into_iter()) {
                let known: Vec<u64> = used.pages().collect();
                assert_eq!(known, [page(3), page(40)]);
            }
            libc::munmap(at.cast(), 64 * PAGE);
        }
    }
}
