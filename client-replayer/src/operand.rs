//! Machine code for operands in memory that stand in the program's instructions.

use crate::assembler::{Other, assemble, constant_bytes, load_number, register};
use crate::instruction::PlainAccess;
use crate::stub::Stub;
use bugnet_dr::ir::{Gpr, Segment};
use iced_x86::{Code, MemoryOperand, Register};

/// An operand in memory.
#[derive(Clone, Copy)]
pub struct Operand {
    /// The segment, if it has a base.
    pub segment: Option<Segment>,
    /// A register, if there is one.
    pub base: Option<Gpr>,
    /// Another one, which is multiplied by the scale.
    pub index: Option<Gpr>,
    /// 1, 2, 4 or 8; 0 without.
    pub scale: u64,
    /// A constant that is added.
    pub disp: u64,
}

/// The segment of an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Segmented {
    /// None.
    No,
    /// FS.
    Fs,
    /// FS, with the lower 32 bits of the address.
    FsCut,
}

impl Operand {
    /// That of an access, behind an instruction that has changed RSP by `moved`.
    pub fn of(access: &PlainAccess, moved: i32) -> Self {
        let PlainAccess { segment, base, index, scale, disp, .. } = *access;
        Self { segment, base, index, scale, disp: disp.wrapping_sub(i64::from(moved) as u64) }
    }

    /// What a register has the address of.
    pub fn at(reg: Gpr) -> Self {
        Self { segment: None, base: Some(reg), index: None, scale: 0, disp: 0 }
    }

    /// What lies so far behind the address that a register has.
    pub fn behind(reg: Gpr, distance: i32) -> Self {
        Self { disp: i64::from(distance).cast_unsigned(), ..Self::at(reg) }
    }

    /// Whether the code cache's own instructions cannot have it as it is: it is one of the program's segments, or at an address that no
    /// operand can have but one relative to RIP.
    pub fn is_far(&self) -> bool {
        let is_constant = self.base.is_none() && self.index.is_none();
        self.segment.is_some() || is_constant && i32::try_from(self.disp as i64).is_err()
    }

    /// As instructions have it, with more added to the constant.
    fn memory(&self, more: i32, segmented: Segmented) -> MemoryOperand {
        let disp = (self.disp as i32).wrapping_add(more);
        let bytes = if segmented == Segmented::FsCut { 4 } else { 8 };
        let part = |reg: Option<Gpr>| reg.map_or(Register::None, |reg| register(reg, bytes));
        let size = constant_bytes(disp, self.base.is_some(), bytes as u32);
        let segment = if segmented == Segmented::No { Register::None } else { Register::FS };
        let scale = self.scale.max(1) as u32;
        MemoryOperand::new(part(self.base), part(self.index), scale, disp.into(), size, false, segment)
    }

    /// `mov fs:[operand + more], -1` of so many bytes, with 32 bits of address if they are to be cut off.
    pub fn put(&self, code: &mut Vec<u8>, more: i32, bytes: u64, cut: bool) {
        let mov = match bytes {
            8 => Code::Mov_rm64_imm32,
            4 => Code::Mov_rm32_imm32,
            2 => Code::Mov_rm16_imm16,
            _ => Code::Mov_rm8_imm8,
        };
        let segmented = if cut { Segmented::FsCut } else { Segmented::Fs };
        assemble(code, mov, self.memory(more, segmented), Other::Ones);
    }

    /// `mov dword ptr [operand], number`
    pub fn put_number(&self, code: &mut Vec<u8>, number: u32, to: Segmented) {
        assemble(code, Code::Mov_rm32_imm32, self.memory(0, to), Other::Ones);
        code.truncate(code.len() - size_of::<u32>());
        code.extend(number.to_le_bytes());
    }

    /// `mov to, [operand + more]` of so many bytes, 8, 4, 2 or 1, with zeros above.
    pub fn load(&self, code: &mut Vec<u8>, to: Gpr, more: i32, bytes: u64, from: Segmented) {
        let (mov, whole) = match bytes {
            8 => (Code::Mov_r64_rm64, 8),
            4 => (Code::Mov_r32_rm32, 4),
            2 => (Code::Movzx_r32_rm16, 4),
            _ => (Code::Movzx_r32_rm8, 4),
        };
        assemble(code, mov, self.memory(more, from), Other::To(register(to, whole)));
    }

