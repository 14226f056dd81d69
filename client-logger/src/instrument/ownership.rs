//! Where there are threads: each access is checked for the thread's permission before it is made, alone or with others
//! near it (see [`super::grouping`]).
//!
//! ```text
//!     lea  s32, [rbx+8] ; and s32, 63 ; cmp s32, 64-size ; ja STRADDLE      does it lie in one coherence block?
//!     lea  s, [rbx+8]
//!     shr  s, 6 ; mov s32, s32 ; add s, [permissions]
//!     cmp  byte [s], wanted ; jb OWN
//! ```
//!
//! Behind the callout at `OWN`, the thread has the permissions for all that is checked before the instruction, and execution
//! goes on behind the last check.

use super::grouping::{BLOCK, Group, checked_inline};
use super::{Rewriter, Slot};
use crate::coherence::{BLOCK_SHIFT, MODIFIED, SHARED};
use crate::site::{Held, Kind};
use bugnet_dr::access::{Access, Action, Place};
use bugnet_dr::ir::{Gpr, Instr, MemoryParts, Opnd};
use bugnet_dr::sys;

/// Up to this size, most ranges lie in one coherence block. Of those that do not, and of larger ones, both ends are looked
/// up.
const SMALL: u32 = 32;

/// A range that lies in two coherence blocks, out of the way.
pub(super) struct Straddle {
    entry: Instr,
    back: Instr,
    access: Access,
    writes: bool,
    scratch: Gpr,
    /// Where the callout is.
    own: Instr,
}

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
                let held = Held { spilled: self.lent(), flags: false };
                self.callout(Some(instr), i, Kind::Own(accesses, held));
            }
            Action::Repeat(op) => {
                self.program_flags(Some(instr), self.live[i]);
                let repne = matches!(instr.opcode(), sys::OP_repne_cmps | sys::OP_repne_scas);
                self.callout(Some(instr), i, Kind::OwnRepeat(*op, repne));
            }
            Action::OpaqueStore { target, .. } => {
                self.program_flags(Some(instr), self.live[i]);
                self.callout(Some(instr), i, Kind::Own([(*target, true)].into(), Held::default()));
            }
            // What is executed in a callout is taken there.
            Action::Emulate(_) | Action::Syscall | Action::Special(_) | Action::Result(_) | Action::Unsupported(_) => {}
        }
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
            let held = Held { spilled: self.lent(), flags: false };
            self.callout(at, i, Kind::Own(wants, held));
            return;
        };
        self.spill(at, s, live);
        self.save_flags(at, live);
        let held = Held { spilled: live.gprs & s.bit() | self.lent(), flags: self.flags_saved };
        let (entry, back) = self.slow(self.site(i, Kind::Own(wants, held)));
        for (access, writes) in checks {
            let small = (2..=SMALL).contains(&access.bytes);
            let done = block.label();
            if small {
                self.address(at, access, s);
                let low = Opnd::reg(s, 4);
                block.meta(at, block.make(sys::OP_and, &[low], &[Opnd::imm((BLOCK - 1).into(), 4), low]));
                let last = Opnd::imm((BLOCK - access.bytes).into(), 4);
                block.meta(at, block.make(sys::OP_cmp, &[], &[low, last]));
                let straddle = block.label();
                block.meta(at, block.jump_if(sys::OP_jnbe, straddle));
                let straddle = Straddle { entry: straddle, back: done, access, writes, scratch: s, own: entry };
                self.straddles.push(straddle);
            }
            self.look_up(at, access, writes, s, entry);
            if access.bytes > SMALL {
                self.look_up(at, behind(access, access.bytes - 1), writes, s, entry);
            }
            if small {
                block.meta(at, done);
            }
        }
        block.meta(at, back);
        if !self.by_fs {
            self.restore_flags(at);
        }
        self.restore(at, s, live);
    }

    /// Places what a check jumps to where a range lies in two coherence blocks.
    pub(super) fn place_straddles(&self, at: Option<Instr>) {
        let block = self.block;
        for Straddle { entry, back, access, writes, scratch, own } in &self.straddles {
            block.meta(at, *entry);
            self.look_up(at, *access, *writes, *scratch, *own);
            self.look_up(at, behind(*access, access.bytes - 1), *writes, *scratch, *own);
            block.meta(at, block.jump(*back));
        }
    }

    /// Compares the permission for the coherence block of an access's first byte, by way of `s`.
    fn look_up(&self, at: Option<Instr>, access: Access, writes: bool, s: Gpr, entry: Instr) {
        let block = self.block;
        self.address(at, access, s);
        let (whole, low) = (Opnd::reg(s, 8), Opnd::reg(s, 4));
        block.meta(at, block.make(sys::OP_shr, &[whole], &[Opnd::imm(BLOCK_SHIFT.into(), 1), whole]));
        block.meta(at, block.load(low, low));
        block.meta(at, block.make(sys::OP_add, &[whole], &[Slot::Permissions.opnd(8), whole]));
        let wanted = Opnd::imm(if writes { MODIFIED } else { SHARED }.into(), 1);
        block.meta(at, block.make(sys::OP_cmp, &[], &[Opnd::at(s, 0, 1), wanted]));
        block.meta(at, block.jump_if(sys::OP_jb, entry));
    }
}

/// The access `by` bytes behind another one.
fn behind(access: Access, by: u32) -> Access {
    let further = |parts: MemoryParts| MemoryParts { disp: parts.disp.wrapping_add(by as i32), ..parts };
    let place = match access.place {
        Place::Direct(opnd) => match opnd.parts() {
            Some(parts) => Place::Direct(Opnd::in_segment(None, further(parts), 0, 1)),
            None => unreachable!("the address of a group is known"),
        },
        Place::Segmented(parts, segment) => Place::Segmented(further(parts), segment),
        Place::Absolute(address) => Place::Absolute(address.wrapping_add(by.into())),
        other => other,
    };
    Access { place, bytes: 1, masked: false }
}
