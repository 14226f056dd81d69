//! The shadows of all threads: which granules and tables are whose, and what waits for other threads.

use super::mapping::{Kind, Mapping};
use super::sizes::{ADDRESS_BITS, GRANULE, TABLES, UNIT_SHIFT, granule};
use crate::base::lock::{Mutex, MutexGuard};
use hashbrown::{HashMap, HashSet};
use std::ops::Range;

/// Granules of a shadow.
#[derive(Default)]
pub struct Own {
    /// Those that can be accessed.
    pub reserved: Vec<u64>,
    /// Those that nothing else can lie in, and that have not been accessed.
    pub held: HashSet<u64>,
    /// Those that are kept free for it, see [`Shadows::claims`].
    pub claimed: Vec<u64>,
}

/// The shadows of all threads.
#[derive(Default)]
pub struct Shadows {
    /// The granules that are reserved or held: start, and whose they are.
    pub granules: HashMap<u64, Mapping>,
    /// Those that are kept free for a shadow, to be reserved by it only.
    pub claims: HashMap<u64, Mapping>,
    /// All shadows, with what they have of both.
    pub all: HashMap<Mapping, Own>,
    /// The shadow that was there first.
    pub first: Option<Mapping>,
    /// Units that hold other things of ours, and below which unit all do.
    pub tables: HashSet<u64>,
    pub tables_end: u64,
    /// The units of those of threads that have ended, which wait for other threads.
    pub free_tables: Vec<u64>,
    /// Those of threads that have ended, whose granules wait for other threads.
    pub free: Vec<Mapping>,
}

impl Shadows {
    /// Whose granules overlap a range.
    pub fn overlapping(&self, range: &Range<u64>) -> HashSet<Mapping> {
        let starts = granule(range.start)..range.end;
        if starts.end.saturating_sub(starts.start) / GRANULE < self.granules.len() as u64 {
            starts.step_by(GRANULE as usize).filter_map(|start| self.granules.get(&start).copied()).collect()
        } else {
            self.granules.iter().filter(|(start, _)| starts.contains(*start)).map(|(_, owner)| *owner).collect()
        }
    }

    /// Whether an address lies in what is reserved for shadows and tables.
    pub fn has(&self, address: u64) -> bool {
        self.granules.contains_key(&granule(address)) || self.tables.contains(&(address >> UNIT_SHIFT))
    }

    /// Units in which further tables are going to be: as many as there are, and some.
    pub fn coming_tables(&self) -> Range<u64> {
        let end = self.tables_end.max(TABLES >> UNIT_SHIFT);
        end..end + self.tables.len().max(64) as u64
    }

    /// Whether the granule of an address is a shadow's, or can be.
    pub fn can_have(&self, mapping: Mapping, address: u64) -> bool {
        let start = granule(address);
        match self.granules.get(&start).or_else(|| self.claims.get(&start)) {
            Some(owner) => *owner == mapping,
            // Nothing can be mapped at the very bottom.
            None => start != 0 && start >> ADDRESS_BITS == 0 && !self.has(start),
        }
    }

    /// Keeps the granules free that the shadow of these ranges takes up, as far as they are.
    pub fn claim<'a>(&mut self, mapping: Mapping, ranges: impl IntoIterator<Item = &'a Range<u64>>) {
        for start in ranges.into_iter().flat_map(|range| mapping.granules_of(range)) {
            let is_new = !self.granules.contains_key(&start) && !self.claims.contains_key(&start);
            if is_new && self.can_have(mapping, start) {
                self.claims.insert(start, mapping);
                self.all.entry(mapping).or_default().claimed.push(start);
            }
        }
    }

    /// Whether a mapping that waits for a thread will do.
    pub fn waits(&self, mapping: Mapping, kind: Kind, needs: &[Range<u64>]) -> bool {
        let mut granules = needs.iter().flat_map(|range| mapping.granules_of(range));
        mapping.is_plus() == (kind != Kind::Key) && granules.all(|start| self.can_have(mapping, start))
    }
}

/// Most shadows that wait for other threads.
pub const MOST_FREE: usize = 16;

static SHADOWS: Mutex<Option<Shadows>> = Mutex::new(None);

pub fn shadows<R>(f: impl FnOnce(&mut Shadows) -> R) -> R {
    let mut lock: MutexGuard<'_, _> = SHADOWS.lock();
    f(lock.get_or_insert_default())
}

/// This memory is much, and not the program's. A core that the kernel writes holds nothing of it. A forked child finds zeros here,
/// with which it begins anyway: neither does the fork copy what the kernel knows of these pages, of which all threads may have many,
/// nor do the parent's next stores copy the pages. Where the kernel does not know one of these, it does.
pub fn keep_to_itself(at: *mut libc::c_void, len: usize) {
    // SAFETY: a private, anonymous mapping that was just made; nothing in it changes, nor who may access it.
    unsafe {
        libc::madvise(at, len, libc::MADV_DONTDUMP);
        libc::madvise(at, len, libc::MADV_WIPEONFORK);
    }
}
