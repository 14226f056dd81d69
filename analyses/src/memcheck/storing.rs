//! What a function stores that gives memory out through a pointer (`posix_memalign`): the trace tells RAX where blocks begin, and copies of it
//! are followed to the store. Without that, somebody would have to go there to look.

use bugnet_events::atoms::Atoms;
use bugnet_events::stretch::Ran;
use iced_x86::{Code, Instruction, OpKind, Register};
use std::ops::Range;

/// General purpose registers.
const REGISTERS: usize = 16;
const RAX: usize = 0;

/// A call of such a function.
pub struct Storing {
    /// Where it is to store it.
    at: u64,
    /// What it has stored there, if that is known.
    pub stored: Option<u64>,
    /// What is in the thread's registers, as far as it is known.
    values: [Option<u64>; REGISTERS],
}

impl Storing {
    /// At its start.
    pub fn new(at: u64) -> Self {
        Self { at, stored: None, values: [None; REGISTERS] }
    }

    /// Something happens of which registers are not told: a system call, a signal's handler.
    pub fn forget(&mut self) {
        self.values = [None; REGISTERS];
    }

    /// The thread executes a part of a block.
    pub fn ran(&mut self, ran: &Ran<'_>, part: Range<usize>) {
        if part.start == 0 {
            self.values[RAX] = ran.register(RAX as u8).or(self.values[RAX]);
        }
        for number in part {
            let decoded = &ran.block.instructions[number];
            let instruction = &decoded.instruction;
            let touches = |addr: u64, len: u64| addr < self.at + 8 && self.at < addr.saturating_add(len);
            if decoded.stores()
                && let Some(access) =
                    ran.accesses(number).find(|access| access.writes && touches(access.addr, access.len))
            {
                let is_whole = access.addr == self.at && instruction.code() == Code::Mov_rm64_r64;
                self.stored = self.value(instruction.op1_register()).filter(|_| is_whole);
            }
            let copied = is_copy(instruction).then(|| self.value(instruction.op1_register())).flatten();
            for (register, value) in self.values.iter_mut().enumerate() {
                if decoded.writes().meets(Atoms::gpr(register)) {
                    *value = copied;
                }
            }
        }
    }

    fn value(&self, register: Register) -> Option<u64> {
        self.values.get(register.number()).copied().flatten().filter(|_| register.is_gpr64())
    }
}

/// Whether a register becomes what another one is.
fn is_copy(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Mov_rm64_r64 | Code::Mov_r64_rm64)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
}