    /// `mov [operand + more], from` of so many bytes.
    pub fn store(&self, code: &mut Vec<u8>, from: Gpr, more: i32, bytes: u64, to: Segmented) {
        let mov = match bytes {
            8 => Code::Mov_rm64_r64,
            4 => Code::Mov_rm32_r32,
            2 => Code::Mov_rm16_r16,
            _ => Code::Mov_rm8_r8,
        };
        assemble(code, mov, self.memory(more, to), Other::From(register(from, bytes)));
    }

    /// `cmp [operand + more], 0`, of so many bytes, 8, 4, 2 or 1.
    pub fn compare_with_zero(&self, code: &mut Vec<u8>, more: i32, bytes: u64, of: Segmented) {
        let cmp = match bytes {
            8 => Code::Cmp_rm64_imm8,
            4 => Code::Cmp_rm32_imm8,
            2 => Code::Cmp_rm16_imm8,
            _ => Code::Cmp_rm8_imm8,
        };
        assemble(code, cmp, self.memory(more, of), Other::Zero);
    }

    /// `movq [operand], vector register`, of which this is the number.
    pub fn store_vector(&self, code: &mut Vec<u8>, from: u8, to: Segmented) {
        let from = Register::XMM0 + u32::from(from);
        assemble(code, Code::Movq_xmmm64_xmm, self.memory(0, to), Other::From(from));
    }

    /// `lea register, [operand]`, or `mov` of an address that is known. The register is none of the operand's where that has a segment.
    pub fn load_address(&self, stub: &Stub, code: &mut Vec<u8>, to: Gpr) {
        if let Some(segment) = self.segment {
            code.extend(stub.load_segment_base(to, segment));
            if let Some(base) = self.base {
                Self { base: Some(base), index: Some(to), scale: 1, ..Self::at(to) }.lea(code, to);
            }
            Self { segment: None, base: Some(to), ..*self }.lea(code, to);
            return;
        }
        if self.base.is_none() && self.index.is_none() {
            code.extend(load_number(to, self.disp));
            return;
        }
        self.lea(code, to);
    }

