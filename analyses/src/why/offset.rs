//! What was added to a pointer into a block, where the sum is an address beyond it: of an index that is wrong, or a length, and not of the pointer, one wants to know
//! where it came from.

use crate::slice::{Criterion, Graph, What};
use bugnet_events::atoms::Atoms;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::crash::register_value;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::disassembly::next;
use bugnet_replay::memory::Memory;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use std::ops::RangeInclusive;

/// Instructions from which the address follows that are looked at, those executed last.
const MOST: usize = 256;

/// A part of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Register(Register),
    /// Eight bytes there.
    Memory(u64),
}

/// What has been added, as the value to slice for: by the instruction at a place, which accesses memory beyond a block, or by the last one of those in the slice of the address of
/// that access which has made an address beyond the block of a pointer into it. None if there is no such sum, as where a pointer is moved step by step.
///
/// # Errors
/// The log cannot be replayed.
pub fn find(
    cursor: &mut Cursor<'_>,
    graph: &Graph,
    access: Place,
    block: &RangeInclusive<u64>,
) -> Result<Option<Criterion>> {
    let places = graph.nodes.iter().filter_map(|node| match node.what {
        What::Instruction(_) => node.places.map(|[place, _]| place),
        _ => None,
    });
    for place in std::iter::once(access).chain(places).take(MOST) {
        cursor.seek(Seek::Place(place))?;
        let Some(instruction) = next(cursor)? else { continue };
        let Some(part) = added(&instruction, cursor, block)? else { continue };
        let (atoms, memory) = match part {
            Part::Register(register) => (Atoms::register(register), Vec::new()),
            Part::Memory(at) => (Some(Atoms::NONE), vec![(at, 8)]),
        };
        return Ok(atoms.map(|atoms| Criterion { place, atoms, memory, call: None, here: None }));
    }
    Ok(None)
}

/// What the next instruction adds to a pointer into a block, so that the sum is no pointer into it.
fn added(instruction: &Instruction, cursor: &mut Cursor<'_>, block: &RangeInclusive<u64>) -> Result<Option<Part>> {
    let regs = cursor.regs().clone();
    let of = |register: Register| register_value(&regs, register).filter(|_| register.is_gpr64());
    let is_sum = instruction.mnemonic() == Mnemonic::Add && instruction.op0_kind() == OpKind::Register;
    if !is_sum {
        return Ok(by_address(instruction, &regs, block).map(Part::Register));
    }
    let one = instruction.op0_register();
    let (other, part) = match instruction.op1_kind() {
        OpKind::Register => (of(instruction.op1_register()), Part::Register(instruction.op1_register())),
        OpKind::Memory => {
            let Some(at) = address(instruction, &regs) else { return Ok(None) };
            let word = cursor.read_memory(Addr(at), 8)?;
            (word.try_into().ok().map(u64::from_le_bytes), Part::Memory(at))
        }
        _ => return Ok(None),
    };
    let (Some(first), Some(second)) = (of(one), other) else { return Ok(None) };
    let leaves = !block.contains(&first.wrapping_add(second));
    Ok(match (block.contains(&first), block.contains(&second)) {
        (true, false) if leaves => Some(part),
        (false, true) if leaves => Some(Part::Register(one)),
        _ => None,
    })
}

/// The index, where one is added to a pointer into the block in an operand in memory; of `lea`, too.
fn by_address(instruction: &Instruction, regs: &RegisterFile, block: &RangeInclusive<u64>) -> Option<Register> {
    let [base, index] = [instruction.memory_base(), instruction.memory_index()];
    let [first, second] = [base, index].map(|register| register_value(regs, register));
    let is_one = |value: Option<u64>| value.is_some_and(|value| block.contains(&value));
    let leaves = !block.contains(&address(instruction, regs)?);
    match (is_one(first), is_one(second)) {
        (true, false) if leaves && index != Register::None => Some(index),
        (false, true) if leaves && base != Register::None => Some(base),
        _ => None,
    }
}

/// The address of the operand in memory.
fn address(instruction: &Instruction, regs: &RegisterFile) -> Option<u64> {
    let number = (0..instruction.op_count()).find(|number| instruction.op_kind(*number) == OpKind::Memory)?;
    instruction.virtual_address(number, 0, |register, _, _| register_value(regs, register))
}
