//! Machine code for operands in memory that stand in the program's instructions.

use crate::instruction::PlainAccess;
use crate::stub::Stub;
use bugnet_dr::ir::{Gpr, Segment};

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

impl Segmented {
    fn prefix(self, code: &mut Vec<u8>) {
        match self {
            Self::No => {}
            Self::Fs => code.push(0x64),
            Self::FsCut => code.extend([0x64, 0x67]),
        }
    }
}

/// In ModRM and SIB: a SIB byte follows; no index.
const NONE: u8 = 4;

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

    /// Whether the code cache's own instructions cannot have it as it is: it is one of the program's segments, or at an address that no
    /// operand can have but one relative to RIP.
    pub fn is_far(&self) -> bool {
        let is_constant = self.base.is_none() && self.index.is_none();
        self.segment.is_some() || is_constant && i32::try_from(self.disp as i64).is_err()
    }

    /// Bits of a REX prefix.
    fn rex(&self) -> u8 {
        let upper = |reg: Option<Gpr>| reg.map_or(0, |reg| reg.0 >> 3);
        upper(self.index) << 1 | upper(self.base)
    }

    /// ModRM, with this register in it, SIB and displacement.
    fn encode(&self, code: &mut Vec<u8>, reg: u8, more: i32) {
        let disp = (self.disp as i32).wrapping_add(more);
        let low = |reg: Option<Gpr>, none| reg.map_or(none, |reg| reg.0 & 7);
        let (base, index) = (low(self.base, 5), low(self.index, NONE));
        let short = i8::try_from(disp).ok().filter(|_| self.base.is_some());
        let mode = match short {
            _ if self.base.is_none() => 0,
            Some(0) if base != 5 => 0,
            Some(_) => 0x40,
            None => 0x80,
        };
        let middle = (reg & 7) << 3;
        if self.base.is_some() && self.index.is_none() && base != NONE {
            code.push(mode | middle | base);
        } else {
            code.extend([mode | middle | NONE, (self.scale.max(1).trailing_zeros() as u8) << 6 | index << 3 | base]);
        }
        match (mode, short) {
            (0, Some(_)) => {}
            (0x40, Some(short)) => code.push(short.cast_unsigned()),
            _ => code.extend(disp.to_le_bytes()),
        }
    }

    /// `mov fs:[operand + more], -1` of so many bytes, with 32 bits of address if they are to be cut off.
    pub fn put(&self, code: &mut Vec<u8>, more: i32, bytes: u64, cut: bool) {
        code.push(0x64);
        if cut {
            code.push(0x67);
        }
        if bytes == 2 {
            code.push(0x66);
        }
        let rex = u8::from(bytes == 8) << 3 | self.rex();
        if rex != 0 {
            code.push(0x40 | rex);
        }
        code.push(if bytes == 1 { 0xc6 } else { 0xc7 });
        self.encode(code, 0, more);
        code.extend(std::iter::repeat_n(0xff, bytes.min(4) as usize));
    }

    /// `mov to, [operand + more]` of so many bytes, 8, 4, 2 or 1, with zeros above; from FS, with 32 bits of address, or neither.
    pub fn load(&self, code: &mut Vec<u8>, to: Gpr, more: i32, bytes: u64, from: Segmented) {
        from.prefix(code);
        let wide = u8::from(bytes == 8) << 3;
        let rex = wide | to.0 >> 3 << 2 | self.rex();
        if rex != 0 {
            code.push(0x40 | rex);
        }
        match bytes {
            2 => code.extend([0x0f, 0xb7]),
            1 => code.extend([0x0f, 0xb6]),
            _ => code.push(0x8b),
        }
        self.encode(code, to.0, more);
    }

    /// `mov [operand + more], from` of so many bytes.
    pub fn store(&self, code: &mut Vec<u8>, from: Gpr, more: i32, bytes: u64, to: Segmented) {
        to.prefix(code);
        if bytes == 2 {
            code.push(0x66);
        }
        let rex = u8::from(bytes == 8) << 3 | from.0 >> 3 << 2 | self.rex();
        // With one, the lowest byte of each register can be stored.
        code.push(0x40 | rex);
        code.push(if bytes == 1 { 0x88 } else { 0x89 });
        self.encode(code, from.0, more);
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
            code.extend([0x48 | to.0 >> 3, 0xb8 | to.0 & 7]);
            code.extend(self.disp.to_le_bytes());
            return;
        }
        self.lea(code, to);
    }

    /// `lea to, [operand]`, whatever the segment.
    pub fn lea(&self, code: &mut Vec<u8>, to: Gpr) {
        code.extend([0x48 | to.0 >> 3 << 2 | self.rex(), 0x8d]);
        self.encode(code, to.0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(mov(Some(5), None, 0, 0, 0, 2, true), [0x64, 0x67, 0x66, 0xc7, 0x45, 0x00, 0xff, 0xff]);
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
}
