//! Memory that is set to something else before an instruction, at one of its executions or at each.

use crate::host::Host;
use crate::watch::{STOP, Then};
use bugnet_replay::Result;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spot {
    /// At this address.
    At(u64),
    /// So far from what RBP is where it is set.
    ByRbp(i64),
    /// So far from what RSP is there.
    ByRsp(i64),
    /// So far, the second one, behind where the pointer points that is so far, the first one, from what RBP is there.
    Through(i64, i64),
}

/// What is set, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The instruction before which it is.
    pub at: u64,
    /// Which of its executions, from 0; none for each.
    pub nth: Option<u64>,
    /// Where.
    pub spot: Spot,
    /// What is there then.
    pub bytes: Vec<u8>,
}

/// What sets it.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) at: u64,
    /// The first byte of the instruction.
    was: u8,
    set: Set,
    pub(crate) count: u64,
}

impl Setting {
    /// Before the instruction that these bytes are; none if they are none.
    pub(crate) fn new(set: &Set, instruction: &[u8]) -> Option<Self> {
        Some(Self { at: set.at, was: *instruction.first()?, set: set.clone(), count: 0 })
    }

    /// Sets it, if it is there that the process has stopped, and lets it execute the instruction.
    pub(crate) fn sets(&mut self, host: &Host) -> Result<Then> {
        let mut registers = host.registers()?;
        if registers.rip != self.at + 1 {
            return Ok(Then::IsOther);
        }
        registers.rip = self.at;
        host.set_registers(registers)?;
        let addr = match self.set.spot {
            Spot::At(addr) => Some(addr),
            Spot::ByRbp(displacement) => Some(registers.rbp.wrapping_add_signed(displacement)),
            Spot::ByRsp(displacement) => Some(registers.rsp.wrapping_add_signed(displacement)),
            Spot::Through(pointer, offset) => {
                let pointer = host.read(registers.rbp.wrapping_add_signed(pointer), 8).ok();
                let pointer = pointer.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
                pointer.map(|pointer| pointer.wrapping_add_signed(offset))
            }
        };
        let is_it = self.set.nth.is_none_or(|nth| nth == self.count);
        self.count += 1;
        // What is no memory yet, or no longer, is no variable.
        let differs = |addr: &u64| host.read(*addr, self.set.bytes.len()).is_ok_and(|bytes| bytes != self.set.bytes);
        let addr = addr.filter(differs);
        if let Some(addr) = addr.filter(|_| is_it) {
            host.write(addr, &self.set.bytes)?;
        }
        host.write(self.at, &[self.was])?;
        match (self.set.nth, is_it) {
            (Some(_), true) if addr.is_none() => return Ok(Then::IsSame),
            (Some(_), true) => return Ok(Then::GoesOn),
            _ => {}
        }
        if !host.step()? {
            return Ok(Then::IsOther);
        }
        host.write(self.at, &[STOP])?;
        Ok(Then::GoesOn)
    }
}
