//! Instructions that a thread executes here, in a callout, instead of in the code cache.
//!
//! A string instruction is executed one element after the other. Where an element faults, what came before it is logged at
//! the instruction's position, `REGISTERS` and `MEMORY` records, and the code behind the callout faults as the instruction
//! would: with the registers that say how far it came. Now and then the code cache is left in the same way, so that signals
//! are not kept waiting.

use super::Thread;
use super::ownership::Span;
use crate::callout::Slot;
use crate::code::read_memory;
use crate::site::Site;
use bugnet_dr::access::{Emulated, RegisterValues, Repeat, StringKind, StringOp};
use bugnet_dr::ir::Gpr;
use bugnet_dr::sys;
use bugnet_format::record::{Record, RegisterUpdates, SpecialKind, register_number};
use bugnet_format::regs::{ARITHMETIC_FLAGS, COMPARED_FLAGS};
use bugnet_format::types::Addr;
use std::ops::Range;
use std::sync::OnceLock;

/// Most elements between two looks at what else there is to do.
const STRETCH: u64 = 1 << 12;

const DIRECTION: u64 = 0x400;

/// How far an instruction came.
enum Progress {
    /// It is done.
    Done,
    /// It has more to do.
    Part,
    /// It cannot access the byte at this address.
    Fault { address: u64, writes: bool },
}

/// Writes to the program's memory; `false` if not all of it is writable.
fn write_memory(address: u64, bytes: &[u8]) -> bool {
    let mut written = 0;
    // SAFETY: DynamoRIO's safe write catches faults at the target.
    unsafe { sys::dr_safe_write(address as *mut _, bytes.len(), bytes.as_ptr().cast(), &raw mut written) != 0 }
}

/// The arithmetic flags that `cmp` of two operands of so many bytes leaves.
fn compared(a: u64, b: u64, bytes: u32) -> u64 {
    let bits = 8 * bytes;
    let mask = u64::MAX >> (64 - bits);
    let (a, b) = (a & mask, b & mask);
    let difference = a.wrapping_sub(b) & mask;
    let sign = |value: u64| value >> (bits - 1) & 1;
    let carry = u64::from(a < b);
    let parity = u64::from((difference as u8).count_ones().is_multiple_of(2));
    let adjust = (a ^ b ^ difference) >> 4 & 1;
    let zero = u64::from(difference == 0);
    let overflow = sign((a ^ b) & (a ^ difference));
    carry | parity << 2 | adjust << 4 | zero << 6 | sign(difference) << 7 | overflow << 11
}

