//! What the next instruction is going to read and write: ranges of memory.

use crate::instruction::{Instruction, Registers, range};
use bugnet_dr::access::{Access, Action, RepString, StringKind};
use bugnet_dr::ir::Gpr;

/// Ranges, each as start and length.
#[derive(Default)]
pub struct Accesses {
    /// What is read.
    pub reads: Vec<(u64, u64)>,
    /// What is written.
    pub writes: Vec<(u64, u64)>,
}

const DIRECTION: u64 = 0x400;

impl Accesses {
    /// Fills in what `instruction` does with these registers; `code` are its bytes, and `element`
    /// says what the thread finds in so many bytes at an address. False if its ranges make no sense.
    pub fn find(
        &mut self,
        instruction: &Instruction,
        code: &[u8],
        regs: &impl Registers,
        element: &mut impl FnMut(u64, u32) -> u64,
    ) -> bool {
        self.reads.clear();
        self.writes.clear();
        match instruction.action() {
            Action::Execute { reads, writes } => {
                let at = |access: &Access| Some((access.address(regs)?, u64::from(access.bytes)));
                self.reads.extend(reads.iter().filter_map(at));
                self.writes.extend(writes.iter().filter_map(at));
                true
            }
            Action::Repeat(op) => self.string(*op, code, regs, element).is_some(),
            _ => true,
        }
    }

    fn string(
        &mut self,
        op: RepString,
        code: &[u8],
        regs: &impl Registers,
        element: &mut impl FnMut(u64, u32) -> u64,
    ) -> Option<()> {
        let count = match op.kind {
            StringKind::Compare | StringKind::Scan => scanned(op, code, regs, element),
            _ => regs.gpr(Gpr::RCX),
        };
        for pointer in op.kind.reads() {
            self.reads.push(range(op, *pointer, count, regs)?);
        }
        if op.kind.writes() {
            self.writes.push(range(op, Gpr::RDI, count, regs)?);
        }
        Some(())
    }
}

/// How many elements `rep cmps` or `rep scas` goes over before it stops.
fn scanned(op: RepString, code: &[u8], regs: &impl Registers, element: &mut impl FnMut(u64, u32) -> u64) -> u64 {
    const REPNE: u8 = 0xf2;
    const REPE: u8 = 0xf3;
    let stops_at_equal = code.iter().find(|byte| matches!(**byte, REPNE | REPE)) == Some(&REPNE);
    let size = u64::from(op.element);
    let step = if regs.flags() & DIRECTION == 0 { size } else { size.wrapping_neg() };
    let (mut rsi, mut rdi) = (regs.gpr(Gpr::RSI), regs.gpr(Gpr::RDI));
    let mask = if op.element == 8 { u64::MAX } else { (1 << (8 * op.element)) - 1 };
    let count = regs.gpr(Gpr::RCX);
    for done in 0..count {
        let left = match op.kind {
            StringKind::Compare => element(rsi, op.element),
            _ => regs.gpr(Gpr::RAX) & mask,
        };
        if (left == element(rdi, op.element)) == stops_at_equal {
            return done + 1;
        }
        rsi = rsi.wrapping_add(step);
        rdi = rdi.wrapping_add(step);
    }
    count
}
