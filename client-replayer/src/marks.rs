//! Marks: which bytes instructions have accessed, and which they have written, put down by the code cache itself.
//!
//! Each byte of the program's memory has two in a region of 4 GiB: one that is not zero once the byte was accessed, at the lower 32
//! bits of its address, and one for writes, with bit 31 of that flipped. FS has the region for its base, and an instruction is followed
//! by `mov fs:[operand], -1`, the operand being its own with 32 bits of address: which the processor cuts off by itself. That takes
//! neither a register nor a flag ([`mark`]).
//!
//! Memory that has the same place in the region as other memory ([`Marks::claim`]) cannot be told from it. Before an access is marked,
//! its memory was accessed, and where that is new, it comes by a fault: there it is found out, and from then on the client is called at each
//! access instead ([`crate::touched`]).

use crate::instruction::PlainAccess;
use bugnet_dr::{fs_base, zeroing};
use bugnet_format::types::Addr;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of the region, and what an access may reach over its end.
const REGION: usize = 1 << 32;
const OVER: usize = Addr::PAGE as usize;
/// What the place of a byte's mark for writes differs by.
const WRITTEN: u32 = 1 << 31;
/// The region is shared out in pieces of so many bytes, a power of two.
pub const PIECE: u64 = 1 << 16;
const PIECES: usize = REGION / PIECE as usize;
/// Most bytes of marks that stay in memory from one package to the next.
const MOST_KEPT: usize = 128 << 20;
/// Most bytes of an access that is marked.
pub const MOST: u64 = 64;
/// Bytes of a line.
pub const LINE: usize = Addr::PAGE as usize / 64;

/// The region.
pub struct Marks {
    base: u64,
    /// For each piece, whose it is: twice the upper half of the address, one more for writes, and one more; 0 for nobody's.
    owners: Vec<u32>,
    /// Memory that has a place, in pieces.
    claimed: BTreeSet<u64>,
    /// How often the marks were cleared.
    turn: u64,
}

impl Marks {
    /// New ones, without any mark; `None` where the machine cannot do it: its processor or kernel keeps FS to itself, or there is not as
    /// much address space. `window` is the replay process's own.
    pub fn new(window: &Range<u64>) -> Option<Self> {
        if !fs_base::can_be_set() {
            return None;
        }
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: asks for fresh memory.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), REGION + OVER, prot, flags) }.ok()?;
        let at = base as u64;
        if !(window.contains(&at) && window.contains(&(at + (REGION + OVER) as u64))) {
            // SAFETY: what was just mapped.
            let _ = unsafe { munmap(base, REGION + OVER) };
            return None;
        }
        // SAFETY: advice on what was just mapped; marks lie far apart.
        let _ = unsafe { madvise(base, REGION + OVER, Advice::LinuxNoHugepage) };
        Some(Self { base: at, owners: vec![0; PIECES], claimed: BTreeSet::new(), turn: 0 })
    }

    /// Where the region begins.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Gives the memory of a piece its places; `false` if one of them is other memory's.
    pub fn claim(&mut self, piece: u64) -> bool {
        let upper = (piece >> 32) as u32 * 2 + 1;
        for (place, owner) in [(piece as u32, upper), (piece as u32 ^ WRITTEN, upper + 1)] {
            let found = &mut self.owners[place as usize / PIECE as usize];
            if *found != 0 && *found != owner {
                return false;
            }
            *found = owner;
        }
        self.claimed.insert(piece);
        true
    }

    /// Pages with places, of which some are in a range.
    pub fn pages(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        let (first, last) = (start & !(Addr::PAGE - 1), end);
        let pieces = self.claimed.range(start & !(PIECE - 1)..last);
        pieces
            .flat_map(|piece| (*piece..piece + PIECE).step_by(Addr::PAGE as usize))
            .filter(move |page| (first..last).contains(page))
    }

    /// Whether the memory at an address has a place.
    pub fn has(&self, addr: u64) -> bool {
        self.owners[addr as u32 as usize / PIECE as usize] == (addr >> 32) as u32 * 2 + 1
    }

    fn line(&mut self, place: u32) -> &mut [u64; LINE / 8] {
        let at = self.base + u64::from(place);
        // SAFETY: a line of the region, at a multiple of its size, which lives as long as the process; the code cache does not run, and
        // whoever asks has no other line.
        unsafe { &mut *(at as *mut [u64; LINE / 8]) }
    }

    /// Takes the marks of a line of memory with a place: the bytes that were accessed, a bit each, and whether one was written.
    pub fn take(&mut self, addr: u64) -> (u64, bool) {
        let place = addr as u32;
        let accessed = self.line(place);
        if *accessed == [0; LINE / 8] {
            return (0, false);
        }
        // The lowest bits of eight bytes, as bits of one.
        let bits = |word: u64| (word & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        let known = accessed.iter().rev().fold(0, |all, word| all << 8 | bits(*word));
        *accessed = [0; LINE / 8];
        let written = self.line(place ^ WRITTEN);
        let is_written = *written != [0; LINE / 8];
        if is_written {
            *written = [0; LINE / 8];
        }
        (known, is_written)
    }

    /// Takes all marks away.
    ///
    /// # Errors
    /// An address at which the kernel refuses to.
    pub fn clear(&mut self) -> Result<(), u64> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (piece, _) in self.owners.iter().enumerate().filter(|(_, owner)| **owner != 0) {
            let start = self.base + piece as u64 * PIECE;
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
        let _ = unsafe { munmap(self.base as *mut _, REGION + OVER) };
    }
}

