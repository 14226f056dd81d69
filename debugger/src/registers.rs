//! The registers as gdb numbers them.

use bugnet_format::regs::{GPR_UNKNOWN, NOTHING_KNOWN, RegisterFile};
use gdbstub::arch::{Arch, Registers};

/// How gdb is told which registers there are; the order is that of [`Recorded::gdb_serialize`].
const DESCRIPTION: &str = include_str!("target.xml");

/// x86-64 as it is recorded.
#[derive(Debug)]
pub enum X86_64 {}

impl Arch for X86_64 {
    type Usize = u64;
    type Registers = Recorded;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(DESCRIPTION)
    }
}

/// The registers of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded(pub RegisterFile);

/// The general purpose registers in gdb's order, by their numbers in [`RegisterFile::gpr`].
const ORDER: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
/// Selectors of CS, SS, DS, ES, FS and GS, which are the same in every 64-bit process on Linux.
const SELECTORS: [u32; 6] = [0x33, 0x2b, 0, 0, 0, 0];

/// What is in the x87 registers of a thread: two bits each, the physical register 0 lowest.
fn tags(regs: &RegisterFile) -> u32 {
    let top = usize::from(regs.fsw >> 11 & 7);
    let tag = |physical: usize| {
        if regs.ftw >> physical & 1 == 0 {
            return 3;
        }
        let st = &regs.st[(physical + 8 - top) % 8];
        let (mantissa, exponent) = (u64::from_le_bytes(std::array::from_fn(|i| st[i])), [st[8], st[9] & 0x7f]);
        match exponent {
            [0, 0] if mantissa == 0 => 1,
            [0, 0] | [0xff, 0x7f] => 2,
            _ if mantissa >> 63 == 0 => 2,
            _ => 0,
        }
    };
    (0..8).map(|physical| tag(physical) << (2 * physical)).sum()
}

impl Registers for Recorded {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.0.rip
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        let regs = &self.0;
        let nothing = regs.rflags_known & NOTHING_KNOWN != 0;
        let mut put = |bytes: &[u8], known: bool| {
            bytes.iter().for_each(|byte| write_byte((known && !nothing).then_some(*byte)));
        };
        for number in ORDER {
            put(&regs.gpr[number].to_le_bytes(), regs.rflags_known & GPR_UNKNOWN << number == 0);
        }
        put(&regs.rip.to_le_bytes(), true);
        // Interrupts are enabled, and the second bit is always set.
        put(&((regs.rflags as u32) | 0x202).to_le_bytes(), true);
        SELECTORS.iter().for_each(|selector| put(&selector.to_le_bytes(), true));
        regs.st.iter().for_each(|st| put(st, true));
        for control in [u32::from(regs.fcw), u32::from(regs.fsw), tags(regs)] {
            put(&control.to_le_bytes(), true);
        }
        // The last instruction and operand are not recorded.
        (0..5).for_each(|_| put(&[0; 4], false));
        regs.ymm.iter().for_each(|ymm| put(&ymm[..16], true));
        put(&regs.mxcsr.to_le_bytes(), true);
        // No system call is under way.
        put(&u64::MAX.to_le_bytes(), true);
        put(&regs.fs_base.to_le_bytes(), true);
        put(&regs.gs_base.to_le_bytes(), true);
        regs.ymm.iter().for_each(|ymm| put(&ymm[16..], true));
    }

    /// Registers cannot be written.
    fn gdb_deserialize(&mut self, _: &[u8]) -> Result<(), ()> {
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_x87_registers() {
        // ST0 is the physical register 7: 1.0; ST1 is 0: zero.
        let mut regs = RegisterFile { fsw: 7 << 11, ftw: 0x81, ..RegisterFile::default() };
        regs.st[0] = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f];
        assert_eq!(tags(&regs), 0b00_11_11_11_11_11_11_01);
    }

    #[test]
    fn as_many_bytes_as_the_description_has() {
        let mut bits = 0;
        for size in DESCRIPTION.split("bitsize=\"").skip(1) {
            bits += size.split('"').next().unwrap().parse::<usize>().unwrap();
        }
        let mut bytes = 0;
        Recorded::default().gdb_serialize(|_| bytes += 1);
        assert_eq!(bytes, bits / 8);
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        let regs = RegisterFile { rflags_known: GPR_UNKNOWN << 3, ..RegisterFile::default() };
        let mut bytes = Vec::new();
        Recorded(regs).gdb_serialize(|byte| bytes.push(byte));
        assert_eq!(bytes[0..24], [[Some(0); 8], [None; 8], [Some(0); 8]].concat());
    }
}
