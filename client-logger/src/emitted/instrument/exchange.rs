//! Instructions that read and change memory in one go, where that may be shared with another process: see
//! [`crate::emitted::exchange`].
//!
//! ```text
//!             address among what is shared? if not, UNLIKE
//!             callout Exchange                   the instruction is executed, or else the outcome is 0
//!             if 0, PLAIN
//!             jmp END
//!     UNLIKE: registers and flags as they were
//!     PLAIN:  the instruction and its checks, as everywhere
//!     END:
//! ```

use super::Rewriter;
use crate::base::memory::read_memory;
use crate::base::slots::Slot;
use crate::emitted::exchange::{self, Routine};
use crate::emitted::site::Kind;
use crate::picture::shared_code::{HULL, SHARED};
use bugnet_dr::access::{Access, Place};
use bugnet_dr::ir::{Gpr, Instr, Opnd};
use bugnet_dr::opcode;

impl Rewriter<'_> {
    /// For an instruction that reads and changes one place in memory, in a process that may share memory with others: how it
    /// is executed elsewhere.
    pub(super) fn exchanges(&self, i: usize, reads: &[Access], writes: &[Access]) -> Option<Routine> {
        let ([read], [write]) = (reads, writes) else { return None };
        let plain = matches!(read.place, Place::Direct(_) | Place::Segmented(..) | Place::Absolute(_));
        let size = matches!(read.bytes, 1 | 2 | 4 | 8 | 16) && read.bytes == write.bytes && !read.masked;
        // With threads, code is not built anew when memory is shared later.
        let shares = self.threaded || SHARED.get().any_writable();
        let instr = self.instrs[i];
        if !plain || !size || !shares || !instr.changes_memory() {
            return None;
        }
        let mut bytes = vec![0; instr.len(self.block) as usize];
        if read_memory(instr.pc(), &mut bytes) { exchange::routine(&bytes) } else { None }
    }

    /// Instruments such an instruction. Between this and what is returned belongs what instruments it where its memory is
    /// not shared.
    pub(super) fn exchange(&mut self, i: usize, read: Access, routine: Routine) -> Instr {
        let (at, block) = (Some(self.instrs[i]), self.block);
        let [plain, unlike, end] = [block.label(), block.label(), block.label()];
        self.unless_in_hull(i, read, unlike);
        self.callout(at, i, Kind::Exchange(read, routine));
        self.unless_zero(at, plain);
        block.meta(at, block.jump(end));
        self.like_before(i, read, unlike);
        block.meta(at, plain);
        end
    }

    /// Before an instruction, goes to `unlike` if an access of it is not near memory that is shared. Else, all registers and
    /// flags are the program's.
    pub(super) fn unless_in_hull(&mut self, i: usize, access: Access, unlike: Instr) {
        let (at, block, live) = (Some(self.instrs[i]), self.block, self.live[i]);
        let scratch = self.scratch(i, access.address_gprs());
        let s = Opnd::reg(scratch.address, 8);
        self.acquire(at, scratch, live);
        self.address(at, access, scratch.address);
        block.meta(at, block.mov_imm64(scratch.value, HULL.as_ptr() as u64));
        block.meta(at, block.make(opcode::OP_sub, &[s], &[Opnd::at(scratch.value, 0, 8), s]));
        block.meta(at, block.make(opcode::OP_cmp, &[], &[s, Opnd::at(scratch.value, 8, 8)]));
        block.meta(at, block.jump_if(opcode::OP_jnb, unlike));
        self.release(at, scratch, live);
    }

    /// What [`Self::unless_in_hull`] goes to: all registers and flags are the program's here, too.
    pub(super) fn like_before(&mut self, i: usize, access: Access, unlike: Instr) {
        let (at, live) = (Some(self.instrs[i]), self.live[i]);
        let scratch = self.scratch(i, access.address_gprs());
        self.block.meta(at, unlike);
        self.flags_saved = live.any_flags();
        self.release(at, scratch, live);
    }

    /// Goes to `label` if [`Slot::Outcome`] is zero; changes no flags.
    pub(super) fn unless_zero(&self, at: Option<Instr>, label: Instr) {
        let block = self.block;
        let rcx = Opnd::reg(Gpr::RCX, 8);
        let (zero, over) = (block.label(), block.label());
        block.meta(at, block.store(Slot::Spill(Gpr::RCX).opnd(8), rcx));
        block.meta(at, block.load(rcx, Slot::Outcome.opnd(8)));
        block.meta(at, block.jump_if_rcx_zero(zero));
        block.meta(at, block.load(rcx, Slot::Spill(Gpr::RCX).opnd(8)));
        block.meta(at, block.jump(over));
        block.meta(at, zero);
        block.meta(at, block.load(rcx, Slot::Spill(Gpr::RCX).opnd(8)));
        block.meta(at, block.jump(label));
        block.meta(at, over);
    }
}