/// A register of which only the bits of `mask` count, moved on: 32-bit registers get zeros above.
fn moved(value: u64, by: u64, mask: u64) -> u64 {
    value.wrapping_add(by) & mask
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
    /// In place of the instruction at `site`. Sets [`Slot::ReadFault`] and [`Slot::WriteFault`].
    pub(super) fn emulate_instruction(&mut self, site: &Site, what: Emulated) {
        let position = self.counted().wrapping_sub(site.back);
        loop {
            let before = (self.saved.gpr, self.saved.rflags);
            let mut stored = Vec::new();
            let progress = match what {
                Emulated::String(op) => self.string(position, op, &mut stored),
            };
            let done = matches!(progress, Progress::Done);
            if done {
                self.results(position, SpecialKind::Emulated, before, true, 0);
            } else {
                let changed = (0..16).filter(|n| self.saved.gpr[*n] != before.0[*n]);
                let mut values: Vec<_> = changed.map(|n| (n as u8, self.saved.gpr[n])).collect();
                if self.saved.rflags != before.1 {
                    values.push((register_number::RFLAGS, self.saved.rflags & COMPARED_FLAGS | 0x202));
                }
                self.record(position, |delta| Record::Registers { delta, updates: RegisterUpdates { values } });
            }
            for range in stored {
                self.supply(position + u64::from(done), range.start, range.end - range.start);
            }
            let (mut read_fault, mut write_fault) = (0, 0);
            match progress {
                Progress::Fault { address, writes: false } => read_fault = !address,
                Progress::Fault { address, writes: true } => write_fault = !address,
                Progress::Done => {}
                Progress::Part if self.recording() => self.begin_again(position, site.pc),
                Progress::Part => continue,
            }
            // SAFETY: the calling thread's own slots.
            unsafe {
                *Slot::ReadFault.address() = read_fault;
                *Slot::WriteFault.address() = write_fault;
            }
            return;
        }
    }

    /// Goes on at `pc`, before which `position` instructions have been executed, by way of DynamoRIO's dispatcher.
    fn begin_again(&mut self, position: u64, pc: u64) {
        self.recount(position);
        self.mask.open();
        self.leave.go(&self.saved, pc);
    }

    fn gpr_mut(&mut self, reg: Gpr) -> &mut u64 {
        &mut self.saved.gpr[usize::from(reg.0)]
    }

    /// Executes a string instruction, at most [`STRETCH`] elements of it, and adds what it stores to `stored`.
    fn string(&mut self, position: u64, op: StringOp, stored: &mut Vec<Range<u64>>) -> Progress {
        let mask = op.mask();
        let repeats = op.repeat != Repeat::Once;
        let count = if repeats { self.gpr(Gpr::RCX) & mask } else { 1 };
        if count == 0 {
            self.nothing_to_repeat(op);
            return Progress::Done;
        }
        let step = u64::from(op.element);
        let down = self.saved.rflags & DIRECTION != 0;
        let by = if down { step.wrapping_neg() } else { step };
        let base = op.segment.map_or(0, super::segment_base);
        let stretch = count.min(STRETCH);
        self.own_string(position, op, base, stretch, down);
        for _ in 0..stretch {
            let source = base.wrapping_add(self.gpr(Gpr::RSI) & mask);
            let target = self.gpr(Gpr::RDI) & mask;
            let mut again = true;
            if let Some(fault) = self.element(op, source, target, &mut again, stored) {
                return fault;
            }
            if matches!(op.kind, StringKind::Move | StringKind::Load | StringKind::Compare) {
                *self.gpr_mut(Gpr::RSI) = moved(self.gpr(Gpr::RSI), by, mask);
            }
            if op.kind != StringKind::Load {
                *self.gpr_mut(Gpr::RDI) = moved(self.gpr(Gpr::RDI), by, mask);
            }
            if repeats {
                *self.gpr_mut(Gpr::RCX) = moved(self.gpr(Gpr::RCX), u64::MAX, mask);
            }
            if !again {
                return Progress::Done;
            }
        }
        if count > stretch { Progress::Part } else { Progress::Done }
    }

    /// One element, at these addresses; clears `again` if it is the last one, whatever the count. Registers that count or
    /// point stay.
    fn element(
        &mut self,
        op: StringOp,
        source: u64,
        target: u64,
        again: &mut bool,
        stored: &mut Vec<Range<u64>>,
    ) -> Option<Progress> {
        let size = op.element as usize;
        let read = |address: u64| {
            let mut bytes = [0; 8];
            match read_memory(address, &mut bytes[..size]) {
                true => Ok(u64::from_le_bytes(bytes)),
                false => Err(Progress::Fault { address: first_unreadable(address, size), writes: false }),
            }
        };
        let accumulator = self.gpr(Gpr::RAX);
        let values = match op.kind {
            StringKind::Move | StringKind::Load => read(source).map(|value| (value, 0)),
            StringKind::Store => Ok((accumulator, 0)),
            StringKind::Compare => read(source).and_then(|a| Ok((a, read(target)?))),
            StringKind::Scan => read(target).map(|b| (accumulator, b)),
        };
        let (value, other) = match values {
            Ok(values) => values,
            Err(fault) => return Some(fault),
        };
        match op.kind {
            StringKind::Move | StringKind::Store => {
                if !write_memory(target, &value.to_le_bytes()[..size]) {
                    return Some(Progress::Fault { address: first_unwritable(target, size), writes: true });
                }
                note(stored, target, size as u64);
            }
            StringKind::Load => crate::special::set(&mut self.saved, Gpr::RAX, op.element, value),
            StringKind::Compare | StringKind::Scan => {
                let flags = compared(value, other, op.element);
                let equal = flags & 0x40 != 0;
                let last = match op.repeat {
                    Repeat::WhileEqual => !equal,
                    Repeat::WhileDifferent => equal,
                    Repeat::Once | Repeat::Counted => false,
                };
                *again = !last;
                let rest = self.gpr(Gpr::RCX) & op.mask();
                // Where a later element faults, Intel's processors have the flags from before the instruction.
                if last || op.repeat == Repeat::Once || rest == 1 || !is_intel() {
                    self.saved.rflags = self.saved.rflags & !ARITHMETIC_FLAGS | flags;
                }
            }
        }
        None
    }

    /// With 32-bit addresses and a count of zero, processors of Intel clear upper halves all the same.
    fn nothing_to_repeat(&mut self, op: StringOp) {
        if !op.short_address || !is_intel() {
            return;
        }
        let low = |value: &mut u64| *value &= 0xffff_ffff;
        *self.gpr_mut(Gpr::RCX) = 0;
        if op.kind.writes() {
            low(self.gpr_mut(Gpr::RDI));
        }
        if op.kind == StringKind::Move {
            low(self.gpr_mut(Gpr::RSI));
        }
    }

    /// Gets hold of what so many elements access.
    fn own_string(&mut self, position: u64, op: StringOp, base: u64, count: u64, down: bool) {
        let len = count * u64::from(op.element);
        let reads = op.kind.reads().iter().map(|reg| (*reg, false));
        let writes = op.kind.writes().then_some((Gpr::RDI, true));
        let span = |(reg, writes): (Gpr, bool)| {
            let start = self.gpr(reg) & op.mask();
            let lowest = if down { start.wrapping_add(op.element.into()).wrapping_sub(len) } else { start };
            let base = if reg == Gpr::RSI { base } else { 0 };
            Span { address: base.wrapping_add(lowest), len, writes }
        };
        let spans: Vec<Span> = reads.chain(writes).map(span).collect();
        self.own_spans(position, &spans);
    }
}

