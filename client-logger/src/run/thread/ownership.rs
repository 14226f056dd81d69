//! What a thread does to get hold of memory that other threads may access, and to be ordered behind them.

use super::Thread;
use crate::base::maps;
use crate::base::memory::read_memory;
use crate::base::process;
use crate::base::slots::Slot;
use crate::emitted::site::{Held, Site};
use crate::log::recording;
use crate::picture::blocks::{BLOCK_SHIFT, SHARED, block_of};
use crate::picture::coherence::wants::Wants;
use crate::picture::coherence::{self, Dependency, Permissions};
use crate::picture::creation;
use crate::picture::ending;
use crate::picture::moment::{Index, Moment};
use crate::picture::peer::{self, Peer};
use crate::run::parts::chaos::Point;
use crate::run::parts::code_seq::bells;
use crate::run::parts::ownership::{Ownership, Span};
use bugnet_dr::access::{Access, RegisterValues, RepString, StringKind};
use bugnet_dr::ir::Gpr;
use bugnet_dr::thread as dr_thread;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, IntervalNo, Position};
use smallvec::SmallVec;
use std::ops::Range;
use std::time::Duration;

impl Thread {
    /// There are other threads, or soon will be.
    pub fn share(&mut self) {
        if self.ownership.is_some() {
            return;
        }
        let permissions = Permissions::new();
        // SAFETY: the calling thread's own slot.
        unsafe { *Slot::Permissions.address() = permissions.table().address() as u64 };
        let epoch = self.log.writer.is_some().then_some(self.log.epoch);
        let peer = (!self.foreign).then(|| Peer::new(self.tid, bells(), permissions.table(), epoch));
        self.ownership = Some(Ownership { permissions, peer, implied: 0 });
        self.show_code_seq();
    }

    /// In a forked child, there are no other threads. What they had is anyone's, and instrumentation for threads stays.
    pub(in crate::run) fn share_anew(&mut self) {
        self.ownership = None;
        coherence::forget();
        peer::forget();
        creation::forget();
        if process::threaded() {
            self.share();
        }
    }

    /// The thread is about to create another one, which begins with this stack pointer, in a system call at this position. As the other
    /// one comes behind the call, no epoch begins in it.
    pub fn create(&self, stack: u64, position: u64) {
        if let Some(peer) = self.peer() {
            creation::announce(stack, peer.index, self.moment(position));
            peer.wait_within(self.moment(position));
        }
    }

    /// The thread begins: behind what its parent had done.
    pub(in crate::run) fn be_born(&mut self, stack: u64) {
        if let Some((other, moment)) = creation::parent(stack) {
            self.depend(0, &[Dependency::of_birth(other, moment)]);
        }
    }

    /// Records what the instruction at `position` is ordered behind, unless it follows from what is recorded.
    fn depend(&mut self, position: u64, found: &[Dependency]) {
        let now = self.moment(position);
        // Most of what is taken together was taken from one thread.
        let mut last = (Index::MAX, Moment::default());
        for dependency @ &Dependency { kind, other, moment, .. } in found {
            // Nothing had happened before the very beginning.
            if moment == Moment::default() {
                continue;
            }
            if let Some(ownership) = &mut self.ownership
                && other == last.0
                && moment <= last.1
            {
                ownership.implied += dependency.count();
                continue;
            }
            last = (other, moment);
            let (Some(me), Some(other)) = (self.peer(), peer::get(other)) else { continue };
            let new = me.learn(&other, moment, now);
            let Some(ownership) = &mut self.ownership else { continue };
            if !new {
                ownership.implied += dependency.count();
                continue;
            }
            // Those of all of its blocks but the first follow from this record.
            let implied = std::mem::replace(&mut ownership.implied, dependency.count() - 1);
            self.record(position, |delta| Record::Dependency {
                delta,
                kind,
                block: Addr(dependency.address()),
                other: other.tid,
                other_interval: IntervalNo(moment.interval),
                other_position: Position(moment.position),
                implied,
            });
        }
    }

