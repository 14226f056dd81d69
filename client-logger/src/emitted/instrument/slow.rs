//! Slow paths: how checks lead to their callouts, and where these lie.
//!
//! Those of loads lie [out of line](out_of_line), apart from the block. The others, of which the block's start has one, lie at the block's end, out of the
//! way; in [compact](super::loader) code, where they are jumped over.

use super::Rewriter;
use super::paths::{Back, Slow};
use crate::emitted::callout;
use crate::emitted::machine::{self, Condition};
use crate::emitted::map::Place;
use crate::emitted::out_of_line;
use crate::emitted::site::Site;
use bugnet_dr::ir::{Block, Instr};
use bugnet_dr::opcode;

/// How checks lead to a slow path.
pub(super) enum Leads {
    /// Apart from the block, at this address.
    Apart(u64),
    /// Within it.
    Within { entry: Instr, back: Instr },
}

impl Leads {
    /// Inserts a jump there if two values differ.
    pub(super) fn jump(&self, block: &Block, at: Option<Instr>) {
        let jump = match self {
            Self::Apart(entry) => block.jump_out_if(opcode::OP_jnz, *entry),
            Self::Within { entry, .. } => block.jump_if(opcode::OP_jnz, *entry),
        };
        block.meta(at, jump);
    }

    /// The last one is there.
    pub(super) fn end(&self, block: &Block, at: Option<Instr>) {
        if let Self::Within { back, .. } = self {
            block.meta(at, *back);
        }
    }
}

impl Rewriter<'_> {
    /// Makes a slow path, to be jumped to at the returned entry and to return to the returned label.
    pub(super) fn slow(&mut self, site: Site) -> (Instr, Instr) {
        let (entry, back) = (callout::make(self.block, &[], site), self.block.label());
        self.slow.push(Slow { entry, back: Back::To(back) });
        (entry, back)
    }

    /// Makes a slow path to which so many conditional jumps have to lead, and which returns to what comes behind the last of
    /// them: apart from the block, where blocks have such.
    pub(super) fn leads(&mut self, jumps: usize, site: Site) -> Leads {
        match &self.home {
            Some(home) => Leads::Apart(out_of_line::make(home, jumps as u32, site)),
            None => {
                let (entry, back) = self.slow(site);
                Leads::Within { entry, back }
            }
        }
    }

    /// Inserts a jump to a slow path if two values differ.
    pub(super) fn call_out_if_different(&mut self, at: Option<Instr>, site: Site) {
        match &self.home {
            Some(home) => self.block.meta(at, self.block.jump_out_if(opcode::OP_jnz, out_of_line::make(home, 1, site))),
            None => drop(self.slow_if(at, Condition::Differs, &callout::inline(site))),
        }
    }

    /// Inserts a jump to a slow path, which returns to what comes behind it. Returns where the slow path ends.
    pub(super) fn slow_if(&mut self, at: Option<Instr>, condition: Condition, callout: &[u8]) -> Option<Place> {
        if self.compact {
            let code = machine::callout_if(condition, callout);
            return self.joined(at, &code).map(|place| place.behind(code.bytes().len()));
        }
        let entry = self.block.raw(callout);
        let jump = self.block.jump_if(condition.opcode(), entry);
        self.block.meta(at, jump);
        self.slow.push(Slow { entry, back: Back::Behind(jump) });
        Some(Place(entry, callout.len() as u64))
    }

    /// The place to which a slow path returns. All instructions are there.
    fn place(&self, back: Back) -> Instr {
        let jump = match back {
            Back::To(place) => return place,
            Back::Behind(jump) => jump,
        };
        let next = jump.next();
        // DynamoRIO may put something before an instruction of the program's, or replace it.
        let lasting = |next: &Instr| !next.is_app() && next.opcode() == opcode::OP_nop;
        next.filter(lasting).unwrap_or_else(|| {
            let label = self.block.label();
            self.block.meta(next, label);
            label
        })
    }

    /// Puts the slow paths at the block's end, where nothing falls into them.
    pub(super) fn place_slow_paths(self) {
        let block = self.block;
        if self.slow.is_empty() {
            return;
        }
        let last = self.instrs[self.instrs.len() - 1];
        let branches = last.is_conditional_jump() && !last.is_loop();
        if branches {
            // DynamoRIO would put it behind everything, and the program would come through there.
            block.app(None, block.leave(last.pc() + last.len(block)), last.pc());
        }
        let leaves = branches || last.is_direct_jump();
        // Checks behind the last instruction belong to it; it then is no branch, and the block's end is the place.
        let at = (!leaves && (last.is_cti() || last.is_syscall())).then_some(last);
        let returns: Vec<Instr> = self.slow.iter().map(|slow| self.place(slow.back)).collect();
        let over = (!leaves).then(|| block.label());
        over.inspect(|over| block.meta(at, block.jump(*over)));
        self.place_precise_checks(at);
        for (slow, back) in self.slow.iter().zip(returns) {
            block.meta(at, slow.entry);
            block.meta(at, block.jump(back));
        }
        over.inspect(|over| block.meta(at, *over));
    }
}
