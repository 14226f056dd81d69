//! What an instruction's bytes say and DynamoRIO's operands do not show.

use crate::ir::Instr;

/// The prefixes of an instruction.
#[derive(Clone, Copy, Default)]
pub struct Prefixes {
    /// `66`
    pub operand_size: bool,
    /// `67`
    pub address_size: bool,
    /// `f2` or `f3`
    pub repeat: bool,
    /// REX.W
    pub wide: bool,
    /// `62`, which is AVX-512
    pub evex: bool,
}

impl Prefixes {
    /// Those of a decoded instruction; none of one that the instrumentation has made.
    pub fn of(instr: Instr) -> Self {
        let mut found = Self::default();
        for byte in instr.raw_bytes().unwrap_or_default() {
            match *byte {
                0x66 => found.operand_size = true,
                0x67 => found.address_size = true,
                0xf2 | 0xf3 => found.repeat = true,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 => {}
                rex @ 0x40..=0x4f => found.wide = rex & 8 != 0,
                opcode => {
                    found.evex = opcode == 0x62;
                    break;
                }
            }
        }
        found
    }

    /// Whether the operands have 16 bits, where there is a choice: REX.W goes before `66`.
    pub fn short(self) -> bool {
        self.operand_size && !self.wide
    }
}
