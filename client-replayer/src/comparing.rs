//! How the code cache compares by itself what instructions read with what their thread knows ([`crate::compare`]), whose picture lies where
//! FS points ([`crate::places`]).
//!
//! Before an instruction that reads, without a flag being changed:
//!
//! ```text
//!            save RCX and another register
//!            load into that what memory has
//!            load into RCX what the picture has
//!            not rcx
//!            lea rcx, [rcx + other + 1]      zero if they are the same
//!            jrcxz same
//!            go on outside, where the client is called
//!      same: restore both
//!            the instruction
//! ```
//!
//! Behind one that writes, the picture gets what memory has now, and a mark says that the thread has stored there. Most instructions that only
//! write do the one by being executed a second time, with FS. The client is called, as before each access where the code cache does not
//! compare, before instructions whose operands are of another kind, or are not there any more behind them.

use crate::assembler::{Other, assemble, load_number, register, zero_above};
use crate::counter::{self, COUNTER};
use crate::instruction::{Accessing, PlainAccess};
use crate::marking::{moves_stack, operand, written};
use crate::operand::{Operand, Segmented};
use crate::place::{Place, parts, shifted};
use crate::places::{Places, Plane};
use crate::slots::PLACE_IN_RCX;
use crate::stub::Stub;
use bugnet_dr::access::classify;
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::displaced::displaced;
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd};
use bugnet_dr::opcode;
use iced_x86::{Code, MemoryOperand, Register};

/// Registers for what is compared, beside RCX.
const SCRATCH: [Gpr; 5] = [Gpr::RDX, Gpr::RAX, Gpr::RSI, Gpr::RDI, Gpr::RBX];
/// Most bytes of an access that is compared.
const MOST: u64 = 32;

/// Jumps over the jump to where the client is called if RCX is zero.
const OVER_JUMP: Assembled = assembled!("jrcxz 2f", ".skip 5", "2:"; 5);
/// The same over a [`PLACE_IN_RCX`], too.
const OVER_CALL: Assembled = assembled!("jrcxz 2f", ".skip 12", "2:"; 12);
/// Prefixes of an instruction: relative to FS, and with an address of 32 bits.
const BY_FS: [u8; 2] = [0x64, 0x67];
const NOT_RCX: Assembled = assembled!("not rcx");
const NOT_ECX: Assembled = assembled!("not ecx");

/// What is done about the accesses of an instruction.
pub enum Comparing {
    /// Nothing: there are none.
    None,
    /// The code cache does what there is to be done.
    Inside(Inside),
    /// The client is called.
    Call,
}

/// Of an instruction that the code cache looks at.
pub struct Inside {
    reads: Vec<PlainAccess>,
    writes: Vec<PlainAccess>,
    /// By how much it changes RSP.
    moved: i32,
    /// A register that no access uses.
    scratch: Gpr,
    /// What a call pushes.
    returns_to: Option<u64>,
}

impl Comparing {
    /// Of an instruction; `end` says where the next one is.
    pub fn of(instr: Instr, end: impl Fn(Instr) -> u64) -> Self {
        match Accessing::of(&classify(instr)) {
            Accessing::None => Self::None,
            Accessing::Plain(accesses) => Inside::of(instr, accesses, end).map_or(Self::Call, Self::Inside),
            Accessing::Other => Self::Call,
        }
    }

    /// About how many bytes of machine code it takes; no fewer than it does.
    pub fn bytes(&self) -> usize {
        const COMPARED: usize = 96;
        const WRITTEN: usize = 80;
        const AROUND: usize = 96;
        let Self::Inside(inside) = self else { return 0 };
        let of = |accesses: &[PlainAccess], bytes: usize| -> usize {
            accesses.iter().map(|access| AROUND + bytes * parts(access.bytes).count()).sum()
        };
        of(&inside.reads, COMPARED) + of(&inside.writes, WRITTEN)
    }

    /// Whether the client is called.
    pub fn is_called(&self) -> bool {
        matches!(self, Self::Call)
    }
}