    /// `lea to, [operand]`, whatever the segment.
    pub fn lea(&self, code: &mut Vec<u8>, to: Gpr) {
        assemble(code, Code::Lea_r64_m, self.memory(0, Segmented::No), Other::To(register(to, 8)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

    #[test]
    fn operands_of_all_kinds() {
        let mov = |base: Option<u8>, index: Option<u8>, scale, disp: i64, more, bytes, cut| {
            let operand = Operand {
                segment: None,
                base: base.map(Gpr),
                index: index.map(Gpr),
                scale,
                disp: disp.cast_unsigned(),
            };
            let mut code = Vec::new();
            operand.put(&mut code, more, bytes, cut);
            code
        };
        // As GNU as has them.
        assert_eq!(mov(Some(0), None, 0, 0, 0, 1, true), [0x64, 0x67, 0xc6, 0x00, 0xff]);
        assert_eq!(mov(Some(5), None, 0, 0, 0, 2, true), [0x64, 0x66, 0x67, 0xc7, 0x45, 0x00, 0xff, 0xff]);
        assert_eq!(
            mov(Some(4), None, 0, 8, 8, 8, true),
            [0x64, 0x67, 0x48, 0xc7, 0x44, 0x24, 0x10, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!(
            mov(Some(13), Some(12), 4, -300, 0, 4, true),
            [0x64, 0x67, 0x43, 0xc7, 0x84, 0xa5, 0xd4, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!(mov(None, Some(1), 8, 16, 0, 1, true), [0x64, 0x67, 0xc6, 0x04, 0xcd, 0x10, 0, 0, 0, 0xff]);
        assert_eq!(
            mov(None, None, 0, 0x1234_5678_9abc, 0, 1, true),
            [0x64, 0x67, 0xc6, 0x04, 0x25, 0xbc, 0x9a, 0x78, 0x56, 0xff]
        );
        assert_eq!(mov(Some(2), None, 0, 0, i32::MIN, 1, false), [0x64, 0xc6, 0x82, 0, 0, 0, 0x80, 0xff]);
    }

    /// All operands that occur, but for most constants.
    fn operands() -> impl Iterator<Item = Operand> {
        let registers = || std::iter::once(None).chain((0..16).map(|number| Some(Gpr(number))));
        let indices = move || registers().filter(|index| *index != Some(Gpr::RSP));
        let both = registers().flat_map(move |base| indices().map(move |index| (base, index)));
        both.flat_map(|(base, index)| {
            let scales: &[u64] = if index.is_some() { &[1, 2, 4, 8] } else { &[0] };
            let disps = [0, 1, -1, 127, -128, 128, -129, 0x1234_5678, -0x8000_0000];
            let of = move |scale: u64| {
                disps.map(|disp: i64| Operand { segment: None, base, index, scale, disp: disp.cast_unsigned() })
            };
            scales.iter().copied().flat_map(of)
        })
    }

    fn decoded(code: &[u8]) -> Instruction {
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        let instruction = decoder.decode();
        assert_eq!(instruction.len(), code.len(), "{code:02x?}");
        instruction
    }

    /// Whether the instruction has this operand in memory.
    fn has(instruction: &Instruction, operand: &Operand, segmented: Segmented) {
        let bytes = if segmented == Segmented::FsCut { 4 } else { 8 };
        let id = |reg: Option<Gpr>| reg.map_or(Register::None, |reg| register(reg, bytes));
        let mask = if bytes == 4 { 0xffff_ffff } else { u64::MAX };
        let segment = if segmented == Segmented::No { Register::None } else { Register::FS };
        let wanted = (id(operand.base), id(operand.index), operand.scale.max(1), operand.disp & mask, segment);
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let (scale, disp) = (instruction.memory_index_scale().into(), instruction.memory_displacement64() & mask);
        assert_eq!((base, index, scale, disp, instruction.segment_prefix()), wanted, "{instruction:?}");
    }

    #[test]
    fn all_operands_are_what_a_decoder_finds() {
        use Segmented::{Fs, FsCut, No};
        for (number, operand) in operands().enumerate() {
            let reg = Gpr((number % 16) as u8);
            let made = |make: &dyn Fn(&mut Vec<u8>)| {
                let mut code = vec![0x90];
                make(&mut code);
                assert_eq!(code.remove(0), 0x90);
                decoded(&code)
            };
            for (bytes, segmented) in [1, 2, 4, 8].into_iter().flat_map(|bytes| [No, Fs, FsCut].map(|how| (bytes, how)))
            {
                let load = made(&|code| operand.load(code, reg, 0, bytes, segmented));
                has(&load, &operand, segmented);
                assert_eq!(
                    (load.op0_register().full_register(), load.memory_size().size() as u64),
                    (register(reg, 8), bytes)
                );
                let store = made(&|code| operand.store(code, reg, 0, bytes, segmented));
                has(&store, &operand, segmented);
                assert_eq!((store.mnemonic(), store.op1_register()), (Mnemonic::Mov, register(reg, bytes)));
                let compare = made(&|code| operand.compare_with_zero(code, 0, bytes, segmented));
                has(&compare, &operand, segmented);
                assert_eq!((compare.mnemonic(), compare.immediate(1)), (Mnemonic::Cmp, 0));
                assert_eq!(compare.memory_size().size() as u64, bytes);
                if segmented != No {
                    let put = made(&|code| operand.put(code, 0, bytes, segmented == FsCut));
                    has(&put, &operand, segmented);
                    let ones = u64::MAX >> (64 - 8 * bytes);
                    assert_eq!((put.mnemonic(), put.immediate(1) & ones), (Mnemonic::Mov, ones));
                    assert_eq!(put.memory_size().size() as u64, bytes);
                }
            }
            let lea = made(&|code| operand.lea(code, reg));
            has(&lea, &operand, No);
            assert_eq!((lea.mnemonic(), lea.op0_register()), (Mnemonic::Lea, register(reg, 8)));
            let tag = made(&|code| operand.put_number(code, 0x1234_5678, Fs));
            has(&tag, &operand, Fs);
            assert_eq!((tag.code(), tag.immediate32()), (Code::Mov_rm32_imm32, 0x1234_5678));
            let vector = made(&|code| operand.store_vector(code, reg.0, Fs));
            has(&vector, &operand, Fs);
            assert_eq!((vector.mnemonic(), vector.op1_register()), (Mnemonic::Movq, Register::XMM0 + u32::from(reg.0)));
        }
    }
}
