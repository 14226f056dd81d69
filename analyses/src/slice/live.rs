//! What is wanted at a moment, as one goes back: parts of each thread's registers, and bytes of memory.

use super::wants::{Sets, Want};
use bugnet_events::atoms::{Atoms, COUNT};
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;
use std::ops::Range;

/// Slots of the filter, at first: a bit for each fits into the processor's first cache.
const FEW_SLOTS: usize = 1 << 15;
/// Most slots: a bit for each fits into the second one.
const MANY_SLOTS: usize = 1 << 22;
/// Bytes of a granule.
const GRANULE: u64 = 8;

/// What is wanted of a thread's registers.
pub struct Registers {
    /// Which parts.
    pub atoms: Atoms,
    /// By whom; of others, nothing that means anything.
    wants: Box<[Option<Want>; COUNT]>,
}

impl Default for Registers {
    fn default() -> Self {
        Self { atoms: Atoms::NONE, wants: Box::new([None; COUNT]) }
    }
}

impl Registers {
    /// Who wants a part.
    #[inline]
    pub fn want(&self, number: usize) -> Option<Want> {
        self.wants[number].filter(|_| self.atoms.has_numbered(number))
    }

    /// Each that is wanted among these, with who wants it.
    pub fn wanted(&self, among: Atoms) -> impl Iterator<Item = (usize, Want)> {
        (self.atoms & among).numbers().filter_map(|number| Some((number, self.wants[number]?)))
    }

    /// Nobody wants these any more.
    pub fn remove(&mut self, atoms: Atoms) {
        self.atoms = self.atoms - atoms;
    }

    /// Nobody wants the part with this number any more.
    #[inline]
    pub fn remove_numbered(&mut self, number: usize) {
        self.atoms.remove_numbered(number);
    }

    /// Somebody wants these, too.
    pub fn add(&mut self, atoms: Atoms, want: Want, sets: &mut Sets) {
        for number in atoms.numbers() {
            let before = self.want(number);
            self.wants[number] = Some(before.map_or(want, |before| sets.join(before, want)));
        }
        self.atoms |= atoms;
    }
}

/// Bytes of memory that are wanted, in one that begins at a multiple of its size.
#[derive(Default)]
struct Granule {
    wants: [Option<Want>; GRANULE as usize],
}

/// What a wanted byte has at a later moment, if nothing but what one comes to on the way back from there changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its value.
    pub value: u8,
    /// Before which instruction it had that.
    pub place: Place,
}

/// What is wanted at a moment.
pub struct Live {
    threads: Vec<(Tid, Registers)>,
    last: usize,
    granules: HashMap<u64, Granule>,
    filter: Filter,
    /// Of wanted bytes, what they were seen to have.
    seen: HashMap<u64, Seen>,
}

impl Default for Live {
    fn default() -> Self {
        let filter = Filter::with(FEW_SLOTS);
        Self { threads: Vec::new(), last: 0, granules: HashMap::new(), filter, seen: HashMap::new() }
    }
}

/// Counts of wanted granules whose numbers end alike, so that most addresses of which nothing is wanted are told by one look.
struct Filter {
    counts: Vec<u32>,
    /// Those that are not zero.
    bits: Vec<u64>,
    /// Slots less one.
    mask: u64,
}

impl Filter {
    /// A power of two of slots.
    fn with(slots: usize) -> Self {
        Self { counts: vec![0; slots], bits: vec![0; slots / 64], mask: slots as u64 - 1 }
    }

    #[inline]
    fn may_have(&self, granule: u64) -> bool {
        let slot = granule & self.mask;
        self.bits.get((slot / 64) as usize).is_some_and(|bits| bits >> (slot % 64) & 1 != 0)
    }

    fn add(&mut self, granule: u64) {
        let slot = (granule & self.mask) as usize;
        self.counts[slot] += 1;
        self.bits[slot / 64] |= 1 << (slot % 64);
    }

