//! Checks and mirroring where threads may have shadows at `address xor key`: wherever a thread's is, it is at
//! `(address xor key) + distance`, and one of them is zero.
//!
//! ```text
//!     mov  rax, [rbx+8]                 the program's load
//!     lea  s, [rbx+8]                   s: a scratch register, spilled before and restored behind
//!     xor  s, [key]
//!     add  s, [distance]                now the shadow address
//!     cmp  rax, [s] ; jne DIFFERS
//! ```

use super::forms::{pieces, plain_load, reads_once};
use super::{Rewriter, Scratch};
use crate::base::slots::Slot;
use crate::emitted::machine;
use crate::emitted::map::Change;
use crate::emitted::site::{Kind, Target};
use bugnet_dr::access::{Access, Place};
use bugnet_dr::ir::{Gpr, Instr, NO_SIZE, Opnd};
use bugnet_dr::opcode;

impl Rewriter<'_> {
    /// Instruments an instruction whose accesses can all be checked or mirrored inline.
    pub(super) fn execute_by_key(&mut self, i: usize, reads: &[Access], writes: &[Access]) {
        let instr = self.instrs[i];
        if let ([read], []) = (reads, writes)
            && let Some((loaded, bytes)) = plain_load(instr, read)
        {
            self.check_loaded(i, *read, loaded, bytes);
            return;
        }
        if let ([read], false) = (reads, instr.is_cti())
            && reads_once(instr)
        {
            self.check_and_redirect(i, *read);
        } else {
            for (ordinal, read) in reads.iter().enumerate() {
                self.check_before(i, ordinal as u8, *read);
            }
        }
        if let [write] = *writes {
            self.mirror(i, write);
        }
    }

    /// A near call: its push is mirrored before it executes, since nothing can be behind it.
    pub(super) fn call_by_key(&mut self, i: usize, reads: &[Access], writes: &[Access]) {
        for (ordinal, read) in reads.iter().enumerate() {
            self.check_before(i, ordinal as u8, *read);
        }
        let instr = self.instrs[i];
        let at = Some(instr);
        let Some(Access { place: Place::Direct(target), .. }) = writes.first().copied() else { return };
        let scratch = self.scratch(i, target.gprs());
        self.acquire(at, scratch, self.live[i]);
        let block = self.block;
        let return_address = instr.pc() + instr.len(block);
        block.meta(at, block.lea(scratch.address, target));
        self.make_shadow(at, scratch.address);
        self.join(at, &machine::constant(scratch.value, return_address));
        let value = Opnd::reg(scratch.value, 8);
        block.meta(at, block.store(Opnd::at(scratch.address, 0, 8), value));
        self.note_before(at, Change::NoShadow);
        self.release(at, scratch, self.live[i]);
    }

    /// From a program's address to its shadow. Changes the arithmetic flags.
    fn make_shadow(&self, at: Option<Instr>, reg: Gpr) {
        let (block, opnd) = (self.block, Opnd::reg(reg, 8));
        block.meta(at, block.make(opcode::OP_xor, &[opnd], &[Slot::Key.opnd(8), opnd]));
        block.meta(at, block.make(opcode::OP_add, &[opnd], &[Slot::Distance.opnd(8), opnd]));
        self.note_before(at, Change::Shadow(reg));
    }

    /// The reverse of [`Self::make_shadow`].
    fn unmake_shadow(&self, at: Option<Instr>, reg: Gpr) {
        let (block, reg) = (self.block, Opnd::reg(reg, 8));
        self.note_before(at, Change::NoShadow);
        block.meta(at, block.make(opcode::OP_sub, &[reg], &[Slot::Distance.opnd(8), reg]));
        block.meta(at, block.make(opcode::OP_xor, &[reg], &[Slot::Key.opnd(8), reg]));
    }

    /// The address of an access into `reg`. Changes no flags.
    pub(super) fn address(&self, at: Option<Instr>, access: Access, reg: Gpr) {
        let block = self.block;
        match access.place {
            Place::Direct(opnd) => block.meta(at, block.lea(reg, opnd)),
            Place::Absolute(address) => self.join(at, &machine::constant(reg, address)),
            Place::Segmented(parts, segment) => {
                // The offset first: its registers are the program's.
                let offset = Opnd::from_parts(parts, NO_SIZE);
                if parts.base == 0 && parts.index == 0 {
                    block.insert_segment_base(at, segment, reg);
                    block.meta(at, block.lea(reg, Opnd::at(reg, parts.disp, 8)));
                } else {
                    block.meta(at, block.lea(reg, offset));
                    block.meta(at, block.store(Slot::Rax.opnd(8), Opnd::reg(Gpr::RAX, 8)));
                    block.insert_segment_base(at, segment, Gpr::RAX);
                    block.meta(at, block.lea(reg, Opnd::at_sum(reg, Gpr::RAX, 8)));
                    block.meta(at, block.load(Opnd::reg(Gpr::RAX, 8), Slot::Rax.opnd(8)));
                }
            }
            Place::Bit { .. } | Place::Table(_) | Place::Lane { .. } => unreachable!("not checked inline"),
        }
    }

    /// A load whose value is in a register afterwards: the value is compared that the program got.
    fn check_loaded(&mut self, i: usize, read: Access, loaded: Gpr, bytes: u32) {
        let instr = self.instrs[i];
        let behind = instr.next();
        let scratch = self.scratch(i, read.address_gprs());
        let s = scratch.address;
        let block = self.block;
        let live = self.live[i + 1];
        let early = read.address_gprs() & loaded.bit() != 0;
        let first = if early { Some(instr) } else { behind };
        self.spill(first, s, live);
        self.address(first, read, s);
        self.save_flags(behind, live);
        self.make_shadow(behind, s);
        let shadow = Opnd::at(s, 0, bytes);
        block.meta(behind, block.make(opcode::OP_cmp, &[], &[Opnd::reg(loaded, bytes), shadow]));
        let kind = Kind::Differs { ordinal: 0, bytes, target: Target::ShadowIn(s), loaded: Some(loaded) };
        self.call_out_if_different(behind, self.site(i, kind));
        self.note_before(behind, Change::NoShadow);
        self.restore_flags(behind);
        self.restore(behind, s, live);
    }

    /// A read by an instruction that can as well read the shadow: memory is read and compared once, and the instruction
    /// then gets the value that was compared, even if somebody else has written to the memory since.
    fn check_and_redirect(&mut self, i: usize, read: Access) {
        let instr = self.instrs[i];
        let (at, behind) = (Some(instr), instr.next());
        let scratch = self.scratch(i, read.address_gprs());
        let live = self.live[i];
        self.acquire(at, scratch, live);
        self.compare(i, 0, read, scratch);
        self.restore_flags(at);
        self.restore(at, scratch.value, live);
        if instr.redirect_read(Opnd::at(scratch.address, 0, 8)) {
            self.note_before(behind, Change::NoShadow);
            self.restore(behind, scratch.address, live);
        } else {
            self.note_before(at, Change::NoShadow);
            self.restore(at, scratch.address, live);
        }
    }

    /// Any other read: memory is compared before the instruction executes.
    fn check_before(&mut self, i: usize, ordinal: u8, read: Access) {
        let at = Some(self.instrs[i]);
        let scratch = self.scratch(i, read.address_gprs());
        let live = self.live[i];
        self.acquire(at, scratch, live);
        self.compare(i, ordinal, read, scratch);
        self.note_before(at, Change::NoShadow);
        self.release(at, scratch, live);
    }

    /// Compares memory with its shadow, whose address is in `scratch.address` afterwards.
    fn compare(&mut self, i: usize, ordinal: u8, read: Access, scratch: Scratch) {
        let instr = self.instrs[i];
        let at = Some(instr);
        let block = self.block;
        self.address(at, read, scratch.address);
        let kind =
            Kind::Differs { ordinal, bytes: read.bytes, target: Target::ShadowIn(scratch.address), loaded: None };
        let slow = self.leads(pieces(read.bytes).count(), self.site(i, kind));
        // The first piece holds the address that the slow path computes with.
        for (n, (offset, bytes)) in pieces(read.bytes).enumerate() {
            let value = Opnd::reg(scratch.value, bytes);
            let there = Opnd::at(scratch.address, offset, bytes);
            if n > 0 {
                self.unmake_shadow(at, scratch.address);
            }
            block.meta_faulting(at, block.load(value, there), instr.pc());
            self.make_shadow(at, scratch.address);
            block.meta(at, block.make(opcode::OP_cmp, &[], &[value, there]));
            slow.jump(block, at);
        }
        slow.end(block, at);
    }

    /// A write: the picture takes what was stored.
    fn mirror(&mut self, i: usize, write: Access) {
        let instr = self.instrs[i];
        let behind = instr.next();
        let scratch = self.scratch(i, write.address_gprs());
        let live = self.live[i + 1];
        let block = self.block;
        let s = scratch.address;
        let changed = instr.dsts().filter(|o| o.is_reg()).fold(0, |mask, o| mask | o.gprs());
        let early = changed & write.address_gprs() != 0;
        let first = if early { Some(instr) } else { behind };
        self.spill(first, s, live);
        self.address(first, write, s);
        if let Some(copy) = self.same_store(i, Opnd::at(s, 0, write.bytes), write.bytes) {
            self.save_flags(behind, live);
            self.make_shadow(behind, s);
            block.meta(behind, copy);
            self.note_before(behind, Change::NoShadow);
            self.restore_flags(behind);
        } else {
            let v = scratch.value;
            self.spill(behind, v, live);
            self.save_flags(behind, live);
            for (n, (offset, bytes)) in pieces(write.bytes).enumerate() {
                let there = Opnd::at(s, offset, bytes);
                if n > 0 {
                    self.unmake_shadow(behind, s);
                }
                block.meta(behind, block.load(Opnd::reg(v, bytes), there));
                self.make_shadow(behind, s);
                block.meta(behind, block.store(there, Opnd::reg(v, bytes)));
            }
            self.note_before(behind, Change::NoShadow);
            self.restore_flags(behind);
            self.restore(behind, v, live);
        }
        self.restore(behind, s, live);
    }
}