impl Inside {
    fn of(instr: Instr, accesses: Vec<PlainAccess>, end: impl Fn(Instr) -> u64) -> Option<Self> {
        if !accesses.iter().all(|access| (1..=MOST).contains(&access.bytes)) {
            return None;
        }
        let uses = |all: u16, access: &PlainAccess| all | access.registers();
        let used = accesses.iter().fold(0, uses);
        // Places are found in RCX.
        if accesses.iter().any(|access| access.segment.is_some() && access.registers() & Gpr::RCX.bit() != 0) {
            return None;
        }
        let scratch = SCRATCH.into_iter().find(|reg| used & reg.bit() == 0)?;
        let by_writes = accesses.iter().filter(|access| access.writes).fold(0, uses);
        let writes_any = accesses.iter().any(|access| access.writes);
        let mut returns_to = None;
        if instr.is_cti() {
            // Where R11 is used by an instruction that leaves the block, it counts already before that.
            if counter::used(instr) & COUNTER.bit() != 0 {
                return None;
            }
            if writes_any {
                returns_to = Some(pushes_return(instr, &accesses).then(|| end(instr))?);
            }
        }
        let moved = moves_stack(instr);
        let written = written(instr) & if moved.is_some() { !Gpr::RSP.bit() } else { u16::MAX };
        if returns_to.is_none() && by_writes & written != 0 {
            return None;
        }
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for access in accesses {
            if access.writes {
                writes.push(access.clone());
            }
            if access.reads {
                reads.push(access);
            }
        }
        Some(Self { reads, writes, moved: moved.unwrap_or(0), scratch, returns_to })
    }
}

/// Whether it is a near call, and all that it writes is where it returns to.
fn pushes_return(instr: Instr, accesses: &[PlainAccess]) -> bool {
    let mut writes = accesses.iter().filter(|access| access.writes);
    let pushes = |access: &PlainAccess| {
        access.base == Some(Gpr::RSP) && access.index.is_none() && access.disp as i64 == -8 && access.bytes == 8
    };
    let is_call = matches!(instr.opcode(), opcode::OP_call | opcode::OP_call_ind);
    let only = writes.next().is_some_and(|access| pushes(access) && !access.reads) && writes.next().is_none();
    is_call && only
}

/// Code behind the instructions that write. Before anything else is inserted. `behind`: what stands behind these.
pub fn follow(
    block: &Block,
    stub: &Stub,
    places: Places,
    instrs: &[Instr],
    comparings: &[Comparing],
    behind: Option<Instr>,
) {
    for (index, (instr, comparing)) in instrs.iter().zip(comparings).enumerate() {
        let Comparing::Inside(inside) = comparing else { continue };
        if inside.writes.is_empty() || inside.returns_to.is_some() {
            continue;
        }
        let next = instrs.get(index + 1).copied().or(behind);
        block.meta(next, block.raw(&inside.writes_again(stub, places, *instr)));
    }
}

impl Inside {
    /// Machine code that does to the picture what the instruction has done to memory.
    fn writes_again(&self, stub: &Stub, places: Places, instr: Instr) -> Vec<u8> {
        let mut code = Vec::new();
        if let (Some(bytes), [access]) = (self.second(places, instr), &self.writes[..]) {
            code.extend(bytes);
            let place = Place::of(places, stub, Operand::of(access, 0), Gpr::RCX);
            place.mark(&mut code, (0, access.bytes), Plane::Written);
            return code;
        }
        let scratch = self.scratch;
        code.extend(stub.save_scratch(scratch));
        let takes_rcx = places != Places::Narrow || self.writes.iter().any(|access| Operand::of(access, 0).is_far());
        if takes_rcx {
            code.extend(stub.save_rcx());
        }
        for access in &self.writes {
            let moved = if access.base == Some(Gpr::RSP) { self.moved } else { 0 };
            let operand = Operand::of(access, moved);
            for (from, bytes) in parts(access.bytes) {
                if operand.is_far() {
                    operand.load_address(stub, &mut code, Gpr::RCX);
                    Operand::at(Gpr::RCX).load(&mut code, scratch, from, bytes, Segmented::No);
                } else {
                    operand.load(&mut code, scratch, from, bytes, Segmented::No);
                }
                let place = Place::of(places, stub, operand, Gpr::RCX);
                code.extend(&place.find);
                place.store(&mut code, scratch, from, bytes);
                if takes_rcx {
                    code.extend(stub.restore_rcx());
                }
            }
            let place = Place::of(places, stub, operand, Gpr::RCX);
            code.extend(&place.find);
            place.mark(&mut code, (0, access.bytes), Plane::Written);
            if takes_rcx {
                code.extend(stub.restore_rcx());
            }
        }
        code.extend(stub.restore_scratch(scratch));
        code
    }

