//! Machine code of instructions whose registers and constants are known only when a block is built. What is always the same, the compiler
//! assembles ([`bugnet_dr::assembled!`]).
//!
//! An instruction is encoded once, and found from then on by all that it is but for its constants: blocks are full of the same ones, and
//! replays build many blocks.

use crate::state;
use bugnet_dr::ir::Gpr;
use hashbrown::HashMap;
use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Longest instruction.
const LONGEST: usize = 15;

/// An instruction that was encoded, with some constant for its operand in memory.
#[derive(Clone, Copy)]
struct Encoded {
    bytes: [u8; LONGEST],
    len: u8,
    /// Where the constant is, and how many bytes it has.
    constant: (u8, u8),
}

/// Those that were encoded before.
static KNOWN: LazyLock<Mutex<HashMap<u64, Encoded>>> = LazyLock::new(Mutex::default);

/// What else an instruction has beside its operand in memory.
#[derive(Clone, Copy)]
pub enum Other {
    /// A register, in front of it.
    To(Register),
    /// A register, behind it.
    From(Register),
    /// The same register twice, in front of it.
    Twice(Register),
    /// A number, behind it, all bits of which are set.
    Ones,
    /// Zero, behind it.
    Zero,
}

impl Other {
    fn instruction(self, code: Code, memory: MemoryOperand) -> Result<Instruction, IcedError> {
        match self {
            Self::To(register) => Instruction::with2(code, register, memory),
            Self::From(register) => Instruction::with2(code, memory, register),
            Self::Twice(register) => Instruction::with3(code, register, register, memory),
            Self::Ones => Instruction::with2(code, memory, -1),
            Self::Zero => Instruction::with2(code, memory, 0),
        }
    }

    fn register(self) -> Register {
        match self {
            Self::To(register) | Self::From(register) | Self::Twice(register) => register,
            Self::Ones | Self::Zero => Register::None,
        }
    }
}

/// Appends an instruction that has an operand in memory. The kind of instruction says what else it has, but not which register.
pub fn assemble(code: &mut Vec<u8>, kind: Code, memory: MemoryOperand, other: Other) {
    let MemoryOperand { base, index, scale, displacement, displ_size, segment_prefix, .. } = memory;
    let [low, high] = (kind as u16).to_le_bytes();
    let parts = [other.register(), base, index, segment_prefix].map(|register| register as u8);
    let sizes = scale as u8 | (displ_size as u8) << 4;
    let key = u64::from_le_bytes([low, high, parts[0], parts[1], parts[2], parts[3], sizes, 0]);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let encoded = *known.entry(key).or_insert_with(|| encode(other.instruction(kind, memory)));
    let start = code.len();
    code.extend(&encoded.bytes[..encoded.len.into()]);
    let (at, bytes) = (start + usize::from(encoded.constant.0), usize::from(encoded.constant.1));
    code[at..at + bytes].copy_from_slice(&displacement.to_le_bytes()[..bytes]);
}

/// The machine code of an instruction that has an operand in memory.
pub fn assembled(kind: Code, memory: MemoryOperand, other: Other) -> Vec<u8> {
    let mut code = Vec::with_capacity(LONGEST);
    assemble(&mut code, kind, memory, other);
    code
}

/// `crc32 to, from`
pub fn hash_into(to: Gpr, from: Gpr) -> Vec<u8> {
    let encoded = encode(Instruction::with2(Code::Crc32_r64_rm64, register(to, 8), register(from, 8)));
    encoded.bytes[..encoded.len.into()].to_vec()
}

/// `mov to, number`
pub fn load_number(to: Gpr, number: u64) -> Vec<u8> {
    static UP_TO_NUMBER: LazyLock<[[u8; 2]; 16]> = LazyLock::new(|| {
        std::array::from_fn(|to| {
            let mov = encode(Instruction::with2(Code::Mov_r64_imm64, register(Gpr(to as u8), 8), 0_u64));
            [mov.bytes[0], mov.bytes[1]]
        })
    });
    [&UP_TO_NUMBER[usize::from(to.0)][..], &number.to_le_bytes()].concat()
}

