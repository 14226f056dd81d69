//! Marks: which bytes instructions have accessed, and which they have written, put down by the code cache itself.
//!
//! Each byte of the program's memory has two in a region to which FS points: one that is not zero once the byte was accessed, and 2 GiB
//! before it one for writes. Where that is, follows from the byte's address in one of two ways ([`Places`]):
//!
//! - *narrow*: from its lower 32 bits, the region having 4 GiB. An instruction is marked by `mov fs:[operand], -1`, the operand
//!   being its own with 32 bits of address: which the processor cuts off by itself. That takes neither a register nor a flag.
//! - *wide*: from the lower 32 bits and another one, in which what would collide differs. `lea` and `pext` find it, in a register that
//!   is saved.
//!
//! Memory that has the same place in the region as other memory ([`Marks::claim`]) cannot be told from it. Before an access is marked,
//! its memory was accessed, and where that is new, it comes by a fault: there it is found out, and other places are taken that tell all
//! memory apart that there is. Where there are none, the client is called at each access from then on ([`crate::touched`]).

use crate::instruction::PlainAccess;
use crate::stub::Stub;
use bugnet_dr::ir::Gpr;
use bugnet_dr::{fs_base, zeroing};
use bugnet_format::types::Addr;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::collections::BTreeSet;
use std::ops::Range;

/// What an access may reach over the end of the region.
const OVER: u64 = Addr::PAGE;
/// How far before a byte's mark the one for writes is; in a narrow region, at its other side.
const WRITTEN: u64 = 1 << 31;
/// Bits of an address by which wide places may differ, the first one to be tried first.
const BITS: [u8; 15] = [46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32];
/// The region is shared out in pieces of so many bytes, a power of two.
pub const PIECE: u64 = 1 << 16;
/// Most bytes of marks that stay in memory from one package to the next.
const MOST_KEPT: usize = 128 << 20;
/// Most bytes of an access that is marked.
pub const MOST: u64 = 64;
/// Bytes of a line.
pub const LINE: usize = Addr::PAGE as usize / 64;

