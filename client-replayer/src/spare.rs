//! What code that looks at accesses may change before an instruction: flags that nobody reads any more, and RCX.

use crate::marking::written;
use crate::stub::Stub;
use bugnet_dr::ir::{ARITHMETIC, Gpr, Instr};
use bugnet_dr::liveness;

/// What may be changed before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Whether all flags are overwritten before somebody reads one, or the client is called.
    pub flags: bool,
    /// Whether RCX is the program's there.
    pub is_live: bool,
    /// Whether its slot has it already.
    is_kept: bool,
    /// Whether the slot may have something else behind a call of the client before the instruction, or behind the instruction.
    is_called: bool,
    changes: bool,
}

impl Spare {
    /// Machine code that saves RCX before something, and restores it behind that.
    pub fn around(&self, stub: &Stub) -> (Vec<u8>, Vec<u8>) {
        let code = |is_needed: bool, code: Vec<u8>| if is_needed { code } else { Vec::new() };
        (code(self.is_live && !self.is_kept, stub.save_rcx()), code(self.is_live, stub.restore_rcx()))
    }

    /// It has been saved, on all ways to the instruction.
    pub fn has_kept(&mut self) {
        self.is_kept = self.is_live;
    }
}

/// What may be changed before each instruction of a block.
#[derive(Debug, PartialEq, Eq)]
pub struct Spares(Vec<Spare>);

impl Spares {
    /// `called`: before which of them the client is called; `flags`: those that are read behind them, as bits of [`ARITHMETIC`], if any may be changed.
    pub fn new(instrs: &[Instr], called: impl Fn(usize) -> bool, flags: Option<u32>) -> Self {
        let live = liveness::analyse(instrs);
        let mut read = flags.unwrap_or(ARITHMETIC);
        let spare = |(index, instr): (usize, &Instr)| {
            read = liveness::flags_before(&[*instr], read);
            let (is_free, is_called) = (flags.is_some() && read == 0, called(index));
            if is_called {
                read = ARITHMETIC;
            }
            let rcx = Gpr::RCX.bit();
            let (is_live, changes) = (live[index].gprs & rcx != 0, written(*instr) & rcx != 0);
            Spare { flags: is_free, is_live, is_kept: false, is_called, changes }
        };
        let mut all: Vec<Spare> = instrs.iter().enumerate().rev().map(spare).collect();
        all.reverse();
        Self(all)
    }

    /// Before an instruction. They come one after the other.
    pub fn at(&mut self, index: usize) -> &mut Spare {
        let before = index.checked_sub(1).map(|before| self.0[before]);
        let spare = &mut self.0[index];
        spare.is_kept |= before.is_some_and(|before| before.is_kept && !before.changes) && !spare.is_called;
        spare
    }
}
