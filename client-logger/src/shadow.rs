//! The picture of the replayer's memory: a shadow of the address space, at `address xor key`, of each thread its own.
//!
//! Pages of the shadow appear zero-filled when they are first touched, so that "never seen" and "zero" are one, as
//! the picture wants it. Granules of address space are reserved when the program maps memory, or when the first access
//! to one faults. Where something else lies already, the thread gets another key, and a new interval.

use crate::die;
use bugnet_format::cache::Picture;
use bugnet_format::types::Addr;
use hashbrown::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

const GRANULE: u64 = 1 << 30;
/// Keys are multiples of 2 to the power of this: the program's memory is assumed to lie in few parts of this size.
const KEY_UNIT_SHIFT: u32 = 32;
const ADDRESS_BITS: u32 = 47;

/// A thread's shadow.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    /// The bits in which the address of memory and of its shadow differ.
    pub key: u64,
}

/// The shadows of all threads.
#[derive(Default)]
struct Shadows {
    /// The granules that are reserved: start, and the key of the thread that they are for.
    granules: HashMap<u64, u64>,
    /// The keys of all threads.
    keys: HashSet<u64>,
    /// Units that hold other things of ours.
    tables: HashSet<u64>,
    /// Keys of threads that have ended, whose granules wait for other threads.
    free: Vec<u64>,
}

/// Where tables are put, from here on upwards: the usual layout of a process has nothing there.
const TABLES: u64 = 1 << 44;

/// Bytes of a table.
pub const TABLE: usize = 1 << KEY_UNIT_SHIFT;

/// Address space for a table of [`TABLE`] bytes, of which what is used takes up memory, zero at first.
pub fn map_table() -> *mut u8 {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let flags = flags | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    shadows(|all| {
        for unit in (TABLES..1 << ADDRESS_BITS).step_by(TABLE).map(|start| start >> KEY_UNIT_SHIFT) {
            if all.tables.contains(&unit) {
                continue;
            }
            let at = (unit << KEY_UNIT_SHIFT) as *mut libc::c_void;
            // SAFETY: a new mapping that replaces nothing.
            let got = unsafe { libc::mmap(at, TABLE, protection, flags, -1, 0) };
            if got == at {
                all.tables.insert(unit);
                return at.cast();
            }
            if got != libc::MAP_FAILED {
                // SAFETY: the mapping that was just made, by a kernel that does not know the flag.
                unsafe { libc::munmap(got, TABLE) };
            }
        }
        die("there is no address space left for another thread")
    })
}

/// Gives a table back.
///
/// # Safety
/// From [`map_table`], and not used any more.
pub unsafe fn unmap_table(table: *mut u8) {
    shadows(|all| {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(table.cast(), TABLE) };
        all.tables.remove(&(table as u64 >> KEY_UNIT_SHIFT));
    });
}

/// Most shadows that wait for other threads.
const MOST_FREE: usize = 16;

static SHADOWS: Mutex<Option<Shadows>> = Mutex::new(None);

fn shadows<R>(f: impl FnOnce(&mut Shadows) -> R) -> R {
    let mut lock: MutexGuard<'_, _> = SHADOWS.lock().unwrap_or_else(|e| e.into_inner());
    f(lock.get_or_insert_default())
}

fn extent(start: u64) -> Range<u64> {
    start..start + GRANULE
}

/// Which units of the address space have anything mapped in them.
fn mapped_units() -> Vec<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut units = Vec::new();
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(a, b)| (parse(a), parse(b)))
            && start >> ADDRESS_BITS == 0
        {
            units.extend(start >> KEY_UNIT_SHIFT..=(end - 1) >> KEY_UNIT_SHIFT);
        }
    }
    units.sort_unstable();
    units.dedup();
    units
}

impl Shadows {
    fn unused_key(&self) -> u64 {
        let mapped = mapped_units();
        let shadows: HashSet<u64> = self.granules.keys().map(|start| start >> KEY_UNIT_SHIFT).collect();
        let ours = |unit: &u64| shadows.contains(unit) || self.tables.contains(unit);
        let programs: Vec<u64> = mapped.iter().copied().filter(|unit| !ours(unit)).collect();
        // What the other threads may still reserve for the memory that is there.
        let keys = self.keys.iter().chain(&self.free).map(|key| key >> KEY_UNIT_SHIFT);
        let wanted: HashSet<u64> = keys.flat_map(|key| programs.iter().map(move |unit| unit ^ key)).collect();
        // Nothing can be mapped at the very bottom.
        let free = |unit: u64| unit != 0 && mapped.binary_search(&unit).is_err() && !wanted.contains(&unit);
        let units = 1u64 << (ADDRESS_BITS - KEY_UNIT_SHIFT);
        // From 2^45 on, where the usual layout of a process leaves most room.
        let key = (0..units)
            .map(|n| (units / 4 + n) % units)
            .filter(|key| *key != 0 && !self.keys.contains(&(key << KEY_UNIT_SHIFT)))
            .find(|key| programs.iter().all(|unit| free(unit ^ key)));
        key.unwrap_or_else(|| die("there is no address space left for the shadow of another thread")) << KEY_UNIT_SHIFT
    }
}