    /// The instruction once more, with FS, where it does nothing but store, and can be that.
    fn second(&self, places: Places, instr: Instr) -> Option<Vec<u8>> {
        let [access] = &self.writes[..] else { return None };
        let has_register = access.base.is_some() || access.index.is_some();
        if places != Places::Narrow
            || access.segment.is_some()
            || !self.reads.is_empty()
            || !has_register
            || self.moved != 0
            || !stores(instr)
        {
            return None;
        }
        Some([&BY_FS, &displaced(instr.raw_bytes()?, shifted(Plane::First, 0))?[..]].concat())
    }
}

/// Whether the instruction moves something to memory, and does nothing else.
fn stores(instr: Instr) -> bool {
    matches!(
        instr.opcode(),
        opcode::OP_mov_st
            | opcode::OP_mov_imm
            | opcode::OP_movups
            | opcode::OP_movaps
            | opcode::OP_movupd
            | opcode::OP_movapd
            | opcode::OP_movdqu
            | opcode::OP_movdqa
            | opcode::OP_movss
            | opcode::OP_movsd
            | opcode::OP_movd
            | opcode::OP_movq
            | opcode::OP_vmovups
            | opcode::OP_vmovaps
            | opcode::OP_vmovupd
            | opcode::OP_vmovapd
            | opcode::OP_vmovdqu
            | opcode::OP_vmovdqa
            | opcode::OP_vmovss
            | opcode::OP_vmovsd
            | opcode::OP_vmovd
            | opcode::OP_vmovq
    )
}

/// Code before an instruction: compares what it reads, and does what a call is going to do to memory. Behind everything else that comes before
/// it. `how`: where the places are, and whether reads are marked; `lent` says that R11 is the program's there; `site`: what the client is
/// called for.
pub fn precede(
    block: &Block,
    stub: &mut Stub,
    how: (Places, bool),
    instr: Instr,
    inside: &Inside,
    site: u32,
    lent: bool,
) {
    let places = how.0;
    for access in &inside.reads {
        compare(block, stub, how, instr, (access, inside.scratch), (site, lent));
    }
    if let (Some(target), [access]) = (inside.returns_to, &inside.writes[..]) {
        push(block, stub, places, instr, (access, inside.scratch), target);
    }
}

