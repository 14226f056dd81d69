//! Where, for each byte of the program's memory, the code cache has bytes of its own: in a region to which FS points, found from the
//! byte's address in one of two ways ([`Places`]):
//!
//! - *narrow*: from its lower 32 bits, the region having 4 GiB. An instruction's own operand, with FS, 32 bits of address and a constant added,
//!   is the place: the processor cuts the address off by itself. That takes neither a register nor a flag.
//! - *wide*: from the lower 32 bits and another one, in which what would collide differs. `lea` and `pext` find it, in a register that
//!   is saved.
//!
//! Each byte has two places or three ([`Plane`]). Memory that has the same place as other memory ([`Owners::claim`]) cannot be told from it.

use bugnet_dr::fs_base;
use bugnet_format::types::Addr;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;

/// How far behind a page's start the region begins. The places of a byte, and the byte itself, are not to have the same lowest 12 bits: where
/// these are the same, processors take a load for one of what was just stored elsewhere, and wait.
const SKEW: u64 = Addr::PAGE / 2;
/// What an access may reach over the end of the region.
const OVER: u64 = Addr::PAGE;
/// What a byte has places for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// What whoever has the region keeps of each byte.
    First,
    /// That it was written.
    Written,
    /// That it was read; not in all regions.
    Read,
}

impl Plane {
    /// How far behind a byte's address, or before it, this place of it is; in a narrow region, which begins again behind its end.
    ///
    /// The lowest 10 bits differ from those of other planes, and are not zero. AMD's processors guess that a load finds what was stored last
    /// by the same registers and the same lowest 10 bits of a constant, and take long to find out that it does not.
    pub fn shift(self) -> i64 {
        match self {
            Self::First => 0x140,
            Self::Written => 0x240 - (1 << 31),
            Self::Read => 0x340 - (1 << 30),
        }
    }
}

/// Bytes before the first places in a wide region.
const HEAD: u64 = 1 << 31;
/// Bits of an address by which wide places may differ, the first one to be tried first.
const BITS: [u8; 15] = [46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32];
/// The region is shared out in pieces of so many bytes, a power of two.
pub const PIECE: u64 = 1 << 16;

/// How the place of a byte follows from its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// By 32 bits.
    Narrow,
    /// By 33 bits, of which this is one.
    Wide(u8),
}

impl Places {
    /// All of them, the best ones first.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Narrow).chain(BITS.map(Self::Wide))
    }

    /// The bits of an address from which a wide place follows.
    pub fn mask(self) -> u64 {
        match self {
            Self::Narrow => 0xffff_ffff,
            Self::Wide(bit) => 1 << bit | 0xffff_ffff,
        }
    }

    /// Bytes of the region.
    fn size(self) -> u64 {
        match self {
            Self::Narrow => 1 << 32,
            Self::Wide(_) => (1 << 33) + HEAD + PIECE,
        }
    }

    /// Bytes of memory for the region.
    pub fn room(self) -> u64 {
        (SKEW + self.size() + OVER).next_multiple_of(Addr::PAGE)
    }

    /// Where the region begins in memory for it, of which this is the start.
    pub fn start(self, room: u64) -> u64 {
        room + SKEW
    }

    /// What FS has for its base, counted from the region's start.
    pub fn base(self) -> u64 {
        match self {
            Self::Narrow => 0,
            Self::Wide(_) => HEAD,
        }
    }

    /// Where in the region the byte at an address has a place.
    pub fn of(self, addr: u64, plane: Plane) -> u64 {
        let low = addr & 0xffff_ffff;
        match self {
            Self::Narrow => low.wrapping_add_signed(plane.shift()) & 0xffff_ffff,
            Self::Wide(bit) => (HEAD + (addr >> bit & 1) * (1 << 32) + low).wrapping_add_signed(plane.shift()),
        }
    }

    /// Whether what is found of an access that goes over this address begins before it and ends behind it, and not at the region's other
    /// end.
    fn goes_on_at(self, addr: u64, plane: Plane) -> bool {
        self.of(addr, plane) == self.of(addr - 1, plane) + 1
    }
}

/// The ranges that pieces at these addresses are, which ascend.
pub fn joined(pieces: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for piece in pieces {
        match ranges.last_mut() {
            Some(last) if last.end == piece => last.end += PIECE,
            _ => ranges.push(piece..piece + PIECE),
        }
    }
    ranges
}