/// Machine code that marks an access; `moved`: by how much RSP has changed since the operand was true.
pub fn mark(access: &PlainAccess, moved: i32) -> Vec<u8> {
    let mut code = Vec::new();
    let places: &[u32] = if access.writes { &[0, WRITTEN] } else { &[0] };
    for place in places {
        let mut done = 0;
        while done < access.bytes as u32 {
            let bytes = [8, 4, 2, 1].into_iter().find(|bytes| done + bytes <= access.bytes as u32).unwrap_or(1);
            put(&mut code, access, place.wrapping_add(done).wrapping_add_signed(-moved), bytes);
            done += bytes;
        }
    }
    code
}

/// `mov fs:[operand + more], -1` of so many bytes, with 32 bits of address.
fn put(code: &mut Vec<u8>, access: &PlainAccess, more: u32, bytes: u32) {
    const FS: u8 = 0x64;
    const ADDRESS: u8 = 0x67;
    const OPERAND: u8 = 0x66;
    /// In ModRM and SIB: a SIB byte follows; no index.
    const NONE: u8 = 4;
    let number = |reg: Option<bugnet_dr::ir::Gpr>| reg.map_or(0, |reg| reg.0);
    let (base, index) = (number(access.base), number(access.index));
    let disp = (access.disp as u32).wrapping_add(more);
    code.extend([FS, ADDRESS]);
    if bytes == 2 {
        code.push(OPERAND);
    }
    let rex = u8::from(bytes == 8) << 3 | (index >> 3) << 1 | base >> 3;
    if rex != 0 {
        code.push(0x40 | rex);
    }
    code.push(if bytes == 1 { 0xc6 } else { 0xc7 });
    let short = i8::try_from(disp.cast_signed()).ok().filter(|_| access.base.is_some());
    let mode = match short {
        _ if access.base.is_none() => 0,
        Some(0) if base & 7 != 5 => 0,
        Some(_) => 0x40,
        None => 0x80,
    };
    if access.base.is_some() && access.index.is_none() && base & 7 != NONE {
        code.push(mode | base & 7);
    } else {
        let low = if access.base.is_some() { base & 7 } else { 5 };
        let middle = if access.index.is_some() { index & 7 } else { NONE };
        code.extend([mode | NONE, (access.scale.max(1).trailing_zeros() as u8) << 6 | middle << 3 | low]);
    }
    match (mode, short) {
        (0, _) if access.base.is_some() => {}
        (0x40, Some(short)) => code.push(short.cast_unsigned()),
        _ => code.extend(disp.to_le_bytes()),
    }
    code.extend(std::iter::repeat_n(0xff, bytes.min(4) as usize));
}
