//! Machine code that writes words down.

use super::plan::{Inside, Need, Pair, Reg};
use crate::counter::{Borrowed, COUNTER};
use crate::jumps::{GO, UNLESS_RCX_ZERO};
use crate::operand::{Operand, Segmented};
use crate::stub::{Field, Stub};
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd};
use bugnet_format::trace::{CAPACITY, WordPlace};
use std::ops::Range;

/// Instructions that are executed one after the other, and what the count is while they are.
pub struct Counted {
    /// Their indices in the block.
    pub range: Range<usize>,
    /// Whether they are counted already.
    pub is_counted: bool,
}

impl Counted {
    /// The distance from the count, in words, to a word; in bytes.
    fn distance(&self, place: WordPlace) -> i32 {
        let counted = if self.is_counted { self.range.len() as i32 } else { 0 };
        8 * (i32::from(place.lane) * CAPACITY as i32 + counted - 1 - i32::from(place.at))
    }
}

/// Writes down a block's first word and the values that are needed. Before R11 changes places at any instruction; see
/// [`crate::counter::Lending`].
pub fn write_down(
    block: &Block,
    stub: &Stub,
    instrs: &[Instr],
    (counted, tag, needs): (&Counted, u32, &[Need]),
    borrowed: &Borrowed,
) {
    let first = instrs[counted.range.start];
    block.meta(Some(first), block.raw(&put_tag(counted.distance(WordPlace { lane: 0, at: 0 }), tag)));
    for need in needs {
        let index = counted.range.start + need.before;
        let lent = borrowed.goes_on_at(index);
        let code = put(stub, counted.distance(need.place), need.reg, lent);
        block.meta(Some(instrs[index]), block.raw(&code));
    }
}

/// Writes an entry of an outline. Before R11 changes places at any instruction, as [`write_down`]. `live`: for each of the block's instructions, whether
/// RCX is the program's there.
pub fn outline(
    block: &Block,
    stub: &Stub,
    instrs: &[Instr],
    (counted, tag, needs, inside): (&Counted, u32, &[Need], Option<Inside>),
    borrowed: &Borrowed,
    live: impl Fn(usize) -> bool,
) {
    let start = counted.range.start;
    let words = needs.len() as i32 + 1;
    let entry = Operand::at(Gpr::RCX);
    let mut code = Vec::new();
    entry.put_number(&mut code, tag, Segmented::No);
    entry.store(&mut code, COUNTER, 4, 4, Segmented::No);
    let begins = |need: &&Need| need.before == 0 && need.reg != Reg::Top;
    for need in needs.iter().filter(begins) {
        code.extend(put_word(stub, -8 * i32::from(need.place.at), need.reg, borrowed.goes_on_at(start)));
    }
    let is_later = needs.iter().any(|need| !begins(&need));
    if is_later {
        // Entries of accesses may come in between.
        code.extend(stub.store_entry(Gpr::RCX));
    }
    Operand::behind(Gpr::RCX, -8 * words).lea(&mut code, Gpr::RCX);
    code.extend(stub.store_outline(Gpr::RCX));
    let around = |load: Vec<u8>, code: Vec<u8>, keeps: bool| {
        if keeps { [stub.save_rcx(), load, code, stub.restore_rcx()].concat() } else { [load, code].concat() }
    };
    let at_entry = |code: Vec<u8>| around(stub.load_entry(Gpr::RCX), code, true);
    let keeps = live(start) || needs.iter().any(|need| begins(&need) && need.reg == Reg::Whole(Gpr::RCX));
    let mut load = stub.load_outline(Gpr::RCX);
    if let Some(inside) = inside {
        code.extend(stub.put_number((inside != Inside::Leaves).into(), Field::Inside));
    }
    if inside == Some(Inside::Known) {
        let rest = (load.len() + code.len()) as u8;
        load = [&stub.load_field(Gpr::RCX, Field::Inside)[..], &UNLESS_RCX_ZERO, &[rest], &load].concat();
    }
    block.meta(Some(instrs[start]), block.raw(&around(load, code, keeps)));
    for need in needs.iter().filter(|need| !begins(need)) {
        let index = start + need.before;
        let instr = instrs[index];
        let distance = -8 * i32::from(need.place.at);
        if need.reg == Reg::Top {
            load_top(block, stub, instr);
            let code = at_entry(at_rcx(Gpr::RDX, distance));
            block.meta(Some(instr), block.raw(&[code, stub.restore_scratch(Gpr::RDX)].concat()));
            continue;
        }
        let code = put_word(stub, distance, need.reg, borrowed.goes_on_at(index));
        block.meta(Some(instr), block.raw(&at_entry(code)));
    }
}