impl Shadow {
    /// A shadow for another thread, in address space that nothing uses.
    pub fn new() -> Self {
        let key = shadows(|all| {
            let key = match all.free.pop() {
                Some(key) => key,
                None => all.unused_key(),
            };
            all.keys.insert(key);
            key
        });
        let shadow = Self { key };
        // What the thread before left in it.
        shadow.clear();
        shadow
    }

    /// The shadow address of a program's address, and the reverse.
    pub fn of(self, address: u64) -> u64 {
        address ^ self.key
    }

    /// Reserves the granule of a shadow address, if it is not reserved. `false` if something else lies there.
    pub fn reserve(self, shadow: u64) -> bool {
        let start = shadow & !(GRANULE - 1);
        // Nothing can be mapped at the very bottom.
        if shadow >> ADDRESS_BITS != 0 || start == 0 {
            return false;
        }
        shadows(|all| {
            if let Some(key) = all.granules.get(&start) {
                return *key == self.key;
            }
            let range = extent(start);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
            let (at, len) = (range.start as *mut libc::c_void, (range.end - range.start) as usize);
            // SAFETY: a new mapping that replaces nothing.
            let got = unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            if got != at {
                if got != libc::MAP_FAILED {
                    // A kernel that does not know the flag has put it elsewhere.
                    // SAFETY: the mapping that was just made.
                    unsafe { libc::munmap(got, len) };
                }
                return false;
            }
            all.granules.insert(start, self.key);
            true
        })
    }

    fn own_granules(self) -> Vec<u64> {
        shadows(|all| all.granules.iter().filter(|(_, key)| **key == self.key).map(|(start, _)| *start).collect())
    }

    /// Forgets everything: the picture is zero again.
    pub fn clear(self) {
        for start in self.own_granules() {
            let range = extent(start);
            let (at, len) = (range.start as *mut libc::c_void, (range.end - range.start) as usize);
            // SAFETY: a mapping of ours, of anonymous memory, to which no reference is held.
            if unsafe { libc::madvise(at, len, libc::MADV_DONTNEED) } != 0 {
                die("the shadow of the program's memory cannot be cleared");
            }
        }
    }

    /// The thread has ended.
    pub fn release(self) {
        let kept = shadows(|all| {
            all.keys.remove(&self.key);
            let room = all.free.len() < MOST_FREE;
            if room {
                all.free.push(self.key);
            }
            room
        });
        if !kept {
            self.unmap();
        }
    }

    /// Gives the address space back: there was something else in the way.
    pub fn discard(self) {
        self.unmap();
        shadows(|all| all.keys.remove(&self.key));
    }

    fn unmap(self) {
        for start in self.own_granules() {
            let range = extent(start);
            let (at, len) = (range.start as *mut libc::c_void, (range.end - range.start) as usize);
            // SAFETY: a mapping of ours, to which no reference is held, and whose thread is gone.
            unsafe { libc::munmap(at, len) };
            shadows(|all| all.granules.remove(&start));
        }
    }

    /// Calls `f(offset, shadow, length)` on the pieces of a range that lie in one granule each, reserved.
    fn pieces(self, address: u64, len: usize, mut f: impl FnMut(usize, *mut u8, usize)) {
        let mut done = 0;
        while done < len {
            let at = address + done as u64;
            let piece = ((GRANULE - (at & (GRANULE - 1))) as usize).min(len - done);
            if !self.reserve(self.of(at)) {
                die(&format!("no room for the shadow of the program's memory at {at:#x}"));
            }
            f(done, self.of(at) as *mut u8, piece);
            done += piece;
        }
    }

    /// Reserves the shadow of a range. `false` if something else lies there.
    pub fn reserve_range(self, address: u64, len: u64) -> bool {
        let first = address & !(GRANULE - 1);
        (first..address.saturating_add(len)).step_by(GRANULE as usize).all(|at| self.reserve(self.of(at)))
    }
}

impl Picture for Shadow {
    fn read(&mut self, addr: Addr, out: &mut [u8]) {
        self.pieces(addr.0, out.len(), |done, shadow, len| {
            // SAFETY: reserved shadow memory of a thread that does not run meanwhile.
            unsafe { std::ptr::copy_nonoverlapping(shadow, out[done..].as_mut_ptr(), len) };
        });
    }

    fn write(&mut self, addr: Addr, bytes: &[u8]) {
        self.pieces(addr.0, bytes.len(), |done, shadow, len| {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), shadow, len) };
        });
    }
}
