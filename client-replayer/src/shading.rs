//! How the code cache looks by itself whether an access may be wrong ([`crate::shades`]).
//!
//! Before an instruction that accesses memory, where flags may be changed and the place is one of the operand's own ([`crate::spare`], [`crate::place`]):
//!
//! ```text
//!            compare what the plane has of the bytes with zero
//!            je right
//!            go on outside, where the client is called
//!     right: the instruction
//! ```
//!
//! And elsewhere, without a flag being changed:
//!
//! ```text
//!            save RCX, if somebody needs it, and it is not in its slot already
//!            load into RCX what the plane has of the bytes       zero if all may be accessed
//!            jrcxz right
//!     wrong: go on outside, where the client is called
//!     right: restore RCX
//!            the instruction
//! ```
//!
//! Between a return and the next time that the stack pointer moves, nothing lies below it: `ret` puts down where the frame ends that is left, and
//! what moves the stack pointer takes that away. Accesses meanwhile, but by the stack pointer itself, are compared with it:
//!
//! ```text
//!            load into RCX the end, with all bits the other way
//!            lea rcx, [rcx + the operand]
//!            not rcx                                             how far it lies before the end
//!            rorx rcx, rcx, 20; mov ecx, ecx                     zero if that is less than 1 MiB
//!            jrcxz wrong
//! ```

use crate::counter::{self, COUNTER};
use crate::instruction::{Accessing, PlainAccess};
use crate::jumps::{IF_RCX_ZERO, UNLESS_RCX_ZERO};
use crate::marking::written;
use crate::operand::{Operand, Segmented};
use crate::place::{Place, parts};
use crate::places::Places;
use crate::shades::Shades;
use crate::slots::PLACE_IN_RCX;
use crate::spare::Spare;
use crate::stub::{Field, Stub};
use crate::trace::told_again;
use bugnet_dr::access::classify;
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd};
use bugnet_dr::{liveness, opcode};
use bugnet_format::shade::LEFT_REACH;

/// Most bytes of an access that is looked at.
const MOST: u64 = 64;
/// Registers beside RCX.
const SCRATCH: [Gpr; 5] = [Gpr::RDX, Gpr::RAX, Gpr::RSI, Gpr::RDI, Gpr::RBX];

/// What is done about the accesses of an instruction.
pub enum Shading {
    /// Nothing: there are none, or none that may be wrong.
    None,
    /// The code cache looks at them.
    Inside(Vec<Look>),
    /// The client is called.
    Call,
}

/// An access that is looked at.
pub struct Look {
    access: PlainAccess,
    /// Whether it is compared with the end of a frame that was left.
    by_left: bool,
    /// A register that it does not use.
    scratch: Gpr,
}

impl Shading {
    /// Of a block's instructions. `trusted`: it may access anything; `comes`: whether memory at an address may come to be wrong.
    pub fn of_all(instrs: &[Instr], trusted: bool, mut comes: impl FnMut(u64, u64) -> bool) -> Vec<Self> {
        let mut moved = false;
        let of = |instr: &Instr| {
            moved |= written(*instr) & Gpr::RSP.bit() != 0;
            if trusted { Self::None } else { Self::of(*instr, !moved, &mut comes) }
        };
        instrs.iter().map(of).collect()
    }

    fn of(instr: Instr, by_left: bool, mut comes: impl FnMut(u64, u64) -> bool) -> Self {
        let accesses = match Accessing::of(&classify(instr)) {
            Accessing::None => return Self::None,
            Accessing::Plain(accesses) => accesses,
            Accessing::Other => return Self::Call,
        };
        let is_of_stack = |access: &PlainAccess| access.base == Some(Gpr::RSP) && access.index.is_none();
        let mut is_right = |access: &PlainAccess| is_constant(access) && !comes(access.disp, access.bytes);
        let accesses: Vec<PlainAccess> =
            accesses.into_iter().filter(|access| !is_of_stack(access) && !is_right(access)).collect();
        if accesses.is_empty() {
            return Self::None;
        }
        Self::looks(instr, accesses, |access| {
            let is_by_stack = access.base == Some(Gpr::RSP) || access.index == Some(Gpr::RSP);
            by_left && !is_by_stack && access.segment.is_none() && access.registers() != 0
        })
    }