/// Saves RDX, and takes there what RSP points at.
fn load_top(block: &Block, stub: &Stub, instr: Instr) {
    // It may fault: then, all registers are the program's.
    block.meta(Some(instr), block.raw(&stub.save_scratch(Gpr::RDX)));
    block.app(Some(instr), block.load(Opnd::reg(Gpr::RDX, 8), Opnd::at(Gpr::RSP, 0, 8)), instr.pc());
}

/// Writes an entry of an outline directly before a call or return, behind all that comes before it, where R11 counts. A return takes the entry of its
/// call back instead, if that is the last one.
pub fn pair(block: &Block, stub: &Stub, instr: Instr, (tag, pair): (u32, Pair)) {
    let entry = |rest: Vec<u8>| {
        let mut code = Vec::new();
        Operand::at(Gpr::RCX).put_number(&mut code, tag, Segmented::No);
        Operand::at(Gpr::RCX).store(&mut code, COUNTER, 4, 4, Segmented::No);
        code.extend(rest);
        Operand::behind(Gpr::RCX, -8 * pair.words() as i32).lea(&mut code, Gpr::RCX);
        [stub.load_outline(Gpr::RCX), code, stub.store_outline(Gpr::RCX)].concat()
    };
    let around = |code: Vec<u8>| [stub.save_rcx(), code, stub.restore_rcx()].concat();
    match pair {
        Pair::Call(next) => {
            let code = entry([constant(-8, !next), at_rcx(Gpr::RSP, -16)].concat());
            block.meta(Some(instr), block.raw(&around(code)));
        }
        Pair::Return => {
            load_top(block, stub, instr);
            let words = [(Gpr::RSP, -8), (Gpr::RAX, -16), (Gpr::RDX, -24)].map(|(reg, at)| at_rcx(reg, at));
            let write = entry([words.concat(), constant(-32, 0)].concat());
            let code = around(take_back(stub, &write));
            block.meta(Some(instr), block.raw(&[code, stub.restore_scratch(Gpr::RDX)].concat()));
        }
    }
}

/// `mov [rcx + distance], register`
fn at_rcx(reg: Gpr, distance: i32) -> Vec<u8> {
    let mut code = Vec::new();
    Operand::behind(Gpr::RCX, distance).store(&mut code, reg, 0, 8, Segmented::No);
    code
}

/// `mov [rcx + distance], register`, as the program has it, with RCX in its slot. `lent`: whether R11 is the program's.
fn put_word(stub: &Stub, distance: i32, reg: Reg, lent: bool) -> Vec<u8> {
    let by_way = |load: Vec<u8>| {
        let (save, restore) = (stub.save_scratch(Gpr::RDX), stub.restore_scratch(Gpr::RDX));
        [save, load, at_rcx(Gpr::RDX, distance), restore].concat()
    };
    match reg {
        Reg::Whole(Gpr::RCX) => by_way(stub.load_rcx_into(Gpr::RDX)),
        Reg::Whole(COUNTER) if !lent => by_way(stub.load_lent_into(Gpr::RDX)),
        Reg::Whole(reg) => at_rcx(reg, distance),
        Reg::Vector(reg) => {
            let mut code = Vec::new();
            Operand::behind(Gpr::RCX, distance).store_vector(&mut code, reg, Segmented::No);
            code
        }
        Reg::Zero => constant(distance, 0),
        Reg::Top => Vec::new(),
    }
}

/// Machine code that puts a number down, in two halves.
fn constant(distance: i32, value: u64) -> Vec<u8> {
    let mut code = Vec::new();
    for (half, number) in [(distance, value as u32), (distance + 4, (value >> 32) as u32)] {
        Operand::behind(Gpr::RCX, half).put_number(&mut code, number, Segmented::No);
    }
    code
}

/// To the first word of the call.
const TO_CALL: Assembled = assembled!("lea rcx, [rcx + 24]");
/// Zero if it returns there.
const RETURNS_THERE: Assembled = assembled!("mov rcx, [rcx + 16]", "lea rcx, [rdx + rcx + 1]");
/// Zero if it is of that slot.
const IS_OF_SLOT: Assembled = assembled!("mov rcx, [rcx + 8]", "not rcx", "lea rcx, [rsp + rcx + 9]");

/// Machine code that takes the last entry back if it is of the call that returns now: its words are where it returns to, and RSP before it, and RDX has
/// where the return goes. Else, it does something else.
fn take_back(stub: &Stub, or_else: &[u8]) -> Vec<u8> {
    let outline = stub.load_outline(Gpr::RCX);
    let back = [&outline[..], &TO_CALL, &stub.store_outline(Gpr::RCX), &GO, &[or_else.len() as u8]].concat();
    let is_there = [&outline[..], &RETURNS_THERE, &UNLESS_RCX_ZERO, &[back.len() as u8], &back].concat();
    // Before an outline's first entry, there is what says what is due, and nothing before that.
    [&outline[..], &IS_OF_SLOT, &UNLESS_RCX_ZERO, &[is_there.len() as u8], &is_there, or_else].concat()
}

