//! Which registers and flags hold values that somebody still reads, at each instruction of a block.

use crate::ir::{ARITHMETIC, Gpr, Instr};
use crate::sys;

/// What is live behind an instruction. Everything is live at a block's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// General purpose registers, bits of [`Gpr::bit`].
    pub gprs: u16,
    /// Arithmetic flags, bits of [`ARITHMETIC`].
    pub flags: u32,
}

impl Live {
    const ALL: Self = Self { gprs: u16::MAX, flags: ARITHMETIC };

    /// Whether any arithmetic flag is live.
    #[must_use]
    pub fn any_flags(self) -> bool {
        self.flags != 0
    }
}

/// For a block's instructions, what is live before each, and at the end: one more entry than instructions.
#[must_use]
pub fn analyse(instrs: &[Instr]) -> Vec<Live> {
    let mut out = vec![Live::ALL; instrs.len() + 1];
    for (i, instr) in instrs.iter().enumerate().rev() {
        out[i] = before(*instr, out[i + 1]);
    }
    out
}

fn before(instr: Instr, after: Live) -> Live {
    if instr.is_syscall() || matches!(instr.opcode(), sys::OP_int | sys::OP_int3 | sys::OP_into) {
        return Live::ALL;
    }
    let (mut read, mut written) = (0, 0);
    for opnd in instr.srcs() {
        read |= opnd.gprs();
    }
    for opnd in instr.dsts() {
        match opnd.get_reg().and_then(Gpr::from_id) {
            Some((reg, 4 | 8)) => written |= reg.bit(),
            _ => read |= opnd.gprs(),
        }
    }
    if instr.is_predicated() {
        written = 0;
    }
    let (flags_read, flags_written) = instr.flags();
    Live { gprs: after.gprs & !written | read, flags: after.flags & !flags_written | flags_read }
}
