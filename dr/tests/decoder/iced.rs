//! What iced-x86 says about an instruction, in this crate's terms.

use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_format::regs::RegisterFile;
use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register, RflagsBits, UsedMemory};

/// Ranges of memory, each an address and a length.
pub type Ranges = Vec<(u64, u64)>;

pub fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

pub fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

pub fn gpr(register: Register) -> Option<Gpr> {
    register.is_gpr().then(|| Gpr(register.full_register().number() as u8))
}

/// Bits of the general purpose registers whose access is as asked.
pub fn gprs(info: &InstructionInfo, of: impl Fn(OpAccess) -> bool) -> u16 {
    let used = info.used_registers().iter().filter(|used| of(used.access()));
    used.filter_map(|used| gpr(used.register())).fold(0, |mask, reg| mask | reg.bit())
}

/// Bits of the general purpose registers that are overwritten whatever happens, and not read.
pub fn killed_gprs(info: &InstructionInfo) -> u16 {
    let whole = |used: &&iced_x86::UsedRegister| used.access() == OpAccess::Write && used.register().size() >= 4;
    let written = info.used_registers().iter().filter(whole);
    written.filter_map(|used| gpr(used.register())).fold(0, |mask, reg| mask | reg.bit()) & !gprs(info, reads)
}

/// Arithmetic flags as bits of [`bugnet_dr::ir::ARITHMETIC`].
pub fn flags(bits: u32) -> u32 {
    const FLAGS: [(u32, u32); 6] = [
        (RflagsBits::CF, 1),
        (RflagsBits::PF, 2),
        (RflagsBits::AF, 4),
        (RflagsBits::ZF, 8),
        (RflagsBits::SF, 0x10),
        (RflagsBits::OF, 0x100),
    ];
    FLAGS.into_iter().filter(|(bit, _)| bits & bit != 0).fold(0, |mask, (_, flag)| mask | flag)
}

/// Arithmetic flags that are overwritten whatever happens, with a value that does not depend on the processor.
pub fn killed_flags(instr: &Instruction) -> u32 {
    use iced_x86::Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    let shift = matches!(instr.mnemonic(), Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd);
    let count = instr.op_count().saturating_sub(1);
    let by_cl = shift && instr.op_kind(count) == OpKind::Register && instr.op_register(count) == Register::CL;
    // With a count of zero, flags stay as they are.
    if by_cl || repeats(instr) {
        return 0;
    }
    let written = instr.rflags_written() | instr.rflags_cleared() | instr.rflags_set();
    flags(written & !instr.rflags_undefined() & !instr.rflags_read())
}

/// Whether it is a string instruction that compares.
pub fn compares(instr: &Instruction) -> bool {
    use Mnemonic::{Cmpsb, Cmpsd, Cmpsq, Cmpsw, Scasb, Scasd, Scasq, Scasw};
    matches!(instr.mnemonic(), Cmpsb | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq)
}

/// Whether it is a string instruction with `rep` or `repne`, which do the same but for `cmps` and `scas`.
pub fn repeats(instr: &Instruction) -> bool {
    instr.is_string_instruction() && (instr.has_rep_prefix() || instr.has_repne_prefix())
}

fn value(regs: &RegisterFile, register: Register, element: usize, bytes: usize) -> u64 {
    match register {
        Register::FS => regs.segment_base(Segment::Fs),
        Register::GS => regs.segment_base(Segment::Gs),
        _ if register.is_segment_register() => 0,
        _ if register.is_vector_register() => {
            let mut wide = [0; 8];
            let from = element * bytes;
            wide[..bytes].copy_from_slice(&regs.ymm[register.number()][from..from + bytes]);
            u64::from_le_bytes(wide)
        }
        _ => {
            let whole = regs.gpr[register.full_register().number()];
            match register.size() {
                1 => whole & 0xff,
                2 => whole & 0xffff,
                4 => whole & 0xffff_ffff,
                _ => whole,
            }
        }
    }
}

/// The operand of a `bt` and the like is this far from where the operand says.
fn bit_offset(instr: &Instruction, regs: &RegisterFile) -> u64 {
    use iced_x86::Mnemonic::{Bt, Btc, Btr, Bts};
    if !matches!(instr.mnemonic(), Bt | Btc | Btr | Bts) || instr.op1_kind() != OpKind::Register {
        return 0;
    }
    let register = instr.op1_register();
    let bits = 8 * register.size() as u32;
    let number = (value(regs, register, 0, 0) << (64 - bits)) as i64 >> (64 - bits);
    (number >> 3 & !i64::from(bits / 8 - 1)) as u64
}

fn lanes(instr: &Instruction, memory: &UsedMemory, regs: &RegisterFile) -> Ranges {
    let (index, element) = (memory.vsib_size() as usize, memory.memory_size().element_size());
    let lanes = (memory.index().size() / index).min(instr.op0_register().size() / element);
    let mask = &regs.ymm[instr.op2_register().number()];
    (0..lanes)
        .filter(|lane| mask[(lane + 1) * element - 1] & 0x80 != 0)
        .filter_map(|lane| {
            let address = memory.virtual_address(lane, |reg, lane, bytes| Some(value(regs, reg, lane, bytes)))?;
            Some((address, element as u64))
        })
        .collect()
}

/// Memory whose access is as asked; a length of 0 where iced-x86 does not say how much.
pub fn memory(
    instr: &Instruction,
    info: &InstructionInfo,
    regs: &RegisterFile,
    of: impl Fn(OpAccess) -> bool,
) -> Ranges {
    let mut ranges = Vec::new();
    for memory in info.used_memory().iter().filter(|memory| of(memory.access())) {
        if instr.is_vsib() {
            ranges.extend(lanes(instr, memory, regs));
            continue;
        }
        let Some(address) = memory.virtual_address(0, |reg, _, _| Some(value(regs, reg, 0, 0))) else { continue };
        let address = address.wrapping_add(bit_offset(instr, regs));
        ranges.push((address, memory.memory_size().size() as u64));
    }
    ranges
}

/// Joins ranges that overlap or touch.
pub fn merge(mut ranges: Ranges) -> Ranges {
    ranges.retain(|(_, len)| *len > 0);
    ranges.sort_unstable();
    let mut out: Ranges = Vec::new();
    for (start, len) in ranges {
        match out.last_mut() {
            Some((last, length)) if start - *last <= *length => *length = (*length).max(start - *last + len),
            _ => out.push((start, len)),
        }
    }
    out
}
