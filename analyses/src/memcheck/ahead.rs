//! Goes ahead of the check, through the outline of what threads execute, and says which memory must not be accessed from where on, so that replay
//! processes look at each access by themselves ([`bugnet_events::looking`]).
//!
//! What it says is wrong is all that is wrong in the end, and perhaps a little more, which the check finds right.

use super::code::{Known, Meaning};
use super::frames::StackId;
use super::functions::{Does, Function};
use super::heap::{Block, Call, Heap};
use super::storing::Storing;
use bugnet_events::calls::{Called, Calls, Entered};
use bugnet_events::effects::Control;
use bugnet_events::looking::{Change, Shader};
use bugnet_events::stretch::Ran;
use bugnet_events::walk::{Did, Visit, Visitor};
use bugnet_format::types::Tid;
use bugnet_heap::{Given, Outcome, Set, maps, may_be_older, settle};
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;
use std::ops::{ControlFlow, Range};

/// So near to where a stack was, it is the same one.
const STACK: u64 = 1 << 12;

/// What a thread is doing.
#[derive(Default)]
struct Doing {
    /// Slots of the allocator's functions in which it is, the outermost one first, and where that began.
    slots: Vec<u64>,
    since: Option<Place>,
    /// Whether what changes meanwhile is told when it is over: it gives something out, of which not all is right before.
    holds: bool,
    /// Where the outermost one began that is just over.
    over: Option<Place>,
    /// Where its stack was when it called last, in pieces of [`STACK`] bytes.
    stack: u64,
    stores: Option<Storing>,
    /// The last call: where its return address is, and what that is.
    last_call: (u64, u64),
    /// What has changed since the outermost one began.
    held: Vec<Set>,
}

/// Code in which functions store what they give out ([`super::storing`]).
pub fn closely(known: &Known) -> Vec<(u64, u64)> {
    /// As far as they reach, mostly; of others, somebody goes there to look.
    const REACH: u64 = 512;
    let stores = |meaning: &Meaning| matches!(meaning, Meaning::Allocator(index) if matches!(known.allocators[*index].does, Does::Store(_)));
    let functions = known.meanings.iter().filter(|(_, meaning)| stores(meaning)).map(|(address, _)| *address);
    let mut all: Vec<(u64, u64)> = functions.map(|address| (address, address.saturating_add(REACH))).collect();
    all.sort_unstable();
    all
}

/// Who goes ahead.
pub struct Ahead {
    meanings: HashMap<u64, Meaning>,
    allocators: Vec<Function>,
    own: Vec<Range<u64>>,
    is_whole: bool,
    heap: Heap,
    calls: Calls,
    doing: HashMap<Tid, Doing>,
    storing: usize,
    /// The thread that was visited last, where its next block may be passed over.
    quiet: Option<Tid>,
    /// Whether a stack lies in a block: then, it matters what is accessed by the stack pointer.
    is_in_block: bool,
    /// What is told next, and from which instruction on.
    changes: Vec<Change>,
}

impl Ahead {
    /// Before the first instruction.
    pub fn new(known: &Known, is_whole: bool) -> Self {
        let mut heap = Heap::new(is_whole);
        heap.shadow.note_changes();
        Self {
            meanings: known.meanings.iter().map(|(address, meaning)| (*address, *meaning)).collect(),
            allocators: known.allocators.clone(),
            own: known.own().to_vec(),
            is_whole,
            heap,
            calls: Calls::default(),
            doing: HashMap::new(),
            storing: 0,
            quiet: None,
            is_in_block: false,
            changes: Vec::new(),
        }
    }

    fn called(&mut self, called: Called<'_>) {
        let (Called::Entered(call) | Called::Returned { call, .. } | Called::Left(call)) = &called;
        let Some(Meaning::Allocator(function)) = self.meanings.get(&call.function).copied() else { return };
        match called {
            Called::Entered(call) => self.entered(call, function),
            Called::Returned { call, result, .. } => self.left(call, function, Some(result)),
            Called::Left(call) => self.left(call, function, None),
        }
    }

    fn entered(&mut self, call: &Entered, function: usize) {
        let doing = self.doing.entry(call.place.tid).or_default();
        doing.slots.retain(|slot| *slot >= call.slot);
        doing.slots.push(call.slot);
        let is_of_last = doing.last_call.0 == call.slot;
        let is_own = is_of_last && self.own.iter().any(|range| range.contains(&doing.last_call.1));
        if doing.slots.len() > 1 || is_own {
            return;
        }
        doing.since = Some(call.place);
        doing.holds = !matches!(self.allocators[function].does, Does::Release(_));
        let by = by(call.place, function);
        match self.allocators[function].does {
            Does::Release(number) => {
                let Some(addr) = call.args[usize::from(number)].filter(|addr| *addr != 0) else { return };
                self.takes_back(addr, by);
            }
            Does::Store(_) => {
                doing.stores = call.args[0].map(Storing::new);
                self.storing += usize::from(doing.stores.is_some());
            }
            Does::Allocate(_) | Does::Resize(..) | Does::Tell => {}
        }
    }