/// Whose which part of the region is.
pub struct Owners {
    places: Places,
    planes: &'static [Plane],
    /// For each piece in which one begins, whose it is: the number of a piece of memory and of the plane in it, and one more; 0 for nobody's.
    all: Vec<u64>,
    /// Memory that has a place, in pieces.
    claimed: BTreeSet<u64>,
    /// What follows from these, once somebody has asked.
    owned: OnceCell<Vec<Range<u64>>>,
}

impl Owners {
    /// Nobody has a place, or the pieces that are given; `None` where these places do not tell them apart, or the machine cannot find them:
    /// its processor or kernel keeps FS to itself, or has no `pext`.
    pub fn new(places: Places, planes: &'static [Plane], pieces: impl Iterator<Item = u64>) -> Option<Self> {
        let pext = || std::arch::is_x86_feature_detected!("bmi2");
        if !fs_base::can_be_set() || places != Places::Narrow && !pext() {
            return None;
        }
        let all = vec![0; (places.size() / PIECE) as usize];
        let mut owners = Self { places, planes, all, claimed: BTreeSet::new(), owned: OnceCell::new() };
        for piece in pieces {
            owners.claim(piece).then_some(())?;
        }
        Some(owners)
    }

    /// How places are found.
    pub fn places(&self) -> Places {
        self.places
    }

    fn number(&self, piece: u64, plane: usize) -> u64 {
        piece / PIECE * self.planes.len() as u64 + plane as u64 + 1
    }

    /// Gives the memory of a piece its places; `false` if one of them is other memory's, or memory before or behind it has its places
    /// elsewhere than an access to both would look for them.
    pub fn claim(&mut self, piece: u64) -> bool {
        let ends = [(piece, piece.wrapping_sub(PIECE)), (piece.wrapping_add(PIECE), piece.wrapping_add(PIECE))];
        for (end, other) in ends {
            let goes_on = |plane: &Plane| self.places.goes_on_at(end, *plane);
            if self.claimed.contains(&other) && !self.planes.iter().all(goes_on) {
                return false;
            }
        }
        self.owned = OnceCell::new();
        for (number, plane) in self.planes.iter().enumerate() {
            let start = self.places.of(piece, *plane);
            if start + PIECE > self.places.size() {
                return false;
            }
            // Those around it may reach into it, or it into them, unless they are of the same plane.
            let (at, pieces) = ((start / PIECE) as usize, self.all.len());
            let is_other = |owner: u64| owner != 0 && (owner - 1) % self.planes.len() as u64 != number as u64;
            let number = self.number(piece, number);
            if ![0, number].contains(&self.all[at])
                || is_other(self.all[(at + 1) % pieces])
                || is_other(self.all[(at + pieces - 1) % pieces])
            {
                return false;
            }
            self.all[at] = number;
        }
        self.claimed.insert(piece);
        true
    }

    /// Whether the memory at an address has a place.
    pub fn has(&self, addr: u64) -> bool {
        let piece = addr & !(PIECE - 1);
        self.all[(self.places.of(piece, Plane::First) / PIECE) as usize] == self.number(piece, 0)
    }

    /// The byte of memory that has a place, if one has it.
    pub fn owner(&self, place: u64) -> Option<u64> {
        let last = place / PIECE;
        // Each begins somewhere in the first page of its piece of the region.
        [Some(last), last.checked_sub(1)].into_iter().flatten().find_map(|at| {
            let number = self.all[at as usize].checked_sub(1)?;
            let planes = self.planes.len() as u64;
            let (piece, plane) = (number / planes * PIECE, self.planes[(number % planes) as usize]);
            let within = place.checked_sub(self.places.of(piece, plane))?;
            (within < PIECE).then_some(piece + within)
        })
    }

    /// What of the region is somebody's; a little more, perhaps, of what is nobody's.
    pub fn owned(&self) -> &[Range<u64>] {
        self.owned.get_or_init(|| {
            let owned = self.all.iter().enumerate().filter(|(_, owner)| **owner != 0);
            let mut ranges = joined(owned.map(|(piece, _)| piece as u64 * PIECE));
            // Each begins somewhere in the first page of its piece.
            ranges.iter_mut().for_each(|range| range.end += Addr::PAGE);
            ranges
        })
    }

