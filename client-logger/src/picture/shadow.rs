//! The picture of the replayer's memory: a shadow of the address space, of each thread its own.
//!
//! Pages of the shadow appear zero-filled when they are first touched, so that "never seen" and "zero" are one, as
//! the picture wants it. Granules of address space are reserved when the program maps memory, or when the first access
//! to one faults. Where something else lies already, the thread gets another shadow, and a new interval.

mod all;
pub mod layout;
pub mod mapping;
pub mod reserved;
pub mod sizes;
pub mod tables;

use crate::base::failure::fail;
use crate::base::fs_base;
use crate::log::recording;
use crate::picture::claims::Claim;
use all::{MOST_FREE, Own, Shadows, keep_to_itself, shadows};
use bugnet_dr::zeroing;
use bugnet_format::picture::Picture;
use bugnet_format::types::{Addr, IntervalNo};
use layout::{Layout, Room, Steps};
use mapping::{Kind, Mapping};
use sizes::{ADDRESS_BITS, GRANULE, extent, granule, units};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A thread's shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Where it is.
    pub mapping: Mapping,
}

/// A range is about to become the program's: shadows and tables that wait for other threads make room. Whether nothing of ours is
/// left there.
pub fn make_room(range: &Range<u64>) -> bool {
    let waiting = shadows(|all| {
        let there = all.overlapping(range);
        all.unmap_free_tables(units(range));
        all.free.extract_if(.., |mapping| there.contains(mapping)).collect::<Vec<_>>()
    });
    waiting.into_iter().for_each(|mapping| Shadow { mapping }.unmap());
    shadows(|all| all.overlapping(range).is_empty() && !units(range).any(|unit| all.tables.contains(&unit)))
}

/// Whether an address lies in what is reserved for shadows and tables.
pub fn is_ours(address: u64) -> bool {
    shadows(|all| all.has(address))
}

/// Most bytes of a shadow that stay in memory from one interval to the next.
const MOST_KEPT: usize = 128 << 20;
/// The same where each of several threads has a shadow.
const MOST_KEPT_EACH: usize = 8 << 20;

/// From so many granules on, those of the shadow of a mapping are only held: of mappings as large as that, programs access next to nothing, and
/// whatever is reserved is looked through whenever an interval begins.
const MANY: u64 = 16;

/// So many places are tried for a shadow whose place turns out to be taken.
const MOST_TRIED: usize = 100;

/// Granules that are known to be reserved: start, with a number of the mapping whose they are below. To ask without a lock.
static KNOWN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Granules are taken away.
fn forget_known() {
    KNOWN.iter().for_each(|known| known.store(0, Ordering::Release));
}

impl Shadow {
    /// A shadow at a distance, if there is room for one, also behind what is about to come. With `stack_moves` the initial
    /// stack is going to be moved. `lazy`: whether the thread asks, before it accesses memory for the first time, whether the
    /// shadow of that is there.
    pub fn at_distance(stack_moves: bool, steps: Steps, coming: Option<&Claim>, lazy: bool) -> Option<Self> {
        if !fs_base::can_be_set() {
            return None;
        }
        let layout = |all: &Shadows| Layout::now(all, stack_moves, coming);
        while let Some(waiting) = Self::take(|_, mapping| mapping.is_plus(), |_| None) {
            if waiting.reserve_all(&shadows(|all| layout(all))) {
                return Some(waiting);
            }
        }
        let shadow = Self::take(|_, _| false, |all| layout(all).plus(steps))?;
        (lazy || shadow.reserve_all(&shadows(|all| layout(all)))).then_some(shadow)
    }

    /// A shadow at `address xor key`, if there is room for one, also behind what is about to come. `lazy`: whether the thread
    /// asks, before it accesses memory for the first time, whether the shadow of that is there.
    pub fn with_key(coming: Option<&Claim>, lazy: bool) -> Option<Self> {
        let layout = |all: &Shadows| Layout::now(all, false, coming);
        let shadow = Self::take(|_, mapping| !mapping.is_plus(), |all| layout(all).xor())?;
        (lazy || shadow.reserve_all(&shadows(|all| layout(all)))).then_some(shadow)
    }

    /// Whether there is room for a shadow of everything, also behind what is about to come.
    pub fn has_room(coming: &Claim) -> bool {
        shadows(|all| {
            let mut layout = Layout::now(all, false, Some(coming));
            layout.plus(Steps::Any).or_else(|| layout.xor()).is_some()
        })
    }

