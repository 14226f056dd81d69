//! Accesses of shaded memory that an instruction makes again and again ([`Turn`]): an outline has an entry of the first one, and in it when
//! the last one was made.
//!
//! The code cache finds the entry in a table, by what [`key`] makes of the address, from code outside of blocks. The address is in a register that comes
//! along, the tag in a slot, and RCX is free:
//!
//! ```text
//!            put down where to go on, and another register
//!            register = the key
//!            other = where the table has it, by a hash
//!            what is there, minus the key; jrcxz same
//!     first: the table has the key, and the next entry's place; write that entry
//!            go on
//!     same:  load what says that each is told; jrcxz last; go on as the first
//!     last:  write into the entry when this is, and where the outline ends
//! ```
//!
//! None of this changes a flag.
//!
//! [`key`]: bugnet_format::trace::key

use super::Tracing;
use crate::assembler::hash_into;
use crate::counter::COUNTER;
use crate::engine::Engine;
use crate::jumps::{GO, IF_RCX_ZERO};
use crate::operand::{Operand, Segmented};
use crate::slots::JUMP;
use crate::stub::{Field, Stub};
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::Gpr;
use bugnet_format::trace::{DUE_WORDS, KEY_TURN, Turn, untag};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::arch::x86_64::_mm_crc32_u64;
use std::collections::VecDeque;

/// Accesses of which the table has one each: of more, some are entries again.
const MOST: u64 = 1 << 17;
/// Bytes of each: the key, and where its entry is.
const EACH: u64 = 16;
/// Of an outline of fewer bytes, what the table has is forgotten one by one.
const FEW_BYTES: u64 = MOST * EACH / 2;
/// Where an entry has its second word and so on, and the next entry.
const WORDS: [i32; 4] = [-8, -16, -24, -32];
/// The half of the first word that has the count.
const UPPER: i32 = 4;

/// From a tag, as a [`key`] has it.
///
/// [`key`]: bugnet_format::trace::key
const TURN: Assembled = assembled!("rorx rcx, rcx, 17");
const NOT: Assembled = assembled!("not rcx");
const _: () = assert!(KEY_TURN == 64 - 17);

/// The table.
pub struct Again {
    table: u64,
    /// Whether each access is told.
    each: bool,
    /// What comes next of the thread's turns.
    turns: VecDeque<Turn>,
    /// Where the outline ended when the table was empty: what it has is of entries behind that.
    empty_at: u64,
}

impl Again {
    /// An empty one.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn new() -> Result<Self, String> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: asks for fresh memory.
        let table = unsafe { mmap_anonymous(std::ptr::null_mut(), (MOST * EACH) as usize, prot, flags) };
        let table = table.map_err(|e| format!("there is no room for what is accessed again: {e}"))? as u64;
        Ok(Self { table, each: true, turns: VecDeque::new(), empty_at: 0 })
    }

    fn empty(&mut self) {
        // SAFETY: the table is this type's, and lives as long as the process; the code cache does not run.
        unsafe { std::ptr::write_bytes(self.table as *mut u8, 0, (MOST * EACH) as usize) };
    }

    /// The same for what the table has of one access.
    fn forget(&mut self, tag: u32, key: u64) {
        let place = hash(tag, key) & (MOST - 1);
        // SAFETY: as above; it has that many places.
        unsafe { ((self.table + place * EACH) as *mut u64).write(0) };
    }
}

/// What [`told_again`] finds a key's place by.
fn hash(tag: u32, key: u64) -> u64 {
    let seed = u64::from(tag).rotate_right(64 - KEY_TURN);
    // SAFETY: replay processes look at accesses where BMI2 is there, which is newer than SSE 4.2.
    unsafe { _mm_crc32_u64(seed & u64::from(u32::MAX), key) }
}

impl Engine {
    fn again(&mut self) -> Option<&mut Again> {
        self.tracing.as_mut().and_then(|tracing| tracing.again.as_mut())
    }

    /// Takes where turns begin from here on.
    ///
    /// # Errors
    /// They make no sense, or no accesses are told.
    pub fn take_turns(&mut self, turns: Vec<Turn>) -> Result<(), String> {
        let time = self.time_at(self.position);
        let again = self.again().ok_or("no accesses are told")?;
        let order = std::iter::once(time).chain(turns.iter().map(|turn| turn.at));
        if !order.is_sorted() {
            return Err("turns that make no sense".into());
        }
        again.turns = turns.into();
        Ok(())
    }

    /// Begins the turn that begins here, if there is one.
    pub fn begin_turn(&mut self) {
        let time = self.time_at(self.position);
        let Some(again) = self.again() else { return };
        let mut begun = None;
        while let Some(turn) = again.turns.pop_front_if(|turn| turn.at <= time) {
            begun = Some(turn.each);
        }
        if let Some(each) = begun {
            again.each = each;
            self.forget_told();
        }
    }

    /// The thread's instruction count at which the next turn begins.
    pub fn next_turn(&mut self) -> u64 {
        let (time, position) = (self.time_at(self.position), self.position);
        let next = self.again().and_then(|again| again.turns.front()).map_or(u64::MAX, |turn| turn.at);
        if next == u64::MAX { u64::MAX } else { position.saturating_add(next.saturating_sub(time)) }
    }

