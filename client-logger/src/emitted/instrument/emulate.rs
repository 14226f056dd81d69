//! Instructions that a callout executes: see [`crate::run::thread`]'s `emulate`.
//!
//! ```text
//!     AGAIN: callout Emulate
//!            if it met no fault, DONE
//!            access the byte that it could not access
//!            jmp AGAIN                          somebody has made it accessible
//!     DONE:
//! ```

use super::Rewriter;
use crate::base::slots::Slot;
use crate::emitted::site::Kind;
use bugnet_dr::access::{Action, Emulated};
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::{Gpr, Opnd};
use bugnet_dr::liveness::Live;
use bugnet_dr::opcode;

const NOT: Assembled = assembled!("not rcx");
const READ: Assembled = assembled!("mov cl, [rcx]");
/// Others may write there.
const WRITE: Assembled = assembled!("lock or byte ptr [rcx], 0");

impl Rewriter<'_> {
    /// DynamoRIO, for which a block with `mov` to FS or GS is always the start of a block, has set a base before it runs.
    pub(super) fn keep_bases(&mut self) {
        if self.instrs[0].opcode() == opcode::OP_mov_seg && matches!(self.actions[0], Action::Emulate(_)) {
            self.callout(Some(self.instrs[0]), 0, Kind::Bases);
        }
    }

    /// Replaces the instruction.
    pub(super) fn emulate(&mut self, i: usize, what: Emulated) {
        let (instr, block) = (self.instrs[i], self.block);
        let next = instr.pc() + instr.len(block);
        let at = Some(instr);
        let rcx = Opnd::reg(Gpr::RCX, 8);
        let [again, unread, unwritten, accessed, near, done] = std::array::from_fn(|_| block.label());
        block.meta(at, again);
        self.callout(at, i, Kind::Emulate { what, next });
        self.spill_live(at, Gpr::RCX);
        block.meta(at, block.load(rcx, Slot::ReadFault.opnd(8)));
        block.meta(at, block.jump_if_rcx_zero(unread));
        block.meta(at, block.raw(&NOT));
        block.meta_faulting(at, block.raw(&READ), instr.pc());
        block.meta(at, block.jump(accessed));
        block.meta(at, unread);
        block.meta(at, block.load(rcx, Slot::WriteFault.opnd(8)));
        block.meta(at, block.jump_if_rcx_zero(near));
        block.meta(at, block.jump(unwritten));
        block.meta(at, near);
        block.meta(at, block.jump(done));
        block.meta(at, unwritten);
        block.meta(at, block.raw(&NOT));
        self.save_flags(at, Live::ALL);
        block.meta_faulting(at, block.raw(&WRITE), instr.pc());
        self.restore_flags(at);
        block.meta(at, accessed);
        self.restore_live(at, Gpr::RCX);
        block.meta(at, block.jump(again));
        block.meta(at, done);
        self.restore_live(at, Gpr::RCX);
        // Far transfers that do what cannot be recorded are left to DynamoRIO.
        if !matches!(what, Emulated::Far(_)) {
            self.replace(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(NOT.bytes(), [0x48, 0xf7, 0xd1]);
        assert_eq!(READ.bytes(), [0x8a, 0x09]);
        assert_eq!(WRITE.bytes(), [0xf0, 0x80, 0x09, 0x00]);
    }
}
