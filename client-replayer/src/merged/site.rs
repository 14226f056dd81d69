//! The places in blocks from which the client is called.

use super::Merged;
use crate::instruction::Instruction;
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
    pub fn access(pc: u64, instruction: Instruction, replay: &mut Merged) -> Self {
        let repeats = matches!(instruction.action(), Action::Repeat(_));
        let code = if repeats { replay.picture(pc, MAX_LEN) } else { Vec::new() };
        Self { pc, instruction: Some(instruction), code }
    }

    /// A site before any other instruction, or in the place of one that is not executed.
    pub fn other(pc: u64) -> Self {
        Self { pc, instruction: None, code: Vec::new() }
    }
}
