//! String instructions.

use super::{Progress, Stored, is_intel, read_word};
use crate::run::parts::ownership::Span;
use crate::run::special;
use crate::run::thread::Thread;
use bugnet_dr::access::{RegisterValues, Repeat, StringKind, StringOp};
use bugnet_dr::ir::Gpr;
use bugnet_dr::thread::segment_base;
use bugnet_format::regs::ARITHMETIC_FLAGS;

/// Most elements between two looks at what else there is to do.
const STRETCH: u64 = 1 << 12;

const DIRECTION: u64 = 0x400;

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

impl Thread {
    /// Executes a string instruction, at most [`STRETCH`] elements of it, and adds what it stores to `stored`.
    pub(super) fn string(&mut self, position: u64, op: StringOp, stored: &mut Stored) -> Progress {
        let mask = op.mask();
        let repeats = op.repeat != Repeat::Once;
        let count = if repeats { self.gpr(Gpr::RCX) & mask } else { 1 };
        if count == 0 {
            self.nothing_to_repeat(op);
            return Progress::Done;
        }
        let step = u64::from(op.element);
        let down = self.callouts.saved.rflags & DIRECTION != 0;
        let by = if down { step.wrapping_neg() } else { step };
        let base = op.segment.map_or(0, segment_base);
        let stretch = count.min(STRETCH);
        self.own_string(position, op, base, stretch, down);
        for _ in 0..stretch {
            let source = base.wrapping_add(self.gpr(Gpr::RSI) & mask);
            let target = self.gpr(Gpr::RDI) & mask;
            let mut again = true;
            if let Err(fault) = self.element(op, source, target, &mut again, stored) {
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
        stored: &mut Stored,
    ) -> Result<(), Progress> {
        let size = op.element;
        let accumulator = self.gpr(Gpr::RAX);
        let (value, other) = match op.kind {
            StringKind::Move | StringKind::Load => (read_word(source, size)?, 0),
            StringKind::Store => (accumulator, 0),
            StringKind::Compare => (read_word(source, size)?, read_word(target, size)?),
            StringKind::Scan => (accumulator, read_word(target, size)?),
        };
        match op.kind {
            StringKind::Move | StringKind::Store => stored.write(target, value, size)?,
            StringKind::Load => special::set(&mut self.callouts.saved, Gpr::RAX, op.element, value),
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
                    self.callouts.saved.rflags = self.callouts.saved.rflags & !ARITHMETIC_FLAGS | flags;
                }
            }
        }
        Ok(())
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
}