    /// Looks at these accesses of an instruction, if the code cache can.
    fn looks(instr: Instr, accesses: Vec<PlainAccess>, by_left: impl Fn(&PlainAccess) -> bool) -> Self {
        // Where R11 is used by an instruction that leaves the block, it counts already before that. Places are found in RCX.
        let is_apart = |access: &PlainAccess| access.segment.is_some() && access.registers() & Gpr::RCX.bit() != 0;
        if instr.is_cti() && counter::used(instr) & COUNTER.bit() != 0
            || accesses.iter().any(|access| is_apart(access) || !(1..=MOST).contains(&access.bytes))
        {
            return Self::Call;
        }
        let look = |access: PlainAccess| {
            let scratch = SCRATCH.into_iter().find(|reg| access.registers() & reg.bit() == 0)?;
            let by_left = by_left(&access);
            Some(Look { access, by_left, scratch })
        };
        accesses.into_iter().map(look).collect::<Option<_>>().map_or(Self::Call, Self::Inside)
    }

    /// Of a block's instructions, where all accesses of shaded memory are told ([`tell`]): those by the stack pointer, too.
    pub fn of_all_told(instrs: &[Instr], mut comes: impl FnMut(u64, u64) -> bool) -> Vec<Self> {
        instrs.iter().map(|instr| Self::told(*instr, &mut comes)).collect()
    }

    fn told(instr: Instr, mut comes: impl FnMut(u64, u64) -> bool) -> Self {
        let accesses = match Accessing::of(&classify(instr)) {
            Accessing::None => return Self::None,
            Accessing::Plain(accesses) => accesses,
            Accessing::Other => return Self::Call,
        };
        let mut is_elsewhere = |access: &PlainAccess| is_constant(access) && !comes(access.disp, access.bytes);
        let accesses: Vec<PlainAccess> = accesses.into_iter().filter(|access| !is_elsewhere(access)).collect();
        if accesses.is_empty() {
            return Self::None;
        }
        Self::looks(instr, accesses, |_| false)
    }

    /// About how many bytes of machine code it takes; no fewer than it does.
    pub fn bytes(&self) -> usize {
        const AROUND: usize = 96;
        const PART: usize = 48;
        // Or an entry that tells it.
        const LEFT: usize = 128;
        let Self::Inside(looks) = self else { return 0 };
        looks.iter().map(|look| AROUND + LEFT + PART * parts(look.access.bytes).count()).sum()
    }

    /// Whether the client is called.
    pub fn is_called(&self) -> bool {
        matches!(self, Self::Call)
    }
}

/// Whether it is at an address that no register changes.
fn is_constant(access: &PlainAccess) -> bool {
    access.base.is_none() && access.index.is_none() && access.segment.is_none()
}

/// Puts down that there is no frame that was left.
fn forget_left(places: Places) -> Vec<u8> {
    [FORGET_LEFT.bytes(), &Shades::left_slot(places).to_le_bytes(), &[0; 4]].concat()
}

/// What comes before instructions that move the stack pointer: where a frame ends that a `ret` leaves, or that none does. In front of everything that
/// [`look`] inserts.
pub fn follow_stack(block: &Block, stub: &Stub, places: Places, instrs: &[Instr]) {
    let live = liveness::analyse(instrs);
    let mut forgotten = false;
    for (index, instr) in instrs.iter().enumerate() {
        if instr.opcode() == opcode::OP_ret {
            let mut code = [LEAVE.bytes(), &Shades::left_slot(places).to_le_bytes()].concat();
            if live[index].gprs & Gpr::RCX.bit() != 0 {
                code = [stub.save_rcx(), code, stub.restore_rcx()].concat();
            }
            block.meta(Some(*instr), block.raw(&code));
        } else if written(*instr) & Gpr::RSP.bit() != 0 && !std::mem::replace(&mut forgotten, true) {
            block.meta(Some(*instr), block.raw(&forget_left(places)));
        }
    }
}

