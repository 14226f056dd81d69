//! Machine code of the instructions that checks mostly consist of, ready-made: DynamoRIO's encoder takes many times as
//! long, and a short run spends most of its time there.
//!
//! DynamoRIO takes each piece of machine code for one instruction, and looks only at the first one in it to see what it
//! does to flags. So a piece that reads flags begins with the instruction that does, and one that may fault with that. What
//! only writes flags may be anywhere: where DynamoRIO does not see it, it takes them for wanted.

use crate::base::slots::Slot;
use crate::emitted::site::CALLOUT;
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::displaced::displaced;
use bugnet_dr::ir::{Gpr, MemoryParts};
use bugnet_dr::opcode;

/// A piece of machine code that does not depend on its own address.
pub struct Code {
    bytes: [u8; MOST],
    len: usize,
}

/// Most bytes of a piece.
const MOST: usize = 104;

/// What is done with a register and memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `mov reg, memory`
    Load,
    /// `mov memory, reg`
    Store,
    /// `cmp reg, memory`
    Compare,
    /// `lea reg, memory`
    Address,
}

/// When a check calls out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The count is negative.
    Negative,
    /// The instructions have just been counted: always.
    Counted,
    /// A value differs.
    Differs,
}

impl Condition {
    /// DynamoRIO's opcode of the jump.
    pub fn opcode(self) -> u32 {
        match self {
            Self::Negative => opcode::OP_js,
            // There is never an overflow.
            Self::Counted => opcode::OP_jno,
            Self::Differs => opcode::OP_jnz,
        }
    }
}

/// The segment prefix of FS.
pub const FS: u8 = 0x64;
/// The segment prefix of GS.
const GS: u8 = 0x65;
/// Puts the arithmetic flags into AH and AL.
const TAKE_FLAGS: Assembled = assembled!("seto al", "lahf");
/// Takes them from there: the addition overflows exactly if AL is 1.
const GIVE_FLAGS: Assembled = assembled!("add al, 0x7f", "sahf");
/// The upper half of RCX to ECX.
const UPPER_HALF: Assembled = assembled!("rorx rcx, rcx, 32", "mov ecx, ecx");
/// Up to the slot.
const LOAD_LOW: Assembled = assembled!("mov ecx, gs:[{u32}]"; 4);
/// Up to what is added.
const ADD_QUIETLY: Assembled = assembled!("lea rcx, [rcx + {u32}]"; 4);
/// Up to the slot and what is subtracted.
const COUNT: Assembled = assembled!("sub qword ptr gs:[{u32}], {u32}"; 8);