fn compare(
    block: &Block,
    stub: &mut Stub,
    (places, marks): (Places, bool),
    instr: Instr,
    (access, scratch): (&PlainAccess, Gpr),
    (site, lent): (u32, bool),
) {
    let at = Some(instr);
    let load = |from: i32, bytes: u64| {
        let mut shifted = access.clone();
        shifted.disp = shifted.disp.wrapping_add_signed(from.into());
        let load = block.load(Opnd::reg(scratch, bytes as u32), operand(&shifted, bytes as u32));
        // As the program's: it may fault.
        block.app(at, load, instr.pc());
    };
    let mut save = stub.save_rcx();
    save.extend(stub.save_scratch(scratch));
    block.meta(at, block.raw(&save));
    let all: Vec<(i32, u64)> = parts(access.bytes).collect();
    // Where it faults, both registers have to be the program's. The first part and the last are on all pages that there are.
    if let [_, .., (from, bytes)] = all[..] {
        load(from, bytes);
        block.meta(at, block.raw(&stub.restore_scratch(scratch)));
    }
    let differs = block.label();
    let uses_rcx = access.registers() & Gpr::RCX.bit() != 0;
    for (index, (from, bytes)) in all.iter().copied().enumerate() {
        if index > 0 && uses_rcx {
            block.meta(at, block.raw(&stub.restore_rcx()));
        }
        load(from, bytes);
        let mut code = Vec::new();
        if bytes < 4 {
            code.extend(zero_above(scratch, bytes));
        }
        let place = Place::of(places, stub, Operand::of(access, 0), Gpr::RCX);
        code.extend(&place.find);
        if marks {
            place.mark(&mut code, (from, bytes), Plane::Read);
        }
        place.load(&mut code, Gpr::RCX, from, bytes);
        differ(&mut code, scratch, bytes);
        if index + 1 < all.len() {
            code.extend(&OVER_JUMP[..]);
            block.meta(at, block.raw(&code));
            block.meta(at, block.jump(differs));
            continue;
        }
        let restore = [stub.restore_scratch(scratch), stub.restore_rcx()].concat();
        code.extend(&OVER_CALL[..]);
        block.meta(at, block.raw(&code));
        block.meta(at, differs);
        block.meta(at, block.raw(&[PLACE_IN_RCX.bytes(), &(5 + restore.len() as i32).to_le_bytes()].concat()));
        let outside = stub.differing(site, scratch, lent);
        let outside = Opnd::pc(outside as u64);
        block.meta(at, block.make(opcode::OP_jmp, &[], &[outside]));
        block.meta(at, block.raw(&restore));
    }
}

/// Machine code that makes RCX zero if its lower bytes, so many, are what the other register has, with zeros above where they are fewer than 4.
fn differ(code: &mut Vec<u8>, other: Gpr, bytes: u64) {
    let (not, lea, bytes) = if bytes == 8 { (NOT_RCX, Code::Lea_r64_m, 8) } else { (NOT_ECX, Code::Lea_r32_m, 4) };
    code.extend(&not[..]);
    let sum = MemoryOperand::new(Register::RCX, register(other, 8), 1, 1, 1, false, Register::None);
    assemble(code, lea, sum, Other::To(register(Gpr::RCX, bytes)));
}

/// Does what a call is going to do to memory, where the memory is there.
fn push(block: &Block, stub: &Stub, places: Places, instr: Instr, (access, scratch): (&PlainAccess, Gpr), target: u64) {
    let at = Some(instr);
    block.meta(at, block.raw(&stub.save_scratch(scratch)));
    let load = block.load(Opnd::reg(scratch, 8), operand(access, 8));
    block.app(at, load, instr.pc());
    let mut code = Vec::new();
    code.extend(load_number(scratch, target));
    let place = Place::of(places, stub, Operand::of(access, 0), Gpr::RCX);
    let takes_rcx = !place.find.is_empty();
    if takes_rcx {
        code.extend(stub.save_rcx());
    }
    code.extend(&place.find);
    place.store(&mut code, scratch, 0, 8);
    place.mark(&mut code, (0, 8), Plane::Written);
    if takes_rcx {
        code.extend(stub.restore_rcx());
    }
    code.extend(stub.restore_scratch(scratch));
    block.meta(at, block.raw(&code));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(OVER_JUMP.bytes(), [0xe3, 5]);
        assert_eq!(usize::from(OVER_CALL.bytes()[1]), PLACE_IN_RCX.len() + 4 + 5);
        let made = |other, bytes| {
            let mut code = Vec::new();
            differ(&mut code, other, bytes);
            code
        };
        assert_eq!(made(Gpr::RDX, 8), [0x48, 0xf7, 0xd1, 0x48, 0x8d, 0x4c, 0x11, 1]);
        for bytes in [1, 2, 4] {
            assert_eq!(made(Gpr::RDI, bytes), [0xf7, 0xd1, 0x8d, 0x4c, 0x39, 1]);
        }
    }
}
