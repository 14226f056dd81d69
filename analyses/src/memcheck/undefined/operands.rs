//! Operands of an instruction: their V bits, and where it takes them, their values.

use super::bits::{Bits, DEFINED};
use super::origins::OriginId;
use super::regs::{Regs, low};
use super::{At, Flow, recipe, vector};
use bugnet_events::stretch::Access;
use iced_x86::{OpKind, Register};

impl Flow<'_> {
    /// The access with which an instruction reads.
    pub fn read<'i>(at: &'i At<'_>) -> Option<&'i Access> {
        at.accesses.iter().find(|access| access.reads)
    }

    /// The V bits that an instruction loads.
    pub fn load(&mut self, at: &At<'_>, addr: u64, len: u64) -> (Bits, OriginId) {
        let bits = self.memory.load(addr, len);
        if bits == DEFINED {
            return (bits, OriginId::NONE);
        }
        (bits, self.loaded_from(at, addr, len))
    }

    pub fn loaded_from(&mut self, at: &At<'_>, addr: u64, len: u64) -> OriginId {
        let Some((first, origin)) = self.memory.first_undefined(addr, len) else { return OriginId::NONE };
        let block = at.heap.holding(first);
        self.origins.load(origin, first, (at.place, at.instr.ip()), block)
    }

    /// The V bits of an operand, by its number.
    pub fn operand(&mut self, regs: &Regs, at: &At<'_>, number: u32) -> (Bits, OriginId) {
        match at.instr.op_kind(number) {
            OpKind::Register => regs.get(at.instr.op_register(number)),
            OpKind::Memory => match Self::read(at).copied() {
                Some(access) => self.load(at, access.addr, access.len),
                None => (DEFINED, OriginId::NONE),
            },
            _ => (DEFINED, OriginId::NONE),
        }
    }

    /// Bytes of an operand.
    pub fn size(at: &At<'_>, number: u32) -> usize {
        match at.instr.op_kind(number) {
            OpKind::Register => at.instr.op_register(number).size(),
            OpKind::Memory => at.instr.memory_size().size(),
            _ => 8,
        }
    }

    /// An operand gets V bits.
    pub fn write(&mut self, regs: &mut Regs, at: &At<'_>, number: u32, bits: &Bits, origin: OriginId) {
        match at.instr.op_kind(number) {
            OpKind::Register => {
                let zeroes = at.instr.encoding() != iced_x86::EncodingKind::Legacy;
                regs.set(at.instr.op_register(number), bits, origin, zeroes);
            }
            OpKind::Memory => self.store(at, bits, origin),
            _ => {}
        }
    }

    /// What an instruction writes to memory has these V bits.
    pub fn store(&mut self, at: &At<'_>, bits: &Bits, origin: OriginId) {
        if let Some(access) = at.accesses.iter().rfind(|access| access.writes) {
            self.memory.store(access.addr, access.len, bits, origin);
        }
    }

    /// The value of an operand of up to 8 bytes before the instruction, if it can be had.
    pub fn value(&mut self, at: &At<'_>, number: u32) -> Option<u64> {
        match at.instr.op_kind(number) {
            OpKind::Register => self.register_value(at, at.instr.op_register(number)),
            OpKind::Memory => Some(self.wide_value(at, number)?[0]),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => None,
            _ => Some(at.instr.immediate(number)),
        }
    }

    pub fn register_value(&mut self, at: &At<'_>, register: Register) -> Option<u64> {
        let bit = Regs::bit(register).filter(|bit| *bit < recipe::VECTORS)?;
        let is_high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
        let value = match self.values.registers(at.place) {
            Ok(registers) => registers?.gpr[bit as usize],
            Err(error) => return self.fail(error),
        };
        Some(if is_high { value >> 8 & 0xff } else { value & low(register.size()) })
    }

    /// The value of an operand of any size.
    pub fn wide_value(&mut self, at: &At<'_>, number: u32) -> Option<Bits> {
        match at.instr.op_kind(number) {
            OpKind::Register => {
                let register = at.instr.op_register(number);
                let bit = Regs::bit(register)?.checked_sub(recipe::VECTORS)?;
                match self.values.registers(at.place) {
                    Ok(registers) => {
                        let bytes = registers?.ymm[bit as usize];
                        Some(vector::from_bytes(&bytes))
                    }
                    Err(error) => self.fail(error),
                }
            }
            OpKind::Memory => {
                let access = Self::read(at).copied()?;
                match self.values.memory(at.place, access.addr, access.len) {
                    Ok(bits) => bits,
                    Err(error) => self.fail(error),
                }
            }
            _ => None,
        }
    }

    /// The flags before the instruction.
    pub fn flags_value(&mut self, at: &At<'_>) -> Option<u64> {
        match self.values.registers(at.place) {
            Ok(registers) => Some(registers?.rflags),
            Err(error) => self.fail(error),
        }
    }
}