/// Code before an instruction that looks at what it accesses; behind everything else that comes before it. `lent`: whether R11 is the program's there;
/// `site`: what the client is called for.
pub fn look(
    block: &Block,
    stub: &mut Stub,
    places: Places,
    instr: Instr,
    looks: &[Look],
    (site, spare, lent): (u32, &mut Spare, bool),
) {
    // Those that are wrong are found by the client, which looks at all of them.
    for look in looks {
        let (save, restore) = spare.around(stub);
        if let Some(right) = spare.flags.then(|| look.code_by_flags(stub, places, save.len() + OUTSIDE)).flatten() {
            block.meta(Some(instr), block.raw(&[right, save].concat()));
            go_outside(block, instr, stub.suspect(site, lent), &[]);
            continue;
        }
        let code = [save, look.code(stub, places, OUTSIDE as u8)].concat();
        block.meta(Some(instr), block.raw(&code));
        go_outside(block, instr, stub.suspect(site, lent), &restore);
        block.meta(Some(instr), block.raw(&restore));
        spare.has_kept();
    }
}

/// Code before a return that calls the client if it is the one that is awaited ([`crate::keeper`]). `lent` as for [`look`].
pub fn await_return(block: &Block, stub: &mut Stub, instr: Instr, site: u32, (spare, lent): (&Spare, bool)) {
    let (save, restore) = spare.around(stub);
    let code = [&save[..], &stub.load_awaited(Gpr::RCX), &IS_SLOT, &UNLESS_RCX_ZERO, &[OUTSIDE as u8]].concat();
    block.meta(Some(instr), block.raw(&code));
    go_outside(block, instr, stub.suspect(site, lent), &restore);
    block.meta(Some(instr), block.raw(&restore));
}

/// Code that goes outside of the block, with the place in RCX that comes behind this and what restores RCX.
fn go_outside(block: &Block, instr: Instr, outside: *mut u8, restore: &[u8]) {
    let behind = (OUTSIDE as i32 - LEA as i32 + restore.len() as i32).to_le_bytes();
    block.meta(Some(instr), block.raw(&[PLACE_IN_RCX.bytes(), &behind].concat()));
    block.meta(Some(instr), block.make(opcode::OP_jmp, &[], &[Opnd::pc(outside as u64)]));
}

/// Code before an instruction that writes an entry of an outline for each of its accesses that is of shaded memory; behind everything else that comes
/// before it. `tags`: what stands in the entries' first words, and whether the same access need not be one each time; `lent` as for [`look`].
pub fn tell(
    block: &Block,
    stub: &mut Stub,
    places: Places,
    instr: Instr,
    looks: &[Look],
    (tags, spare, lent): (&[(u32, bool)], &mut Spare, bool),
) {
    for (look, (tag, again)) in looks.iter().zip(tags) {
        let (save, restore) = spare.around(stub);
        let told = match *again {
            true => [look.load_address(stub, spare.is_live), stub.put_number(*tag, Field::Tag)].concat(),
            false => look.entry(stub, *tag, spare.is_live, lent),
        };
        let told_len = told.len() + if *again { OUTSIDE } else { 0 };
        let slow = save.len() + told_len + restore.len();
        let right = spare.flags.then(|| look.code_by_flags(stub, places, slow)).flatten();
        let code = match right {
            Some(right) => [right, save].concat(),
            None => {
                spare.has_kept();
                // A jump of one byte goes over what tells it: there are a dozen instructions.
                [save, look.code(stub, places, told_len as u8)].concat()
            }
        };
        block.meta(Some(instr), block.raw(&[code, told].concat()));
        if *again {
            go_outside(block, instr, stub.telling(look.scratch, lent, told_again), &[]);
        }
        block.meta(Some(instr), block.raw(&restore));
    }
}

