//! Tables of permissions, a thread's each: where they lie, and those that wait for other threads.

use super::all::{MOST_FREE, Shadows, keep_to_itself, shadows};
use super::reserved;
use super::sizes::{GRANULE, TABLE, TABLES, UNIT_SHIFT, UNITS};
use crate::base::failure::fail;
use bugnet_dr::zeroing;
use std::ops::Range;

/// The memory of the table in a unit.
fn extent(unit: u64) -> Range<u64> {
    unit << UNIT_SHIFT..(unit + 1) << UNIT_SHIFT
}

impl Shadows {
    /// A table in the first unit in which there is room for one. Returns its unit.
    fn map_table(&mut self) -> u64 {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let flags = flags | libc::MAP_NORESERVE;
        for unit in self.tables_end.max(TABLES >> UNIT_SHIFT)..UNITS {
            let mut granules = extent(unit).step_by(GRANULE as usize);
            let is_taken = |start| self.claims.contains_key(&start) || self.granules.contains_key(&start);
            if self.tables.contains(&unit) || granules.any(is_taken) {
                continue;
            }
            let at = (unit << UNIT_SHIFT) as *mut libc::c_void;
            let over = if reserved::contains(&extent(unit)) { libc::MAP_FIXED } else { libc::MAP_FIXED_NOREPLACE };
            let flags = flags | over;
            // SAFETY: a new mapping that replaces nothing, or nothing that can be accessed.
            let got = unsafe { libc::mmap(at, TABLE, protection, flags, -1, 0) };
            if got == at {
                keep_to_itself(at, TABLE);
                self.tables.insert(unit);
                self.tables_end = unit + 1;
                return unit;
            }
            if got != libc::MAP_FAILED {
                // SAFETY: the mapping that was just made, by a kernel that does not know the flag.
                unsafe { libc::munmap(got, TABLE) };
            }
        }
        fail("there is no address space left for another thread")
    }

    fn unmap_table(&mut self, unit: u64) {
        // SAFETY: the table in the unit, which nobody uses.
        unsafe { reserved::unmap(&extent(unit)) };
        self.tables.remove(&unit);
        self.tables_end = self.tables_end.min(unit);
    }

    /// Tables that wait for other threads go from these units.
    pub(super) fn unmap_free_tables(&mut self, units: Range<u64>) {
        let there: Vec<u64> = self.free_tables.extract_if(.., |unit| units.contains(unit)).collect();
        there.into_iter().for_each(|unit| self.unmap_table(unit));
    }
}

/// Address space for a table of [`TABLE`] bytes, of which what is used takes up memory, zero at first.
pub fn map_table() -> *mut u8 {
    let unit = shadows(|all| all.free_tables.pop().unwrap_or_else(|| all.map_table()));
    (unit << UNIT_SHIFT) as *mut u8
}

/// Gives a table back.
///
/// # Safety
/// From [`map_table`], and not used any more.
pub unsafe fn unmap_table(table: *mut u8) {
    let unit = table as u64 >> UNIT_SHIFT;
    // SAFETY: the caller's promise; a mapping of anonymous memory.
    let is_zero = unsafe { zeroing::free(extent(unit)) };
    shadows(|all| {
        if is_zero && all.free_tables.len() < MOST_FREE {
            all.free_tables.push(unit);
        } else {
            all.unmap_table(unit);
        }
    });
}
