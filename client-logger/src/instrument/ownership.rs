//! Where there are threads: each access is checked for the thread's permission before it is made.
//!
//! ```text
//!     lea  s, [rbx+8]
//!     mov  v, s ; and v, 63 ; cmp v, 64-size ; ja OWN      does it lie in one coherence block?
//!     shr  s, 6 ; mov s32, s32 ; add s, [permissions]
//!     cmp  byte [s], wanted ; jb OWN
//! ```
//!
//! Behind the callout at `OWN`, the thread has the permissions for all accesses of the instruction, and execution goes on
//! behind the last check.

use super::{Rewriter, Slot};
use crate::coherence::{BLOCK_SHIFT, MODIFIED, SHARED};
use crate::site::Kind;
use bugnet_dr::access::{Access, Action, Place};
use bugnet_dr::ir::{Gpr, Opnd};
use bugnet_dr::sys;

/// Bytes of a coherence block.
const BLOCK: u32 = 1 << BLOCK_SHIFT;

impl Rewriter<'_> {
    /// Checks the permissions that an instruction needs.
    pub(super) fn own(&mut self, i: usize, action: &Action) {
        let instr = self.instrs[i];
        match action {
            Action::Execute { reads, writes } => self.own_accesses(i, reads, writes),
            Action::Repeat(op) => {
                let repne = matches!(instr.opcode(), sys::OP_repne_cmps | sys::OP_repne_scas);
                self.callout(Some(instr), i, Kind::OwnRepeat(*op, repne));
            }
            Action::OpaqueStore { target, .. } => {
                self.callout(Some(instr), i, Kind::Own([(*target, true)].into()));
            }
            Action::Syscall | Action::Special(_) | Action::Result(_) | Action::Unsupported(_) => {}
        }
    }

    fn own_accesses(&mut self, i: usize, reads: &[Access], writes: &[Access]) {
        let reads = reads.iter().map(|read| (*read, false));
        let accesses: Box<[(Access, bool)]> = reads.chain(writes.iter().map(|write| (*write, true))).collect();
        let simple = |(access, _): &(Access, bool)| {
            let plain = matches!(access.place, Place::Direct(_) | Place::Segmented(..) | Place::Absolute(_));
            plain && !access.masked && (1..=BLOCK).contains(&access.bytes)
        };
        let at = Some(self.instrs[i]);
        if accesses.is_empty() {
            return;
        }
        if accesses.len() > 2 || !accesses.iter().all(simple) {
            self.callout(at, i, Kind::Own(accesses));
            return;
        }
        let used = accesses.iter().fold(0, |mask, (access, _)| mask | access.address_gprs());
        let (scratch, live, block) = (self.scratch(i, used), self.live[i], self.block);
        let site = self.site(i, Kind::Own(accesses.clone()));
        let (entry, back) = self.slow(site);
        self.acquire(at, scratch, live);
        for (n, (access, writes)) in accesses.iter().enumerate() {
            // One that is written, too, is checked as that.
            if !writes && accesses[n + 1..].iter().any(|(other, _)| same(access, other)) {
                continue;
            }
            let (s, s_low) = (Opnd::reg(scratch.address, 8), Opnd::reg(scratch.address, 4));
            let v = Opnd::reg(scratch.value, 4);
            self.address(at, *access, scratch.address);
            if access.bytes > 1 {
                block.meta(at, block.load(v, s_low));
                block.meta(at, block.make(sys::OP_and, &[v], &[Opnd::imm((BLOCK - 1).into(), 4), v]));
                let last = Opnd::imm((BLOCK - access.bytes).into(), 4);
                block.meta(at, block.make(sys::OP_cmp, &[], &[v, last]));
                block.meta(at, block.jump_if(sys::OP_jnbe, entry));
            }
            block.meta(at, block.make(sys::OP_shr, &[s], &[Opnd::imm(BLOCK_SHIFT.into(), 1), s]));
            block.meta(at, block.load(s_low, s_low));
            block.meta(at, block.make(sys::OP_add, &[s], &[Slot::Permissions.opnd(8), s]));
            let wanted = Opnd::imm(if *writes { MODIFIED } else { SHARED }.into(), 1);
            block.meta(at, block.make(sys::OP_cmp, &[], &[Opnd::at(scratch.address, 0, 1), wanted]));
            block.meta(at, block.jump_if(sys::OP_jb, entry));
        }
        block.meta(at, back);
        self.release(at, scratch, live);
    }
}

/// Whether two accesses of an instruction are certainly to the same bytes.
fn same(a: &Access, b: &Access) -> bool {
    let parts =
        |opnd: Opnd| opnd.parts().filter(|parts| Gpr::from_id(parts.base).is_none_or(|(reg, _)| reg != Gpr::RSP));
    match (a.place, b.place) {
        (Place::Direct(x), Place::Direct(y)) => a.bytes == b.bytes && parts(x).is_some() && parts(x) == parts(y),
        (Place::Absolute(x), Place::Absolute(y)) => a.bytes == b.bytes && x == y,
        _ => false,
    }
}
