//! What a block begins with: it counts its instructions, and asks for the code picture that it belongs to.

use super::Rewriter;
use crate::base::slots::Slot;
use crate::emitted::callout;
use crate::emitted::counter;
use crate::emitted::lies::{Way, Where};
use crate::emitted::machine::{self, Condition, Op};
use crate::emitted::map::{Change, Place};
use crate::emitted::out_of_line::CONDITIONAL;
use crate::emitted::site::CALLOUT;
use crate::emitted::site::Kind;
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::Gpr;
use bugnet_dr::liveness;
use bugnet_dr::opcode;
use bugnet_format::types::CodeSeq;

/// Up to the slot and what is needed there.
const COMPARE: Assembled = assembled!("cmp dword ptr gs:[{u32}], {u32}"; 8);

impl Rewriter<'_> {
    /// Counts the block's instructions, and calls out where a threshold lies among them. The program's flags are put into their slot first if they
    /// are to be `saved`.
    pub(super) fn count(&mut self, saved: bool) {
        let first = Some(self.instrs[0]);
        let n = self.instrs.len() as i64;
        let counter = counter::of_block(self.instrs[0].pc());
        let flags = liveness::rflags_bits(liveness::flags_read_first(&self.instrs));
        let mut before = 0;
        if saved {
            before += self.free_flags(first, self.live[0], u16::MAX);
        }
        let mut site = self.site(0, Kind::Limit { flags, saved });
        let home = self.home.clone();
        let first_run = home.is_some();
        let lies = |way, before| home.map_or(Where::InBlock, |home| Where::AtStart { home, way, before });
        if self.live[0].any_flags() && !saved {
            // This jumps in any case: the callout may as well lie here.
            site.lies = lies(Way::Over, machine::before_home(has_bmi2()));
            let callout = callout::inline(site);
            let code = machine::count_without_flags((counter, n as u32), has_bmi2(), &callout, first_run);
            let place = self.insert(first, &code);
            self.note(place, Change::Counted);
            self.note_site(place.map(|place| place.behind(machine::before_home(has_bmi2()))), &callout);
        } else {
            let count = machine::count(counter, n as u32);
            site.lies = lies(Way::Jump, before + count.bytes().len() + CONDITIONAL as usize);
            let callout = callout::inline(site);
            self.note(self.insert(first, &count), Change::Counted);
            let condition = if first_run { Condition::Counted } else { Condition::Negative };
            let end = self.slow_if(first, condition, &callout);
            self.note_site(end, &callout);
        }
    }

    /// Notes where a callout for thresholds ends, whose last bytes are the address of its site.
    fn note_site(&self, end: Option<Place>, callout: &[u8; CALLOUT]) {
        if let (Some(Place(piece, end)), Some(site)) = (end, callout.last_chunk()) {
            let place = Place(piece, end - size_of_val(site) as u64);
            self.map.borrow_mut().note_site(place, u64::from_le_bytes(*site));
        }
    }

    /// Another thread may have built the block: the thread's log must have the code picture `needed` before it runs; or
    /// another thread may wait for this one to have left the block before. The
    /// instrumentation is the same for every `needed`, which DynamoRIO asks for again when it translates addresses. With `by_fs`, it must also
    /// have a shadow at a distance.
    pub(super) fn require_code(&mut self, needed: CodeSeq, by_fs: bool) {
        let block = self.block;
        let first = Some(self.instrs[0]);
        let (entry, back) = self.slow(self.site(0, Kind::CodeBehind { by_fs, saved: self.flags_saved }));
        // A thread that is to stop here finds 0 there, and one without a shadow at a distance always does in the one slot.
        let code_seq = if by_fs { Slot::CodeSeqByFs } else { Slot::CodeSeq };
        let needed = (needed.0 as u32).max(1);
        block.meta(first, back);
        if self.live[0].any_flags() && !self.flags_saved {
            let near = block.label();
            self.insert(first, &machine::compare_without_flags(code_seq, needed, has_bmi2()));
            block.meta(first, block.jump_if_rcx_zero(near));
            self.insert(first, &machine::slot(Op::Load, Gpr::RCX, Slot::Spill(Gpr::RCX)));
            block.meta(first, block.jump(entry));
            block.meta(first, near);
            self.insert(first, &machine::slot(Op::Load, Gpr::RCX, Slot::Spill(Gpr::RCX)));
        } else {
            let code = [&COMPARE, &code_seq.offset().to_le_bytes()[..], &needed.to_le_bytes()].concat();
            block.meta(first, block.raw(&code));
            block.meta(first, block.jump_if(opcode::OP_jb, entry));
        }
    }
}

/// Whether the processor has RORX.
fn has_bmi2() -> bool {
    std::arch::is_x86_feature_detected!("bmi2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(COMPARE.bytes(), [0x65, 0x81, 0x3c, 0x25]);
    }
}
