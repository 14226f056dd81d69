//! What happens to memory while all that is read is defined, and what becomes undefined as the stack grows.

use super::Flow;
use super::origins::OriginId;
use super::recipe::Step;
use super::regs::Regs;
use bugnet_events::stretch::Ran;
use bugnet_format::types::Position;
use bugnet_replay::cursor::Place;

/// Bytes below the stack pointer that a function may use (x86-64 psABI, 3.2.2).
const RED_ZONE: u64 = 128;
/// How far the stack pointer moves for a frame at most; beyond that, it goes to another stack.
const LARGEST_FRAME: u64 = 1 << 26;

impl Flow<'_> {
    /// Follows steps while all is defined that is read; else, the instruction that reads something undefined.
    #[inline]
    pub fn steps(&mut self, regs: &mut Regs, place: Place, ran: &Ran<'_>, steps: &[Step]) -> Option<usize> {
        let lens = &ran.block.traced.accesses;
        for step in steps {
            match *step {
                Step::Load { access, instruction } => {
                    let access = usize::from(access);
                    if !self.memory.is_defined(ran.address(access), lens[access].bytes.into()) {
                        return Some(instruction.into());
                    }
                }
                Step::Store { access } => {
                    let access = usize::from(access);
                    self.memory.define(ran.address(access), lens[access].bytes.into());
                }
                _ => self.stack(regs, place, ran, step),
            }
        }
        None
    }

    /// The stack pointer moves.
    pub fn stack(&mut self, regs: &mut Regs, place: Place, ran: &Ran<'_>, step: &Step) {
        match *step {
            Step::At { access, more } => regs.rsp = Some(ran.address(access.into()).wrapping_add(more.into())),
            Step::Call { access, origin } => {
                let rsp = ran.address(access.into());
                regs.rsp = Some(rsp);
                self.memory.undefine(rsp.saturating_sub(RED_ZONE), RED_ZONE, origin);
            }
            Step::Move { by, origin } => self.move_to(regs, regs.rsp.map(|rsp| rsp.wrapping_add_signed(by)), origin),
            Step::Round { to, origin } => self.move_to(regs, regs.rsp.map(|rsp| rsp & to), origin),
            Step::Ask { instruction, origin } => {
                let at = ran.position.0 + u64::from(instruction) + 1;
                let there = Place { position: Position(at), ..place };
                let to = match self.values.registers(there) {
                    Ok(registers) => registers.map(|registers| registers.gpr[4]),
                    Err(error) => self.fail(error),
                };
                self.move_to(regs, to, origin);
            }
            Step::Lose => regs.rsp = None,
            Step::Load { .. } | Step::Store { .. } => {}
        }
    }

    fn move_to(&mut self, regs: &mut Regs, to: Option<u64>, origin: OriginId) {
        if let (Some(from), Some(to)) = (regs.rsp, to)
            && to < from
            && from - to < LARGEST_FRAME
        {
            self.memory.undefine(to, from - to, origin);
        }
        regs.rsp = to;
    }
}