/// How the place of a byte's mark follows from its address.
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
            Self::Wide(_) => (1 << 33) + WRITTEN,
        }
    }

    /// What FS has for its base, counted from the region's start.
    fn base(self) -> u64 {
        match self {
            Self::Narrow => 0,
            Self::Wide(_) => WRITTEN,
        }
    }

    /// Where in the region the byte at an address has its mark, and where that for writes.
    fn of(self, addr: u64) -> (u64, u64) {
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

/// The region.
pub struct Marks {
    /// Its address.
    start: u64,
    owners: Owners,
    /// How often the marks were cleared.
    turn: u64,
}

/// Whose which part of the region is.
struct Owners {
    places: Places,
    /// For each piece, whose it is: twice the number of a piece of memory, one more for writes, and one more; 0 for nobody's.
    all: Vec<u64>,
    /// Memory that has a place, in pieces.
    claimed: BTreeSet<u64>,
}

impl Owners {
    fn claim(&mut self, piece: u64) -> bool {
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
}

impl Marks {
    /// New ones, without any mark, of memory in these pieces. `window` is the replay process's own.
    ///
    /// `None` where these places do not tell the memory apart, or the machine cannot do it: its processor or kernel keeps FS to itself or
    /// has no `pext`, or there is not as much address space.
    pub fn new(window: &Range<u64>, places: Places, pieces: impl Iterator<Item = u64>) -> Option<Self> {
        let pext = || std::arch::is_x86_feature_detected!("bmi2");
        if !fs_base::can_be_set() || places != Places::Narrow && !pext() {
            return None;
        }
        let mut owners = Owners { places, all: vec![0; (places.size() / PIECE) as usize], claimed: BTreeSet::new() };
        for piece in pieces {
            owners.claim(piece).then_some(())?;
        }
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let len = places.size() + OVER;
        // SAFETY: asks for fresh memory.
        let region = unsafe { mmap_anonymous(std::ptr::null_mut(), len as usize, prot, flags) }.ok()?;
        let start = region as u64;
        let marks = Self { start, owners, turn: 0 };
        // SAFETY: advice on what was just mapped; marks lie far apart.
        let _ = unsafe { madvise(region, len as usize, Advice::LinuxNoHugepage) };
        (window.contains(&start) && window.contains(&(start + len))).then_some(marks)
    }

    /// How they are found.
    pub fn places(&self) -> Places {
        self.owners.places
    }

    /// What FS has to have for its base.
    pub fn base(&self) -> u64 {
        self.start + self.places().base()
    }

    /// Gives the memory of a piece its places; `false` if one of them is other memory's.
    pub fn claim(&mut self, piece: u64) -> bool {
        self.owners.claim(piece)
    }

    /// Pages with places, of which some are in a range.
    pub fn pages(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        let (first, last) = (start & !(Addr::PAGE - 1), end);
        let pieces = self.owners.claimed.range(start & !(PIECE - 1)..last);
        pieces
            .flat_map(|piece| (*piece..piece + PIECE).step_by(Addr::PAGE as usize))
            .filter(move |page| (first..last).contains(page))
    }

    /// Whether the memory at an address has a place.
    pub fn has(&self, addr: u64) -> bool {
        self.owners.all[(self.places().of(addr).0 / PIECE) as usize] == addr / PIECE * 2 + 1
    }

    fn line(&mut self, place: u64) -> &mut [u64; LINE / 8] {
        let at = self.start + place;
        // SAFETY: a line of the region, at a multiple of its size, which lives as long as this; the code cache does not run, and whoever
        // asks has no other line.
        unsafe { &mut *(at as *mut [u64; LINE / 8]) }
    }

    /// Takes the marks of a line of memory with a place: the bytes that were accessed, a bit each, and those that were written.
    pub fn take(&mut self, addr: u64) -> (u64, u64) {
        let (place, for_writes) = self.places().of(addr);
        let accessed = self.line(place);
        if *accessed == [0; LINE / 8] {
            return (0, 0);
        }
        // The lowest bits of eight bytes, as bits of one.
        let bits = |word: u64| (word & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        let all = |line: &[u64; LINE / 8]| line.iter().rev().fold(0, |all, word| all << 8 | bits(*word));
        let known = all(accessed);
        *accessed = [0; LINE / 8];
        let line = self.line(for_writes);
        let mut written = 0;
        if *line != [0; LINE / 8] {
            written = all(line);
            *line = [0; LINE / 8];
        }
        (known, written)
    }

    /// Takes all marks away.
    ///
    /// # Errors
    /// An address at which the kernel refuses to.
    pub fn clear(&mut self) -> Result<(), u64> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (piece, _) in self.owners.all.iter().enumerate().filter(|(_, owner)| **owner != 0) {
            let start = self.start + piece as u64 * PIECE;
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end += PIECE,
                _ => ranges.push(start..start + PIECE),
            }
        }
        self.turn += 1;
        // SAFETY: the region is this type's, to which nobody has a reference, and the code cache does not run.
        unsafe { zeroing::zero_again(ranges, self.turn, MOST_KEPT) }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // SAFETY: the region is this type's; whoever drops it has taken it from FS.
        let _ = unsafe { munmap(self.start as *mut _, (self.places().size() + OVER) as usize) };
    }
}

impl Places {
    /// Machine code that marks accesses; `moved`: by how much RSP has changed since the operands were true; `scratch`: a register that
    /// they do not use, and whether it is saved already.
    pub fn mark(self, accesses: &[PlainAccess], moved: i32, stub: &Stub, (scratch, saved): (Gpr, bool)) -> Vec<u8> {
        let mut code = Vec::new();
        let saves = self != Self::Narrow && !saved;
        if saves {
            code.extend(stub.save_scratch(scratch));
        }
        for access in accesses {
            let moved = if access.base == Some(Gpr::RSP) { moved } else { 0 };
            let mut operand = Operand::of(access, moved);
            if self != Self::Narrow {
                operand.load_address(&mut code, scratch);
                code.extend(stub.wide_place(scratch));
                operand = Operand { base: Some(scratch), index: None, scale: 0, disp: 0 };
            }
            let places: &[i64] = if access.writes { &[0, -(WRITTEN as i64)] } else { &[0] };
            for place in places {
                let mut done = 0;
                while done < access.bytes {
                    let bytes = [8, 4, 2, 1].into_iter().find(|bytes| done + bytes <= access.bytes).unwrap_or(1);
                    operand.put(&mut code, place.wrapping_add_unsigned(done) as i32, bytes, self == Self::Narrow);
                    done += bytes;
                }
            }
        }
        if saves {
            code.extend(stub.restore_scratch(scratch));
        }
        code
    }
}

/// An operand in memory.
struct Operand {
    base: Option<Gpr>,
    index: Option<Gpr>,
    scale: u64,
    disp: u64,
}

/// In ModRM and SIB: a SIB byte follows; no index.
const NONE: u8 = 4;

impl Operand {
    fn of(access: &PlainAccess, moved: i32) -> Self {
        let PlainAccess { base, index, scale, disp, .. } = *access;
        Self { base, index, scale, disp: disp.wrapping_sub(i64::from(moved) as u64) }
    }

    /// Bits of a REX prefix.
    fn rex(&self) -> u8 {
        let upper = |reg: Option<Gpr>| reg.map_or(0, |reg| reg.0 >> 3);
        upper(self.index) << 1 | upper(self.base)
    }

    /// ModRM, with this register in it, SIB and displacement.
    fn encode(&self, code: &mut Vec<u8>, reg: u8, more: i32) {
        let disp = (self.disp as i32).wrapping_add(more);
        let low = |reg: Option<Gpr>, none| reg.map_or(none, |reg| reg.0 & 7);
        let (base, index) = (low(self.base, 5), low(self.index, NONE));
        let short = i8::try_from(disp).ok().filter(|_| self.base.is_some());
        let mode = match short {
            _ if self.base.is_none() => 0,
            Some(0) if base != 5 => 0,
            Some(_) => 0x40,
            None => 0x80,
        };
        let middle = (reg & 7) << 3;
        if self.base.is_some() && self.index.is_none() && base != NONE {
            code.push(mode | middle | base);
        } else {
            code.extend([mode | middle | NONE, (self.scale.max(1).trailing_zeros() as u8) << 6 | index << 3 | base]);
        }
        match (mode, short) {
            (0, Some(_)) => {}
            (0x40, Some(short)) => code.push(short.cast_unsigned()),
            _ => code.extend(disp.to_le_bytes()),
        }
    }

    /// `mov fs:[operand + more], -1` of so many bytes, with 32 bits of address if they are to be cut off.
    fn put(&self, code: &mut Vec<u8>, more: i32, bytes: u64, cut: bool) {
        code.push(0x64);
        if cut {
            code.push(0x67);
        }
        if bytes == 2 {
            code.push(0x66);
        }
        let rex = u8::from(bytes == 8) << 3 | self.rex();
        if rex != 0 {
            code.push(0x40 | rex);
        }
        code.push(if bytes == 1 { 0xc6 } else { 0xc7 });
        self.encode(code, 0, more);
        code.extend(std::iter::repeat_n(0xff, bytes.min(4) as usize));
    }

    /// `lea register, [operand]`, or `mov` of an address that is known.
    fn load_address(&self, code: &mut Vec<u8>, to: Gpr) {
        if self.base.is_none() && self.index.is_none() {
            code.extend([0x48 | to.0 >> 3, 0xb8 | to.0 & 7]);
            code.extend(self.disp.to_le_bytes());
            return;
        }
        code.extend([0x48 | to.0 >> 3 << 2 | self.rex(), 0x8d]);
        self.encode(code, to.0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_all_kinds() {
        let mov = |base: Option<u8>, index: Option<u8>, scale, disp: i64, more, bytes, cut| {
            let operand = Operand { base: base.map(Gpr), index: index.map(Gpr), scale, disp: disp.cast_unsigned() };
            let mut code = Vec::new();
            operand.put(&mut code, more, bytes, cut);
            code
        };
        // As GNU as has them.
        assert_eq!(mov(Some(0), None, 0, 0, 0, 1, true), [0x64, 0x67, 0xc6, 0x00, 0xff]);
        assert_eq!(mov(Some(5), None, 0, 0, 0, 2, true), [0x64, 0x67, 0x66, 0xc7, 0x45, 0x00, 0xff, 0xff]);
        assert_eq!(
            mov(Some(4), None, 0, 8, 8, 8, true),
            [0x64, 0x67, 0x48, 0xc7, 0x44, 0x24, 0x10, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!(
            mov(Some(13), Some(12), 4, -300, 0, 4, true),
            [0x64, 0x67, 0x43, 0xc7, 0x84, 0xa5, 0xd4, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!(mov(None, Some(1), 8, 16, 0, 1, true), [0x64, 0x67, 0xc6, 0x04, 0xcd, 0x10, 0, 0, 0, 0xff]);
        assert_eq!(
            mov(None, None, 0, 0x1234_5678_9abc, 0, 1, true),
            [0x64, 0x67, 0xc6, 0x04, 0x25, 0xbc, 0x9a, 0x78, 0x56, 0xff]
        );
        assert_eq!(mov(Some(2), None, 0, 0, i32::MIN, 1, false), [0x64, 0xc6, 0x82, 0, 0, 0, 0x80, 0xff]);
    }

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
