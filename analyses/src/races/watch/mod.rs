//! Goes through what all threads executed, in their recorded order, and looks at each access of memory that threads share.

mod accesses;

use super::atomicity::Pairs;
use super::births::Births;
use super::channels::{At as Told, Channels};
use super::clock::Epoch;
use super::first::{Lines, Shared};
use super::found::{Found, Looked};
use super::heap::{Change, Heap};
use super::joins::Joins;
use super::open::OpenCalls;
use super::order::{Meaning, Object, Order};
use super::place::{Code, Doing, Known, Whereabouts};
use super::segments::Spans;
use super::shadow::{Made, Shadow, Unordered};
use super::tenure::Tenures;
use super::times::Times;
use crate::locks::{Locking, Locks, Mode, Step};
use bugnet_events::calls::{Called, Calls};
use bugnet_events::code::Block;
use bugnet_events::stretch::{Access as Touched, Ran, Untold};
use bugnet_events::walk::{Did, Visit, Visitor};
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

const PAGE: u64 = 4096;
const LINE: u64 = 64;
/// So much of a block that is freed is looked at, in bytes: the kernel takes larger ones back.
const LARGEST: u64 = 1 << 20;
/// Where an access comes for so many instructions or fewer, to look at accesses takes longer than to go through the instructions.
const DENSE: u64 = 256;
/// Most ranges of memory that are shaded: they go to each replay process in one message.
const MOST_RANGES: usize = 1 << 18;
/// System calls that say something about the order of threads, or about what memory is.
const MMAP: u64 = 9;
const MAP_STACK: u64 = 0x2_0000;
/// Bytes of a stack, of which that is not known.
const STACK: u64 = 8 << 20;
const MUNMAP: u64 = 11;
const MREMAP: u64 = 25;
const CLONE: u64 = 56;
const KILL: u64 = 62;
const RT_SIGTIMEDWAIT: u64 = 128;
const RT_SIGQUEUEINFO: u64 = 129;
const TKILL: u64 = 200;
const FUTEX: u64 = 202;
const TGKILL: u64 = 234;
const RT_TGSIGQUEUEINFO: u64 = 297;
const CLONE3: u64 = 435;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_WAKE_OP: u64 = 5;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;

struct Thread {
    whereabouts: Whereabouts,
    calls: OpenCalls,
    /// What it waited for in the kernel: it comes behind that with its next instruction.
    awaited: Option<Object>,
    /// What it read through the kernel with the call at this count.
    received: Option<u64>,
    is_born: bool,
    waits: u64,
}

impl Thread {
    /// A block begins.
    #[inline]
    fn enter(&mut self, block: &Known) {
        let enters = self.whereabouts.enter(block);
        self.waits += u64::from(enters && matches!(self.whereabouts.now(), Doing::Ordering | Doing::Joining));
    }
}

/// The search.
pub struct Watch {
    /// The threads' places.
    pub times: Times,
    /// What was found.
    pub found: Found,
    /// What was passed over of atomicity.
    pub pairs: Pairs,
    /// The program's code.
    pub code: Code,
    /// What was allocated.
    pub heap: Heap,
    shared: Shared,
    /// While one looks for the order of segments; and the lines that threads share which are not looked at meanwhile.
    spans: Option<(Spans, Lines)>,
    /// Gives up after so many accesses, if they are as many for the instructions that there were.
    most: Option<u64>,
    births: Births,
    /// What goes through the kernel.
    pub channels: Channels,
    order: Order,
    shadow: Shadow,
    tenures: Tenures,
    threads: Vec<Thread>,
    calls: u64,
    open: Calls,
    /// What threads hold.
    pub locks: Locks,
    lockings: Vec<Locking>,
    joins: Joins,
    /// Where somebody has waited for the end of a thread, and what the C library calls that.
    joined: Vec<(Place, u64)>,
    /// Memory that was mapped for stacks: first bytes, and lengths.
    stacks: BTreeMap<u64, u64>,
    unordered: Vec<Unordered>,
    /// Whether replay processes tell accesses of lines that threads share, and no others.
    told: bool,
    /// The thread that was visited last, where nothing is left to be told of its calls with its next block.
    quiet: Option<Quiet>,
    /// The thread that was visited last, and the number of its turn, up to which others came.
    turn: (Option<Tid>, u64),
}

/// A thread of which the next block tells nothing of what came before.
#[derive(Clone, Copy)]
struct Quiet {
    tid: Tid,
    /// Its number.
    thread: usize,
    /// Whether it is in no call of a function that one wants to know of.
    is_idle: bool,
}