    /// A shadow for a thread that is going to access these ranges, and that asks, before it accesses memory for the first time,
    /// whether the shadow of that is there.
    pub fn lazy(kind: Kind, needs: &[Range<u64>]) -> Option<Self> {
        // What was known of the address space may be out of date.
        for _ in 0..MOST_TRIED {
            let shadow =
                Self::take(|all, mapping| all.waits(mapping, kind, needs), |all| Room::place(all, kind, needs))?;
            if shadow.reserve_claims(needs) {
                return Some(shadow);
            }
        }
        None
    }

    /// The same, out of the way of what is about to come.
    pub fn lazy_beside(kind: Kind, needs: &[Range<u64>], coming: &Claim) -> Option<Self> {
        let mut room = shadows(|all| Room::beside(all, kind, coming));
        for _ in 0..MOST_TRIED {
            let shadow = Self::take(|_, _| false, |all| room.place_next(all, needs))?;
            if shadow.reserve_claims(needs) {
                return Some(shadow);
            }
        }
        None
    }

    /// Sees to it that such a shadow waits for a thread. `false` if there is no room.
    pub fn prepare(kind: Kind, needs: &[Range<u64>]) -> bool {
        if shadows(|all| all.free.iter().any(|mapping| all.waits(*mapping, kind, needs))) {
            return true;
        }
        let shadow = Self::lazy(kind, needs);
        shadow.inspect(|shadow| shadow.release()).is_some()
    }

    /// Reserves the shadow of what any thread accesses, the code first of all, and of these ranges, or gives it up: the program's
    /// memory may have grown there.
    fn reserve_claims(self, needs: &[Range<u64>]) -> bool {
        let claimed = shadows(|all| {
            all.claim(self.mapping, needs);
            all.all.get(&self.mapping).map_or_else(Vec::new, |own| own.claimed.clone())
        });
        let all = claimed.into_iter().all(|start| self.reserve(start));
        if !all {
            self.discard();
        }
        all
    }

    /// Reserves the shadow of all that needs one, or gives it up.
    fn reserve_all(self, layout: &Layout) -> bool {
        let all = layout.pieces.iter().all(|piece| self.reserve_range(piece.start, piece.end - piece.start));
        if !all {
            self.discard();
        }
        all
    }

    /// A shadow that waits for another thread, with what the one before has left in it, or a new one.
    fn take(
        fits: impl Fn(&Shadows, Mapping) -> bool,
        new: impl FnOnce(&mut Shadows) -> Option<Mapping>,
    ) -> Option<Self> {
        shadows(|all| {
            let waiting = all.free.iter().rposition(|mapping| fits(all, *mapping));
            let mapping = match waiting {
                Some(at) => all.free.swap_remove(at),
                None => new(all)?,
            };
            all.all.entry(mapping).or_default();
            all.first.get_or_insert(mapping);
            Some(Self { mapping })
        })
    }

    /// Of a thread whose code has no instrumentation any more.
    pub fn none() -> Self {
        Self { mapping: Mapping::Xor(0) }
    }

    /// Whether it is at a distance.
    pub fn is_at_distance(self) -> bool {
        self.mapping.is_plus()
    }

    fn is_none(self) -> bool {
        self == Self::none()
    }

    /// The shadow address of a program's address.
    pub fn of(self, address: u64) -> u64 {
        self.mapping.of(address)
    }

    /// The reverse of [`Self::of`].
    pub fn address(self, shadow: u64) -> u64 {
        match self.mapping {
            Mapping::Plus(by) => shadow.wrapping_sub(by),
            Mapping::Xor(key) => shadow ^ key,
        }
    }

    /// Whether the address can have a shadow at all.
    pub fn reaches(self, address: u64) -> bool {
        self.of(address) >> ADDRESS_BITS == 0
    }

    /// Reserves the granule of a shadow address, if it is not reserved. `false` if something else lies there.
    pub fn reserve(self, shadow: u64) -> bool {
        let start = shadow & !(GRANULE - 1);
        // Nothing can be mapped at the very bottom.
        if shadow >> ADDRESS_BITS != 0 || start == 0 {
            return false;
        }
        let (known, mine) = (&KNOWN[(start / GRANULE) as usize % KNOWN.len()], start | self.mapping.number());
        if known.load(Ordering::Acquire) == mine {
            return true;
        }
        let reserved = self.reserve_granule(start);
        if reserved {
            known.store(mine, Ordering::Release);
        }
        reserved
    }

    /// Sees to it that nothing else comes to lie in the granule of a shadow address, which need not be accessible yet. `false` if
    /// something else lies there.
    fn hold(self, shadow: u64) -> bool {
        let start = granule(shadow);
        shadow >> ADDRESS_BITS == 0 && start != 0 && self.map_granule(start, libc::PROT_NONE)
    }