/// From what is awaited: zero if it is of the slot at which the stack pointer is.
const IS_SLOT: Assembled = assembled!("lea rcx, [rsp + rcx + 1]");
/// Up to the slot, and what is stored there.
const FORGET_LEFT: Assembled = assembled!("mov qword ptr fs:[{u32}], {u32}"; 8);
/// Up to the slot.
const LEAVE: Assembled = assembled!("lea rcx, [rsp + 8]", "not rcx", "mov fs:[{u32}], rcx"; 4);
/// From how far an access lies before the end, the other way: whether that is [`LEFT_REACH`] or more.
const FAR_FROM_LEFT: Assembled = assembled!("not rcx", "rorx rcx, rcx, 20", "mov ecx, ecx");
/// Jump by flags, however many bytes there are: on if it was zero, or unless it was.
const IF_ZERO: Assembled = assembled!("je 2f", ".skip 200", "2:"; 204);
const UNLESS_ZERO: Assembled = assembled!("jne 2f", ".skip 200", "2:"; 204);
/// Jumps on unless RCX is zero, however many they are.
const UNLESS_RIGHT: Assembled = assembled!("jrcxz 3f", "jmp 2f", "3:", ".skip 200", "2:"; 204);

/// Bytes of the `lea` that finds the place to go on at, and of that with the jump behind it.
const LEA: usize = 7;
const OUTSIDE: usize = LEA + 5;

impl Look {
    /// The access.
    pub fn access(&self) -> &PlainAccess {
        &self.access
    }

    /// Machine code that puts the scratch register into its slot, and the access's address into the register.
    fn load_address(&self, stub: &Stub, live: bool) -> Vec<u8> {
        let mut code = stub.save_scratch(self.scratch);
        if live && self.access.registers() & Gpr::RCX.bit() != 0 {
            code.extend(stub.restore_rcx());
        }
        Operand::of(&self.access, 0).load_address(stub, &mut code, self.scratch);
        code
    }

    /// Machine code that writes an entry of an outline.
    fn entry(&self, stub: &Stub, tag: u32, live: bool, lent: bool) -> Vec<u8> {
        let scratch = self.scratch;
        let mut code = self.load_address(stub, live);
        code.extend(stub.load_outline(Gpr::RCX));
        let next = Operand::at(Gpr::RCX);
        next.store(&mut code, scratch, -8, 8, Segmented::No);
        next.put_number(&mut code, tag, Segmented::No);
        let count = if lent { scratch } else { COUNTER };
        if lent {
            code.extend(stub.load_count_into(scratch));
        }
        next.store(&mut code, count, 4, 4, Segmented::No);
        Operand::behind(Gpr::RCX, -16).lea(&mut code, Gpr::RCX);
        code.extend(stub.store_outline(Gpr::RCX));
        code.extend(stub.restore_scratch(scratch));
        code
    }

    /// Machine code up to as many bytes that are only executed if something may be wrong. It changes flags, and no register; none if it would have to
    /// change one.
    fn code_by_flags(&self, stub: &Stub, places: Places, outside: usize) -> Option<Vec<u8>> {
        let place = Place::of(places, stub, Operand::of(&self.access, 0), Gpr::RCX);
        if self.by_left || !place.find.is_empty() {
            return None;
        }
        let parts: Vec<(i32, u64)> = parts(self.access.bytes).collect();
        let mut rest = Vec::new();
        // From the last one on, as in `code`.
        for (from, bytes) in parts.into_iter().rev() {
            let mut test = Vec::new();
            place.is_zero(&mut test, from, bytes);
            let (jump, over) = if rest.is_empty() { (IF_ZERO, outside) } else { (UNLESS_ZERO, rest.len()) };
            rest = [&test[..], &jump, &(over as i32).to_le_bytes(), &rest].concat();
        }
        Some(rest)
    }

