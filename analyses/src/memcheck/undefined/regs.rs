//! The V bits of a thread's registers.

use super::bits::Bits;
use super::origins::OriginId;
use super::recipe::{FLAGS, Mask, VECTORS, X87};
use iced_x86::{ConditionCode, Register};

/// Flags, as bits of V.
pub const CF: u8 = 1;
pub const PF: u8 = 2;
pub const ZF: u8 = 4;
pub const SF: u8 = 8;
pub const OF: u8 = 16;
pub const ALL: u8 = 31;

/// Registers of which something may be undefined.
#[derive(Clone, Debug)]
pub struct Regs {
    pub gpr: [u64; 16],
    pub ymm: [Bits; 16],
    pub flags: u8,
    /// Of each condition of a jump, by the processor's number, whether it is undefined: what follows from a comparison may be defined where single flags are not.
    pub conditions: u16,
    /// Of the x87 stack, by a number that counts as its top does; and the top.
    pub x87: u8,
    pub top: u8,
    pub status: bool,
    pub origins: [OriginId; 34],
    /// In which of them anything is undefined.
    pub mask: Mask,
    /// The stack pointer, as far as it is known.
    pub rsp: Option<u64>,
}

impl Default for Regs {
    fn default() -> Self {
        Self {
            gpr: [0; 16],
            ymm: [[0; 4]; 16],
            flags: 0,
            conditions: 0,
            x87: 0,
            top: 0,
            status: false,
            origins: [OriginId::NONE; 34],
            mask: 0,
            rsp: None,
        }
    }
}

/// The lowest bits, as many as so many bytes have.
pub fn low(bytes: usize) -> u64 {
    if bytes >= 8 { !0 } else { (1 << (8 * bytes)) - 1 }
}

/// The same of a vector.
pub fn low_bits(bytes: usize) -> Bits {
    std::array::from_fn(|word| if bytes > word * 8 { low(bytes - word * 8) } else { 0 })
}

/// The number of a condition, as the processor has it; none where there is none.
pub fn condition(code: ConditionCode) -> Option<u16> {
    Some(match code {
        ConditionCode::None => return None,
        ConditionCode::o => 0,
        ConditionCode::no => 1,
        ConditionCode::b => 2,
        ConditionCode::ae => 3,
        ConditionCode::e => 4,
        ConditionCode::ne => 5,
        ConditionCode::be => 6,
        ConditionCode::a => 7,
        ConditionCode::s => 8,
        ConditionCode::ns => 9,
        ConditionCode::p => 10,
        ConditionCode::np => 11,
        ConditionCode::l => 12,
        ConditionCode::ge => 13,
        ConditionCode::le => 14,
        ConditionCode::g => 15,
    })
}

/// Which conditions are undefined if these flags are, and nothing else is known.
pub fn conditions(flags: u8) -> u16 {
    let uses = [OF, CF, ZF, CF | ZF, SF, PF, SF | OF, ZF | SF | OF];
    uses.iter().enumerate().filter(|(_, uses)| flags & **uses != 0).fold(0, |all, (at, _)| all | 3 << (2 * at))
}

impl Regs {
    /// The bit of a register in masks; none where nothing is followed of it.
    pub fn bit(register: Register) -> Option<u32> {
        let number = register.full_register().number() as u32;
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => Some(register as u32 - Register::AH as u32),
            _ if register.is_gpr() => Some(number),
            _ if register.is_vector_register() && number < 16 => Some(VECTORS + number),
            _ => None,
        }
    }

    /// The V bits of a register as an instruction names it, and where they come from.
    pub fn get(&self, register: Register) -> (Bits, OriginId) {
        let Some(bit) = Self::bit(register) else { return ([0; 4], OriginId::NONE) };
        let origin = self.origins[bit as usize];
        if bit >= VECTORS {
            let whole = self.ymm[(bit - VECTORS) as usize];
            let low = low_bits(register.size());
            let part: Bits = std::array::from_fn(|word| whole[word] & low[word]);
            return (part, if part == [0; 4] { OriginId::NONE } else { origin });
        }
        let whole = self.gpr[bit as usize];
        let is_high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
        let part = if is_high { whole >> 8 & 0xff } else { whole & low(register.size()) };
        ([part, 0, 0, 0], if part == 0 { OriginId::NONE } else { origin })
    }

    /// An instruction writes a register. Of a vector, what lies above is kept, or zeroed.
    pub fn set(&mut self, register: Register, bits: &Bits, origin: OriginId, zeroes: bool) {
        let Some(bit) = Self::bit(register) else { return };
        let is_undefined = if bit >= VECTORS {
            let whole = &mut self.ymm[(bit - VECTORS) as usize];
            let low = low_bits(register.size());
            for (word, bits) in bits.iter().enumerate() {
                let kept = if zeroes { 0 } else { whole[word] & !low[word] };
                whole[word] = kept | bits & low[word];
            }
            *whole != [0; 4]
        } else {
            let whole = &mut self.gpr[bit as usize];
            let is_high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
            *whole = match register.size() {
                _ if is_high => *whole & !0xff00 | (bits[0] & 0xff) << 8,
                size @ (1 | 2) => *whole & !low(size) | bits[0] & low(size),
                size => bits[0] & low(size),
            };
            *whole != 0
        };
        self.note(bit, is_undefined, origin);
    }

    fn note(&mut self, bit: u32, is_undefined: bool, origin: OriginId) {
        if is_undefined {
            self.mask |= 1 << bit;
            if origin != OriginId::NONE {
                self.origins[bit as usize] = origin;
            }
        } else {
            self.mask &= !(1 << bit);
        }
    }

    /// An instruction sets some flags, of which these are undefined, and conditions.
    pub fn set_flags(&mut self, written: u8, undefined: u8, exact: Option<u16>, origin: OriginId) {
        self.flags = self.flags & !written | undefined & written;
        self.conditions = exact.unwrap_or_else(|| conditions(self.flags));
        self.note(FLAGS, self.flags != 0 || self.conditions != 0, origin);
    }

    /// A register of the x87 stack, counted from its top.
    pub fn x87(&self, from_top: u8) -> bool {
        self.x87 >> (self.top.wrapping_add(from_top) & 7) & 1 != 0
    }

    pub fn set_x87(&mut self, from_top: u8, is_undefined: bool, origin: OriginId) {
        let bit = 1 << (self.top.wrapping_add(from_top) & 7);
        self.x87 = if is_undefined { self.x87 | bit } else { self.x87 & !bit };
        self.note(X87, self.x87 != 0 || self.status, origin);
    }

    pub fn set_status(&mut self, is_undefined: bool, origin: OriginId) {
        self.status = is_undefined;
        self.note(X87, self.x87 != 0 || self.status, origin);
    }

    /// All of these are defined.
    pub fn clear(&mut self, mask: Mask) {
        let mut left = self.mask & mask;
        self.mask &= !mask;
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            match bit {
                FLAGS => (self.flags, self.conditions) = (0, 0),
                X87 => (self.x87, self.status) = (0, false),
                _ if bit >= VECTORS => self.ymm[(bit - VECTORS) as usize] = [0; 4],
                _ => self.gpr[bit as usize] = 0,
            }
        }
    }
}
