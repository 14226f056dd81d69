//! Where an instruction reads memory: the place of a `LOAD` record's value.

use crate::machine::Machine;
use bugnet_dr::access::Access;
use bugnet_dr::access::{Action, FpuEffect, RepString, classify};
use bugnet_dr::ir::{Gpr, Instr};
use bugnet_dr::sys;
use std::ffi::c_void;

unsafe extern "C" {
    /// DynamoRIO's decoder, which the bindings leave out: the address behind the instruction, null if there is none.
    fn decode(context: *mut c_void, pc: *mut sys::byte, instr: *mut sys::instr_t) -> *mut sys::byte;
}

/// What replay has to know of an instruction that is not simply executed, or that a record injects into.
#[derive(Clone)]
pub struct Instruction {
    /// Length in bytes.
    pub len: u64,
    /// What it touches, or what is done instead of executing it.
    pub action: Action,
}

/// Memory of DynamoRIO for one decoded instruction.
struct Decoded {
    context: *mut c_void,
    instr: Box<sys::instr_t>,
}

impl Drop for Decoded {
    fn drop(&mut self) {
        // SAFETY: initialised by `Instruction::decode`, freed once.
        unsafe { sys::instr_free(self.context, &raw mut *self.instr) };
    }
}

impl Instruction {
    /// Decodes the instruction at `pc`, whose bytes the caller knows to be mapped; `None` if they are no instruction.
    pub fn decode(pc: u64) -> Option<Self> {
        // SAFETY: zeros are what `instr_init` starts from; the bytes at `pc` are mapped up to their page's end, and
        // decoding a longer instruction stops at the first byte that cannot be read.
        unsafe {
            let context = sys::dr_get_current_drcontext();
            let mut decoded = Decoded { context, instr: Box::new(std::mem::zeroed()) };
            sys::instr_init(context, &raw mut *decoded.instr);
            let end = decode(context, pc as *mut sys::byte, &raw mut *decoded.instr);
            if end.is_null() {
                return None;
            }
            let len = (end as u64).wrapping_sub(pc);
            Some(Self { len, action: classify(Instr(&raw mut *decoded.instr)) })
        }
    }

    /// Address of byte `offset` of the read with this ordinal; `None` if there is no such read.
    pub fn read_address(&self, ordinal: u8, offset: u64, len: u64, machine: &mut Machine) -> Option<u64> {
        let end = offset.checked_add(len)?;
        match &self.action {
            Action::Execute { reads, .. } => {
                let access = reads.get(usize::from(ordinal))?;
                machine.complete();
                let fits = end <= u64::from(access.bytes);
                fits.then(|| access.address(machine))?.map(|address| address.wrapping_add(offset))
            }
            Action::Repeat(op) => {
                let pointer = *op.kind.reads().get(usize::from(ordinal))?;
                let (low, bytes) = range(*op, pointer, machine)?;
                (end <= bytes).then(|| low.wrapping_add(offset))
            }
            _ => None,
        }
    }

    /// What the instruction may touch now: pairs of address and length. Not for `rep` string instructions, which go on
    /// from page to page.
    pub fn touches(&self, machine: &mut Machine) -> Vec<(u64, u64)> {
        machine.complete();
        let at = |access: &Access| Some((access.address(machine)?, u64::from(access.bytes)));
        match &self.action {
            Action::Execute { reads, writes } => reads.iter().chain(writes).filter_map(at).collect(),
            _ => Vec::new(),
        }
    }

    /// What a skipped instruction does to the x87 unit.
    pub fn fpu_effect(&self) -> FpuEffect {
        match self.action {
            Action::OpaqueStore { effect, .. } => effect,
            _ => FpuEffect::None,
        }
    }
}

/// Lowest address and length of what a `rep` string instruction goes over by one of its pointers.
fn range(op: RepString, pointer: Gpr, machine: &Machine) -> Option<(u64, u64)> {
    const DIRECTION: u64 = 0x400;
    let start = machine.get(pointer.0.into());
    let count = machine.get(Gpr::RCX.0.into());
    let element = u64::from(op.element);
    let bytes = count.checked_mul(element)?;
    let low = if machine.flags() & DIRECTION == 0 { start } else { start.wrapping_add(element).wrapping_sub(bytes) };
    Some((low, bytes))
}