    /// Before an instruction: gets hold of all that it accesses.
    pub(in crate::run) fn own(&mut self, position: u64, accesses: &[(Access, bool)]) {
        let span = |(access, writes): &(Access, bool)| {
            Some(Span { address: access.address(self)?, len: access.bytes.into(), writes: *writes })
        };
        let spans: SmallVec<[Span; 4]> = accesses.iter().filter_map(span).collect();
        self.own_spans(position, &spans);
    }

    /// The thread ends the process.
    pub fn end_others(&self) {
        if let Some(peer) = self.peer() {
            ending::begin(peer.index);
        }
    }

    /// The thread ends the process at this position, and waits until no other one executes anything more that accesses memory.
    /// `false` if one does not come so far in time: the kernel keeps it in the middle of an access, or somebody has stopped it.
    pub fn hold_others(&self, position: u64) -> bool {
        const PATIENCE: Duration = Duration::from_secs(1);
        const LONG_PATIENCE: Duration = Duration::from_secs(5);
        let Some(peer) = self.peer() else { return true };
        // Who waits for this one need not.
        self.leave(position);
        // From the first departure on, a thread gets hold of nothing more; what it had until then, it loses before the second.
        (0..2).all(|_| {
            ending::begin(peer.index);
            peer::await_departures(peer.index, PATIENCE, LONG_PATIENCE)
        })
    }

    /// Whether no other thread is left. Where several end at the same moment, none may find out.
    pub fn is_last(&self) -> bool {
        self.peer().is_none_or(|_| peer::living_count() == 1)
    }

    /// The thread is about to be in the kernel, or to wait, with this stack pointer.
    pub fn note_stack(&self, pointer: u64) {
        if let Some(peer) = self.peer() {
            peer.note_stack(pointer);
        }
    }

    /// The stack pointers of the other threads, as far as they are known.
    pub fn other_stacks(&self) -> Vec<u64> {
        let Some(me) = self.peer() else { return Vec::new() };
        peer::living().iter().filter(|peer| peer.index != me.index).filter_map(|peer| peer.stack()).collect()
    }

    /// Another thread ends the process, and this one with it.
    fn end_here(&mut self, position: u64) -> ! {
        self.stop(position, EndReason::Terminated, RegisterFile::unknown());
        self.leave(position);
        // SAFETY: the calling thread's context; it holds no lock, and changes nothing any more.
        unsafe { dr_thread::let_suspend(self.context, true) };
        loop {
            // SAFETY: sleeps.
            unsafe { libc::usleep(1000) };
        }
    }

    /// Gets hold of these ranges.
    pub(in crate::run) fn own_spans(&mut self, position: u64, spans: &[Span]) {
        if self.recording() && ending::has_begun() {
            self.end_here(position);
        }
        let mut wants = Wants::default();
        for Span { address, len, writes } in spans.iter().filter(|span| span.len > 0) {
            wants.add(*address, *len, *writes);
        }
        let (now, context, recording) = (self.moment(position), self.context, self.recording());
        let stack = self.callouts.saved.gpr[usize::from(Gpr::RSP.0)];
        let held = self.ownership.as_ref().is_none_or(|ownership| wants.are_held(ownership.permissions.table()));
        if held {
            return;
        }
        if self.chaos.is_some() && recording {
            self.delay_before_taking(position);
        }
        let Some(Ownership { permissions, peer, .. }) = &mut self.ownership else { return };
        match peer {
            Some(peer) if recording && !recording::over() => {
                peer.note_stack(stack);
                let Some(found) = coherence::acquire(peer, permissions, &wants, now, context) else {
                    self.follow_end();
                    return;
                };
                self.depend(position, &found);
                if self.chaos.is_some() {
                    self.perturb(Point::Access);
                }
                if let Some(Ownership { permissions, .. }) = &mut self.ownership {
                    permissions.give_back(found);
                }
                // While it waited for others, it counted as departed.
                if ending::has_begun() {
                    self.end_here(position);
                }
            }
            // Nobody asks any more who did what.
            _ => wants.grant(permissions.table()),
        }
    }

