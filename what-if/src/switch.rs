//! A conditional jump that is watched, and goes the other way at one of its executions.

use crate::host::Host;
use bugnet_replay::Result;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// What stops a process.
const STOP: u8 = 0xcc;
/// The flags.
const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

/// A jump that is watched.
#[derive(Debug)]
pub(crate) struct Switch {
    addr: u64,
    bytes: Vec<u8>,
    /// The condition's number, as the processor has it; where it goes if that holds, and if not.
    condition: u8,
    ways: [u64; 2],
    /// The execution that is turned, and how many there were.
    nth: Option<u64>,
    pub(crate) count: u64,
}

impl Switch {
    /// The jump that these bytes are; none if they are no conditional one that goes by flags.
    pub(crate) fn new(addr: u64, bytes: &[u8], nth: Option<u64>) -> Option<Self> {
        let instruction = Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE).decode();
        let is_one = instruction.flow_control() == FlowControl::ConditionalBranch && instruction.is_jcc_short_or_near();
        let condition = match *bytes {
            [byte @ 0x70..=0x7f, ..] | [0x0f, byte @ 0x80..=0x8f, ..] if is_one => byte & 15,
            _ => return None,
        };
        let ways = [instruction.near_branch_target(), instruction.next_ip()];
        Some(Self { addr, bytes: bytes.to_vec(), condition, ways, nth, count: 0 })
    }

    /// Has a process stop there.
    pub(crate) fn watch(&self, host: &Host) -> Result<()> {
        host.write(self.addr, &[STOP])
    }

    /// Does what the jump does, or the opposite, if it is there that the process has stopped.
    pub(crate) fn jumps(&mut self, host: &Host) -> Result<bool> {
        let mut registers = host.registers()?;
        if registers.rip != self.addr + 1 {
            return Ok(false);
        }
        let is_turned = self.nth == Some(self.count);
        if is_turned {
            host.write(self.addr, &self.bytes)?;
        }
        registers.rip = self.ways[usize::from(holds(self.condition, registers.eflags) == is_turned)];
        self.count += 1;
        host.set_registers(registers)?;
        Ok(true)
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
        let short = Switch::new(0x1000, &[0x7e, 0x10], None).expect("it is one");
        assert_eq!((short.condition, short.ways), (14, [0x1012, 0x1002]));
        let near = Switch::new(0x1000, &[0x0f, 0x84, 0, 1, 0, 0], Some(3)).expect("it is one");
        assert_eq!((near.condition, near.ways), (4, [0x1106, 0x1006]));
        assert!(Switch::new(0x1000, &[0xe3, 0x10], None).is_none());
        assert!(Switch::new(0x1000, &[0xeb, 0x10], None).is_none());
    }
}
