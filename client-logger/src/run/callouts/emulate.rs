//! Instructions that a thread executes here, in a callout, instead of in the code cache.
//!
//! A string instruction is executed one element after the other. Where an element faults, what came before it is logged at
//! the instruction's position, `REGISTERS` and `MEMORY` records, and the code behind the callout faults as the instruction
//! would: with the registers that say how far it came. Now and then the code cache is left in the same way, so that signals
//! are not kept waiting.

mod far;
mod selectors;
mod strings;

use crate::base::memory::{read_memory, write_memory};
use crate::base::slots::Slot;
use crate::emitted::site::Site;
use crate::run::dying::die;
use crate::run::thread::Thread;
use bugnet_dr::access::Emulated;
use bugnet_dr::ir::Gpr;
use bugnet_format::record::{EndReason, Record, RegisterUpdates, SpecialKind, register_number};
use bugnet_format::regs::{ARITHMETIC_FLAGS, COMPARED_FLAGS};
use bugnet_format::types::Addr;
use std::ops::Range;
use std::sync::OnceLock;

/// How far an instruction came.
enum Progress {
    /// It is done.
    Done,
    /// It is done, and execution goes on at this address.
    Jump(u64),
    /// It has more to do.
    Part,
    /// It cannot access the byte at this address.
    Fault {
        /// The first one that it cannot access.
        address: u64,
        /// Whether it would write.
        writes: bool,
    },
    /// The processor refuses it whatever memory holds: a fault without an address.
    Refused,
    /// It does what cannot be recorded.
    Unsupported(&'static str),
}

/// An address that no access can have.
const NON_CANONICAL: u64 = 1 << 63;

/// What an instruction has written to memory.
#[derive(Default)]
struct Stored(Vec<Range<u64>>);

impl Stored {
    /// Writes the low `size` bytes of a value, up to 8 of them, to the program's memory.
    fn write(&mut self, address: u64, value: u64, size: u32) -> Result<(), Progress> {
        let bytes = &value.to_le_bytes()[..size as usize];
        if !write_memory(address, bytes) {
            return Err(Progress::Fault { address: first_unwritable(address, bytes.len()), writes: true });
        }
        self.note(address, bytes.len() as u64);
        Ok(())
    }

    /// Adds a range, to the last one if they touch.
    fn note(&mut self, address: u64, len: u64) {
        let end = address.wrapping_add(len);
        match self.0.last_mut() {
            Some(last) if last.end == address => last.end = end,
            Some(last) if last.start == end => last.start = address,
            _ => self.0.push(address..end),
        }
    }
}

/// Reads `size` bytes, up to 8, of the program's memory.
fn read_word(address: u64, size: u32) -> Result<u64, Progress> {
    let (mut bytes, size) = ([0; 8], size as usize);
    if !read_memory(address, &mut bytes[..size]) {
        return Err(Progress::Fault { address: first_unreadable(address, size), writes: false });
    }
    Ok(u64::from_le_bytes(bytes))
}

/// Bytes up to the end of the page, of `size` bytes at an address.
fn in_page(address: u64, size: usize) -> usize {
    size.min((Addr::PAGE - address % Addr::PAGE) as usize)
}

/// Where reading `size` bytes faults.
fn first_unreadable(address: u64, size: usize) -> u64 {
    let first = in_page(address, size);
    let readable = first < size && read_memory(address, &mut [0; 8][..first]);
    if readable { address + first as u64 } else { address }
}

/// Where writing `size` bytes faults.
fn first_unwritable(address: u64, size: usize) -> u64 {
    let (first, mut bytes) = (in_page(address, size), [0; 8]);
    let writable = first < size && read_memory(address, &mut bytes[..first]) && write_memory(address, &bytes[..first]);
    if writable { address + first as u64 } else { address }
}

/// Whether the processor is one of Intel's.
fn is_intel() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
    })
}

