//! Stores to memory that may be shared with another process, of values that the instrumentation does not know: what is found
//! in memory afterwards may be the other process's. It is logged, so that replay finds the same.
//!
//! ```text
//!             address among what is shared? if not, UNLIKE
//!             callout SharedAddress              the outcome is 1 if it is
//!             jmp STORE
//!     UNLIKE: the outcome is 0
//!     STORE:  the instruction, and what mirrors it in the shadow
//!             if the outcome is not 0, callout SharedStored
//! ```

use super::Rewriter;
use super::forms::stores_as_is;
use crate::base::slots::Slot;
use crate::emitted::site::Kind;
use crate::picture::shared_code::SHARED;
use bugnet_dr::access::Access;
use bugnet_dr::ir::Opnd;

impl Rewriter<'_> {
    /// Whether the mirror of this store is what is read back from memory, in a process that may share memory with others.
    pub(super) fn reads_back(&self, i: usize, write: &Access) -> bool {
        // With threads, code is not built anew when memory is shared later.
        let shares = self.threaded || SHARED.get().any_writable();
        shares && !stores_as_is(self.instrs[i], write.bytes)
    }

    /// Before a store that [`Self::reads_back`].
    pub(super) fn look_if_shared(&mut self, i: usize, write: Access) {
        let (block, at) = (self.block, Some(self.instrs[i]));
        let [unlike, store] = [block.label(), block.label()];
        self.unless_in_hull(i, write, unlike);
        self.callout(at, i, Kind::SharedAddress(write));
        block.meta(at, block.jump(store));
        self.like_before(i, write, unlike);
        // All 8 bytes, which are read together behind the store: else the processor would wait for them.
        block.meta(at, block.store(Slot::Outcome.opnd(8), Opnd::imm(0, 4)));
        block.meta(at, store);
    }

    /// Behind it.
    pub(super) fn log_if_shared(&mut self, i: usize) {
        let behind = self.instrs.get(i + 1).copied();
        self.program_flags(behind, self.live[i + 1]);
        let done = self.block.label();
        self.unless_zero(behind, done);
        self.callout(behind, i, Kind::SharedStored);
        self.block.meta(behind, done);
    }
}