    fn remove(&mut self, granule: u64) {
        let slot = (granule & self.mask) as usize;
        self.counts[slot] -= 1;
        if self.counts[slot] == 0 {
            self.bits[slot / 64] &= !(1 << (slot % 64));
        }
    }
}

/// The parts of a range in granules: the granule, its first address, and which of its bytes.
fn parts(addr: u64, len: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = addr.saturating_add(len);
    let granules = if len == 0 { 1..1 } else { addr / GRANULE..(end - 1) / GRANULE + 1 };
    granules.map(move |granule| {
        let first = granule * GRANULE;
        let from = addr.saturating_sub(first) as usize;
        (granule, from..(end - first).min(GRANULE) as usize)
    })
}

impl Live {
    /// What is wanted of a thread's registers.
    #[inline]
    pub fn registers(&mut self, tid: Tid) -> &mut Registers {
        // Mostly the one that was asked for last.
        if self.threads.get(self.last).is_some_and(|(known, _)| *known == tid) {
            return &mut self.threads[self.last].1;
        }
        let at = self.threads.iter().position(|(known, _)| *known == tid);
        let at = at.unwrap_or_else(|| {
            self.threads.push((tid, Registers::default()));
            self.threads.len() - 1
        });
        self.last = at;
        &mut self.threads[at].1
    }

    /// Whether nothing is wanted any more.
    pub fn is_empty(&self) -> bool {
        self.granules.is_empty() && self.threads.iter().all(|(_, registers)| registers.atoms.is_empty())
    }

    /// Whether no memory is wanted.
    pub fn needs_no_memory(&self) -> bool {
        self.granules.is_empty()
    }

    /// Whether some of these bytes may be wanted. It is rarely said of others.
    #[inline]
    pub fn may_want(&self, addr: u64, len: u64) -> bool {
        if len == 0 {
            return false;
        }
        let (first, last) = (addr / GRANULE, addr.saturating_add(len - 1) / GRANULE);
        if last == first {
            return self.filter.may_have(first);
        }
        if last - first > self.filter.mask {
            return !self.granules.is_empty();
        }
        (first..=last).any(|granule| self.filter.may_have(granule))
    }

    /// Each of these bytes that is wanted, with who wants it.
    pub fn wanted(&self, addr: u64, len: u64) -> Vec<(u64, Want)> {
        if !self.may_want(addr, len) {
            return Vec::new();
        }
        let of = |granule: u64, bytes: Range<usize>| {
            let wants = self.granules.get(&granule).map_or(&[][..], |found| &found.wants[bytes.clone()]);
            wants.iter().zip(bytes).filter_map(move |(want, byte)| Some((granule * GRANULE + byte as u64, (*want)?)))
        };
        if len / GRANULE > self.granules.len() as u64 {
            let inside = |at: u64| at.wrapping_sub(addr) < len;
            let all = self.granules.keys().flat_map(|granule| of(*granule, 0..GRANULE as usize));
            let mut found: Vec<(u64, Want)> = all.filter(|(at, _)| inside(*at)).collect();
            found.sort_unstable_by_key(|(at, _)| *at);
            return found;
        }
        parts(addr, len).flat_map(|(granule, bytes)| of(granule, bytes)).collect()
    }

    /// Nobody wants this byte any more. What it was seen to have is returned.
    pub fn remove(&mut self, addr: u64) -> Option<Seen> {
        let granule = addr / GRANULE;
        let found = self.granules.get_mut(&granule)?;
        found.wants[(addr % GRANULE) as usize] = None;
        if found.wants.iter().all(Option::is_none) {
            self.granules.remove(&granule);
            self.filter.remove(granule);
        }
        if self.seen.is_empty() { None } else { self.seen.remove(&addr) }
    }

    /// A wanted byte has this value. What it was seen to have later is returned.
    pub fn see(&mut self, addr: u64, seen: Seen) -> Option<Seen> {
        self.seen.insert(addr, seen)
    }

