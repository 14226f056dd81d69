//! Which registers and flags hold values that somebody still reads, at each instruction of a block.

use crate::access::emulated;
use crate::ir::{ARITHMETIC, Gpr, Instr, Opnd};
use crate::sys;
use smallvec::{SmallVec, smallvec};

/// Registers and flags, such as those that are live behind an instruction. Everything is live at a block's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// General purpose registers, bits of [`Gpr::bit`].
    pub gprs: u16,
    /// Arithmetic flags, bits of [`ARITHMETIC`].
    pub flags: u32,
}

impl Live {
    /// All of them.
    pub const ALL: Self = Self { gprs: u16::MAX, flags: ARITHMETIC };

    /// Whether any arithmetic flag is live.
    #[must_use]
    pub fn any_flags(self) -> bool {
        self.flags != 0
    }
}

/// Arithmetic flags, as bits of [`ARITHMETIC`], that are live before these instructions if those are that are live
/// behind them.
#[must_use]
pub fn flags_before(instrs: &[Instr], behind: u32) -> u32 {
    instrs.iter().rev().fold(behind, |live, instr| {
        let Effects { read, overwritten } = effects(*instr);
        live & !overwritten.flags | read.flags
    })
}

/// For a block's instructions, what is live before each, and at the end: one more entry than instructions.
#[must_use]
pub fn analyse(instrs: &[Instr]) -> SmallVec<[Live; 16]> {
    let mut out = smallvec![Live::ALL; instrs.len() + 1];
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
        let (reads, writes) = flags(*instr);
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

/// Flags that may stay as they are although the instruction counts as writing them: what was in them before is not dead.
/// That includes undefined ones, which processors often leave unchanged (but AF after `and`, `or`, `xor` and `test` is
/// zero on all of them).
fn kept_flags(instr: Instr) -> u32 {
    match instr.opcode() {
        // All of them if RCX is zero.
        sys::OP_rep_cmps | sys::OP_repne_cmps | sys::OP_rep_scas | sys::OP_repne_scas => ARITHMETIC,
        sys::OP_bsf | sys::OP_bsr => CF | PF | AF | SF | OF,
        sys::OP_tzcnt | sys::OP_lzcnt => PF | AF | SF | OF,
        sys::OP_imul | sys::OP_mul => PF | AF | ZF | SF,
        sys::OP_div | sys::OP_idiv => ARITHMETIC,
        sys::OP_shl
        | sys::OP_shr
        | sys::OP_sar
        | sys::OP_shld
        | sys::OP_shrd
        | sys::OP_rol
        | sys::OP_ror
        | sys::OP_rcl
        | sys::OP_rcr
            if matches!(shift_count(instr), None | Some(0)) =>
        {
            ARITHMETIC
        }
        sys::OP_shl | sys::OP_shr | sys::OP_sar | sys::OP_shld | sys::OP_shrd => AF | OF,
        sys::OP_rol | sys::OP_ror | sys::OP_rcl | sys::OP_rcr => OF,
        sys::OP_bt | sys::OP_bts | sys::OP_btr | sys::OP_btc => PF | AF | SF | OF | ZF,
        sys::OP_andn | sys::OP_blsi | sys::OP_blsr | sys::OP_blsmsk | sys::OP_bzhi => AF | PF,
        sys::OP_bextr => AF | PF | SF,
        _ => 0,
    }
}

/// Arithmetic flags read, and written or perhaps written, as [`Instr::flags`], but right where DynamoRIO is not.
#[must_use]
pub fn flags(instr: Instr) -> (u32, u32) {
    let (read, written) = instr.flags();
    let read = match instr.opcode() {
        sys::OP_cmc | sys::OP_fcmovb | sys::OP_fcmovnb => CF,
        sys::OP_fcmove | sys::OP_fcmovne => ZF,
        sys::OP_fcmovbe | sys::OP_fcmovnbe => CF | ZF,
        sys::OP_fcmovu | sys::OP_fcmovnu => PF,
        sys::OP_rep_cmps | sys::OP_repne_cmps | sys::OP_rep_scas | sys::OP_repne_scas => 0,
        sys::OP_fxrstor64 | sys::OP_xrstor64 | sys::OP_xsave64 | sys::OP_xsaveopt64 | sys::OP_xsavec64 => 0,
        sys::OP_rcl | sys::OP_rcr if shift_count(instr) == Some(0) => 0,
        _ => read,
    };
    (read, written)
}

/// How far an instruction shifts or rotates, if that is a constant. All flags stay as they are if it is zero.
fn shift_count(instr: Instr) -> Option<i64> {
    let wide = instr.dsts().next().is_some_and(|dst| dst.bytes() == 8);
    let count = instr.srcs().find_map(Opnd::get_imm)?;
    Some(count & if wide { 63 } else { 31 })
}

/// Whether what it names as destination may also stay as it is.
fn may_write_nothing(instr: Instr) -> bool {
    let conditional = matches!(instr.opcode(), sys::OP_bsf | sys::OP_bsr | sys::OP_lar | sys::OP_lsl | sys::OP_xabort);
    conditional || instr.is_predicated()
}

/// RFLAGS bits of flags given as bits of [`ARITHMETIC`].
#[must_use]
pub fn rflags_bits(flags: u32) -> u64 {
    [(CF, 0x1), (PF, 0x4), (AF, 0x10), (ZF, 0x40), (SF, 0x80), (OF, 0x800)]
        .into_iter()
        .filter(|(flag, _)| flags & flag != 0)
        .fold(0, |bits, (_, bit)| bits | bit)
}

/// What an instruction reads and overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// What the instruction may read.
    pub read: Live,
    /// What it overwrites whatever happens, without a doubt about the value.
    pub overwritten: Live,
}

/// What an instruction does to registers and flags.
#[must_use]
pub fn effects(instr: Instr) -> Effects {
    // The kernel or a signal handler sees everything.
    if instr.is_syscall() || matches!(instr.opcode(), sys::OP_int | sys::OP_int1 | sys::OP_int3 | sys::OP_into) {
        return Effects { read: Live::ALL, overwritten: Live { gprs: 0, flags: 0 } };
    }
    // Where the recorder cannot go on with such an instruction, an interval ends.
    let sets_base = matches!(instr.opcode(), sys::OP_wrfsbase | sys::OP_wrgsbase);
    if sets_base || emulated(instr).is_some() {
        return Effects { read: Live::ALL, overwritten: Live { gprs: 0, flags: 0 } };
    }
    let (mut read, mut written) = (implicitly_read(instr), 0);
    for opnd in instr.srcs() {
        read |= opnd.gprs();
    }
    for opnd in instr.dsts() {
        match opnd.get_reg().and_then(Gpr::from_id) {
            Some((reg, 4 | 8)) => written |= reg.bit(),
            _ => read |= opnd.gprs(),
        }
    }
    if may_write_nothing(instr) {
        read |= written;
        written = 0;
    }
    let (flags_read, flags_written) = flags(instr);
    Effects {
        read: Live { gprs: read, flags: flags_read },
        overwritten: Live { gprs: written & !read, flags: flags_written & !flags_read & !kept_flags(instr) },
    }
}

/// General purpose registers that an instruction reads without naming them as operands.
fn implicitly_read(instr: Instr) -> u16 {
    match instr.opcode() {
        sys::OP_mwaitx => Gpr::RBX.bit(),
        _ => 0,
    }
}

fn before(instr: Instr, after: Live) -> Live {
    let Effects { read, overwritten } = effects(instr);
    Live { gprs: after.gprs & !overwritten.gprs | read.gprs, flags: after.flags & !overwritten.flags | read.flags }
}
