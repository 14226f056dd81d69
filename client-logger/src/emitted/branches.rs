//! Indirect branches. Where one goes to an address that is none (a non-canonical one, as most smashed return addresses are), the
//! processor faults at the branch, which has done nothing yet. DynamoRIO finds out at the target, when the branch is over, and does
//! not know which it was: so each says so before it branches.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::memory::{read_memory, read_word};
use crate::base::slots::Slot;
use bugnet_format::regs::{RSP, RegisterFile};
use hashbrown::HashMap;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// The branches that there are blocks of, by number, and their numbers.
#[derive(Default)]
struct Branches {
    addresses: Vec<u64>,
    numbers: Option<HashMap<u64, u32>>,
}

static BRANCHES: Mutex<Branches> = Mutex::new(Branches { addresses: Vec::new(), numbers: None });

fn lock() -> MutexGuard<'static, Branches> {
    BRANCHES.lock()
}

/// The number of the branch at an address, which its block puts into [`Slot::branch`].
pub fn number(pc: u64) -> u32 {
    let mut branches = lock();
    let next = branches.addresses.len() as u32;
    let number = *branches.numbers.get_or_insert_default().entry(pc).or_insert(next);
    if number == next {
        branches.addresses.push(pc);
    }
    number
}

/// Whether an address is none: bits 47 to 63 are not all alike.
pub fn is_none(address: u64) -> bool {
    !matches!(address >> 47, 0 | 0x1_ffff)
}

/// The value of a register of 64 bits or of a segment's base.
fn value(regs: &RegisterFile, register: Register) -> Option<u64> {
    match register {
        Register::FS => Some(regs.fs_base),
        Register::GS => Some(regs.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        _ if register.is_gpr64() => Some(regs.gpr[register as usize - Register::RAX as usize]),
        _ => None,
    }
}

/// Where an instruction branches to with these registers, as they are before it.
fn target(instruction: &Instruction, regs: &RegisterFile) -> Option<u64> {
    match (instruction.flow_control(), instruction.op0_kind()) {
        (FlowControl::Return, _) => read_word(regs.gpr[RSP]),
        (_, OpKind::Register) => value(regs, instruction.op0_register()),
        (_, OpKind::Memory) => read_word(instruction.virtual_address(0, 0, |register, _, _| value(regs, register))?),
        _ => None,
    }
}

/// The calling thread is at an address that is none, with these registers: puts in those from before the branch that led there, if
/// it is one that leads there with them. Returns whether it is.
pub fn undo(regs: &mut RegisterFile) -> bool {
    let number = Slot::last_branch();
    let Some(pc) = lock().addresses.get(number as usize).copied() else { return false };
    let mut code = [0; LONGEST];
    let Some(len) = (1..=LONGEST).rev().find(|len| read_memory(pc, &mut code[..*len])) else { return false };
    let instruction = Decoder::with_ip(64, &code[..len], pc, DecoderOptions::NONE).decode();
    let mut before = regs.clone();
    before.rip = pc;
    let rsp = &mut before.gpr[RSP];
    match instruction.flow_control() {
        FlowControl::Return if instruction.op0_kind() == OpKind::Immediate16 => {
            *rsp = rsp.wrapping_sub(8 + u64::from(instruction.immediate16()));
        }
        FlowControl::Return => *rsp = rsp.wrapping_sub(8),
        FlowControl::IndirectCall => *rsp = rsp.wrapping_add(8),
        FlowControl::IndirectBranch => {}
        _ => return false,
    }
    let leads_there = target(&instruction, &before) == Some(regs.rip);
    if leads_there {
        *regs = before;
    }
    leads_there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_none() {
        assert!([0, 0x7fff_ffff_ffff, 0xffff_8000_0000_0000, u64::MAX].into_iter().all(|address| !is_none(address)));
        assert!([1 << 47, 0xffff_7fff_ffff_ffff, 0x4141_4141_4141_4141].into_iter().all(is_none));
    }

    #[test]
    fn a_branch_has_one_number() {
        let [a, b, c] = [0x1000, 0x2000, 0x1000].map(number);
        assert!(a == c && a != b);
    }
}
