//! The places in blocks from which the client is called.

use crate::instruction::Instruction;
use crate::memory::Memory;
use bugnet_dr::access::Action;
use bugnet_dr::decode::MAX_LEN;

/// A place in a block, before an instruction.
pub struct Site {
    /// The instruction's address.
    pub pc: u64,
    /// The instruction, where it is executed and accesses memory.
    pub instruction: Option<Instruction>,
    /// Its bytes, where a prefix matters that the decoder does not tell.
    pub code: Vec<u8>,
}

impl Site {
    /// A site before an instruction that accesses memory.
    pub fn access(pc: u64, memory: &Memory) -> Self {
        let instruction = Instruction::decode(pc, memory);
        let repeats = instruction.as_ref().is_some_and(|i| matches!(i.action(), Action::Repeat(_)));
        let code = if repeats { memory.read(pc, MAX_LEN as u64) } else { Vec::new() };
        Self { pc, instruction, code }
    }

    /// A site before any other instruction, or in the place of one that is not executed.
    pub fn other(pc: u64) -> Self {
        Self { pc, instruction: None, code: Vec::new() }
    }
}
