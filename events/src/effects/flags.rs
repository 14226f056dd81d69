//! Flags that instructions read and write.

use super::strings::repeats;
use super::{Flow, Flows};
use crate::atoms::Atoms;
use iced_x86::{Instruction, Mnemonic, Register, RflagsBits};

/// What an instruction does to flags.
pub struct Flags {
    /// Those that it reads.
    pub reads: Atoms,
    writes: Atoms,
    may: Atoms,
    /// Those of constant values.
    constant: Atoms,
}

impl Flags {
    /// Of an instruction.
    pub fn of(instr: &Instruction) -> Self {
        let constant = Atoms::flags(instr.rflags_cleared() | instr.rflags_set());
        let all = Atoms::flags(instr.rflags_modified());
        // Nothing may happen to them.
        let undefined = Atoms::flags(instr.rflags_undefined());
        let by_count = instr.op_count() > 1 && instr.op_register(instr.op_count() - 1) == Register::CL && shifts(instr);
        let may = if by_count || instr.is_string_instruction() && repeats(instr) { all } else { undefined };
        // Processors differ in what they do where the count is a multiple of the width.
        let rotates = matches!(instr.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
        let may = if rotates { may | Atoms::flags(RflagsBits::CF | RflagsBits::OF) } else { may };
        Self { reads: Atoms::flags(instr.rflags_read()), writes: all - may - constant, may, constant: constant - may }
    }

    /// Adds what becomes of flags: they follow from what else does.
    pub fn flow(&self, flows: &mut Flows, from: Atoms, from_memory: bool) {
        flows.push(Flow::new(self.writes, from).out_of_memory(from_memory));
        flows.push(Flow::new(self.constant, Atoms::NONE));
        flows.push(Flow::new(self.may, from).out_of_memory(from_memory).uncertain());
    }
}

fn shifts(instr: &Instruction) -> bool {
    matches!(
        instr.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Sal
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    )
}
