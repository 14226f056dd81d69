//! R11 counts: while the recorded program runs, the register holds what is left up to the next thing that is due, and the
//! program's own R11 waits in a slot. It is the register that compiled code uses least, and no instruction uses it
//! without naming it.
//!
//! Where instructions of a block use it, the two change places for as long as that takes: from the first use to the
//! last, or to the next place from which the client is called, since it wants the count in the register.

use crate::state;
use crate::stub::Stub;
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd};
use std::ops::Range;

/// The register.
pub const COUNTER: Gpr = Gpr(11);

/// The instructions of a block, by their index, at which R11 holds the program's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Borrowed(Vec<Range<usize>>);

impl Borrowed {
    /// For each instruction whether it uses the register, and whether the client is called before it.
    fn new(instrs: impl Iterator<Item = (bool, bool)>) -> Self {
        let mut all: Vec<Range<usize>> = Vec::new();
        let mut open = false;
        for (index, (uses, called)) in instrs.enumerate() {
            open &= !called;
            match all.last_mut().filter(|_| open) {
                Some(last) if uses => last.end = index + 1,
                None if uses => all.push(index..index + 1),
                _ => {}
            }
            open |= uses;
        }
        Self(all)
    }

    /// Whether the register holds the program's value already before the instruction with this index, and goes on to.
    pub fn goes_on_at(&self, index: usize) -> bool {
        self.0.iter().any(|range| (range.start + 1..range.end).contains(&index))
    }

    /// Whether the register holds the program's value at the instruction with this index.
    pub fn contains(&self, index: usize) -> bool {
        self.0.iter().any(|range| range.contains(&index))
    }
}

/// Makes an indirect jump or call that uses the register take its target from memory.
fn leave_by(block: &Block, stub: &Stub, last: Instr) {
    let Some(target) = last.srcs().next().filter(|target| target.gprs() & COUNTER.bit() != 0) else {
        state::die("an instruction leaves its block and uses R11 in an unknown way")
    };
    let (pc, own) = (last.pc(), Opnd::reg(COUNTER, target.bytes()));
    block.meta(Some(last), block.raw(&stub.save_lent()));
    if target.is_memory() {
        // As the program's: it may fault, or be relative to FS.
        block.app(Some(last), block.load(own, target), pc);
    }
    let place = stub.jump_target(target.bytes());
    block.meta(Some(last), block.store(place, own));
    block.meta(Some(last), block.raw(&stub.load_count()));
    last.replace_source(0, place, pc);
}

fn uses(instr: Instr) -> bool {
    used(instr) & COUNTER.bit() != 0
}

/// The general purpose registers that the instruction uses, as bits of [`Gpr::bit`].
pub fn used(instr: Instr) -> u16 {
    instr.srcs().chain(instr.dsts()).fold(0, |all, opnd| all | opnd.gprs())
}

/// Code around a block's instructions, in two steps: what has to come before the calls of the client, and what behind.
pub struct Lending<'a> {
    instrs: &'a [Instr],
    borrowed: Borrowed,
}

impl<'a> Lending<'a> {
    /// For these instructions; `called` says before which of them the client is called. Inserts what comes behind the
    /// instructions that use the register.
    pub fn begin(
        block: &Block,
        stub: &Stub,
        instrs: &'a [Instr],
        called: impl Fn(usize) -> bool,
        behind: Option<Instr>,
    ) -> Self {
        let borrowed = Borrowed::new(instrs.iter().enumerate().map(|(index, instr)| (uses(*instr), called(index))));
        for Range { end, .. } in &borrowed.0 {
            if !instrs[end - 1].is_cti() {
                let next = instrs.get(*end).copied().or(behind);
                block.meta(next, block.raw(&stub.take_back()));
            }
        }
        Self { instrs, borrowed }
    }

    /// Where the register is to be the program's.
    pub fn borrowed(&self) -> &Borrowed {
        &self.borrowed
    }

    /// Inserts what comes before the instructions that use the register.
    pub fn end(self, block: &Block, stub: &Stub) -> Borrowed {
        for Range { start, end } in &self.borrowed.0 {
            block.meta(Some(self.instrs[*start]), block.raw(&stub.lend()));
            let last = self.instrs[end - 1];
            if last.is_cti() {
                leave_by(block, stub, last);
            }
        }
        self.borrowed
    }
}
