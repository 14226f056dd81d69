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

/// Arithmetic flags, as bits of [`ARITHMETIC`], that the block reads before it writes them: whatever a flag was before
/// the block, these ones are defined, and the same on every processor.
#[must_use]
pub fn flags_read_first(instrs: &[Instr]) -> u32 {
    let (mut needed, mut written) = (0, 0);
    for instr in instrs {
        let (reads, writes) = instr.flags();
        needed |= reads & !written;
        written |= writes;
    }
    needed
}

const CF: u32 = 1;
const PF: u32 = 2;
const AF: u32 = 4;
const ZF: u32 = 8;
const SF: u32 = 0x10;
const OF: u32 = 0x100;

/// Flags that the instruction leaves undefined. Processors often leave them unchanged, so that what was in them before
/// can still be read: it is not dead. (AF after `and`, `or`, `xor` and `test` is zero on all of them.)
fn undefined_flags(instr: Instr) -> u32 {
    match instr.opcode() {
        sys::OP_bsf | sys::OP_bsr => CF | PF | AF | SF | OF,
        sys::OP_tzcnt | sys::OP_lzcnt => PF | AF | SF | OF,
        sys::OP_imul | sys::OP_mul => PF | AF | ZF | SF,
        sys::OP_div | sys::OP_idiv => ARITHMETIC,
        sys::OP_shl | sys::OP_shr | sys::OP_sar | sys::OP_shld | sys::OP_shrd => AF | OF,
        sys::OP_rol | sys::OP_ror | sys::OP_rcl | sys::OP_rcr => OF,
        sys::OP_bt | sys::OP_bts | sys::OP_btr | sys::OP_btc => PF | AF | SF | OF | ZF,
        sys::OP_andn | sys::OP_blsi | sys::OP_blsr | sys::OP_blsmsk | sys::OP_bzhi => AF | PF,
        sys::OP_bextr => AF | PF | SF,
        _ => 0,
    }
}

/// RFLAGS bits of flags given as bits of [`ARITHMETIC`].
#[must_use]
pub fn rflags_bits(flags: u32) -> u64 {
    [(CF, 0x1), (PF, 0x4), (AF, 0x10), (ZF, 0x40), (SF, 0x80), (OF, 0x800)]
        .into_iter()
        .filter(|(flag, _)| flags & flag != 0)
        .fold(0, |bits, (_, bit)| bits | bit)
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
    let flags_written = flags_written & !undefined_flags(instr);
    Live { gprs: after.gprs & !written | read, flags: after.flags & !flags_written | flags_read }
}
