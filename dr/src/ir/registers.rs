//! Registers, and their numbers in DynamoRIO.

use crate::sys;

/// A general purpose register in the processor's own numbering: 0 for RAX, 4 for RSP, 15 for R15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpr(pub u8);

impl Gpr {
    /// RAX, which LAHF and SETO go through.
    pub const RAX: Self = Self(0);
    /// RCX, which JRCXZ tests.
    pub const RCX: Self = Self(1);
    /// RDX
    pub const RDX: Self = Self(2);
    /// RBX
    pub const RBX: Self = Self(3);
    /// RSP
    pub const RSP: Self = Self(4);
    /// RBP
    pub const RBP: Self = Self(5);
    /// RSI
    pub const RSI: Self = Self(6);
    /// RDI
    pub const RDI: Self = Self(7);

    /// A bit of its own for each register.
    #[must_use]
    pub fn bit(self) -> u16 {
        1 << self.0
    }

    /// DynamoRIO's number of this register, or of its low `bytes` (1, 2, 4 or 8).
    #[must_use]
    pub fn id(self, bytes: u32) -> sys::reg_id_t {
        let n = u32::from(self.0);
        let id = match bytes {
            1 if n < 4 => sys::DR_REG_AL + n,
            1 if n < 8 => sys::DR_REG_SPL + n - 4,
            1 => sys::DR_REG_R8L + n - 8,
            2 => sys::DR_REG_AX + n,
            4 => sys::DR_REG_EAX + n,
            _ => sys::DR_REG_RAX + n,
        };
        id as sys::reg_id_t
    }

    /// The register that a DynamoRIO register number names or is a part of, and that part's size in bytes;
    /// `None` for other registers. AH to BH are parts of RAX to RBX.
    #[must_use]
    pub fn from_id(id: sys::reg_id_t) -> Option<(Self, u32)> {
        let id = u32::from(id);
        let (number, bytes) = match id {
            sys::DR_REG_RAX..=sys::DR_REG_R15 => (id - sys::DR_REG_RAX, 8),
            sys::DR_REG_EAX..=sys::DR_REG_R15D => (id - sys::DR_REG_EAX, 4),
            sys::DR_REG_AX..=sys::DR_REG_R15W => (id - sys::DR_REG_AX, 2),
            sys::DR_REG_AL..=sys::DR_REG_BL => (id - sys::DR_REG_AL, 1),
            sys::DR_REG_AH..=sys::DR_REG_BH => (id - sys::DR_REG_AH, 1),
            sys::DR_REG_R8L..=sys::DR_REG_R15L => (id - sys::DR_REG_R8L + 8, 1),
            sys::DR_REG_SPL..=sys::DR_REG_DIL => (id - sys::DR_REG_SPL + 4, 1),
            _ => return None,
        };
        Some((Self(number as u8), bytes))
    }
}

/// Number of an XMM or YMM register (0 to 15) and its size in bytes, from DynamoRIO's register number.
#[must_use]
pub fn vector_from_id(id: sys::reg_id_t) -> Option<(usize, u32)> {
    match u32::from(id) {
        id @ sys::DR_REG_XMM0..=sys::DR_REG_XMM15 => Some(((id - sys::DR_REG_XMM0) as usize, 16)),
        id @ sys::DR_REG_YMM0..=sys::DR_REG_YMM31 => Some(((id - sys::DR_REG_YMM0) as usize, 32)),
        _ => None,
    }
}
