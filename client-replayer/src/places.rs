//! Where, for each byte of the program's memory, the code cache has bytes of its own: in a region to which FS points, found from the
//! byte's address in one of two ways ([`Places`]):
//!
//! - *narrow*: from its lower 32 bits, the region having 4 GiB. An instruction's own operand, with FS and 32 bits of address, is the place:
//!   the processor cuts the address off by itself. That takes neither a register nor a flag.
//! - *wide*: from the lower 32 bits and another one, in which what would collide differs. `lea` and `pext` find it, in a register that
//!   is saved.
//!
//! Each byte has two places, of which one is for what is written there. Memory that has the same place as other memory
//! ([`Owners::claim`]) cannot be told from it.

use bugnet_dr::fs_base;
use bugnet_format::types::Addr;
use std::collections::BTreeSet;

/// What an access may reach over the end of the region.
pub const OVER: u64 = Addr::PAGE;
/// How far before a byte's place the one for writes is; in a narrow region, at its other side.
pub const WRITTEN: u64 = 1 << 31;
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
    pub fn size(self) -> u64 {
        match self {
            Self::Narrow => 1 << 32,
            Self::Wide(_) => (1 << 33) + WRITTEN,
        }
    }

    /// What FS has for its base, counted from the region's start.
    pub fn base(self) -> u64 {
        match self {
            Self::Narrow => 0,
            Self::Wide(_) => WRITTEN,
        }
    }

    /// Where in the region the byte at an address has its place, and where that for writes.
    pub fn of(self, addr: u64) -> (u64, u64) {
        let low = addr & 0xffff_ffff;
        match self {
            Self::Narrow => (low, low ^ WRITTEN),
            Self::Wide(bit) => {
                let place = WRITTEN + (addr >> bit & 1) * (1 << 32) + low;
                (place, place - WRITTEN)
            }
        }
    }
}

/// Whose which part of the region is.
pub struct Owners {
    places: Places,
    /// For each piece, whose it is: twice the number of a piece of memory, one more for writes, and one more; 0 for nobody's.
    all: Vec<u64>,
    /// Memory that has a place, in pieces.
    claimed: BTreeSet<u64>,
}

impl Owners {
    /// Nobody has a place, or the pieces that are given; `None` where these places do not tell them apart, or the machine cannot find them:
    /// its processor or kernel keeps FS to itself, or has no `pext`.
    pub fn new(places: Places, pieces: impl Iterator<Item = u64>) -> Option<Self> {
        let pext = || std::arch::is_x86_feature_detected!("bmi2");
        if !fs_base::can_be_set() || places != Places::Narrow && !pext() {
            return None;
        }
        let mut owners = Self { places, all: vec![0; (places.size() / PIECE) as usize], claimed: BTreeSet::new() };
        for piece in pieces {
            owners.claim(piece).then_some(())?;
        }
        Some(owners)
    }

    /// How places are found.
    pub fn places(&self) -> Places {
        self.places
    }

    /// Gives the memory of a piece its places; `false` if one of them is other memory's.
    pub fn claim(&mut self, piece: u64) -> bool {
        let (accessed, written) = self.places.of(piece);
        let number = piece / PIECE * 2 + 1;
        for (place, owner) in [(accessed, number), (written, number + 1)] {
            let found = &mut self.all[(place / PIECE) as usize];
            if *found != 0 && *found != owner {
                return false;
            }
            *found = owner;
        }
        self.claimed.insert(piece);
        true
    }

    /// Whether the memory at an address has a place.
    pub fn has(&self, addr: u64) -> bool {
        self.all[(self.places.of(addr).0 / PIECE) as usize] == addr / PIECE * 2 + 1
    }

    /// The pieces of the region that are somebody's.
    pub fn owned(&self) -> impl Iterator<Item = u64> {
        self.all.iter().enumerate().filter(|(_, owner)| **owner != 0).map(|(piece, _)| piece as u64 * PIECE)
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
            assert_eq!(Places::Wide(45).of(addr), (WRITTEN + picked, picked), "{addr:#x}");
        }
    }
}