impl Code {
    fn new() -> Self {
        Self { bytes: [0; MOST], len: 0 }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// The upper half of RCX, which is also in a slot, to ECX.
    fn upper_half(&mut self, slot: Slot, can_rotate: bool) {
        if can_rotate {
            // Not from memory: a load of half of what was just stored would wait for the store.
            self.push(&UPPER_HALF);
        } else {
            self.load_low(slot.offset() + 4);
        }
    }

    /// `mov ecx, gs:[offset]`
    fn load_low(&mut self, offset: u32) {
        self.push(&LOAD_LOW);
        self.push(&offset.to_le_bytes());
    }

    /// `lea rcx, [rcx - n]`
    fn subtract(&mut self, n: u32) {
        self.push(&ADD_QUIETLY);
        self.push(&n.cast_signed().wrapping_neg().to_le_bytes());
    }

    /// An operation of 8 bytes on a slot.
    fn slot(&mut self, op: Op, reg: Gpr, slot: Slot) {
        // [disp32]: no base and no index.
        self.push(&[GS, 0x48 | (reg.0 >> 3) << 2, op.opcode(8), (reg.0 & 7) << 3 | 4, 0x25]);
        self.push(&slot.offset().to_le_bytes());
    }
}

impl Op {
    fn opcode(self, bytes: u32) -> u8 {
        let wide = u8::from(bytes != 1);
        wide | match self {
            Self::Load => 0x8a,
            Self::Store => 0x88,
            Self::Compare => 0x3a,
            Self::Address => 0x8c,
        }
    }
}

/// `op` on a register of 8 bytes and a slot.
pub fn slot(op: Op, reg: Gpr, slot: Slot) -> Code {
    let mut code = Code::new();
    code.slot(op, reg, slot);
    code
}

/// `op` on the low `bytes` (1, 2, 4 or 8) of a register and memory at `parts`, whose own segment does not count; `None` if
/// the address is not made of whole registers.
pub fn access(op: Op, reg: Gpr, bytes: u32, segment: Option<u8>, parts: MemoryParts) -> Option<Code> {
    let whole = |id| match id {
        0 => Some(None),
        id => Gpr::from_id(id).filter(|(_, bytes)| *bytes == 8).map(|(reg, _)| Some(reg)),
    };
    let (base, index) = (whole(parts.base)?, whole(parts.index)?);
    if index == Some(Gpr::RSP) {
        return None;
    }
    let mut code = Code::new();
    if let Some(segment) = segment {
        code.push(&[segment]);
    }
    if bytes == 2 {
        code.push(&[0x66]);
    }
    let high = |reg: Option<Gpr>| reg.map_or(0, |reg| reg.0 >> 3);
    let rex = u8::from(bytes == 8) << 3 | (reg.0 >> 3) << 2 | high(index) << 1 | high(base);
    // With a REX prefix, SPL to DIL are what would be AH to BH.
    if rex != 0 || bytes == 1 && reg.0 >= 4 {
        code.push(&[0x40 | rex]);
    }
    let low = |reg: Gpr| reg.0 & 7;
    let field = low(reg) << 3;
    let disp = parts.disp.to_le_bytes();
    let short = i8::try_from(parts.disp).is_ok();
    let (mode, disp) = match base {
        None => (0, &disp[..]),
        // RBP and R13 as base have no form without a displacement.
        Some(base) if parts.disp == 0 && low(base) != 5 => (0, &disp[..0]),
        Some(_) if short => (0x40, &disp[..1]),
        Some(_) => (0x80, &disp[..]),
    };
    code.push(&[op.opcode(bytes)]);
    match (base, index) {
        // RSP and R12 as base need the byte for the index.
        (Some(base), None) if low(base) != 4 => code.push(&[mode | field | low(base)]),
        _ => {
            let scale = if index.is_some() { parts.scale.trailing_zeros() as u8 } else { 0 };
            let sib = scale << 6 | index.map_or(4, low) << 3 | base.map_or(5, low);
            code.push(&[mode | field | 4, sib]);
        }
    }
    code.push(disp);
    Some(code)
}

/// The same instruction with FS and an operand that is so many bytes further; `None` as for [`displaced`].
pub fn with_fs(instruction: &[u8], more: i32) -> Option<Code> {
    let mut code = Code::new();
    code.push(&[FS]);
    code.push(&displaced(instruction, more)?);
    Some(code)
}

/// Saves the arithmetic flags, in [`Slot::Flags`]. RAX stays as it is, unless it is dead. DynamoRIO sees that the second
/// piece reads the overflow flag, and then takes all flags for wanted.
pub fn save_flags(rax_dead: bool) -> [Code; 2] {
    let (mut before, mut save) = (Code::new(), Code::new());
    save.push(&TAKE_FLAGS);
    save.slot(Op::Store, Gpr::RAX, Slot::Flags);
    if !rax_dead {
        before.slot(Op::Store, Gpr::RAX, Slot::Rax);
        save.slot(Op::Load, Gpr::RAX, Slot::Rax);
    }
    [before, save]
}

/// Undoes [`save_flags`].
pub fn restore_flags(rax_dead: bool) -> Code {
    let mut code = Code::new();
    if !rax_dead {
        code.slot(Op::Store, Gpr::RAX, Slot::Rax);
    }
    code.slot(Op::Load, Gpr::RAX, Slot::Flags);
    code.push(&GIVE_FLAGS);
    if !rax_dead {
        code.slot(Op::Load, Gpr::RAX, Slot::Rax);
    }
    code
}

/// `mov reg, value`
pub fn constant(reg: Gpr, value: u64) -> Code {
    let mut code = Code::new();
    let (high, opcode) = (reg.0 >> 3, 0xb8 | reg.0 & 7);
    if let Ok(short) = u32::try_from(value) {
        if high != 0 {
            code.push(&[0x41]);
        }
        code.push(&[opcode]);
        code.push(&short.to_le_bytes());
    } else {
        code.push(&[0x48 | high, opcode]);
        code.push(&value.to_le_bytes());
    }
    code
}

/// Takes `n` from a counter without a change of flags, by way of RCX, and calls out if that makes it negative. RCX is the
/// program's at the callout and behind all of this. `always` calls out in any case: see [`crate::emitted::out_of_line`].
pub fn count_without_flags((counter, n): (Slot, u32), can_rotate: bool, callout: &[u8], always: bool) -> Code {
    let mut code = Code::new();
    code.push(&READS_FLAGS);
    code.slot(Op::Store, Gpr::RCX, Slot::Spill(Gpr::RCX));
    code.slot(Op::Load, Gpr::RCX, counter);
    code.subtract(n);
    code.slot(Op::Store, Gpr::RCX, counter);
    // The upper half of the counter is zero unless it is negative.
    code.upper_half(counter, can_rotate);
    let restore = slot(Op::Load, Gpr::RCX, Slot::Spill(Gpr::RCX));
    code.push(&[0xe3, if always { 0 } else { over_limit() }]); // jrcxz
    code.push(restore.bytes());
    code.push(callout);
    code.push(&[0xeb, restore.len as u8]); // jmp
    code.push(restore.bytes());
    code
}

/// Calls out on a condition, else jumps over that.
pub fn callout_if(condition: Condition, callout: &[u8]) -> Code {
    let mut code = Code::new();
    let otherwise = match condition {
        Condition::Negative => 0x79, // jns
        Condition::Counted => 0x70,  // jo
        Condition::Differs => 0x74,  // jz
    };
    code.push(&[otherwise, callout.len() as u8]);
    code.push(callout);
    code
}

/// Nothing but a sign to DynamoRIO that flags are wanted. It leaves flags as they happen to be where it
/// finds that a block overwrites them before it reads any; but a callout reads them, and the handler of an instruction
/// between that faults.
const READS_FLAGS: Assembled = assembled!("cmovo rcx, rcx");

/// Bytes of [`count_without_flags`] up to where it goes on behind its callout.
pub fn before_home(can_rotate: bool) -> usize {
    let all = count_without_flags((Slot::Left(0), 0), can_rotate, &[0; CALLOUT], false);
    all.len - (BEFORE_LIMIT as usize + 2)
}

/// How far [`count_without_flags`] jumps.
pub fn over_limit() -> u8 {
    (BEFORE_LIMIT + CALLOUT as u64 + 2) as u8
}

/// Bytes between the conditional jump of [`count_without_flags`] and the callout.
pub const BEFORE_LIMIT: u64 = 9;

/// Makes RCX zero if the 4 bytes in a slot are not below `least`, without a change of flags. The program's RCX is in its slot
/// then.
pub fn compare_without_flags(value: Slot, least: u32, can_rotate: bool) -> Code {
    let mut code = Code::new();
    code.slot(Op::Store, Gpr::RCX, Slot::Spill(Gpr::RCX));
    code.load_low(value.offset());
    code.subtract(least);
    if !can_rotate {
        code.slot(Op::Store, Gpr::RCX, Slot::Difference);
    }
    code.upper_half(Slot::Difference, can_rotate);
    code
}

/// `sub [counter], n`
pub fn count(counter: Slot, n: u32) -> Code {
    let mut code = Code::new();
    code.push(&COUNT);
    code.push(&counter.offset().to_le_bytes());
    code.push(&n.to_le_bytes());
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

    /// Every base and index, with every displacement's form: what a decoder says is what was asked for.
    #[test]
    fn every_address_is_encoded_as_asked_for() {
        let registers = || std::iter::once(None).chain((0..16).map(|n| Some(Gpr(n))));
        for (base, index) in registers().flat_map(|base| registers().map(move |index| (base, index))) {
            for (disp, scale) in [(0, 1), (0x7f, 2), (-0x80, 4), (0x1234, 8), (-0x12345, 1)] {
                let id = |reg: Option<Gpr>| reg.map_or(0, |reg| reg.id(8));
                let scale = if index.is_some() { scale } else { 0 };
                let parts = MemoryParts { segment: None, base: id(base), index: id(index), scale, disp };
                for (bytes, reg) in [(1, 6), (1, 12), (2, 9), (4, 0), (8, 15), (8, 3)] {
                    let Some(code) = access(Op::Compare, Gpr(reg), bytes, Some(FS), parts) else {
                        assert_eq!(index, Some(Gpr::RSP));
                        continue;
                    };
                    let mut decoder = Decoder::with_ip(64, code.bytes(), 0, DecoderOptions::NONE);
                    let i = decoder.decode();
                    assert_eq!(decoder.position(), code.bytes().len(), "{parts:?}");
                    // By the whole register: the parts of one byte are numbered with AH to BH among them.
                    let number = |register: Register| {
                        (register != Register::None).then(|| Gpr(register.full_register().number() as u8))
                    };
                    assert_eq!(i.mnemonic(), Mnemonic::Cmp);
                    assert_eq!((number(i.memory_base()), number(i.memory_index())), (base, index), "{parts:?}");
                    assert_eq!(i.memory_displacement64() as i32, disp, "{parts:?}");
                    assert!(index.is_none() || i.memory_index_scale() == scale as u32, "{parts:?}");
                    assert_eq!(i.memory_segment(), Register::FS);
                    assert_eq!(i.memory_size().size() as u32, bytes);
                    assert_eq!(number(i.op0_register()), Some(Gpr(reg)));
                    assert_eq!(i.op0_register().size() as u32, bytes);
                }
            }
        }
    }

    fn decoded(code: &Code) -> Vec<iced_x86::Instruction> {
        Decoder::with_ip(64, code.bytes(), 0, DecoderOptions::NONE).into_iter().collect()
    }

    #[test]
    fn constants_are_whole() {
        for reg in (0..16).map(Gpr) {
            for value in [0, 1, 0xffff_ffff, 0x1_0000_0000, 0x7fff_1234_5678_9abc, u64::MAX] {
                let [only] = decoded(&constant(reg, value))[..] else { panic!("one instruction") };
                let written = only.op0_register();
                assert_eq!((only.mnemonic(), written.full_register().number()), (Mnemonic::Mov, reg.0.into()));
                // One of 4 bytes changes the other half to zero.
                assert_eq!((only.immediate(1), written.size() == 8), (value, value >> 32 != 0));
            }
        }
    }

    #[test]
    fn counting_without_flags_changes_none_and_restores_the_register_on_both_ways() {
        crate::base::slots::pretend_slots();
        for can_rotate in [false, true] {
            let callout = [0x90; CALLOUT];
            let code = count_without_flags((Slot::Left(0), 7), can_rotate, &callout, false);
            let all = decoded(&code);
            assert!(all.iter().all(|i| i.rflags_modified() == 0 && i.mnemonic() != Mnemonic::INVALID));
            assert_ne!(all[0].rflags_read(), 0);
            let [before @ .., over, restore] = &all[..] else { panic!("more instructions") };
            let [.., jump, restored] = before[..before.len() - callout.len()] else { panic!("more instructions") };
            assert_eq!((jump.mnemonic(), jump.near_branch_target()), (Mnemonic::Jrcxz, restore.ip()));
            assert_eq!(restored.next_ip(), jump.next_ip() + BEFORE_LIMIT);
            assert_eq!((over.mnemonic(), over.near_branch_target()), (Mnemonic::Jmp, code.bytes().len() as u64));
            for restore in [restored, *restore] {
                assert_eq!((restore.mnemonic(), restore.op0_register()), (Mnemonic::Mov, Register::RCX));
                assert_eq!(restore.memory_displacement64(), u64::from(Slot::Spill(Gpr::RCX).offset()));
            }
            let lea = all.iter().find(|i| i.mnemonic() == Mnemonic::Lea).unwrap();
            assert_eq!((lea.memory_base(), lea.memory_displacement64() as i64), (Register::RCX, -7));
            let rotated = all.iter().find(|i| i.mnemonic() == Mnemonic::Rorx);
            let rotated = rotated.map(|i| (i.op0_register(), i.op1_register(), i.immediate8()));
            assert_eq!(rotated, can_rotate.then_some((Register::RCX, Register::RCX, 32)));
        }
    }

    #[test]
    fn callouts_are_jumped_over_unless_they_are_due() {
        for (condition, jump) in [(Condition::Negative, Mnemonic::Jns), (Condition::Differs, Mnemonic::Je)] {
            let code = callout_if(condition, &[0x90; 34]);
            let first = decoded(&code)[0];
            assert_eq!((first.mnemonic(), first.near_branch_target()), (jump, code.bytes().len() as u64));
        }
    }

    #[test]
    fn comparing_without_flags_changes_none_and_leaves_the_upper_half_of_the_difference() {
        crate::base::slots::pretend_slots();
        for can_rotate in [false, true] {
            let all = decoded(&compare_without_flags(Slot::CodeSeq, 7, can_rotate));
            assert!(all.iter().all(|i| i.rflags_modified() == 0 && i.mnemonic() != Mnemonic::INVALID));
            let (spill, value, minus) = (all[0], all[1], all[2]);
            assert_eq!(spill.memory_displacement64(), u64::from(Slot::Spill(Gpr::RCX).offset()));
            assert_eq!(
                (value.op0_register(), value.memory_displacement64()),
                (Register::ECX, Slot::CodeSeq.offset().into())
            );
            assert_eq!((minus.mnemonic(), minus.memory_displacement64() as i64), (Mnemonic::Lea, -7));
            let last = all[all.len() - 1];
            assert_eq!(last.op0_register(), Register::ECX);
            let half = u64::from(Slot::Difference.offset()) + 4;
            assert_eq!(last.op1_kind() == OpKind::Memory && last.memory_displacement64() == half, !can_rotate);
            assert_eq!(all.iter().any(|i| i.mnemonic() == Mnemonic::Rorx && i.immediate8() == 32), can_rotate);
        }
    }

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(TAKE_FLAGS.bytes(), [0x0f, 0x90, 0xc0, 0x9f]);
        assert_eq!(GIVE_FLAGS.bytes(), [0x04, 0x7f, 0x9e]);
        assert_eq!(UPPER_HALF.bytes(), [0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 32, 0x89, 0xc9]);
        assert_eq!(LOAD_LOW.bytes(), [GS, 0x8b, 0x0c, 0x25]);
        assert_eq!(ADD_QUIETLY.bytes(), [0x48, 0x8d, 0x89]);
        assert_eq!(COUNT.bytes(), [GS, 0x48, 0x81, 0x2c, 0x25]);
        assert_eq!(READS_FLAGS.bytes(), [0x48, 0x0f, 0x40, 0xc9]);
    }