/// An access, where it is made.
#[derive(Clone, Copy)]
struct At {
    thread: usize,
    made: Made,
    ip: u64,
}

/// Ranges, with no more than a gap between them being one.
fn joined(ranges: &[(u64, u64)], gap: u64) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (start, len) in ranges {
        match all.last_mut().filter(|(before, len)| start - (before + len) <= gap) {
            Some((before, whole)) => *whole = start + len - *before,
            None => all.push((*start, *len)),
        }
    }
    all
}

impl Visitor for Watch {
    /// Blocks with which nothing begins or ends that is waited for, nor a call that one wants to know of.
    #[inline]
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool {
        let Some(Quiet { thread, is_idle, .. }) = self.quiet.filter(|quiet| quiet.tid == tid) else { return false };
        if !(ran.block.is_plain || is_idle && ran.registers_told() <= 1) || self.threads[thread].whereabouts.is_amid() {
            return false;
        }
        let Self { shared, threads, code, .. } = self;
        let known = code.of(ran.block);
        threads[thread].enter(known);
        let count = ran.block.instructions.len();
        let touches = match self.told {
            true => ran.has_told(),
            false => ran.block.has_atomic || ran.touches_any(|addr, len| shared.lines.has(addr, len)),
        };
        if touches || self.spans.is_some() {
            let (first_site, doing) = (known.first_site, known.doing(&threads[thread].whereabouts));
            let from = self.times.reached(thread);
            self.executes(thread, from, from + count as u64, doing);
            if touches {
                self.accesses(thread, (from, first_site), ran, 0..count, doing);
            }
        }
        if !ran.block.is_plain {
            self.threads[thread].calls.ended(ran, &mut self.calls);
        }
        self.times.advance(thread, count as u64);
        self.found.looked.instructions += count as u64;
        true
    }

    fn has_enough(&mut self) -> bool {
        let Looked { accesses, instructions, .. } = self.found.looked;
        self.most.is_some_and(|most| accesses >= most && accesses * DENSE >= instructions)
    }

    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        self.look_at(&visit);
        self.quiet = match visit {
            Visit::Ran { place: Place { tid, .. }, .. } => self.quiet(tid),
            _ => None,
        };
        ControlFlow::Continue(())
    }

    #[inline]
    fn runs_untold(&mut self, place: Place, untold: &Untold<'_>) {
        if self.quiet.is_none_or(|quiet| quiet.tid != place.tid) {
            self.goes_on(place);
            self.quiet = self.quiet(place.tid);
        }
        let Some((thread, count)) = self.times.count(place) else { return };
        self.leaves(thread, None);
        let doing = self.threads[thread].whereabouts.go_on();
        self.executes(thread, count, count + untold.len, doing);
        self.accesses_untold((thread, count), untold, doing);
        self.times.reach(thread, count + untold.len);
        self.found.looked.instructions += untold.len;
    }
}

impl Watch {
    /// At the beginning. `told`: replay processes tell accesses of lines that threads share ([`Self::shaded`]).
    #[must_use]
    pub fn new(
        (times, told): (Times, bool),
        mut shared: Shared,
        (births, channels): (Births, Channels),
        code: Code,
        (heap, locks, joins): (Heap, Locks, Joins),
    ) -> Self {
        births.words().for_each(|word| shared.lines.touch(word, 4));
        let thread = |number: usize| Thread {
            whereabouts: if times.begins(number) { Whereabouts::new(number == 0) } else { Whereabouts::amid() },
            calls: OpenCalls::new(number as u64),
            awaited: None,
            received: None,
            is_born: false,
            waits: 0,
        };
        Self {
            threads: (0..times.len()).map(thread).collect(),
            calls: times.len() as u64,
            open: if told { Calls::with_next() } else { Calls::default() },
            told,
            lockings: Vec::new(),
            joins,
            joined: Vec::new(),
            stacks: BTreeMap::new(),
            times,
            found: Found::default(),
            pairs: Pairs::default(),
            code,
            heap,
            locks,
            shared,
            spans: None,
            most: None,
            births,
            channels,
            order: Order::default(),
            shadow: Shadow::default(),
            tenures: Tenures::default(),
            unordered: Vec::new(),
            quiet: None,
            turn: (None, 0),
        }
    }

    /// Gives up after so many accesses, if looking at them is most of what there is to do.
    pub fn try_for(&mut self, accesses: u64) {
        self.most = Some(accesses);
    }