/// `fs:[count*8 + distance]`
fn word(count: Gpr, distance: i32) -> Operand {
    let disp = i64::from(distance).cast_unsigned();
    Operand { segment: None, base: None, index: Some(count), scale: 8, disp }
}

/// `mov fs:[count*8 + distance], register`
fn put_register(reg: Gpr, count: Gpr, distance: i32) -> Vec<u8> {
    let mut code = Vec::new();
    word(count, distance).store(&mut code, reg, 0, 8, Segmented::Fs);
    code
}

/// `mov dword ptr fs:[r11*8 + distance], tag`
fn put_tag(distance: i32, tag: u32) -> Vec<u8> {
    let mut code = Vec::new();
    word(COUNTER, distance).put_number(&mut code, tag, Segmented::Fs);
    code
}

/// `movq fs:[count*8 + distance], vector register`
fn put_vector(reg: u8, count: Gpr, distance: i32) -> Vec<u8> {
    let mut code = Vec::new();
    word(count, distance).store_vector(&mut code, reg, Segmented::Fs);
    code
}

/// `mov fs:[r11*8 + distance], register`, as the program has it. `lent`: whether R11 is the program's.
fn put(stub: &Stub, distance: i32, reg: Reg, lent: bool) -> Vec<u8> {
    let reg = match reg {
        Reg::Whole(reg) => reg,
        Reg::Top | Reg::Zero => return Vec::new(),
        Reg::Vector(reg) if lent => {
            let (save, count) = (stub.save_scratch(Gpr::RAX), stub.load_count_into(Gpr::RAX));
            return [save, count, put_vector(reg, Gpr::RAX, distance), stub.restore_scratch(Gpr::RAX)].concat();
        }
        Reg::Vector(reg) => return put_vector(reg, COUNTER, distance),
    };
    let scratch = if reg == Gpr::RAX { Gpr::RCX } else { Gpr::RAX };
    match (lent, reg == COUNTER) {
        (false, false) => put_register(reg, COUNTER, distance),
        (false, true) => {
            let code = [stub.save_scratch(scratch), stub.load_lent_into(scratch)].concat();
            [code, put_register(scratch, COUNTER, distance), stub.restore_scratch(scratch)].concat()
        }
        (true, _) => {
            let code = [stub.save_scratch(scratch), stub.load_count_into(scratch)].concat();
            [code, put_register(reg, scratch, distance), stub.restore_scratch(scratch)].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_gnu_as_has_them() {
        // mov fs:[r11*8 + 16], rsp
        assert_eq!(put_register(Gpr::RSP, COUNTER, 16), [0x64, 0x4a, 0x89, 0x24, 0xdd, 16, 0, 0, 0]);
        // mov fs:[rcx*8 - 8], r12
        assert_eq!(put_register(Gpr(12), Gpr::RCX, -8), [0x64, 0x4c, 0x89, 0x24, 0xcd, 0xf8, 0xff, 0xff, 0xff]);
        // movq fs:[r11*8 + 16], xmm1; movq fs:[rax*8 - 8], xmm12
        assert_eq!(put_vector(1, COUNTER, 16), [0x64, 0x66, 0x42, 0x0f, 0xd6, 0x0c, 0xdd, 16, 0, 0, 0]);
        assert_eq!(put_vector(12, Gpr::RAX, -8), [0x64, 0x66, 0x44, 0x0f, 0xd6, 0x24, 0xc5, 0xf8, 0xff, 0xff, 0xff]);
        // mov dword ptr fs:[r11*8 + 8], 7
        assert_eq!(put_tag(8, 7), [0x64, 0x42, 0xc7, 0x04, 0xdd, 8, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(TO_CALL.bytes(), [0x48, 0x8d, 0x49, 24]);
        assert_eq!(RETURNS_THERE.bytes(), [0x48, 0x8b, 0x49, 16, 0x48, 0x8d, 0x4c, 0x0a, 1]);
        assert_eq!(IS_OF_SLOT.bytes(), [0x48, 0x8b, 0x49, 8, 0x48, 0xf7, 0xd1, 0x48, 0x8d, 0x4c, 0x0c, 9]);
    }

    #[test]
    fn the_first_word_of_what_is_counted_lies_highest() {
        let place = |lane, at| WordPlace { lane, at };
        let counted = Counted { range: 3..8, is_counted: true };
        assert_eq!([0, 1, 4].map(|at| counted.distance(place(0, at))), [32, 24, 0]);
        assert_eq!(counted.distance(place(1, 4)), 8 * CAPACITY as i32);
        let before = Counted { range: 0..3, is_counted: false };
        assert_eq!([0, 2].map(|at| before.distance(place(0, at))), [-8, -24]);
    }
}
