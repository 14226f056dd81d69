//! A register that none of a block's instructions touches serves the instrumentation from the block's start to its end:
//! it is spilled once, and not for each check.

use super::Rewriter;
use super::grouping::checked_inline;
use bugnet_dr::access::Action;
use bugnet_dr::ir::{Gpr, Instr, Opnd};

impl Rewriter<'_> {
    /// Takes a register, if there is one and threads make checks many. From here on it counts as dead. The program's
    /// instructions come next.
    pub(super) fn borrow_register(&mut self) {
        // Callouts of other kinds look at all registers.
        let plain = |action: &Action| matches!(action, Action::Execute { .. });
        let checks = |action: &Action| checked_inline(action).is_some_and(|accesses| !accesses.is_empty());
        if !self.threaded || !self.actions.iter().all(plain) || !self.actions.iter().any(checks) {
            return;
        }
        let operands = self.instrs.iter().flat_map(|instr| instr.srcs().chain(instr.dsts()));
        // Flags go through RAX, and where they must not change, conditions through RCX.
        let reserved = [Gpr::RAX, Gpr::RCX, Gpr::RSP].iter().fold(0, |mask, reg| mask | reg.bit());
        let used = operands.fold(reserved, |mask: u16, opnd: Opnd| mask | opnd.gprs());
        let Some(reg) = (0..16).map(Gpr).find(|reg| used & reg.bit() == 0) else { return };
        self.spill_live(Some(self.instrs[0]), reg);
        self.lent = Some(reg);
        self.live.iter_mut().for_each(|live| live.gprs &= !reg.bit());
    }

    /// The register that the instrumentation has, as a bit of [`Gpr::bit`].
    pub(super) fn lent(&self) -> u16 {
        self.lent.map_or(0, Gpr::bit)
    }

    /// Gives the register back at `at`, behind which nothing is checked.
    pub(super) fn give_back(&mut self, at: Option<Instr>) {
        if let Some(reg) = self.lent.take() {
            self.restore_live(at, reg);
        }
    }
}