impl Thread {
    /// In place of the instruction at `site`, behind which `next` is. Sets [`Slot::ReadFault`] and [`Slot::WriteFault`].
    pub(super) fn emulate_instruction(&mut self, site: &Site, what: Emulated, next: u64) {
        let position = self.counted().wrapping_sub(site.back);
        loop {
            let before = (self.callouts.saved.gpr, self.callouts.saved.rflags, self.segments.bases);
            let mut stored = Stored::default();
            let progress = match what {
                Emulated::String(op) => self.string(position, op, &mut stored),
                Emulated::Selector(op) => self.selector(position, op, &mut stored).unwrap_or_else(|fault| fault),
                Emulated::Far(op) => self.far(position, op, next, &mut stored).unwrap_or_else(|fault| fault),
            };
            let done = matches!(progress, Progress::Done | Progress::Jump(_));
            let mut updates = self.changes(before);
            if let Progress::Jump(target) = progress {
                updates.values.push((register_number::RIP, target));
                updates.values.sort_by_key(|(number, _)| *number);
            }
            if done {
                let kind = SpecialKind::Emulated;
                self.record(position, |delta| Record::Special { delta, kind, updates });
            } else if !updates.values.is_empty() {
                self.record(position, |delta| Record::Registers { delta, updates });
            }
            for range in stored.0 {
                self.supply(position + u64::from(done), range.start, range.end - range.start);
            }
            let (mut read_fault, mut write_fault) = (0, 0);
            match progress {
                Progress::Done => {}
                Progress::Jump(target) => self.go_on_at(target),
                Progress::Part if self.recording() => {
                    self.recount(position);
                    self.go_on_at(site.pc);
                }
                Progress::Part => continue,
                Progress::Fault { address, writes: false } => read_fault = !address,
                Progress::Fault { address, writes: true } => write_fault = !address,
                Progress::Refused => read_fault = !NON_CANONICAL,
                Progress::Unsupported(why) => {
                    let regs = self.registers(site.pc, 0);
                    let why = format!("{why} at {:#x} cannot be recorded exactly", site.pc);
                    self.stop(position, EndReason::Unsupported { why }, regs);
                }
            }
            // SAFETY: the calling thread's own slots.
            unsafe {
                *Slot::ReadFault.address() = read_fault;
                *Slot::WriteFault.address() = write_fault;
            }
            return;
        }
    }

    /// What has changed since.
    fn changes(&self, (gpr, rflags, segments): ([u64; 16], u64, [u64; 2])) -> RegisterUpdates {
        let mut values: Vec<(u8, u64)> = Vec::new();
        let changed = (0..16).filter(|n| self.callouts.saved.gpr[*n] != gpr[*n]);
        values.extend(changed.map(|n| (n as u8, self.callouts.saved.gpr[n])));
        if self.callouts.saved.rflags != rflags {
            values.push((register_number::RFLAGS, self.callouts.saved.rflags & COMPARED_FLAGS | 0x202));
        }
        for (n, number) in [register_number::FS_BASE, register_number::GS_BASE].into_iter().enumerate() {
            if self.segments.bases[n] != segments[n] {
                values.push((number, self.segments.bases[n]));
            }
        }
        RegisterUpdates { values }
    }

    /// Goes on with the program at `pc`, by way of DynamoRIO's dispatcher.
    fn go_on_at(&mut self, pc: u64) -> ! {
        if let Some(sent) = self.signals.mask.open() {
            let regs = self.registers(pc, ARITHMETIC_FLAGS);
            die(self, &sent, self.counted(), regs);
        }
        self.signals.leave.go(&self.callouts.saved, pc)
    }

    fn gpr_mut(&mut self, reg: Gpr) -> &mut u64 {
        &mut self.callouts.saved.gpr[usize::from(reg.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let mut stored = Stored::default();
        for (address, len) in [(100, 4), (104, 4), (96, 4), (200, 1), (199, 1)] {
            stored.note(address, len);
        }
        assert_eq!(stored.0, [96..108, 199..201]);
    }
}
