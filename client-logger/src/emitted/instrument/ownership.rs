//! Where there are threads: each access is checked for the thread's permission before it is made, alone or with others
//! near it (see [`super::grouping`]).
//!
//! ```text
//!     lea  s, [rbx+8]
//!     shr  s, 6 ; mov s32, s32 ; add s, [permissions]
//!     cmp  byte [s], wanted of this block and the next ; jb PRECISELY
//!     ...
//! PRECISELY:                                                            out of the way
//!     lea  s32, [rbx+8] ; and s32, 63 ; cmp s32, 64-size ; ja OWN       does it lie in one coherence block?
//!     lea  s, [rbx+8]
//!     shr  s, 6 ; mov s32, s32 ; add s, [permissions]
//!     test byte [s], wanted ; jz OWN
//!     jmp  back
//! ```
//!
//! Behind the callout at `OWN`, the thread has the permissions for all that is checked before the instruction, and execution
//! goes on behind the last check.

use super::grouping::{BLOCK, Group, checked_inline};
use super::paths::Precisely;
use super::{Rewriter, Slot};
use crate::emitted::site::{Held, Kind};
use crate::picture::blocks::{BLOCK_SHIFT, MODIFIED, SHARED};
use crate::picture::table::{bit_of_one, of_both};
use bugnet_dr::access::{Access, Action};
use bugnet_dr::ir::{Gpr, Instr, Opnd};
use bugnet_dr::opcode;

impl Rewriter<'_> {
    /// Checks the permissions that an instruction needs.
    pub(super) fn own(&mut self, i: usize, action: &Action) {
        let instr = self.instrs[i];
        match action {
            Action::Execute { .. } if checked_inline(action).is_some() => self.check_groups(i),
            Action::Execute { reads, writes } => {
                self.program_flags(Some(instr), self.live[i]);
                let reads = reads.iter().map(|read| (*read, false));
                let accesses = reads.chain(writes.iter().map(|write| (*write, true))).collect();
                let held = self.held(i, 0);
                self.callout(Some(instr), i, Kind::Own(accesses, held));
            }
            Action::Repeat(op) => {
                self.program_flags(Some(instr), self.live[i]);
                let repne = matches!(instr.opcode(), opcode::OP_repne_cmps | opcode::OP_repne_scas);
                let held = self.held(i, 0);
                self.callout(Some(instr), i, Kind::OwnRepeat(*op, repne, held));
            }
            Action::OpaqueStore { target, .. } => {
                self.program_flags(Some(instr), self.live[i]);
                let held = self.held(i, 0);
                self.callout(Some(instr), i, Kind::Own([(*target, true)].into(), held));
            }
            // What is executed in a callout is taken there.
            Action::Emulate(_) | Action::Syscall | Action::Special(_) | Action::Result(_) | Action::Unsupported(_) => {}
        }
    }

    /// What the instrumentation holds before instruction `i`, where these registers are in their slots.
    fn held(&self, i: usize, spilled: u16) -> Held {
        let spilled = spilled | self.lent();
        Held { spilled, flags: self.flags_saved, lost: !(self.live[i].gprs | spilled) }
    }

    fn check_groups(&mut self, i: usize) {
        let checks: Vec<(Access, bool)> =
            self.plan.begin_at(i).map(|group| (self.plan.access(group, i), group.writes)).collect();
        if checks.is_empty() {
            return;
        }
        let wanted = |group: &Group| (self.plan.access(group, i), group.writes);
        let wants: Box<[(Access, bool)]> = self.plan.held_at(i).map(wanted).collect();
        let avoid =
            wants.iter().fold(Gpr::RAX.bit() | Gpr::RSP.bit(), |mask, (access, _)| mask | access.address_gprs());
        let (at, live, block) = (Some(self.instrs[i]), self.live[i], self.block);
        let free = (0..16).map(Gpr).filter(|reg| avoid & reg.bit() == 0);
        // Prefer registers that are dead here: restoring them stalls nobody.
        let Some(s) = free.min_by_key(|reg| live.gprs & reg.bit() != 0) else {
            self.program_flags(at, live);
            let held = self.held(i, 0);
            self.callout(at, i, Kind::Own(wants, held));
            return;
        };
        self.spill(at, s, live);
        self.save_flags(at, live);
        let held = self.held(i, live.gprs & s.bit());
        let (entry, back) = self.slow(self.site(i, Kind::Own(wants, held)));
        for (access, writes) in checks {
            if access.bytes == 1 {
                self.look_up(at, access, writes, s, entry);
                continue;
            }
            let (precisely, done) = (block.label(), block.label());
            self.permission(at, access, s);
            let wanted = Opnd::imm(of_both(permission(writes)).into(), 1);
            block.meta(at, block.make(opcode::OP_cmp, &[], &[Opnd::at(s, 0, 1), wanted]));
            block.meta(at, block.jump_if(opcode::OP_jb, precisely));
            block.meta(at, done);
            self.precisely.push(Precisely { entry: precisely, back: done, access, writes, scratch: s, own: entry });
        }
        block.meta(at, back);
        if !self.by_fs {
            self.restore_flags(at);
        }
        self.restore(at, s, live);
    }

    /// Places what a check jumps to where the thread does not have the permission for the block and for the next one.
    pub(super) fn place_precise_checks(&self, at: Option<Instr>) {
        let block = self.block;
        for Precisely { entry, back, access, writes, scratch, own } in &self.precisely {
            block.meta(at, *entry);
            self.address(at, *access, *scratch);
            let low = Opnd::reg(*scratch, 4);
            block.meta(at, block.make(opcode::OP_and, &[low], &[Opnd::imm((BLOCK - 1).into(), 4), low]));
            let last = Opnd::imm((BLOCK - access.bytes).into(), 4);
            block.meta(at, block.make(opcode::OP_cmp, &[], &[low, last]));
            block.meta(at, block.jump_if(opcode::OP_jnbe, *own));
            self.look_up(at, *access, *writes, *scratch, *own);
            block.meta(at, block.jump(*back));
        }
    }

    /// Looks up the permission for the coherence block of an access's first byte, by way of `s`.
    fn look_up(&self, at: Option<Instr>, access: Access, writes: bool, s: Gpr, entry: Instr) {
        let block = self.block;
        self.permission(at, access, s);
        let wanted = Opnd::imm(bit_of_one(permission(writes)).into(), 1);
        block.meta(at, block.make(opcode::OP_test, &[], &[Opnd::at(s, 0, 1), wanted]));
        block.meta(at, block.jump_if(opcode::OP_jz, entry));
    }

    /// The address of that permission to `s`.
    fn permission(&self, at: Option<Instr>, access: Access, s: Gpr) {
        let block = self.block;
        self.address(at, access, s);
        let (whole, low) = (Opnd::reg(s, 8), Opnd::reg(s, 4));
        block.meta(at, block.make(opcode::OP_shr, &[whole], &[Opnd::imm(BLOCK_SHIFT.into(), 1), whole]));
        block.meta(at, block.load(low, low));
        block.meta(at, block.make(opcode::OP_add, &[whole], &[Slot::Permissions.opnd(8), whole]));
    }
}

/// What an access needs.
fn permission(writes: bool) -> u8 {
    if writes { MODIFIED } else { SHARED }
}
