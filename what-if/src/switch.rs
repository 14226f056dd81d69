//! A conditional jump that is watched, and goes the other way at one of its executions.

use crate::host::Host;
use crate::run::Turn;
use crate::watch::Then;
use bugnet_replay::Result;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// The flags.
const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

/// A jump that is watched.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) addr: u64,
    bytes: Vec<u8>,
    /// The condition's number, as the processor has it; where it goes if that holds, and if not.
    condition: u8,
    ways: [u64; 2],
    /// The execution that is turned, and how many there were.
    nth: u64,
    pub(crate) count: u64,
}

impl Switch {
    /// The jump that these bytes are; none if they are no conditional one that goes by flags.
    pub(crate) fn new(turn: &Turn, bytes: &[u8]) -> Option<Self> {
        let Turn { addr, nth } = *turn;
        let instruction = Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE).decode();
        let is_one = instruction.flow_control() == FlowControl::ConditionalBranch && instruction.is_jcc_short_or_near();
        let condition = match *bytes {
            [byte @ 0x70..=0x7f, ..] | [0x0f, byte @ 0x80..=0x8f, ..] if is_one => byte & 15,
            _ => return None,
        };
        let ways = [instruction.near_branch_target(), instruction.next_ip()];
        Some(Self { addr, bytes: bytes.to_vec(), condition, ways, nth, count: 0 })
    }

    /// Does what the jump does, or the opposite, if it is there that the process has stopped.
    pub(crate) fn jumps(&mut self, host: &Host) -> Result<Then> {
        let mut registers = host.registers()?;
        if registers.rip != self.addr + 1 {
            return Ok(Then::IsOther);
        }
        let is_turned = self.nth == self.count;
        if is_turned {
            host.write(self.addr, &self.bytes)?;
        }
        registers.rip = self.ways[usize::from(holds(self.condition, registers.eflags) == is_turned)];
        self.count += 1;
        host.set_registers(registers)?;
        Ok(Then::GoesOn)
    }
}

/// Whether a condition holds.
fn holds(condition: u8, flags: u64) -> bool {
    let has = |flag: u64| flags & flag != 0;
    let less = has(SIGN) != has(OVERFLOW);
    let holds = match condition >> 1 {
        0 => has(OVERFLOW),
        1 => has(CARRY),
        2 => has(ZERO),
        3 => has(CARRY) || has(ZERO),
        4 => has(SIGN),
        5 => has(PARITY),
        6 => less,
        _ => less || has(ZERO),
    };
    holds != (condition & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        // `je` and `jne`, `jl` and `jg`, `ja` and `jb`.
        assert!(holds(4, ZERO) && !holds(4, 0) && holds(5, 0) && !holds(5, ZERO));
        assert!(holds(12, SIGN) && holds(12, OVERFLOW) && !holds(12, SIGN | OVERFLOW));
        assert!(holds(15, 0) && !holds(15, ZERO) && !holds(15, SIGN));
        assert!(holds(7, 0) && !holds(7, CARRY) && holds(2, CARRY));
    }

    #[test]
    fn what_is_a_jump() {
        let new = |bytes: &[u8]| Switch::new(&Turn { addr: 0x1000, nth: 3 }, bytes);
        let short = new(&[0x7e, 0x10]).expect("it is one");
        assert_eq!((short.condition, short.ways), (14, [0x1012, 0x1002]));
        let near = new(&[0x0f, 0x84, 0, 1, 0, 0]).expect("it is one");
        assert_eq!((near.condition, near.ways), (4, [0x1106, 0x1006]));
        assert!(new(&[0xe3, 0x10]).is_none());
        assert!(new(&[0xeb, 0x10]).is_none());
    }
}
