//! Code that can change without a store to its address: in a mapping that is shared, with another mapping of the same
//! memory or with another process.
//!
//! DynamoRIO notices changes of code by its pages' protection, and so only stores to the address that the code runs
//! at. A block in a shared mapping is treated as one in writable memory therefore ([`crate::picture::writable_code`]).

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::maps;
use crate::base::process::{self, OfProcess};
use bugnet_dr::fragments;
use rangemap::RangeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Start and length of a range around all memory that this process may write to and that was ever shared. Instrumented code
/// looks at it.
pub static HULL: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The mappings of the process whose memory others may write to.
#[derive(Default)]
pub struct SharedMappings {
    ranges: Mutex<RangeSet<u64>>,
    /// Those that this process may write to, too.
    writable: Mutex<RangeSet<u64>>,
    /// Whether all memory is shared, with a process that was made in it.
    all: AtomicBool,
}

/// The mappings of the process in which code may change without a store to its address.
pub static SHARED: OfProcess<SharedMappings> = OfProcess::none();

impl SharedMappings {
    fn ranges(&self) -> MutexGuard<'_, RangeSet<u64>> {
        self.ranges.lock()
    }

    fn writable_ranges(&self) -> MutexGuard<'_, RangeSet<u64>> {
        self.writable.lock()
    }

    /// Those of a forked child, whose memory is the same.
    pub fn fork(&self) -> Self {
        let (ranges, writable) = (self.ranges().clone(), self.writable_ranges().clone());
        set_hull(&writable, false);
        Self { ranges: Mutex::new(ranges), writable: Mutex::new(writable), all: AtomicBool::new(false) }
    }

    /// Whether there ever was memory that this process and others can write to.
    pub fn any_writable(&self) -> bool {
        HULL[1].load(Ordering::Relaxed) != 0
    }

    /// From here on, all memory is shared, or is not. In an event of a system call.
    pub fn lend_all(&self, all: bool) {
        let was_any = self.any_writable();
        self.all.store(all, Ordering::SeqCst);
        set_hull(&self.writable_ranges(), all);
        if !was_any && self.any_writable() {
            build_anew();
        }
    }

    fn is_all(&self) -> bool {
        self.all.load(Ordering::Relaxed)
    }

    /// Whether this process and others can write to all of a range.
    pub fn writable(&self, start: u64, len: u64) -> bool {
        if self.is_all() {
            let writes = |region: &maps::Region| region.protection & libc::PROT_WRITE != 0;
            return maps::region_of(start).filter(writes).is_some_and(|region| start + len <= region.range.end);
        }
        self.writable_ranges().get(&start).is_some_and(|range| start + len <= range.end)
    }

    /// Whether this process may write to a range, as far as it is shared.
    fn allow(&self, range: &Range<u64>, write: bool) {
        if range.is_empty() {
            return;
        }
        if !write {
            self.writable_ranges().remove(range.clone());
            return;
        }
        let shared: Vec<_> = self.ranges().overlapping(range).cloned().collect();
        for shared in shared {
            let both = shared.start.max(range.start)..shared.end.min(range.end);
            include(&both);
            self.writable_ranges().insert(both);
        }
    }

    /// Whether any of the range is shared.
    pub fn overlap(&self, start: u64, len: u64) -> bool {
        self.is_all() || self.overlaps_mapping(start, len)
    }

    /// Whether any of the range is in a shared mapping.
    pub fn overlaps_mapping(&self, start: u64, len: u64) -> bool {
        self.ranges().overlaps(&(start..start + len.max(1)))
    }

    /// A system call has succeeded.
    pub fn follow(&self, number: i64, args: &[u64; 6], result: u64) {
        match number {
            libc::SYS_mmap => {
                self.replace(range(result, args[1]), shares(args));
                self.allow(&range(result, args[1]), args[2] as i32 & libc::PROT_WRITE != 0);
            }
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                self.allow(&range(args[0], args[1]), args[2] as i32 & libc::PROT_WRITE != 0);
            }
            libc::SYS_munmap => self.replace(range(args[0], args[1]), false),
            libc::SYS_mremap => {
                // With an old size of 0, and for some flags, the old mapping stays.
                let (shared, write) = (self.overlaps_mapping(args[0], args[1]), self.writable(args[0], 1));
                self.replace(range(result, args[2]), shared);
                self.allow(&range(result, args[2]), write);
            }
            libc::SYS_shmat => {
                self.replace(region(result), true);
                self.allow(&region(result), args[2] as i32 & libc::SHM_RDONLY == 0);
            }
            _ => {}
        }
    }

    fn replace(&self, range: Range<u64>, shared: bool) {
        let mut ranges = self.ranges();
        if range.is_empty() || (!shared && ranges.is_empty()) {
            return;
        }
        if shared {
            ranges.insert(range);
        } else {
            self.writable_ranges().remove(range.clone());
            ranges.remove(range);
        }
    }
}

/// Memory that this process may write to is shared.
fn include(range: &Range<u64>) {
    let (start, len) = (HULL[0].load(Ordering::Relaxed), HULL[1].load(Ordering::Relaxed));
    let larger = if len == 0 { range.clone() } else { start.min(range.start)..(start + len).max(range.end) };
    // Whoever looks meanwhile finds a range that is too large, not one that is too small.
    if larger.start < start || len == 0 {
        HULL[1].store(u64::MAX, Ordering::SeqCst);
        HULL[0].store(larger.start, Ordering::SeqCst);
    }
    HULL[1].store(larger.end - larger.start, Ordering::SeqCst);
    if len == 0 {
        build_anew();
    }
}

/// Blocks look whether memory is shared from here on.
fn build_anew() {
    if !process::threaded() {
        // SAFETY: in an event in which it may be asked for; the whole address space.
        unsafe { fragments::flush_all() };
    }
}

/// Sets [`HULL`]: to everything if all memory is shared, else around what is `writable`.
fn set_hull(writable: &RangeSet<u64>, all: bool) {
    let (start, end) = match (writable.first(), writable.last()) {
        _ if all => (0, u64::MAX),
        (Some(first), Some(last)) => (first.start, last.end),
        _ => (0, 0),
    };
    // As in `include`.
    HULL[1].store(u64::MAX, Ordering::SeqCst);
    HULL[0].store(start, Ordering::SeqCst);
    HULL[1].store(end - start, Ordering::SeqCst);
}

/// The pages of a mapping.
fn range(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len.saturating_add(4095) & !4095)
}

/// The region of equal protection that begins at an address.
fn region(start: u64) -> Range<u64> {
    start..maps::region_of(start).map_or(start + 4096, |region| region.range.end)
}

/// Whether a mapping of these arguments has memory that can be written elsewhere. Of a file in memory, that is so for a
/// private mapping, too: it shows what is written to the file, until it is written to itself.
fn shares(args: &[u64; 6]) -> bool {
    let (flags, fd) = (args[3] as i32, args[4] as i32);
    let in_memory = || {
        let file = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        file.is_ok_and(|path| path.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"))
    };
    flags & libc::MAP_TYPE != libc::MAP_PRIVATE || (flags & libc::MAP_ANONYMOUS == 0 && in_memory())
}