    #[test]
    fn fs_goes_before_an_instruction_without_a_segment() {
        for bytes in [assembled!("add cx, [r12 + 8]"), assembled!("vpxor xmm0, xmm1, [rdi]")] {
            let plain = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).decode();
            let [changed] = decoded(&with_fs(&bytes, 0x140).unwrap())[..] else { panic!("one instruction") };
            assert_eq!((changed.code(), changed.segment_prefix()), (plain.code(), Register::FS));
            assert_eq!(changed.memory_base(), plain.memory_base());
            assert_eq!(changed.memory_displacement64(), plain.memory_displacement64() + 0x140);
        }
        assert!(with_fs(&assembled!("data16 add ecx, cs:[rdi]"), 1).is_none());
        assert!(with_fs(&assembled!("add rcx, gs:[rdi]"), 1).is_none());
        assert!(with_fs(&[0x66; 15], 1).is_none());
    }

    #[test]
    fn loads_and_stores_are_what_they_are_called() {
        let parts = MemoryParts { segment: None, base: Gpr::RBX.id(8), index: 0, scale: 0, disp: 8 };
        let decoded = |op, segment| {
            let code = access(op, Gpr::RCX, 8, segment, parts).unwrap();
            let i = Decoder::with_ip(64, code.bytes(), 0, DecoderOptions::NONE).decode();
            (i.mnemonic(), i.op0_kind(), i.segment_prefix())
        };
        assert_eq!(decoded(Op::Load, None), (Mnemonic::Mov, OpKind::Register, Register::None));
        assert_eq!(decoded(Op::Store, Some(FS)), (Mnemonic::Mov, OpKind::Memory, Register::FS));
        assert_eq!(decoded(Op::Compare, Some(FS)), (Mnemonic::Cmp, OpKind::Register, Register::FS));
        assert_eq!(decoded(Op::Address, None), (Mnemonic::Lea, OpKind::Register, Register::None));
    }
}
