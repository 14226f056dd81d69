//! Which accesses of a block's instructions are marked by the code cache itself ([`crate::marks`]).
//!
//! Marks stand directly before the instruction, where its address is what its operand says. Memory that comes by this instruction comes
//! behind the mark then: if it has the same place as other memory, what that place says is not certain any more ([`crate::touched`]).

use crate::counter::{self, COUNTER};
use crate::instruction::{Accessing, PlainAccess};
use crate::marks::MOST;
use crate::operand::Operand;
use crate::place::{Place, parts};
use crate::places::{Places, Plane};
use crate::stub::Stub;
use bugnet_dr::access::classify;
use bugnet_dr::ir::{Block, Gpr, Instr, MemoryParts, NO_REGISTER, Opnd};
use bugnet_dr::opcode;

/// Registers in which places are found.
const SCRATCH: [Gpr; 6] = [Gpr::RCX, Gpr::RDX, Gpr::RAX, Gpr::RSI, Gpr::RDI, Gpr::RBX];

/// What is done about the accesses of an instruction.
pub enum Marking {
    /// Nothing: there are none.
    None,
    /// They are marked; a register that they do not use.
    Inside(Vec<PlainAccess>, Gpr),
    /// The client is called.
    Call,
}

impl Marking {
    /// Of an instruction.
    pub fn of(instr: Instr) -> Self {
        let accesses = match Accessing::of(&classify(instr)) {
            Accessing::None => return Self::None,
            Accessing::Plain(accesses) => accesses,
            Accessing::Other => return Self::Call,
        };
        let used = accesses.iter().fold(0, |all, access| all | access.registers());
        // Where R11 is used by an instruction that leaves the block, it counts already before that.
        let counts = instr.is_cti() && counter::used(instr) & COUNTER.bit() != 0;
        match SCRATCH.into_iter().find(|reg| used & reg.bit() == 0) {
            Some(free) if !counts && accesses.iter().all(|access| (1..=MOST).contains(&access.bytes)) => {
                Self::Inside(accesses, free)
            }
            _ => Self::Call,
        }
    }

    /// About how many bytes of machine code it takes; no fewer than it does.
    pub fn bytes(&self) -> usize {
        const AROUND: usize = 64;
        // A mark for at most 8 bytes.
        const MARK: usize = 14;
        let Self::Inside(accesses, _) = self else { return 0 };
        accesses.iter().map(|access| AROUND + MARK * parts(access.bytes).count()).sum()
    }

    /// Whether the client is called.
    pub fn is_called(&self) -> bool {
        matches!(self, Self::Call)
    }
}

/// By how much the instruction changes RSP, if it is a `push` or `pop` to a register.
pub fn moves_stack(instr: Instr) -> Option<i32> {
    match instr.opcode() {
        opcode::OP_push | opcode::OP_push_imm => {
            let pushed = instr.dsts().find(|opnd| opnd.is_memory())?.parts()?;
            Some(pushed.disp).filter(|disp| [-2, -8].contains(disp))
        }
        opcode::OP_pop => {
            let target = Gpr::from_id(instr.dsts().next()?.get_reg()?).filter(|(reg, _)| *reg != Gpr::RSP);
            target.map(|(_, bytes)| bytes as i32)
        }
        _ => None,
    }
}

/// The general purpose registers that the instruction writes, as bits of [`Gpr::bit`].
pub fn written(instr: Instr) -> u16 {
    let registers = instr.dsts().filter_map(Opnd::get_reg).filter_map(Gpr::from_id);
    registers.fold(0, |all, (reg, _)| all | reg.bit())
}

/// Marks before the instructions, but for what the block has marked since the client was called last: `called` says before which instructions
/// it is. After everything else that is inserted before these.
pub fn mark(
    block: &Block,
    stub: &Stub,
    places: Places,
    instrs: &[Instr],
    markings: &[Marking],
    called: impl Fn(usize) -> bool,
) {
    let mut marked: Vec<&PlainAccess> = Vec::new();
    for (index, (instr, marking)) in instrs.iter().zip(markings).enumerate() {
        if called(index) {
            // Which may take the marks.
            marked.clear();
        }
        if let Marking::Inside(accesses, scratch) = marking {
            let is_new = |access: &&PlainAccess| !marked.iter().any(|other| other.covers(access));
            let new: Vec<&PlainAccess> = accesses.iter().filter(is_new).collect();
            if !new.is_empty() {
                block.meta(Some(*instr), block.raw(&marks(&new, places, stub, *scratch)));
            }
            marked.extend(new);
        }
        let written = written(*instr);
        marked.retain(|access| access.registers() & written == 0);
    }
}

/// Machine code that marks accesses; `scratch`: a register that they do not use.
fn marks(accesses: &[&PlainAccess], places: Places, stub: &Stub, scratch: Gpr) -> Vec<u8> {
    let (mut code, mut finds) = (Vec::new(), false);
    for access in accesses {
        let place = Place::of(places, stub, Operand::of(access, 0), scratch);
        finds |= !place.find.is_empty();
        code.extend(&place.find);
        place.mark(&mut code, (0, access.bytes), if access.writes { Plane::Written } else { Plane::First });
    }
    if finds {
        code = [stub.save_scratch(scratch), code, stub.restore_scratch(scratch)].concat();
    }
    code
}

/// The memory of an access, of so many bytes.
pub fn operand(access: &PlainAccess, bytes: u32) -> Opnd {
    let id = |reg: Option<Gpr>| reg.map_or(NO_REGISTER, |reg| reg.id(8));
    let PlainAccess { segment, base, index, scale, disp, .. } = *access;
    if segment.is_none() && base.is_none() && index.is_none() {
        return Opnd::near(disp as *const _, bytes);
    }
    let (base, index) = (id(base), id(index));
    let parts = MemoryParts { segment: None, base, index, scale: scale as i32, disp: disp as i32 };
    Opnd::in_segment(segment, parts, 0, bytes)
}
