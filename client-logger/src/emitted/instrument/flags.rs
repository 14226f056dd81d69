//! Keeps the program's arithmetic flags where checks change them.
//!
//! They go to a slot before the first check that finds them live, stay there as long as the program does not touch them,
//! and come back before an instruction that reads them or changes some of them, and at the block's end.

use super::Rewriter;
use crate::emitted::machine;
use crate::emitted::map::Change;
use bugnet_dr::access::Action;
use bugnet_dr::ir::{Gpr, Instr};
use bugnet_dr::liveness::{self, Live};

/// What an instruction means for flags that are in the slot.
enum Use {
    /// They stay there.
    None,
    /// They are wanted no more.
    Overwrites,
    /// They have to be back.
    Wants,
}

impl Rewriter<'_> {
    fn use_of(&self, i: usize) -> Use {
        let (instr, live) = (self.instrs[i], self.live[i + 1]);
        let (read, written) = liveness::flags(instr);
        if instr.is_cti() || instr.is_syscall() || read != 0 {
            return Use::Wants;
        }
        match (written, live.flags & !liveness::effects(instr).overwritten.flags) {
            (0, _) => Use::None,
            (_, 0) => Use::Overwrites,
            _ => Use::Wants,
        }
    }

    /// What comes before `at` may change the arithmetic flags. RAX keeps its value if it is live or in `keep`. Returns how many
    /// bytes of code that takes.
    pub(super) fn free_flags(&mut self, at: Option<Instr>, live: Live, keep: u16) -> usize {
        if self.flags_saved || !live.any_flags() {
            return 0;
        }
        let [before, save] = machine::save_flags((live.gprs | keep) & Gpr::RAX.bit() == 0);
        self.join(at, &before);
        self.note(self.insert(at, &save), Change::FlagsSaved);
        self.flags_saved = true;
        before.bytes().len() + save.bytes().len()
    }

    /// At `at`, the arithmetic flags are the program's.
    pub(super) fn program_flags(&mut self, at: Option<Instr>, live: Live) {
        if std::mem::take(&mut self.flags_saved) {
            let place = self.joined(at, &machine::restore_flags(live.gprs & Gpr::RAX.bit() == 0));
            self.note(place, Change::FlagsBack);
        }
    }

    /// The program's instruction `i` comes next; its checks before it are there.
    pub(super) fn flags_for(&mut self, i: usize) {
        if !self.flags_saved {
            return;
        }
        match self.use_of(i) {
            Use::None => {}
            Use::Overwrites => {
                self.flags_saved = false;
                // What changes them may fault.
                self.note_before(self.instrs[i].next(), Change::FlagsBack);
            }
            Use::Wants => self.program_flags(Some(self.instrs[i]), self.live[i]),
        }
    }

    /// Whether the flags that are live at the block's start have to go to the slot for a check anyway.
    pub(super) fn wants_flags_soon(&self) -> bool {
        for (i, action) in self.actions.iter().enumerate() {
            let Action::Execute { reads, writes } = action else { return false };
            if !self.live[i].any_flags() {
                return false;
            }
            if !reads.is_empty() || self.threaded && !writes.is_empty() {
                return true;
            }
            if !matches!(self.use_of(i), Use::None) {
                return false;
            }
        }
        false
    }

    /// Saves the flags for one check.
    pub(super) fn save_flags(&mut self, at: Option<Instr>, live: Live) {
        self.free_flags(at, live, u16::MAX);
    }

    /// Undoes [`Self::save_flags`].
    pub(super) fn restore_flags(&mut self, at: Option<Instr>) {
        self.program_flags(at, Live::ALL);
    }
}