    /// The part of a range around an address that the thread has hold of.
    pub(in crate::run) fn held_around(&self, address: u64, range: Range<u64>) -> Range<u64> {
        let Some(Ownership { permissions, peer: Some(_), .. }) = &self.ownership else { return range };
        let held = |start: u64| permissions.get(block_of(start)) >= SHARED;
        let size = 1 << BLOCK_SHIFT;
        let here = address & !(size - 1);
        let (mut start, mut end) = (here, here);
        while start > range.start && held(start - size) {
            start -= size;
        }
        while end < range.end && held(end) {
            end += size;
        }
        start.max(range.start)..end.min(range.end).max(start)
    }

    /// Before a `rep` string instruction: sees to it that there is room for the shadow of the ranges that it accesses.
    pub(in crate::run) fn make_room_for_repeat(
        &mut self,
        site: &Site,
        held: Held,
        op: RepString,
        while_different: bool,
    ) {
        self.begin_repeat();
        let count = self.repeat_extent(op, while_different);
        for span in self.repeat_spans(op, count).into_iter().filter(|span| span.len > 0) {
            self.make_room(site, held, span.address..span.address.saturating_add(span.len));
        }
    }

    /// The ranges that a `rep` string instruction accesses, up to so many elements.
    fn repeat_spans(&self, op: RepString, count: u64) -> SmallVec<[Span; 2]> {
        let reads = op.kind.reads().iter().map(|reg| (*reg, false));
        let accesses = reads.chain(op.kind.writes().then_some((Gpr::RDI, true)));
        accesses
            .map(|(reg, writes)| {
                let (address, len) = self.repeat_range(op, self.gpr(reg), count);
                Span { address, len: self.accessible(address, len), writes }
            })
            .collect()
    }

    /// Before a `rep` string instruction: gets hold of the ranges that it accesses.
    pub(in crate::run) fn own_repeat(&mut self, position: u64, op: RepString, while_different: bool) {
        self.begin_repeat();
        let mut count = self.repeat_extent(op, while_different);
        loop {
            self.own_spans(position, &self.repeat_spans(op, count));
            // It may go further than it would have gone before the thread had hold of the range.
            let now = self.repeat_extent(op, while_different);
            if now <= count {
                return;
            }
            count = now;
        }
    }

    /// How many elements a `rep` string instruction gets to, as memory is now.
    fn repeat_extent(&self, op: RepString, while_different: bool) -> u64 {
        let count = self.gpr(Gpr::RCX);
        if !matches!(op.kind, StringKind::Compare | StringKind::Scan) {
            return count;
        }
        let size = op.element as usize;
        let accumulator = self.gpr(Gpr::RAX).to_le_bytes();
        let at = |reg, n: u64| {
            let step = n.wrapping_mul(op.element.into());
            let start = self.gpr(reg);
            if self.repeats_down() { start.wrapping_sub(step) } else { start.wrapping_add(step) }
        };
        for n in 0..count {
            let (mut a, mut b) = ([0; 8], accumulator);
            let readable = read_memory(at(Gpr::RDI, n), &mut a[..size])
                && (op.kind == StringKind::Scan || read_memory(at(Gpr::RSI, n), &mut b[..size]));
            if !readable || (a[..size] == b[..size]) == while_different {
                return n + 1;
            }
        }
        count
    }

    /// How much of a range can be accessed before the first fault, at least.
    fn accessible(&self, address: u64, len: u64) -> u64 {
        const PLAUSIBLE: u64 = 1 << 20;
        if len <= PLAUSIBLE {
            return len;
        }
        let mut end = address;
        while end < address.saturating_add(len) {
            let Some(next) = maps::mapped_until(end) else { break };
            end = next;
        }
        len.min(end - address)
    }
}
