//! Far transfers of control that stay in 64-bit code.

use super::{Progress, Stored, read_word};
use crate::run::parts::ownership::Span;
use crate::run::thread::Thread;
use bugnet_dr::access::{Access, FarKind, FarOp, RegisterValues};
use bugnet_dr::ir::Gpr;
use bugnet_format::regs::COMPARED_FLAGS;
use std::arch::asm;

/// RFLAGS that `iret` of a program can change, but that no log has: TF, NT, AC and ID.
const UNRECORDED: u64 = 1 << 8 | 1 << 14 | 1 << 18 | 1 << 21;

fn selectors() -> (u64, u64) {
    let (code, stack): (u64, u64);
    // SAFETY: reads registers.
    unsafe {
        asm!("mov {0}, cs", "mov {1}, ss", out(reg) code, out(reg) stack, options(nomem, nostack, preserves_flags))
    };
    (code, stack)
}

/// Whether there is a segment of a program's that this selector selects.
fn exists(selector: u64) -> bool {
    let found: u8;
    // SAFETY: looks at a descriptor.
    unsafe {
        asm!("lar {0:e}, {0:e}", "setz {1}", inout(reg) selector => _, out(reg_byte) found, options(nomem, nostack))
    };
    selector & !3 != 0 && found != 0
}

/// Whether it is the selector that is there already.
fn same(selector: u64, present: u64) -> Result<(), Progress> {
    match selector & 0xffff {
        selector if selector == present => Ok(()),
        selector if exists(selector) => Err(Progress::Unsupported("a far transfer to another segment")),
        _ => Err(Progress::Refused),
    }
}

impl Thread {
    /// Executes a far transfer, if it stays in the same segment.
    pub(super) fn far(
        &mut self,
        position: u64,
        op: FarOp,
        next: u64,
        stored: &mut Stored,
    ) -> Result<Progress, Progress> {
        let (rsp, size) = (self.gpr(Gpr::RSP), op.size);
        let (code, stack) = selectors();
        let slot = |n: u64| rsp.wrapping_add(n * u64::from(size));
        let target = match op.kind {
            FarKind::Return(more) => {
                same(read_word(slot(1), size)?, code)?;
                let target = read_word(slot(0), size)?;
                *self.gpr_mut(Gpr::RSP) = slot(2).wrapping_add(more);
                target
            }
            FarKind::InterruptReturn => {
                same(read_word(slot(1), size)?, code)?;
                same(read_word(slot(4), size)?, stack)?;
                let flags = read_word(slot(2), size)?;
                // With 16 bits, the others stay.
                let unrecorded = if size == 2 { UNRECORDED & 0xffff } else { UNRECORDED };
                if (flags ^ self.callouts.saved.rflags) & unrecorded != 0 {
                    return Err(Progress::Unsupported("a far transfer that changes a flag"));
                }
                let target = read_word(slot(0), size)?;
                *self.gpr_mut(Gpr::RSP) = read_word(slot(3), size)?;
                self.callouts.saved.rflags = self.callouts.saved.rflags & !COMPARED_FLAGS | flags & COMPARED_FLAGS;
                target
            }
            FarKind::Call(pointer) => {
                let target = self.far_pointer(position, &pointer, size, code)?;
                let pushed = rsp.wrapping_sub(2 * u64::from(size));
                self.own_spans(position, &[Span { address: pushed, len: 2 * u64::from(size), writes: true }]);
                stored.write(pushed, next, size)?;
                stored.write(pushed.wrapping_add(size.into()), code, size)?;
                *self.gpr_mut(Gpr::RSP) = pushed;
                target
            }
            FarKind::Jump(pointer) => self.far_pointer(position, &pointer, size, code)?,
        };
        // The upper 17 bits are the same.
        let canonical = matches!(target >> 47, 0 | 0x1_ffff);
        if canonical { Ok(Progress::Jump(target)) } else { Err(Progress::Refused) }
    }

    /// The offset of a far pointer whose selector is `code`.
    fn far_pointer(&mut self, position: u64, pointer: &Access, size: u32, code: u64) -> Result<u64, Progress> {
        let address = pointer.address(self).unwrap_or_default();
        self.own_spans(position, &[Span { address, len: pointer.bytes.into(), writes: false }]);
        same(read_word(address.wrapping_add(size.into()), 2)?, code)?;
        read_word(address, size)
    }
}
