//! Room for the memory of a program whose light log is expanded, as long as that is to be made.

use crate::base::light;
use std::ops::Range;

const PAGE: usize = 4096;

/// A page at each place where the program will have memory, as long as this is there: whoever looks for room sees them.
pub struct Places(Vec<u64>);

impl Places {
    /// Takes them, before the program begins.
    pub fn hold() -> Self {
        let regions = light::of_process().filter(|_| light::is_to_begin()).map(|light| light.regions.clone());
        let page = |region: Range<u64>| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: replaces nothing.
            let got = unsafe { libc::mmap(region.start as *mut _, PAGE, libc::PROT_READ, flags, -1, 0) };
            (got as u64 == region.start).then_some(region.start)
        };
        Self(regions.unwrap_or_default().into_iter().filter_map(page).collect())
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for start in &self.0 {
            // SAFETY: a page that `hold` has made.
            unsafe { libc::munmap(*start as *mut _, PAGE) };
        }
    }
}