    fn takes_back(&mut self, addr: u64, by: Call) {
        if self.heap.block(addr).is_some() {
            self.heap.release(addr, by);
        } else if !self.is_whole && may_be_older(&self.heap, addr) {
            self.heap.release_unknown(addr, by);
        }
    }

    fn left(&mut self, call: &Entered, function: usize, returned: Option<Option<u64>>) {
        let Some(doing) = self.doing.get_mut(&call.place.tid) else { return };
        let Some(last) = doing.slots.iter().rposition(|slot| *slot == call.slot) else { return };
        doing.slots.remove(last);
        if !doing.slots.is_empty() {
            return;
        }
        let (Some(since), stores) = (doing.since.take(), doing.stores.take()) else { return };
        doing.over = Some(since);
        self.storing -= usize::from(stores.is_some());
        let Some(result) = returned else { return };
        let stored = || stores.and_then(|storing| storing.stored);
        let Function { does, family, .. } = self.allocators[function].clone();
        let outcome = Outcome::of(does, &call.args, result, stored, &self.heap);
        let by = by(since, function);
        if let Some(before) = outcome.taken {
            self.takes_back(before, by);
        }
        // Where it is not known what was given out, it stays wrong.
        if let Some(Given { start: Some(start), size: Some(size), .. }) = outcome.given {
            let (size, family, allocated) = (Some(size), Some(family), Some(by));
            self.heap.allocate(Block { start, size, family, allocated, freed: None });
        }
        if let Some((start, size)) = outcome.told {
            self.heap.resize(start, size);
        }
    }

    /// What has changed is wrong, or not any more, from here on.
    fn settle(&mut self, place: Place) {
        let sets = self.heap.shadow.changes();
        let doing = self.doing.entry(place.tid).or_default();
        if !doing.slots.is_empty() && doing.holds {
            doing.held.append(sets);
            return;
        }
        let held = std::mem::take(&mut doing.held);
        // What an allocator itself accesses does not matter.
        let over = doing.over.filter(|over| doing.holds && over.interval == place.interval);
        let from = over.map_or(place.position, |over| over.position);
        let mut all = held;
        all.append(sets);
        settle(&mut all);
        self.changes.extend(all.into_iter().map(|Set { start, end, wrong }| Change {
            from,
            addr: start,
            len: end - start,
            wrong,
        }));
    }
}

fn by(place: Place, function: usize) -> Call {
    Call { place, function, stack: StackId::default() }
}

impl Visitor for Ahead {
    #[inline]
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool {
        ran.block.is_plain && self.quiet == Some(tid) && self.storing == 0
    }

    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        let mut calls = std::mem::take(&mut self.calls);
        calls.visit(&visit, &mut |called| self.called(called));
        self.calls = calls;
        self.quiet = None;
        let place = match &visit {
            Visit::Ran { place, ran, instructions } => {
                self.quiet = Some(place.tid).filter(|tid| !self.calls.has_returned(*tid));
                if ran.block.control == Control::Call
                    && instructions.end == ran.block.instructions.len()
                    && let (Some(slot), Some(last)) = (ran.slot(), ran.block.instructions.last())
                {
                    let doing = self.doing.entry(place.tid).or_default();
                    doing.last_call = (slot, last.instruction.next_ip());
                    if std::mem::replace(&mut doing.stack, slot / STACK) != slot / STACK {
                        self.is_in_block |= self.heap.holding(slot).is_some();
                    }
                }
                if self.storing > 0
                    && let Some(storing) = self.doing.get_mut(&place.tid).and_then(|doing| doing.stores.as_mut())
                {
                    storing.ran(ran, instructions.clone());
                }
                place
            }
            Visit::Skipped { place, did, .. } => {
                let doing = self.doing.entry(place.tid).or_default();
                let is_inside = !doing.slots.is_empty();
                doing.stores.iter_mut().for_each(Storing::forget);
                if let Did::Call { number, args, result, .. } = did {
                    maps(&mut self.heap, (*number, args, *result), is_inside);
                }
                place
            }
            Visit::Delivered { place, .. } | Visit::Resumed { place } => {
                self.doing
                    .get_mut(&place.tid)
                    .into_iter()
                    .flat_map(|doing| &mut doing.stores)
                    .for_each(Storing::forget);
                place
            }
        };
        if self.heap.shadow.has_changes() || self.doing.get(&place.tid).is_some_and(|doing| !doing.held.is_empty()) {
            self.settle(*place);
        }
        if let Some(doing) = self.doing.get_mut(&place.tid) {
            doing.over = None;
        }
        if self.is_in_block { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Shader for Ahead {
    fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }
}