    /// Somebody wants these bytes, too.
    pub fn add(&mut self, addr: u64, len: u64, want: Want, sets: &mut Sets) {
        for (granule, bytes) in parts(addr, len) {
            let filter = &mut self.filter;
            let found = self.granules.entry(granule).or_insert_with(|| {
                filter.add(granule);
                Granule::default()
            });
            for wanted in &mut found.wants[bytes] {
                *wanted = Some(wanted.map_or(want, |before| sets.join(before, want)));
            }
        }
        let slots = self.filter.counts.len();
        if self.granules.len() * 16 > slots && slots < MANY_SLOTS {
            self.filter = Filter::with(slots * 8);
            self.granules.keys().for_each(|granule| self.filter.add(*granule));
        }
    }

    /// What a byte was seen to have does not matter any more.
    pub fn forget(&mut self, addr: u64) {
        self.seen.remove(&addr);
    }

    /// Everything that is wanted of registers.
    pub fn all_registers(&self) -> Vec<(Tid, usize, Want)> {
        let registers = self.threads.iter().flat_map(|(tid, registers)| {
            registers.wanted(!Atoms::NONE).map(|(number, want)| (*tid, number, want)).collect::<Vec<_>>()
        });
        registers.collect()
    }

    /// Everything that is wanted of memory, by address.
    pub fn all_memory(&self) -> Vec<(u64, Want)> {
        self.wanted(0, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_and_go() {
        let (mut live, mut sets) = (Live::default(), Sets::default());
        let (one, two) = (Want { who: sets.one(1), depth: 3 }, Want { who: sets.one(2), depth: 1 });
        live.add(0x1006, 4, one, &mut sets);
        live.add(0x1008, 1, two, &mut sets);
        assert!(live.may_want(0x1000, 8) && live.may_want(0x100f, 1) && !live.may_want(0x1010, 8));
        let found = live.wanted(0x1007, 2);
        let (addresses, wants): (Vec<u64>, Vec<Want>) = found.into_iter().unzip();
        assert_eq!((addresses, wants[0]), (vec![0x1007, 0x1008], one));
        assert_eq!((sets.nodes(wants[1].who), wants[1].depth), (&[1, 2][..], 1));
        for addr in 0x1006..0x100a {
            assert!(!live.is_empty());
            live.remove(addr);
        }
        assert!(live.is_empty() && live.needs_no_memory() && !live.may_want(0x1000, 64));
        assert!(live.wanted(0, u64::MAX).is_empty());
    }

    #[test]
    fn many_bytes_come_and_go() {
        let (mut live, mut sets) = (Live::default(), Sets::default());
        let want = Want { who: sets.one(1), depth: 3 };
        let all = || (0..100_000_u64).map(|number| number * 40);
        all().for_each(|addr| live.add(addr, 8, want, &mut sets));
        assert!(all().all(|addr| live.may_want(addr, 1)));
        assert!(all().filter(|addr| live.may_want(addr + 16, 8)).count() < 50_000);
        assert!(all().flat_map(|addr| addr..addr + 8).all(|byte| live.remove(byte).is_none()));
        assert!(live.is_empty() && !all().any(|addr| live.may_want(addr, 8)));
    }

    #[test]
    fn registers_come_and_go() {
        let (mut live, mut sets) = (Live::default(), Sets::default());
        let want = Want { who: sets.one(7), depth: 0 };
        live.registers(Tid(5)).add(Atoms::gpr(3), want, &mut sets);
        live.registers(Tid(5)).remove(Atoms::gpr(2));
        assert_eq!(live.registers(Tid(5)).wanted(Atoms::gpr(3) | Atoms::gpr(4)).count(), 8);
        live.registers(Tid(5)).remove(Atoms::gpr(3));
        assert!(live.is_empty() && live.registers(Tid(5)).want(24).is_none());
    }
}