    /// The pages with places that lie in a range.
    pub fn pages(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        let first = start & !(Addr::PAGE - 1);
        let pieces = self.claimed.range(start & !(PIECE - 1)..end);
        pieces
            .flat_map(|piece| (*piece..piece + PIECE).step_by(Addr::PAGE as usize))
            .filter(move |page| (first..end).contains(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_places_are_what_pext_finds() {
        for addr in [0x40_0000, 0x5555_1234_5678, 0x7fff_ffff_f000, 0x2aaa_8000_0010] {
            let mask = Places::Wide(45).mask();
            let picked: u64 =
                (0..64).filter(|bit| mask >> bit & 1 == 1).enumerate().map(|(to, bit)| (addr >> bit & 1) << to).sum();
            assert_eq!(
                Places::Wide(45).of(addr, Plane::First),
                HEAD.wrapping_add_signed(Plane::First.shift()) + picked,
                "{addr:#x}"
            );
            assert_eq!(
                Places::Wide(45).of(addr, Plane::Written),
                HEAD.wrapping_add_signed(Plane::Written.shift()) + picked,
                "{addr:#x}"
            );
        }
    }

    #[test]
    fn no_two_bytes_have_the_same_place() {
        const ALL: &[Plane] = &[Plane::First, Plane::Written, Plane::Read];
        let mut random = 1_u64;
        let mut number = |below: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) % below
        };
        for places in [Places::Narrow, Places::Wide(33)] {
            let Some(mut owners) = Owners::new(places, ALL, std::iter::empty()) else { return };
            let mut refused = 0;
            for _ in 0..3000 {
                // Around the places of others, which lie at halves and quarters of 4 GiB.
                let piece = (number(16) << 30) + (number(300) * PIECE);
                if !owners.claim(piece) {
                    // Of what is refused, places may be taken: those who would use the others are to give up all of them.
                    let claimed = owners.claimed.clone();
                    owners = Owners::new(places, ALL, claimed.into_iter()).expect("as before");
                    refused += 1;
                }
            }
            let start = |piece: &u64| ALL.iter().map(|plane| places.of(*piece, *plane)).collect::<Vec<_>>();
            let mut all: Vec<Range<u64>> =
                owners.claimed.iter().flat_map(start).map(|start| start..start + PIECE).collect();
            all.sort_unstable_by_key(|range| range.start);
            assert!(all.is_sorted_by(|one, next| one.end <= next.start), "{places:?}");
            assert!(refused > 0 && owners.claimed.len() > 20, "{places:?}: {refused}, {}", owners.claimed.len());
            let owned = owners.owned();
            let covers = |place: &Range<u64>| owned.iter().any(|own| own.start <= place.start && place.end <= own.end);
            assert!(all.iter().all(covers), "{places:?}");
            let has = |piece: &u64| owners.has(*piece) && owners.has(piece + PIECE - 1);
            let owns = |piece: &u64| {
                let bytes = [*piece, piece + PIECE - 1];
                bytes.iter().all(|at| ALL.iter().all(|plane| owners.owner(places.of(*at, *plane)) == Some(*at)))
            };
            assert!(owners.claimed.iter().all(owns), "{places:?}");
            assert!(owners.claimed.iter().all(has) && !owners.has(1 << 40), "{places:?}");
        }
    }

    #[test]
    fn what_an_access_goes_over_has_its_places_together() {
        const TWO: &[Plane] = &[Plane::First, Plane::Written];
        let four = 1_u64 << 32;
        let Some(mut owners) = Owners::new(Places::Narrow, TWO, [four - PIECE].into_iter()) else { return };
        assert!(owners.claim(four - 2 * PIECE));
        assert!(!owners.claim(four));
        // The places for writes begin again at another address.
        let Some(mut owners) = Owners::new(Places::Narrow, TWO, [four + four / 2].into_iter()) else { return };
        assert!(!owners.claim(four + four / 2 - PIECE));
        assert!(owners.claim(four + four / 2 + PIECE));
        let both = || [four - PIECE, four].into_iter();
        assert!(Owners::new(Places::Wide(40), TWO, both()).is_none());
        assert!(!is_x86_feature_detected!("bmi2") || Owners::new(Places::Wide(32), TWO, both()).is_some());
    }
}