    fn reserve_granule(self, start: u64) -> bool {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        if !self.map_granule(start, access) {
            return false;
        }
        shadows(|all| {
            let own = all.all.entry(self.mapping).or_default();
            if own.held.remove(&start) {
                // SAFETY: a mapping of ours, of which nobody has made any use.
                if unsafe { libc::mprotect(start as *mut libc::c_void, GRANULE as usize, access) } != 0 {
                    fail("the system has no room for the shadow of the program's memory");
                }
                own.reserved.push(start);
            }
        });
        true
    }

    /// Maps a granule with this protection, unless it is mapped. `false` if something else lies there.
    fn map_granule(self, start: u64, protection: i32) -> bool {
        shadows(|all| {
            if let Some(owner) =
                all.granules.get(&start).or_else(|| all.claims.get(&start).filter(|o| **o != self.mapping))
            {
                return *owner == self.mapping;
            }
            let range = extent(start);
            let over = if reserved::contains(&range) { libc::MAP_FIXED } else { libc::MAP_FIXED_NOREPLACE };
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | over;
            let (at, len) = (range.start as *mut libc::c_void, (range.end - range.start) as usize);
            // SAFETY: a new mapping that replaces nothing, or nothing that can be accessed.
            let got = unsafe { libc::mmap(at, len, protection, flags, -1, 0) };
            if got != at {
                if got != libc::MAP_FAILED {
                    // A kernel that does not know the flag has put it elsewhere.
                    // SAFETY: the mapping that was just made.
                    unsafe { libc::munmap(got, len) };
                }
                return false;
            }
            keep_to_itself(at, len);
            all.granules.insert(start, self.mapping);
            let own = all.all.entry(self.mapping).or_default();
            if protection == libc::PROT_NONE {
                own.held.insert(start);
            } else {
                own.reserved.push(start);
            }
            all.claims.remove(&start);
            true
        })
    }

    /// Whether all of a range of the shadow, shorter than a granule, is reserved.
    pub fn is_reserved(self, shadow: u64, len: u64) -> bool {
        let last = shadow.saturating_add(len.saturating_sub(1));
        shadows(|all| {
            let held = all.all.get(&self.mapping).map(|own| &own.held);
            let is_held = |start: &u64| held.is_some_and(|held| held.contains(start));
            let is_it = |start: u64| all.granules.get(&start) == Some(&self.mapping) && !is_held(&start);
            is_it(granule(shadow)) && is_it(granule(last))
        })
    }

    fn own_granules(self) -> Vec<u64> {
        shadows(|all| all.all.get(&self.mapping).map(|own| own.reserved.clone()).unwrap_or_default())
    }