/// Machine code that makes zeros of all but the lowest bytes of a register, 2 or 1 of them.
pub fn zero_above(reg: Gpr, bytes: u64) -> Vec<u8> {
    let movzx = if bytes == 2 { Code::Movzx_r32_rm16 } else { Code::Movzx_r32_rm8 };
    let encoded = encode(Instruction::with2(movzx, register(reg, 4), register(reg, bytes)));
    encoded.bytes[..encoded.len.into()].to_vec()
}

fn encode(instruction: Result<Instruction, IcedError>) -> Encoded {
    let mut encoder = Encoder::new(64);
    if let Err(why) = instruction.and_then(|instruction| encoder.encode(&instruction, 0)) {
        state::die(&format!("there is no such instruction: {why}"))
    }
    let offsets = encoder.get_constant_offsets();
    let constant = (offsets.displacement_offset() as u8, offsets.displacement_size() as u8);
    let code = encoder.take_buffer();
    let mut bytes = [0; LONGEST];
    bytes[..code.len()].copy_from_slice(&code);
    Encoded { bytes, len: code.len() as u8, constant }
}

/// Bytes of the constant of an operand in memory, as [`MemoryOperand`] has it: as few as there can be. `with_base`: whether it has a base;
/// `address`: bytes of the address, 8 or 4.
pub fn constant_bytes(constant: i32, with_base: bool, address: u32) -> u32 {
    match constant {
        0 if with_base => 0,
        _ if with_base && i8::try_from(constant).is_ok() => 1,
        _ => address,
    }
}

/// The lower bytes of a register, 8, 4, 2 or 1 of them.
pub fn register(reg: Gpr, bytes: u64) -> Register {
    let first = match (bytes, reg.0) {
        (8, _) => Register::RAX,
        (4, _) => Register::EAX,
        (2, _) => Register::AX,
        (_, ..4) => Register::AL,
        // Behind AH, CH, DH and BH.
        (_, 4..) => return Register::SPL + u32::from(reg.0 - 4),
    };
    first + u32::from(reg.0)
}

/// Memory at a distance from a segment's base.
pub fn in_segment(segment: Register, distance: u32) -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, i64::from(distance.cast_signed()), 8, false, segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_their_numbers() {
        for number in 0..16 {
            for bytes in [1, 2, 4, 8] {
                let found = register(Gpr(number), bytes);
                assert_eq!(found.full_register(), Register::RAX + u32::from(number), "{found:?}");
                assert_eq!(found.size() as u64, bytes, "{found:?}");
                assert!(![Register::AH, Register::CH, Register::DH, Register::BH].contains(&found));
            }
        }
    }

    #[test]
    fn what_was_encoded_gets_other_constants() {
        let memory = |at| in_segment(Register::GS, at);
        let load = |at| assembled(Code::Mov_r64_rm64, memory(at), Other::To(Register::RDX));
        assert_eq!(load(0x1234), [0x65, 0x48, 0x8b, 0x14, 0x25, 0x34, 0x12, 0, 0]);
        assert_eq!(load(0x8000_0000), [0x65, 0x48, 0x8b, 0x14, 0x25, 0, 0, 0, 0x80]);
    }

    #[test]
    fn numbers_and_zeros() {
        for number in 0..16 {
            let (high, low) = (number >> 3, number & 7);
            let mov = [&[0x48 | high, 0xb8 | low][..], &0x1234_5678_9abc_def0_u64.to_le_bytes()].concat();
            assert_eq!(load_number(Gpr(number), 0x1234_5678_9abc_def0), mov);
        }
        assert_eq!(hash_into(Gpr::RCX, Gpr::RSI), [0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xce]);
        assert_eq!(zero_above(Gpr::RDX, 2), [0x0f, 0xb7, 0xd2]);
        assert_eq!(zero_above(Gpr::RDX, 1), [0x0f, 0xb6, 0xd2]);
        assert_eq!(zero_above(Gpr::RSI, 1), [0x40, 0x0f, 0xb6, 0xf6]);
    }
}