    /// What is accessed from here on is told again, whatever was accessed before. Behind it, the outline says what is due.
    pub fn forget_told(&mut self) {
        let outline = self.stub.shared().outline;
        let Some(Tracing { blocks, again: Some(again), .. }) = self.tracing.as_deref_mut() else { return };
        let mut at = again.empty_at;
        if at.wrapping_sub(outline) < FEW_BYTES {
            while at > outline {
                // SAFETY: words of the outline that are written, which nobody refers to.
                let [first, second] = [at, at - 8].map(|at| unsafe { (at as *const u64).read_volatile() });
                let (number, tag) = (untag(first).0, first as u32);
                let entry = blocks.get(number as usize).and_then(|block| block.entry);
                if entry.and_then(|entry| entry.told).is_some_and(|told| told.again) {
                    again.forget(tag, second);
                }
                at -= 8 * entry.map_or(DUE_WORDS, |entry| entry.words.into());
            }
        } else {
            again.empty();
        }
        self.begin_told();
    }

    /// The table is empty where the outline ends.
    pub fn begin_told(&mut self) {
        let outline = self.stub.shared().outline;
        let Some(again) = self.again() else { return };
        again.empty_at = outline;
        let (table, each) = (again.table, again.each.into());
        let shared = self.stub.shared();
        (shared.table, shared.hashed_by, shared.each) = (table, MOST - 1, each);
    }
}

/// The code that the module describes. `reg` has the address; `lent`: whether R11 is the program's.
pub fn told_again(stub: &Stub, reg: Gpr, lent: bool) -> Vec<u8> {
    let other = if reg == Gpr::RDX { Gpr::RAX } else { Gpr::RDX };
    let sum = |base: Gpr, index: Gpr, scale: u64, disp: u64, to: Gpr| {
        let mut code = Vec::new();
        Operand { segment: None, base: Some(base), index: Some(index), scale, disp }.lea(&mut code, to);
        code
    };
    let load = |from: Gpr, distance: i32, to: Gpr| {
        let mut code = Vec::new();
        Operand::behind(from, distance).load(&mut code, to, 0, 8, Segmented::No);
        code
    };
    let store = |from: Gpr, to: Gpr, distance: i32, bytes: u64| {
        let mut code = Vec::new();
        Operand::behind(to, distance).store(&mut code, from, 0, bytes, Segmented::No);
        code
    };
    let twice = sum(other, Gpr::RCX, EACH / 2, 0, other);
    let find = [
        stub.store_field(Gpr::RCX, Field::Back),
        stub.store_field(other, Field::Spare),
        stub.load_field(Gpr::RCX, Field::Tag),
        TURN.to_vec(),
        sum(reg, Gpr::RCX, 1, 0, reg),
        hash_into(Gpr::RCX, reg),
        stub.hashed(Gpr::RCX),
        stub.load_field(other, Field::Table),
        twice.clone(),
        twice,
        load(other, 0, Gpr::RCX),
        NOT.to_vec(),
        sum(Gpr::RCX, reg, 1, 1, Gpr::RCX),
    ];
    let mut none = Vec::new();
    Operand::behind(Gpr::RCX, WORDS[1]).put_number(&mut none, 0, Segmented::No);
    let mut next = Vec::new();
    Operand::behind(Gpr::RCX, WORDS[3]).lea(&mut next, Gpr::RCX);
    let (count, counted) = if lent { (stub.load_count_into(other), other) } else { (Vec::new(), COUNTER) };
    let mut first = [
        store(reg, other, 0, 8),
        stub.load_outline(Gpr::RCX),
        store(Gpr::RCX, other, 8, 8),
        store(reg, Gpr::RCX, WORDS[0], 8),
        stub.load_field(other, Field::Tag),
        store(other, Gpr::RCX, 0, 4),
        count,
        store(counted, Gpr::RCX, UPPER, 4),
        none,
        // The last word is no program's address.
        store(Gpr::RCX, Gpr::RCX, WORDS[2], 8),
        next,
        stub.store_outline(Gpr::RCX),
    ]
    .concat();
    let (count, counted) = if lent { (stub.load_count_into(reg), reg) } else { (Vec::new(), COUNTER) };
    let last = [
        load(other, 8, Gpr::RCX),
        stub.load_field(other, Field::Due),
        count,
        sum(other, counted, 1, 0, other),
        store(other, Gpr::RCX, WORDS[1], 4),
        stub.load_outline(other),
        store(other, Gpr::RCX, WORDS[2], 8),
    ]
    .concat();
    let jump = GO.len() + 1;
    let is_each = stub.load_field(Gpr::RCX, Field::Each);
    let back = first.len() + jump + is_each.len() + IF_RCX_ZERO.len() + 1 + jump;
    let same = [&is_each[..], &IF_RCX_ZERO, &[jump as u8], &GO, &[(back as u8).wrapping_neg()]].concat();
    first.extend([&GO[..], &[(same.len() + last.len()) as u8]].concat());
    debug_assert!(back <= 128 && first.len() < 128 && same.len() + last.len() < 128);
    let end = [
        stub.load_field(other, Field::Spare),
        stub.restore_scratch(reg),
        JUMP.to_vec(),
        stub.field(Field::Back).to_vec(),
    ];
    [&find.concat()[..], &IF_RCX_ZERO, &[first.len() as u8], &first, &same, &last, &end.concat()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(TURN.bytes(), [0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 17]);
        assert_eq!(NOT.bytes(), [0x48, 0xf7, 0xd1]);
    }

    #[test]
    fn places_are_where_the_code_cache_looks() {
        for (tag, key) in [(1 << 22, 1), (0x0040_1234, 0x8000_7f12_3456_789a), (0x003f_ffff, u64::MAX)] {
            let mut place = u64::from(tag);
            // SAFETY: the instructions of `told_again`, which change nothing else.
            unsafe { std::arch::asm!("rorx {0}, {0}, 17", "crc32 {0}, {1}", inout(reg) place, in(reg) key) };
            assert_eq!(hash(tag, key), place);
        }
    }
}
