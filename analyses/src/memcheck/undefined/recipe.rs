//! What a block does to V bits while all that it reads is defined: made once, followed each time that it runs.

use super::origins::{OriginId, Origins};
use bugnet_events::atoms::Atoms;
use bugnet_events::code::{Block, Decoded};
use bugnet_events::effects::Control;
use bugnet_replay::trace::TracedBlock;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use std::sync::Arc;

/// Registers as bits: general purpose ones, vectors from 16 on, and these.
pub type Mask = u64;
pub const VECTORS: u32 = 16;
pub const FLAGS: u32 = 32;
pub const X87: u32 = 33;

/// What happens to memory, or to the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An access, by its index, reads; the instruction's index.
    Load { access: u16, instruction: u16 },
    /// One writes.
    Store { access: u16 },
    /// RSP becomes the address of an access, and this more.
    At { access: u16, more: u32 },
    /// A call: the same, and the red zone below is for the function.
    Call { access: u16, origin: OriginId },
    /// It moves by a constant.
    Move { by: i64, origin: OriginId },
    /// It is rounded down.
    Round { to: u64, origin: OriginId },
    /// It moves by what a register says, down or up: only a replay knows. The instruction's index.
    Ask { instruction: u16, origin: OriginId },
    /// It becomes something else.
    Lose,
}

/// What an instruction reads and writes of the registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub reads: Mask,
    /// What it writes completely.
    pub clears: Mask,
}

/// What is done for a block.
pub struct Recipe {
    /// Keeps the block's address from being used for another one.
    _block: Arc<TracedBlock>,
    /// What it reads of the registers before it writes it.
    pub reads: Mask,
    /// What it writes completely.
    pub clears: Mask,
    pub steps: Vec<Step>,
    /// Where the steps of each instruction begin.
    pub starts: Vec<u16>,
    pub used: Vec<Used>,
    /// It has instructions that are looked at one by one in any case.
    pub is_special: bool,
}

impl Recipe {
    pub fn of(block: &Block, origins: &mut Origins) -> Self {
        let mut recipe = Self {
            _block: block.traced.clone(),
            reads: 0,
            clears: 0,
            steps: Vec::new(),
            starts: Vec::new(),
            used: Vec::new(),
            is_special: false,
        };
        for (number, decoded) in block.instructions.iter().enumerate() {
            let used = used(decoded);
            recipe.reads |= used.reads & !recipe.clears;
            recipe.clears |= used.clears;
            recipe.used.push(used);
            recipe.starts.push(recipe.steps.len() as u16);
            recipe.is_special |= is_special(&decoded.instruction);
            recipe.steps_of(block, number, decoded, origins);
        }
        recipe.starts.push(recipe.steps.len() as u16);
        recipe
    }

    fn steps_of(&mut self, block: &Block, number: usize, decoded: &Decoded, origins: &mut Origins) {
        let instruction = number as u16;
        let own = || (0_u16..).zip(&block.traced.accesses).filter(|(_, access)| access.instruction == instruction);
        for (access, _) in own().filter(|(_, access)| access.reads) {
            self.steps.push(Step::Load { access, instruction });
        }
        for (access, _) in own().filter(|(_, access)| access.writes) {
            self.steps.push(Step::Store { access });
        }
        let writes_stack = decoded.writes().meets(Atoms::RSP);
        if !writes_stack {
            return;
        }
        let instr = &decoded.instruction;
        let is_call = decoded.control == Control::Call;
        let origin = || origins.stack(instr.ip(), is_call);
        let read = own().find(|(_, access)| access.reads).map(|(access, _)| access);
        let written = own().filter(|(_, access)| access.writes).last().map(|(access, _)| access);
        let to_stack = instr.op0_kind() == OpKind::Register && instr.op0_register() == Register::RSP;
        let constant = match instr.op1_kind() {
            OpKind::Register | OpKind::Memory => None,
            _ => Some(instr.immediate(1) as i64),
        };
        let step = match (instr.mnemonic(), decoded.control) {
            (_, Control::Call) => written.map(|access| Step::Call { access, origin: origin_of(origin) }),
            (_, Control::Return) => {
                let more = if instr.op_count() > 0 { instr.immediate16().into() } else { 0 };
                read.map(|access| Step::At { access, more: 8 + more })
            }
            (Mnemonic::Push | Mnemonic::Pushfq, _) => written.map(|access| Step::At { access, more: 0 }),
            (Mnemonic::Pop, _) if to_stack => None,
            (Mnemonic::Pop | Mnemonic::Popfq | Mnemonic::Leave, _) => read.map(|access| Step::At { access, more: 8 }),
            (Mnemonic::Sub, _) if to_stack => match constant {
                Some(by) => Some(Step::Move { by: by.wrapping_neg(), origin: origin_of(origin) }),
                None => Some(Step::Ask { instruction, origin: origin_of(origin) }),
            },
            (Mnemonic::Add, _) if to_stack => constant.map(|by| Step::Move { by, origin: origin_of(origin) }),
            (Mnemonic::And, _) if to_stack => {
                constant.map(|to| Step::Round { to: to.cast_unsigned(), origin: origin_of(origin) })
            }
            (Mnemonic::Lea, _) if instr.memory_base() == Register::RSP && instr.memory_index() == Register::None => {
                let by = instr.memory_displacement64().cast_signed();
                Some(Step::Move { by, origin: origin_of(origin) })
            }
            _ => None,
        };
        self.steps.push(step.unwrap_or(Step::Lose));
    }
}

fn origin_of(mut origin: impl FnMut() -> OriginId) -> OriginId {
    origin()
}

/// Instructions that do what no rule tells.
fn is_special(instr: &Instruction) -> bool {
    matches!(instr.mnemonic(), Mnemonic::Xrstor | Mnemonic::Xrstor64 | Mnemonic::Fxrstor | Mnemonic::Fxrstor64)
}

fn used(decoded: &Decoded) -> Used {
    let (reads, writes) = (decoded.effects().reads(), decoded.writes());
    let certain: Atoms = decoded.effects().flows.iter().filter(|flow| flow.certain).map(|flow| flow.to).collect();
    let mut used = Used::default();
    let registers = (0..16).map(|number| (number as u32, Atoms::gpr(number)));
    let vectors = (0..16).map(|number| (VECTORS + number as u32, Atoms::vector(number)));
    // AF is left as it is by some, and nobody looks at it.
    let compared = Atoms::rflags(0x8c5);
    for (bit, atoms) in registers.chain(vectors).chain([(X87, Atoms::X87)]) {
        let is_whole = certain.has(atoms);
        used.clears |= u64::from(is_whole) << bit;
        used.reads |= u64::from(reads.meets(atoms) || writes.meets(atoms) && !is_whole) << bit;
    }
    let is_whole = certain.has(compared);
    used.clears |= u64::from(is_whole) << FLAGS;
    let is_partly_written = writes.meets(Atoms::ALL_FLAGS) && !is_whole;
    used.reads |= u64::from(reads.meets(Atoms::ALL_FLAGS) || is_partly_written) << FLAGS;
    used
}
