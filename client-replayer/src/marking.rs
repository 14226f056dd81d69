//! Where in a block the accesses of its instructions are marked ([`crate::marks`]).
//!
//! Memory must have come before its mark is made, so marks stand behind the instruction, where the address can still be found:
//! by registers that it does not change, but for RSP by `push` and `pop`. Where it cannot, and where an instruction leaves the block,
//! marks stand before it, behind a load of the same memory into a register that it does not use:
//!
//! ```text
//!            save the register
//!            load it from the memory
//!            mark
//!            restore the register
//!            the instruction
//! ```

use crate::counter::{self, COUNTER};
use crate::instruction::PlainAccess;
use crate::marks::MOST;
use crate::places::Places;
use crate::stub::Stub;
use bugnet_dr::access::{Action, classify};
use bugnet_dr::ir::{Block, Gpr, Instr, MemoryParts, Opnd};
use bugnet_dr::sys;

/// Registers for loads.
const SCRATCH: [Gpr; 6] = [Gpr::RCX, Gpr::RDX, Gpr::RAX, Gpr::RSI, Gpr::RDI, Gpr::RBX];

/// What is done about the accesses of an instruction.
pub enum Marking {
    /// Nothing: there are none.
    None,
    /// Marks behind it; by how much it changes RSP, and a register that the accesses do not use.
    Behind(Vec<PlainAccess>, i32, Gpr),
    /// Marks before it; a register that it does not use.
    Before(Vec<PlainAccess>, Gpr),
    /// The client is called.
    Call,
}

impl Marking {
    /// Of an instruction.
    pub fn of(instr: Instr) -> Self {
        let action = classify(instr);
        match &action {
            Action::Repeat(_) => return Self::Call,
            Action::Execute { reads, writes } if !(reads.is_empty() && writes.is_empty()) => {}
            _ => return Self::None,
        }
        let Some(accesses) = PlainAccess::all(&action) else { return Self::Call };
        if !accesses.iter().all(|access| (1..=MOST).contains(&access.bytes)) {
            return Self::Call;
        }
        let used = accesses.iter().fold(0, |all, access| all | access.registers());
        let moved = moves_stack(instr);
        let written = written(instr) & if moved.is_some() { !Gpr::RSP.bit() } else { u16::MAX };
        let free = |used: u16| SCRATCH.into_iter().find(|reg| used & reg.bit() == 0);
        if let Some(free) = free(used).filter(|_| !instr.is_cti() && used & written == 0) {
            return Self::Behind(accesses, moved.unwrap_or(0), free);
        }
        let loads = accesses.iter().all(|access| access.bytes.is_power_of_two() && access.bytes <= 8);
        let used = counter::used(instr);
        // Where R11 is used by an instruction that leaves the block, it counts already before that.
        let leaves = instr.is_cti() && used & COUNTER.bit() != 0;
        match free(used) {
            Some(free) if loads && !leaves => Self::Before(accesses, free),
            _ => Self::Call,
        }
    }

    /// About how many bytes of machine code it takes; no fewer than it does.
    pub fn bytes(&self) -> usize {
        const AROUND: usize = 64;
        // A mark each for at most 8 bytes that are accessed, and written.
        const MARKS: u64 = 2 * 14;
        let (Self::Behind(accesses, ..) | Self::Before(accesses, _)) = self else { return 0 };
        accesses.iter().map(|access| AROUND + (MARKS * (access.bytes / 8 + 3)) as usize).sum()
    }

    /// Whether the client is called.
    pub fn is_called(&self) -> bool {
        matches!(self, Self::Call)
    }
}

/// By how much the instruction changes RSP, if it is a `push` or `pop` to a register.
pub fn moves_stack(instr: Instr) -> Option<i32> {
    match instr.opcode() {
        sys::OP_push | sys::OP_push_imm => {
            let pushed = instr.dsts().find(|opnd| opnd.is_memory())?.parts()?;
            Some(pushed.disp).filter(|disp| [-2, -8].contains(disp))
        }
        sys::OP_pop => {
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

/// Marks behind the instructions; `behind`: what stands behind these. Before anything else is inserted.
pub fn mark_behind(
    block: &Block,
    stub: &Stub,
    places: Places,
    instrs: &[Instr],
    markings: &[Marking],
    behind: Option<Instr>,
) {
    for (index, marking) in markings.iter().enumerate() {
        let Marking::Behind(accesses, moved, scratch) = marking else { continue };
        let next = instrs.get(index + 1).copied().or(behind);
        block.meta(next, block.raw(&places.mark(accesses, *moved, stub, (*scratch, false))));
    }
}

/// Marks before the instructions. After everything else that is inserted before these.
pub fn mark_before(block: &Block, stub: &Stub, places: Places, instrs: &[Instr], markings: &[Marking]) {
    for (instr, marking) in instrs.iter().zip(markings) {
        let Marking::Before(accesses, scratch) = marking else { continue };
        block.meta(Some(*instr), block.raw(&stub.save_scratch(*scratch)));
        for access in accesses {
            let bytes = access.bytes as u32;
            let load = block.load(Opnd::reg(*scratch, bytes), operand(access, bytes));
            // As the program's: it may fault.
            block.app(Some(*instr), load, instr.pc());
            let mark = places.mark(std::slice::from_ref(access), 0, stub, (*scratch, true));
            block.meta(Some(*instr), block.raw(&mark));
        }
        block.meta(Some(*instr), block.raw(&stub.restore_scratch(*scratch)));
    }
}

/// The memory of an access, of so many bytes.
pub fn operand(access: &PlainAccess, bytes: u32) -> Opnd {
    let id = |reg: Option<Gpr>| reg.map_or(sys::DR_REG_NULL as sys::reg_id_t, |reg| reg.id(8));
    let PlainAccess { segment, base, index, scale, disp, .. } = *access;
    if segment.is_none() && base.is_none() && index.is_none() {
        return Opnd::near(disp as *const _, bytes);
    }
    let (base, index) = (id(base), id(index));
    let parts = MemoryParts { segment: None, base, index, scale: scale as i32, disp: disp as i32 };
    Opnd::in_segment(segment, parts, 0, bytes)
}