    /// The same by way of RCX, without a flag being changed.
    fn code(&self, stub: &Stub, places: Places, outside: u8) -> Vec<u8> {
        let uses_rcx = self.access.registers() & Gpr::RCX.bit() != 0;
        let mut tests: Vec<Vec<u8>> = Vec::new();
        for (index, (from, bytes)) in parts(self.access.bytes).enumerate() {
            let mut code = if index > 0 && uses_rcx { stub.restore_rcx() } else { Vec::new() };
            let place = Place::of(places, stub, Operand::of(&self.access, 0), Gpr::RCX);
            code.extend(&place.find);
            place.load(&mut code, Gpr::RCX, from, bytes);
            tests.push(code);
        }
        let left = self.by_left.then(|| self.compare_left(stub, places, uses_rcx));
        // From the last one on, so that it is known how far each is from the end.
        let mut rest: Vec<u8> = Vec::new();
        if let Some(left) = left {
            rest = [&left[..], &UNLESS_RCX_ZERO, &[outside]].concat();
        }
        let is_last = rest.is_empty();
        for (number, test) in tests.into_iter().rev().enumerate() {
            let end = if number == 0 && is_last {
                [&IF_RCX_ZERO[..], &[outside]].concat()
            } else {
                // The wrong one lies behind the rest.
                [&UNLESS_RIGHT[..], &(rest.len() as i32).to_le_bytes()].concat()
            };
            rest = [test, end, rest].concat();
        }
        rest
    }

    /// RCX is zero behind it if the access is of a frame that was left.
    fn compare_left(&self, stub: &Stub, places: Places, uses_rcx: bool) -> Vec<u8> {
        let none = Operand { segment: None, base: None, index: None, scale: 0, disp: 0 };
        let slot = Operand { disp: Shades::left_slot(places) as u64, ..none };
        let operand = Operand::of(&self.access, 0);
        let mut code = Vec::new();
        let add = |code: &mut Vec<u8>, base: Gpr, index: Option<Gpr>, scale: u64, disp: u64| {
            Operand { segment: None, base: Some(base), index, scale, disp }.lea(code, Gpr::RCX);
        };
        if uses_rcx {
            let scratch = self.scratch;
            code.extend(stub.restore_rcx());
            code.extend(stub.save_scratch(scratch));
            slot.load(&mut code, scratch, 0, 8, Segmented::Fs);
            operand.lea(&mut code, Gpr::RCX);
            add(&mut code, Gpr::RCX, Some(scratch), 1, 0);
            code.extend(stub.restore_scratch(scratch));
        } else {
            slot.load(&mut code, Gpr::RCX, 0, 8, Segmented::Fs);
            let disp = operand.disp;
            match (operand.base, operand.index) {
                (Some(base), index) => {
                    add(&mut code, Gpr::RCX, Some(base), 1, disp);
                    if index.is_some() {
                        add(&mut code, Gpr::RCX, index, operand.scale, 0);
                    }
                }
                (None, index) => add(&mut code, Gpr::RCX, index, operand.scale, disp),
            }
        }
        const { assert!(LEFT_REACH == 1 << 20) };
        code.extend(&FAR_FROM_LEFT[..]);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(IS_SLOT.bytes(), [0x48, 0x8d, 0x4c, 0x0c, 1]);
        assert_eq!(FORGET_LEFT.bytes(), [0x64, 0x48, 0xc7, 0x04, 0x25]);
        let (lea, not, store) = ([0x48, 0x8d, 0x4c, 0x24, 8], [0x48, 0xf7, 0xd1], [0x64, 0x48, 0x89, 0x0c, 0x25]);
        assert_eq!(LEAVE.bytes(), [&lea[..], &not, &store].concat());
        assert_eq!(FAR_FROM_LEFT.bytes(), [&not[..], &[0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 20], &[0x89, 0xc9]].concat());
        assert_eq!(UNLESS_RIGHT.bytes(), [0xe3, 5, 0xe9]);
        assert_eq!((IF_ZERO.bytes(), UNLESS_ZERO.bytes()), (&[0x0f, 0x84][..], &[0x0f, 0x85][..]));
        assert_eq!(PLACE_IN_RCX.len() + 4, LEA);
    }
}