    /// Whether it has given up.
    pub fn has_given_up(&mut self) -> bool {
        self.has_enough()
    }

    /// Finds out when what segments do comes before what others do, of which these lines, that threads share, are not looked at.
    pub fn look_for_order(&mut self, spans: Spans, lines: Lines) {
        self.spans = Some((spans, lines));
    }

    /// What was found out.
    pub fn take_order(&mut self) -> Option<Spans> {
        Some(self.spans.take()?.0)
    }

    /// A thread executes instructions from one count up to another.
    #[inline]
    fn executes(&mut self, thread: usize, from: u64, until: u64, doing: Doing) {
        if let Some((spans, _)) = self.spans.as_mut().filter(|_| doing.is_looked_at()) {
            spans.executes(thread, (from, until), self.order.thread(thread), self.threads[thread].waits);
        }
    }

    /// The lines of which accesses are looked at.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.shared.lines
    }

    /// The memory that threads share, as replay processes have it: first bytes, and how many. Of very many lines, also what lies between them.
    #[must_use]
    pub fn shaded(&self) -> Vec<(u64, u64)> {
        let (mut all, mut gap) = (self.shared.lines.ranges(), LINE);
        while all.len() > MOST_RANGES {
            all = joined(&all, gap);
            gap *= 2;
        }
        all
    }

    /// What is known of a thread behind what was visited.
    fn quiet(&self, tid: Tid) -> Option<Quiet> {
        let thread = self.times.number(tid).filter(|_| !self.open.has_returned(tid))?;
        Some(Quiet { tid, thread, is_idle: self.open.open(tid).next().is_none() })
    }

    /// A thread goes on: if another one was visited last, with its next turn.
    fn takes_turn(&mut self, tid: Tid) {
        if self.turn.0 != Some(tid) {
            self.turn = (Some(tid), self.turn.1 + 1);
        }
    }

    /// A thread goes on in code of which nothing but accesses is told.
    fn goes_on(&mut self, place: Place) {
        self.takes_turn(place.tid);
        self.follow_calls(|open, mut each| open.goes_on(place, &mut each));
        self.allocated(None);
        self.arrive(&place);
    }

    /// What comes of calls that begin, or end.
    fn follow_calls(&mut self, follow: impl FnOnce(&mut Calls, &mut dyn FnMut(Called<'_>))) {
        let Self { open, heap, joins, joined, locks, lockings, .. } = self;
        follow(open, &mut |called| {
            heap.called(called);
            joined.extend(joins.called(called));
            locks.called(called, &mut |_, locking| lockings.push(locking));
        });
        for (place, ended) in std::mem::take(&mut self.joined) {
            if let Some(((thread, _), ended)) = self.times.count(place).zip(self.births.named(ended)) {
                self.order.outlive(thread, ended, self.times.end(ended));
            }
        }
        self.locked();
    }

    fn look_at(&mut self, visit: &Visit<'_>) {
        self.takes_turn(visit.place().tid);
        self.follow_calls(|open, mut each| open.visit(visit, &mut each));
        self.allocated(Some(visit));
        match visit {
            Visit::Ran { place, ran, instructions } => {
                self.found.looked.instructions += instructions.len() as u64;
                let Some((thread, count)) = self.arrive(place) else { return };
                self.ran(thread, count, ran, instructions.clone());
            }
            Visit::Skipped { place, did, .. } => {
                let Some((thread, count)) = self.arrive(place) else { return };
                match did {
                    Did::Call { number, args, result, .. } => self.called(thread, count, *number, args, *result),
                    Did::Return => self.returned(thread),
                    Did::Special { .. } => {}
                }
            }
            Visit::Delivered { place, signal, .. } => {
                let Some((thread, _)) = self.arrive(place) else { return };
                self.order.take(thread, Object::Signal(*signal), Meaning::Program);
                let thread = &mut self.threads[thread];
                thread.whereabouts.interrupt();
                thread.calls.interrupt(&mut self.calls);
            }
            Visit::Resumed { .. } => {}
        }
    }

    /// Locks of the C library are taken and given back: a writer comes behind readers and writers, a reader behind writers.
    fn locked(&mut self) {
        for Locking { step, lock, mode, place, .. } in std::mem::take(&mut self.lockings) {
            let Some((thread, count)) = self.times.count(place) else { continue };
            let (alone, readers) = (Object::Lock(lock), Object::Readers(lock));
            match (step, mode) {
                (Step::Takes, Mode::Alone) => {
                    self.order.take(thread, alone, Meaning::Exclusion);
                    self.order.take(thread, readers, Meaning::Exclusion);
                }
                (Step::Takes, Mode::Reading) => self.order.take(thread, alone, Meaning::Exclusion),
                (Step::Gives, Mode::Alone) => self.order.give(thread, count, alone, Meaning::Exclusion),
                (Step::Gives, Mode::Reading) => self.order.give(thread, count, readers, Meaning::Exclusion),
                (Step::Wants, _) => {}
            }
        }
    }

    /// What the allocator has given or was given: new memory has no past, and whoever frees memory may do with it what one who writes may do.
    fn allocated(&mut self, visit: Option<&Visit<'_>>) {
        while let Some(change) = self.heap.changes.pop() {
            match change {
                Change::New { addr, len } => self.forget(addr, len),
                Change::Freed { addr, len, again } => self.freed(visit, (addr, len), again),
            }
        }
    }

    fn freed(&mut self, visit: Option<&Visit<'_>>, (addr, len): (u64, u64), again: bool) {
        let Some(Visit::Ran { place, ran, .. }) = visit else { return };
        let Some((thread, count)) = self.times.count(*place) else { return };
        // At the end of a thread, the allocator gives back to itself what it kept for that thread: blocks that the program had given back.
        if again && self.threads[thread].whereabouts.now() == Doing::Internal {
            return;
        }
        let site = self.code.of(ran.block).first_site;
        let at = At { thread, made: Made { epoch: Epoch::new(thread, count), site }, ip: ran.block.traced.pc };
        let mut start = addr;
        while start < addr + len.min(LARGEST) {
            let end = ((start | (LINE - 1)) + 1).min(addr + len);
            if let Some((spans, lines)) = &mut self.spans
                && lines.has(start, end - start)
            {
                let now = (self.order.thread(thread), self.threads[thread].waits);
                spans.frees(thread, count, now, (start, end - start));
            }
            if self.shared.lines.has(start, end - start) {
                let (addr, len) = (start, end - start);
                let access = Touched { addr, len, reads: false, writes: true, whole: true, is_over: false };
                self.end_tenures(start, end - start);
                self.race(at, &access);
            }
            start = end;
        }
    }

    /// A thread's number, and how many instructions it has executed at a place, where it comes behind what it waited for.
    #[inline]
    fn arrive(&mut self, place: &Place) -> Option<(usize, u64)> {
        let (thread, count) = self.times.count(*place)?;
        if !std::mem::replace(&mut self.threads[thread].is_born, true) {
            self.order.take(thread, Object::Birth(thread), Meaning::Program);
            self.new_stack(thread);
        }
        if let Some(object) = self.threads[thread].awaited.take() {
            self.order.take(thread, object, Meaning::Program);
        }
        if let Some(call) = self.threads[thread].received.take() {
            self.receive((thread, call));
        }
        Some((thread, count))
    }

    /// A thread goes on behind a call that has read something, or found that it can.
    fn receive(&mut self, at: Told) {
        for from in self.channels.certain(at) {
            self.order.receive(at.0, *from);
        }
        for (from, name) in self.channels.possible(at) {
            self.order.may_receive(at.0, *from, 1 << name);
        }
    }

    /// A thread goes on with a block, or with what is untold. If it has come back from the call in which the log begins, which may have waited for others, it comes behind what these have done.
    fn leaves(&mut self, thread: usize, block: Option<&Block>) {
        let whereabouts = &mut self.threads[thread].whereabouts;
        if !whereabouts.is_amid() {
            return;
        }
        let Some(last) = whereabouts.left(block.map(|block| self.code.of(block))) else { return };
        match self.code.function(last) {
            // Which lock it has now, the call's beginning would say.
            Doing::Excluding | Doing::Ordering => self.order.take_locks(thread),
            Doing::Joining => {
                let gone = |other: &usize| *other != thread && self.times.has_ended(*other);
                for other in (0..self.times.len()).filter(gone) {
                    self.order.outlive(thread, other, self.times.end(other));
                }
            }
            Doing::Own | Doing::ForCaller | Doing::Internal => {}
        }
    }

    fn ran(&mut self, thread: usize, count: u64, ran: &Ran<'_>, instructions: Range<usize>) {
        self.leaves(thread, Some(ran.block));
        let known = self.code.of(ran.block);
        let state = &mut self.threads[thread];
        if instructions.start == 0 {
            state.enter(known);
        }
        let (first_site, doing) = (known.first_site, known.doing(&state.whereabouts));
        self.executes(thread, count, count + instructions.len() as u64, doing);
        self.accesses(thread, (count, first_site), ran, instructions.clone(), doing);
        if instructions.end == ran.block.instructions.len() {
            self.threads[thread].calls.ended(ran, &mut self.calls);
        }
        self.times.reach(thread, count + instructions.len() as u64);
    }

    fn called(&mut self, thread: usize, count: u64, number: u64, args: &[u64; 6], result: i64) {
        if result < 0 {
            return;
        }
        match self.channels.takers((thread, count)) {
            0 => {}
            takers => self.order.send((thread, count), takers),
        }
        if self.channels.takes((thread, count)) {
            self.threads[thread].received = Some(count);
        }
        let behind = count + 1;
        let length = |len: u64| len.next_multiple_of(PAGE);
        match number {
            CLONE | CLONE3 => {
                if let Some(child) = self.births.made(result as u32, &self.times) {
                    self.order.give(thread, behind, Object::Birth(child), Meaning::Program);
                }
            }
            MMAP => {
                self.forget(result as u64, length(args[1]));
                if args[3] & MAP_STACK != 0 {
                    self.stacks.insert(result as u64, length(args[1]));
                }
            }
            MUNMAP => self.forget(args[0], length(args[1])),
            MREMAP => {
                self.forget(args[0], length(args[1]));
                self.forget(result as u64, length(args[2]));
            }
            FUTEX if matches!(args[1] & 0x7f, FUTEX_WAIT | FUTEX_WAIT_BITSET) => {
                self.awaits(thread, Object::Futex(args[0]))
            }
            FUTEX if matches!(args[1] & 0x7f, FUTEX_WAKE | FUTEX_WAKE_BITSET | FUTEX_WAKE_OP) => {
                self.gives(thread, behind, Object::Futex(args[0]));
            }
            RT_SIGTIMEDWAIT => self.awaits(thread, Object::Signal(result.cast_unsigned())),
            KILL | TKILL | RT_SIGQUEUEINFO => self.gives(thread, behind, Object::Signal(args[1])),
            TGKILL | RT_TGSIGQUEUEINFO => self.gives(thread, behind, Object::Signal(args[2])),
            _ => {}
        }
    }

    /// A thread begins on a stack that another one may have had.
    fn new_stack(&mut self, thread: usize) {
        let Some(own) = self.births.own_memory(thread) else { return };
        let mapped = self.stacks.range(..=own).next_back().map(|(start, len)| (*start, *len));
        let (start, len) = mapped.filter(|(start, len)| own - start < *len).unwrap_or_else(|| {
            // It was mapped before the log begins: it ends above that of another thread.
            let start = self.births.below(own).map_or(0, |other| other | (PAGE - 1)).max(own.saturating_sub(STACK));
            (start, (own | (PAGE - 1)) - start)
        });
        self.forget(start, len);
    }

    fn gives(&mut self, thread: usize, count: u64, object: Object) {
        if self.orders(thread) {
            self.order.give(thread, count, object, Meaning::Program);
        }
    }

    /// What it waits for may be given behind this place: it comes behind that with its next instruction.
    fn awaits(&mut self, thread: usize, object: Object) {
        if self.orders(thread) {
            self.threads[thread].awaited = Some(object);
        }
    }

    fn orders(&self, thread: usize) -> bool {
        matches!(self.threads[thread].whereabouts.now(), Doing::Own | Doing::Ordering | Doing::ForCaller)
    }

    fn returned(&mut self, thread: usize) {
        let thread = &mut self.threads[thread];
        thread.whereabouts.resume();
        thread.calls.resume();
    }

    /// What is no longer the memory that it was.
    fn forget(&mut self, addr: u64, len: u64) {
        self.tenures.forget(addr, len);
        self.shadow.forget(addr, len);
        self.pairs.forget(addr, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_near_each_other_are_joined() {
        let all = [(0, 64), (128, 64), (1 << 20, 128), ((1 << 20) + 256, 64)];
        assert_eq!(joined(&all, 64), [(0, 192), (1 << 20, 128), ((1 << 20) + 256, 64)]);
        assert_eq!(joined(&all, 128), [(0, 192), (1 << 20, 320)]);
        assert_eq!(joined(&all, 1 << 30), [(0, (1 << 20) + 320)]);
    }
}