/// Adds a range, to the last one if they touch.
fn note(stored: &mut Vec<Range<u64>>, address: u64, len: u64) {
    let end = address.wrapping_add(len);
    match stored.last_mut() {
        Some(last) if last.end == address => last.end = end,
        Some(last) if last.start == end => last.start = address,
        _ => stored.push(address..end),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the processor's own `cmp` says.
    fn processor(a: u64, b: u64, bytes: u32) -> u64 {
        let flags: u64;
        // SAFETY: changes flags and the stack below the stack pointer only.
        unsafe {
            match bytes {
                1 => std::arch::asm!("cmp {a}, {b}", "pushfq", "pop {f}",
                    a = in(reg_byte) a as u8, b = in(reg_byte) b as u8, f = lateout(reg) flags),
                2 => {
                    std::arch::asm!("cmp {a:x}, {b:x}", "pushfq", "pop {f}", a = in(reg) a, b = in(reg) b, f = lateout(reg) flags)
                }
                4 => {
                    std::arch::asm!("cmp {a:e}, {b:e}", "pushfq", "pop {f}", a = in(reg) a, b = in(reg) b, f = lateout(reg) flags)
                }
                _ => {
                    std::arch::asm!("cmp {a}, {b}", "pushfq", "pop {f}", a = in(reg) a, b = in(reg) b, f = lateout(reg) flags)
                }
            }
        }
        flags & ARITHMETIC_FLAGS
    }

    #[test]
    fn flags_of_a_comparison_are_the_processor_s() {
        let values =
            [0, 1, 0x0f, 0x10, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x8000_0000, 1 << 63, u64::MAX, u64::MAX >> 1];
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
            for bytes in [1, 2, 4, 8] {
                assert_eq!(compared(a, b, bytes), processor(a, b, bytes), "{a:#x} {b:#x} {bytes}");
            }
        }
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let mut stored = Vec::new();
        for (address, len) in [(100, 4), (104, 4), (96, 4), (200, 1), (199, 1)] {
            note(&mut stored, address, len);
        }
        assert_eq!(stored, [96..108, 199..201]);
    }
}
