//! What the next instruction is going to read and write: ranges of memory.

use super::picture::Picture;
use crate::instruction::{Instruction, Registers as _, range};
use crate::machine::Machine;
use bugnet_dr::access::{Access, Action, Place, RepString, StringKind};
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
    /// Fills in what `instruction` does with these registers; `code` are its bytes. False if its ranges make no sense.
    pub fn find(
        &mut self,
        instruction: &Instruction,
        code: &[u8],
        machine: &mut Machine,
        picture: &mut Picture,
    ) -> bool {
        self.reads.clear();
        self.writes.clear();
        match instruction.action() {
            Action::Execute { reads, writes } => {
                if reads.iter().chain(writes).any(|access| matches!(access.place, Place::Lane { .. })) {
                    machine.complete();
                }
                let at = |access: &Access| Some((access.address(machine)?, u64::from(access.bytes)));
                self.reads.extend(reads.iter().filter_map(at));
                self.writes.extend(writes.iter().filter_map(at));
                true
            }
            Action::Repeat(op) => self.string(*op, code, machine, picture).is_some(),
            _ => true,
        }
    }

    fn string(&mut self, op: RepString, code: &[u8], machine: &Machine, picture: &mut Picture) -> Option<()> {
        let count = match op.kind {
            StringKind::Compare | StringKind::Scan => scanned(op, code, machine, picture),
            _ => machine.get(Gpr::RCX.0.into()),
        };
        for pointer in op.kind.reads() {
            self.reads.push(range(op, *pointer, count, machine)?);
        }
        if op.kind.writes() {
            self.writes.push(range(op, Gpr::RDI, count, machine)?);
        }
        Some(())
    }
}

/// How many elements `rep cmps` or `rep scas` goes over before it stops.
fn scanned(op: RepString, code: &[u8], machine: &Machine, picture: &mut Picture) -> u64 {
    const REPNE: u8 = 0xf2;
    const REPE: u8 = 0xf3;
    let stops_at_equal = code.iter().find(|byte| matches!(**byte, REPNE | REPE)) == Some(&REPNE);
    let element = u64::from(op.element);
    let step = if machine.flags() & DIRECTION == 0 { element } else { element.wrapping_neg() };
    let (mut rsi, mut rdi) = (machine.get(Gpr::RSI.0.into()), machine.get(Gpr::RDI.0.into()));
    let mask = if op.element == 8 { u64::MAX } else { (1 << (8 * op.element)) - 1 };
    let count = machine.get(Gpr::RCX.0.into());
    for done in 0..count {
        let left = match op.kind {
            StringKind::Compare => picture.element(rsi, op.element),
            _ => machine.get(Gpr::RAX.0.into()) & mask,
        };
        if (left == picture.element(rdi, op.element)) == stops_at_equal {
            return done + 1;
        }
        rsi = rsi.wrapping_add(step);
        rdi = rdi.wrapping_add(step);
    }
    count
}