    /// The parts of the address space that have a shadow: whatever the program has accessed is in one of them.
    pub fn reach(self) -> Vec<Range<u64>> {
        let mut parts: Vec<_> = self.own_granules().into_iter().map(|start| self.covered(start)).collect();
        parts.sort_unstable_by_key(|part| part.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for part in parts {
            match joined.last_mut() {
                Some(last) if last.end >= part.start => last.end = part.end,
                _ => joined.push(part),
            }
        }
        joined
    }

    /// The part of the address space whose shadow is the granule that begins at `start`.
    fn covered(self, start: u64) -> Range<u64> {
        // A granule may begin before the shadow of address zero.
        let end = self.address(start).wrapping_add(GRANULE).min(1 << ADDRESS_BITS);
        end.saturating_sub(GRANULE)..end
    }

    /// Forgets everything: the picture is zero again.
    pub fn clear(self) {
        for start in self.own_granules() {
            // SAFETY: a mapping of ours, of anonymous memory, to which no reference is held.
            if !unsafe { zeroing::free(extent(start)) } {
                cannot_clear();
            }
        }
    }

    /// Forgets everything but what there is in pages of the program's that are about to be written as a whole.
    fn clear_but(self, pages: impl Iterator<Item = u64>) {
        let mut kept: Vec<u64> = pages.map(|page| self.of(page)).filter(|at| at.is_multiple_of(Addr::PAGE)).collect();
        kept.sort_unstable();
        for granule in self.own_granules().into_iter().map(extent) {
            let inside = kept.partition_point(|at| *at < granule.start)..kept.partition_point(|at| *at < granule.end);
            let mut from = granule.start;
            for to in kept[inside].iter().copied().chain([granule.end]) {
                // SAFETY: as in `clear`.
                if from < to && !unsafe { zeroing::free(from..to) } {
                    cannot_clear();
                }
                from = to + Addr::PAGE;
            }
        }
    }

    /// The same for an interval of the thread, which may use again much of what the one before has used; `code`: the pages of code
    /// that its picture is about to get.
    pub fn clear_for(self, interval: IntervalNo, threaded: bool, code: impl Iterator<Item = u64>) {
        if interval.0 == 0 {
            // Before its first one, the thread has used next to nothing, or, if it was forked, what its parent has, too. Where another
            // thread had the shadow, the code is there.
            return self.clear_but(code);
        }
        let most = if threaded { MOST_KEPT_EACH } else { MOST_KEPT };
        let granules = self.own_granules().into_iter().map(extent);
        // SAFETY: as above.
        if unsafe { zeroing::zero_again(granules, interval.0, most) }.is_err() {
            cannot_clear();
        }
    }

    /// Makes the pages of the shadow of a range, which is a whole chunk of [`crate::picture::populate`]. That it is done changes
    /// nothing but how long it takes.
    pub fn make(self, range: Range<u64>) {
        let (start, len) = (self.of(range.start), range.end - range.start);
        if self.reserve(start) && self.reserve(start + len - 1) {
            // SAFETY: a part of mappings of ours, which stays as it is where it has been touched. Kernels before 5.14 do not
            // know this.
            unsafe { libc::madvise(start as *mut libc::c_void, len as usize, libc::MADV_POPULATE_WRITE) };
        }
    }

    /// The thread has ended.
    pub fn release(self) {
        let kept = shadows(|all| {
            all.first.take_if(|first| *first == self.mapping);
            let room = all.free.len() < MOST_FREE && !self.is_none();
            if room {
                all.free.push(self.mapping);
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
    }

    fn unmap(self) {
        forget_known();
        shadows(|all| {
            all.first.take_if(|first| *first == self.mapping);
            let Own { reserved, held, claimed } = all.all.remove(&self.mapping).unwrap_or_default();
            for start in claimed {
                if all.claims.get(&start) == Some(&self.mapping) {
                    all.claims.remove(&start);
                }
            }
            for start in reserved.into_iter().chain(held) {
                // SAFETY: a mapping of ours, to which no reference is held, and whose thread is gone.
                unsafe { reserved::unmap(&extent(start)) };
                all.granules.remove(&start);
            }
        });
    }

    /// Whether any of it lies in a range.
    pub fn overlaps(self, range: &Range<u64>) -> bool {
        shadows(|all| all.overlapping(range).contains(&self.mapping))
    }

    /// Calls `f(offset, shadow, length)` on the pieces of a range that lie in one granule each, reserved. The address for whose
    /// shadow there is no room, if there is none.
    fn try_pieces(self, address: u64, len: usize, mut f: impl FnMut(usize, *mut u8, usize)) -> Result<(), u64> {
        let mut done = 0;
        while done < len && !self.is_none() {
            let at = self.of(address + done as u64);
            let piece = ((GRANULE - (at & (GRANULE - 1))) as usize).min(len - done);
            if !self.reserve(at) {
                return Err(self.address(at));
            }
            f(done, at as *mut u8, piece);
            done += piece;
        }
        Ok(())
    }

    /// The same; recording ends where there is no room.
    fn pieces(self, address: u64, len: usize, f: impl FnMut(usize, *mut u8, usize)) {
        if let Err(at) = self.try_pieces(address, len, f) {
            recording::end(&format!("no room for the shadow of the memory at {at:#x}"));
        }
    }

    /// Puts bytes into the picture. `false` if there is no room for all of them.
    pub fn try_write(self, address: u64, bytes: &[u8]) -> bool {
        let written = self.try_pieces(address, bytes.len(), |done, shadow, len| {
            // SAFETY: reserved shadow memory of a thread that does not run meanwhile.
            unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), shadow, len) };
        });
        written.is_ok()
    }

    /// Whether the shadow of so much memory, at once, is held and not reserved.
    pub fn is_large(len: u64) -> bool {
        len / GRANULE >= MANY
    }

    /// Reserves the shadow of a range, or holds it, if it is large. `false` if something else lies there.
    pub fn reserve_range(self, address: u64, len: u64) -> bool {
        // The last byte may lie in one granule more than the steps meet.
        let steps = (address..address.saturating_add(len)).step_by(GRANULE as usize);
        let last = address.saturating_add(len.saturating_sub(1));
        let is_large = Self::is_large(len);
        steps.chain([last]).map(|at| self.of(at)).all(|at| if is_large { self.hold(at) } else { self.reserve(at) })
    }
}

fn cannot_clear() -> ! {
    fail("the shadow of the program's memory cannot be cleared")
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
