//! Loads and reads of segment registers.
//!
//! DS and ES mean nothing in 64-bit mode: the program's selectors are in the processor. FS and GS are DynamoRIO's and ours, so
//! the program has selectors of its own here, and a base in the word from which everybody takes it. Which base a selector
//! loads, the processor is asked.

use super::{Progress, Stored, read_word};
use crate::base::fs_base;
use crate::base::slots::set_segment_base;
use crate::run::parts::ownership::Span;
use crate::run::special;
use crate::run::thread::Thread;
use bugnet_dr::access::{Operand, RegisterValues, SegmentRegister, SelectorOp};
use bugnet_dr::ir::{Gpr, Segment};
use std::arch::asm;

const ES: SegmentRegister = SegmentRegister(0);
const SS: SegmentRegister = SegmentRegister(2);
const DS: SegmentRegister = SegmentRegister(3);
const FS: SegmentRegister = SegmentRegister(4);

/// Whether a program may load this selector into a segment register for data.
fn is_loadable(selector: u16) -> bool {
    let readable: u8;
    // SAFETY: looks at a descriptor.
    unsafe { asm!("verr {0:x}", "setz {1}", in(reg) selector, out(reg_byte) readable, options(nomem, nostack)) };
    selector < 4 || readable != 0
}

/// The base that FS or GS has once the selector is loaded, if it was `old` before.
fn base_of(selector: u16, old: u64) -> u64 {
    let base;
    // SAFETY: FS is as before behind this, and nothing in between uses it. The selector is loadable, and the bases are
    // ones that FS had or can have.
    unsafe {
        asm!(
            "mov {own:e}, fs",
            "rdfsbase {own_base}",
            "wrfsbase {base}",
            "mov fs, {selector:e}",
            "rdfsbase {base}",
            "mov fs, {own:e}",
            "wrfsbase {own_base}",
            own = out(reg) _,
            own_base = out(reg) _,
            base = inout(reg) old => base,
            selector = in(reg) u32::from(selector),
            options(nostack, preserves_flags),
        );
    }
    base
}

fn stack_selector() -> u16 {
    let selector: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mov {0:e}, ss", out(reg) selector, options(nomem, nostack, preserves_flags)) };
    selector as u16
}

impl Thread {
    /// Executes an instruction that loads or reads a segment register.
    pub(super) fn selector(
        &mut self,
        position: u64,
        op: SelectorOp,
        stored: &mut Stored,
    ) -> Result<Progress, Progress> {
        let memory = match op.with {
            Operand::Memory(access) => access.address(self).map(|address| (address, access.bytes)),
            Operand::Register(..) => None,
        };
        if let Some((address, bytes)) = memory {
            self.own_spans(position, &[Span { address, len: bytes.into(), writes: !op.loads }]);
        }
        if op.loads {
            let value = match (op.with, memory) {
                (Operand::Register(reg, _), _) => self.gpr(reg),
                (_, Some((address, bytes))) => read_word(address, bytes)?,
                (_, None) => 0,
            };
            let before = op.offset.map_or(0, |(_, bytes)| 8 * bytes);
            self.load_selector(op.register, (value >> before) as u16)?;
            if let Some((reg, bytes)) = op.offset {
                special::set(&mut self.callouts.saved, reg, bytes, value);
            }
        } else {
            let value = self.read_selector(op.register).into();
            match (op.with, memory) {
                (Operand::Register(reg, bytes), _) => special::set(&mut self.callouts.saved, reg, bytes, value),
                (_, Some((address, bytes))) => stored.write(address, value, bytes)?,
                (_, None) => {}
            }
        }
        let rsp = self.gpr_mut(Gpr::RSP);
        *rsp = rsp.wrapping_add_signed(op.stack);
        Ok(Progress::Done)
    }

    fn read_selector(&self, register: SegmentRegister) -> u16 {
        let selector: u32;
        match register {
            // SAFETY: reads a register.
            ES => unsafe { asm!("mov {0:e}, es", out(reg) selector, options(nomem, nostack, preserves_flags)) },
            // SAFETY: reads a register.
            DS => unsafe { asm!("mov {0:e}, ds", out(reg) selector, options(nomem, nostack, preserves_flags)) },
            FS => return self.segments.selectors[0],
            _ => return self.segments.selectors[1],
        }
        selector as u16
    }

    fn load_selector(&mut self, register: SegmentRegister, selector: u16) -> Result<(), Progress> {
        if register == SS {
            let same = selector == stack_selector();
            return if same { Ok(()) } else { Err(Progress::Unsupported("another stack segment")) };
        }
        if !is_loadable(selector) {
            return Err(Progress::Refused);
        }
        let value = u32::from(selector);
        match register {
            // SAFETY: a selector that can be loaded, into a register that 64-bit code has no use for.
            ES => unsafe { asm!("mov es, {0:e}", in(reg) value, options(nomem, nostack, preserves_flags)) },
            // SAFETY: as above.
            DS => unsafe { asm!("mov ds, {0:e}", in(reg) value, options(nomem, nostack, preserves_flags)) },
            _ if !fs_base::can_be_set() => return Err(Progress::Unsupported("a load of FS or GS")),
            _ => {
                let (index, segment) = if register == FS { (0, Segment::Fs) } else { (1, Segment::Gs) };
                let base = base_of(selector, self.segments.bases[index]);
                self.segments.selectors[index] = selector;
                self.segments.bases[index] = base;
                set_segment_base(segment, base);
            }
        }
        Ok(())
    }
}
