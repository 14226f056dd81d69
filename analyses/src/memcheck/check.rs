//! What each call, access and system call means for the heap, and whether it is an error.

use super::below::Below;
use super::brief::Brief;
use super::code::{Known, Meaning, Reads};
use super::found::{By, Error, Errors, Kind};
use super::frames::{Astray, Frames, StackId};
use super::functions::{Does, Family};
use super::heap::{Block, Call, Heap};
use super::python::Asking;
use super::storing::Storing;
use super::undefined::{Undefined, Used};
use bugnet_events::calls::{Called, Entered};
use bugnet_events::stretch::Ran;
use bugnet_events::walk::{Did, Visit};
use bugnet_format::types::{Addr, Tid};
use bugnet_heap::{Outcome, Relation, maps, may_be_older};
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::Made;
use hashbrown::HashMap;

/// What a thread is doing.
#[derive(Default)]
pub struct Doing {
    /// Slots of the allocator's functions in which it is, the outermost one first.
    slots: Vec<u64>,
    /// The call of the outermost one.
    call: Option<Call>,
    /// The call of Python's allocator in which it is.
    pub python: Option<Asking>,
    /// A stub that leads to a function which copies, by the slot that both have, and that function.
    copying: Option<(u64, usize, u64)>,
    /// The outermost function is to store what it gives out.
    stores: Option<Storing>,
    /// Who called the function that reads a string, and the slot of its call.
    reading: Option<(u64, StackId)>,
    /// The functions for texts in which it is, by the slots of their calls, and the first use of something undefined in each.
    pub texts: Vec<(u64, Option<(Used, StackId)>)>,
    /// Blocks of which it was told that a function of a library accesses them wrongly as it begins: by the slot of its call, and where
    /// they start. What it then does itself is the same error.
    pub told: Vec<(u64, u64)>,
    /// Where the return address of libc's function is that found a canary changed.
    given_up: Option<u64>,
}

/// What is checked, and what was found.
pub struct Checker<'c, 'a> {
    pub known: Known,
    pub heap: Heap,
    pub frames: Frames,
    /// What lies below the stack pointers.
    pub below: Below,
    pub errors: Errors,
    /// Returns that did not go where the call came from.
    pub astray: Vec<Astray>,
    pub cursor: &'c mut Cursor<'a>,
    pub symbols: Symbolizer,
    /// The log begins where the process does, so all blocks are known.
    pub is_whole: bool,
    /// Where the stack of each thread begins, as far as the log tells.
    pub stacks: HashMap<Tid, u64>,
    pub counts: Counts,
    /// Which values are undefined, if that is followed.
    pub undefined: Option<Undefined<'c>>,
    /// What is known in brief, if it is a check in brief.
    pub brief: Option<Brief>,
    pub doing: HashMap<Tid, Doing>,
    /// Whether Python's own allocator gave blocks out.
    pub gives_python: bool,
    /// Whether there was a function that stores what it gives out, of any thread, which has not returned.
    is_storing: bool,
    failed: Option<bugnet_replay::ReplayError>,
}

/// How much there was of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Blocks that were given out.
    pub allocations: u64,
    /// Their bytes.
    pub allocated: u64,
    /// Blocks that were given back.
    pub releases: u64,
    /// Blocks that were given back, of which it is not known who gave them out.
    pub unknown_releases: u64,
    /// Allocations of which the address is not known.
    pub unknown_allocations: u64,
    /// Copies by functions of which it is not known where they are, so that their lengths are not.
    pub unchecked_copies: u64,
    /// Instructions that were looked at.
    pub instructions: u64,
}

impl<'c, 'a> Checker<'c, 'a> {
    /// Before the first instruction.
    pub fn new(
        known: Known,
        cursor: &'c mut Cursor<'a>,
        symbols: Symbolizer,
        is_whole: bool,
        stacks: HashMap<Tid, u64>,
    ) -> Self {
        Self {
            known,
            heap: Heap::new(is_whole),
            frames: Frames::default(),
            below: Below::default(),
            errors: Errors::default(),
            astray: Vec::new(),
            cursor,
            symbols,
            is_whole,
            stacks,
            counts: Counts::default(),
            undefined: None,
            brief: None,
            doing: HashMap::new(),
            gives_python: false,
            is_storing: false,
            failed: None,
        }
    }

    /// Whether something has failed, so that there is no point in going on.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// What has failed, if anything.
    ///
    /// # Errors
    /// What has.
    pub fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// What was executed next, behind the calls that begin or end there.
    #[inline]
    pub fn visit(&mut self, visit: &Visit<'_>) {
        match visit {
            Visit::Ran { place, ran, instructions } => {
                let shadow = &self.heap.shadow;
                if ran.touches_any(|addr, len| shadow.is_wrong(addr, len)) && !self.is_inside(place.tid) {
                    self.accessed(*place, ran, instructions.clone());
                }
                if let Some(undefined) = &mut self.undefined {
                    undefined.ran(*place, ran, instructions, &self.heap);
                    if undefined.has_found() {
                        self.used_undefined();
                    }
                }
                if self.brief.is_some() {
                    self.ran_in_brief(*place, ran, instructions);
                } else if let Some((number, found)) = self.below.ran(*place, ran, instructions) {
                    let mut here = *place;
                    here.position.0 += (number - instructions.start) as u64;
                    self.accessed_below(here, ran.block.instructions[number].instruction, found);
                }
                if let Some(astray) = self.frames.ran(*place, ran, instructions) {
                    self.astray.push(astray);
                }
                if self.is_storing
                    && let Some(storing) = self.doing.get_mut(&place.tid).and_then(|doing| doing.stores.as_mut())
                {
                    storing.ran(ran, instructions.clone());
                }
            }
            Visit::Skipped { place, ran, did } => {
                self.forget_registers(place.tid);
                if matches!(did, Did::Return) {
                    self.below.switch(place.tid);
                }
                if self.undefined.is_some() {
                    self.skipped(*place, ran, did);
                }
                if let Did::Call { number, args, result, .. } = did {
                    let made = Made { number: *number, args: *args, result: *result };
                    self.called_system(*place, ran.block.traced.pc, made);
                }
            }
            Visit::Resumed { place } => {
                self.forget_registers(place.tid);
                self.below.switch(place.tid);
                if let Some(undefined) = &mut self.undefined {
                    undefined.resumed(place.tid);
                }
            }
            Visit::Delivered { place, signal, frame } => {
                self.forget_registers(place.tid);
                self.below.switch(place.tid);
                self.delivered_in_brief(*frame);
                if let Some(undefined) = &mut self.undefined {
                    undefined.delivered(place.tid, *frame);
                }
                let astray = self.frames.delivered(place.tid, *frame);
                let is_of_code = |signal: u64| {
                    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP].iter().any(|one| *one as u64 == signal)
                };
                self.astray.extend(astray.filter(|_| is_of_code(*signal)));
            }
        }
    }

    /// Whether a block that accesses memory, and does nothing else that matters, is right, and nobody follows values through registers.
    #[inline]
    pub fn is_right(&self, ran: &Ran<'_>) -> bool {
        if self.is_storing || self.undefined.is_some() {
            return false;
        }
        let shadow = &self.heap.shadow;
        !ran.may_touch(shadow.known()) || !ran.touches_any(|addr, len| shadow.is_wrong(addr, len))
    }

    fn forget_registers(&mut self, tid: Tid) {
        if let Some(storing) = self.doing.get_mut(&tid).and_then(|doing| doing.stores.as_mut()) {
            storing.forget();
        }
    }

    /// Whether a thread with this stack pointer is out of an allocator's function in which it was.
    pub fn leaves_allocator(&self, tid: Tid, stack: u64) -> bool {
        self.doing.get(&tid).is_some_and(|doing| doing.slots.iter().any(|slot| *slot < stack))
    }

    pub fn is_inside(&self, tid: Tid) -> bool {
        self.doing.get(&tid).is_some_and(|doing| !doing.slots.is_empty())
    }

    /// A function begins, or is over.
    pub fn called(&mut self, called: Called<'_>) {
        self.called_in_brief(&called);
        match called {
            Called::Entered(call) => self.entered(call),
            Called::Returned { call, result, place } => self.left(call, Some((result, place))),
            Called::Left(call) => self.left(call, None),
        }
    }

    fn entered(&mut self, call: &Entered) {
        let Some(meaning) = self.known.meanings.get(&call.function).copied() else { return };
        let tid = call.place.tid;
        match meaning {
            Meaning::Allocator(function) => {
                let doing = self.doing.entry(tid).or_default();
                // Those whose frames lie below were left without a return.
                doing.slots.retain(|slot| *slot >= call.slot);
                doing.slots.push(call.slot);
                // Some have others of their own, as where a thread ends.
                let is_own = self.frames.caller(tid).is_some_and(|caller| self.known.is_allocators(caller));
                if doing.slots.len() == 1 && !is_own {
                    let stack = self.frames.stack(tid);
                    let outermost = Call { place: call.place, function, stack };
                    self.doing.entry(tid).or_default().call = Some(outermost);
                    self.begins(call, outermost);
                }
            }
            Meaning::Python(function) => {
                if !self.is_inside(tid) {
                    self.python_entered(call, function);
                }
            }
            Meaning::Library(index) if !self.is_inside(tid) => match self.known.library(index).1 {
                Reads::First(arguments) => {
                    let stack = self.frames.stack(tid);
                    self.doing.entry(tid).or_default().told.retain(|(slot, _)| *slot > call.slot);
                    for argument in arguments.iter().filter_map(|number| call.args[usize::from(*number)]) {
                        let block = self.library_reads(call, stack, index, (argument, 1));
                        self.doing.entry(tid).or_default().told.extend(block.map(|start| (call.slot, start)));
                    }
                }
                // Where it leads does not matter: what overlaps, or may, is a doubt.
                Reads::Copy if self.brief.is_some() => self.copies(call, index),
                Reads::Copy => {
                    let target = self.known.targets.get(&call.function);
                    if target.is_none() && call.args[..3].iter().all(Option::is_some) {
                        // As nobody knows where it leads, what begins here counts.
                        self.copies(call, index);
                        return;
                    }
                    self.counts.unchecked_copies += u64::from(target.is_none());
                    self.doing.entry(tid).or_default().copying = target.map(|target| (call.slot, index, *target));
                }
                Reads::String => {
                    let stack = self.frames.stack(tid);
                    self.doing.entry(tid).or_default().reading = Some((call.slot, stack));
                }
            },
            Meaning::Target => {
                let copying = self.doing.get_mut(&tid).and_then(|doing| doing.copying.take());
                let is_it = |(slot, _, target): &(u64, usize, u64)| (*slot, *target) == (call.slot, call.function);
                if let Some((_, index, _)) = copying.filter(is_it) {
                    self.copies(call, index);
                }
            }
            Meaning::Canary => self.gives_up(call),
            Meaning::Text(_) => {
                let texts = &mut self.doing.entry(tid).or_default().texts;
                texts.retain(|(slot, _)| *slot > call.slot);
                texts.push((call.slot, None));
            }
            Meaning::Library(_) => {}
        }
    }

    /// libc has found a canary changed. Its stub comes first, then itself.
    fn gives_up(&mut self, call: &Entered) {
        let doing = self.doing.entry(call.place.tid).or_default();
        if doing.given_up.replace(call.slot) != Some(call.slot) {
            let stack = self.frames.stack(call.place.tid);
            let error = Error::new(Kind::Canary, By::Instruction, call.place, call.function, stack);
            self.errors.add(error, &self.frames);
        }
    }

    fn left(&mut self, call: &Entered, returned: Option<(Option<u64>, Place)>) {
        let tid = call.place.tid;
        match self.known.meanings.get(&call.function) {
            Some(Meaning::Allocator(_)) => {
                let Some(doing) = self.doing.get_mut(&tid) else { return };
                let Some(last) = doing.slots.iter().rposition(|slot| *slot == call.slot) else { return };
                doing.slots.remove(last);
                if doing.slots.is_empty()
                    && let Some(outermost) = doing.call.take()
                    && let Some((result, place)) = returned
                {
                    self.ends(call, outermost, result, place);
                }
            }
            Some(Meaning::Python(_)) => {
                self.python_left(tid, call.slot, returned.and_then(|(result, _)| result));
            }
            Some(Meaning::Text(index)) => self.text_left(call, *index, returned),
            Some(Meaning::Library(index)) if self.known.library(*index).1 == Reads::String && !self.is_inside(tid) => {
                let reading = self.doing.get_mut(&tid).and_then(|doing| doing.reading.take());
                let stack = reading.filter(|(slot, _)| *slot == call.slot).map(|(_, stack)| stack);
                if let (Some((Some(len), _)), Some(start), Some(stack)) = (returned, call.args[0], stack) {
                    self.library_reads(call, stack, *index, (start, len.saturating_add(1)));
                }
            }
            Some(Meaning::Library(_)) => {
                if let Some(doing) = self.doing.get_mut(&tid) {
                    doing.told.retain(|(slot, _)| *slot > call.slot);
                }
            }
            _ => {}
        }
    }

    /// The program has called a function of an allocator.
    fn begins(&mut self, call: &Entered, outermost: Call) {
        let function = &self.known.allocators[outermost.function];
        let (does, family) = (function.does, function.family.clone());
        let argument = |number: u8| call.args[usize::from(number)].filter(|addr| *addr != 0);
        match does {
            Does::Release(number) => {
                let Some(addr) = argument(number) else { return };
                if self.check_release(call, outermost, addr, &family) {
                    self.counts.releases += 1;
                    let released = self.heap.release(addr, outermost).map(|block| (block.start, block.size));
                    if let (Some(undefined), Some((start, Some(size)))) = (&mut self.undefined, released) {
                        undefined.define(start, size);
                    }
                } else if !self.is_whole && may_be_older(&self.heap, addr) {
                    self.counts.unknown_releases += 1;
                    self.heap.release_unknown(addr, outermost);
                }
            }
            Does::Resize(number, _) => {
                if let Some(addr) = argument(number) {
                    self.check_release(call, outermost, addr, &family);
                }
            }
            Does::Store(_) => {
                let stores = argument(0).map(Storing::new);
                self.doing.entry(call.place.tid).or_default().stores = stores;
                self.is_storing = true;
            }
            Does::Allocate(_) | Does::Tell => {}
        }
    }

    /// A block is to be given back: whether there is one.
    fn check_release(&mut self, call: &Entered, outermost: Call, addr: u64, family: &Family) -> bool {
        let error = |kind: Kind, block: Option<(&Block, Relation)>| {
            let mut error =
                Error::new(kind, By::Function(outermost.function), call.place, call.function, outermost.stack);
            (error.addr, error.block) = (addr, block.map(|(block, relation)| (block.clone(), relation)));
            error
        };
        if let Some(block) = self.heap.block(addr) {
            let fits = block.family.as_ref().is_none_or(|own| own == family);
            let is_of_operators = |family: &Family| matches!(family, Family::New | Family::NewArray);
            let is_doubtful = self.known.has_operators
                && (is_of_operators(family) || block.family.as_ref().is_some_and(is_of_operators));
            if !fits && !is_doubtful {
                let found = error(Kind::Mismatch, Some((block, Relation::Inside(0))));
                self.errors.add(found, &self.frames);
            }
            return true;
        }
        let found = if let Some(block) = self.heap.given_back(addr) {
            error(Kind::DoubleFree, Some((block, Relation::Inside(0))))
        } else if let Some(block) = self.heap.holding(addr) {
            error(Kind::InvalidFree, Some((block, Relation::Inside(addr - block.start))))
        } else if let Some((_, why)) = self.heap.shadow.first_wrong(addr, 1) {
            error(Kind::InvalidFree, self.heap.near(addr, why))
        } else if self.is_whole && self.is_elsewhere(call, addr) {
            error(Kind::InvalidFree, None)
        } else {
            return false;
        };
        self.errors.add(found, &self.frames);
        false
    }

    /// Whether an address is of the caller's stack, or of a file that is mapped, and no allocator gave it out.
    fn is_elsewhere(&self, call: &Entered, addr: u64) -> bool {
        let on_stack = self.stacks.get(&call.place.tid).is_some_and(|start| (call.slot..*start).contains(&addr));
        on_stack || self.known.module_at(addr).is_some()
    }

    /// A function of an allocator has returned to the program.
    fn ends(&mut self, call: &Entered, outermost: Call, result: Option<u64>, place: Place) {
        let function = &self.known.allocators[outermost.function];
        let (does, family) = (function.does, function.family.clone());
        // Zeros are defined; of allocators that somebody has named, and of options, it is not known whether there are any.
        let is_defined = matches!(does, Does::Allocate(_))
            && (["calloc", "zalloc", "mallocx", "zalloc_small", "zalloc_aligned"]
                .iter()
                .any(|end| function.name.ends_with(end))
                || matches!(family, Family::Named(_)));
        let mut stored = None;
        if matches!(does, Does::Store(_)) {
            let stores = self.doing.get_mut(&call.place.tid).and_then(|doing| doing.stores.take());
            self.is_storing = self.doing.values().any(|doing| doing.stores.is_some());
            if result == Some(0) {
                stored = stores.and_then(|storing| storing.stored).or_else(|| self.stored(call.args[0], place));
            }
        }
        let outcome = Outcome::of(does, &call.args, result, || stored, &self.heap);
        if let Some(before) = outcome.taken
            && self.heap.release(before, outermost).is_none()
            && !self.is_whole
        {
            self.heap.release_unknown(before, outermost);
        }
        if let Some(given) = outcome.given {
            let keeps = if is_defined { u64::MAX } else { given.keeps };
            self.allocated(given.start, (given.size, keeps), family, outermost);
        }
        if let Some((start, size)) = outcome.told {
            self.heap.resize(start, size);
        }
    }

    /// A block was given out, of which so many bytes have what they had.
    fn allocated(&mut self, start: Option<u64>, (size, keeps): (Option<u64>, u64), family: Family, by: Call) {
        match (start, size) {
            (Some(0), _) => {}
            (Some(start), Some(size)) => {
                self.counts.allocations += 1;
                self.counts.allocated += size;
                if let Some(undefined) = &mut self.undefined {
                    undefined.allocated(start, size, keeps, by);
                }
                self.heap.allocate(Block {
                    start,
                    size: Some(size),
                    family: Some(family),
                    allocated: Some(by),
                    freed: None,
                });
            }
            _ => {
                self.counts.unknown_allocations += 1;
                self.heap.lose();
            }
        }
    }

    /// The address that a function has stored.
    fn stored(&mut self, at: Option<u64>, place: Place) -> Option<u64> {
        let read = |cursor: &mut Cursor<'_>, at: u64| -> Result<Option<u64>> {
            cursor.seek(Seek::Place(place))?;
            Ok(cursor.read_memory(Addr(at), 8)?.try_into().ok().map(u64::from_le_bytes))
        };
        match read(self.cursor, at?) {
            Ok(found) => found,
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }

    /// A function of a library reads these bytes. Returns the start of the block of which that was told as an error, if it was.
    fn library_reads(&mut self, call: &Entered, stack: StackId, index: usize, (addr, len): (u64, u64)) -> Option<u64> {
        self.passed_in_brief(call, addr);
        if let Some(gone) = self.below.passed(call.place.tid, call.slot, addr) {
            let mut error = Error::new(Kind::Read, By::Library(index), call.place, call.function, stack);
            (error.addr, error.len, error.wrong_at, error.gone) = (addr, len, addr, Some(gone));
            self.errors.add(error, &self.frames);
            return None;
        }
        if !self.heap.shadow.may_know(addr, len) {
            return None;
        }
        let (at, why) = self.heap.shadow.first_wrong(addr, len)?;
        let mut error = Error::new(Kind::Read, By::Library(index), call.place, call.function, stack);
        (error.addr, error.len, error.wrong_at) = (addr, len, at);
        error.block = self.heap.near(at, why).map(|(block, relation)| (block.clone(), relation));
        let block = error.block.as_ref().map(|(block, _)| block.start);
        self.errors.add(error, &self.frames);
        block
    }

    /// A function copies what must not overlap.
    fn copies(&mut self, call: &Entered, index: usize) {
        let [Some(to), Some(from), Some(len), ..] = call.args else { return };
        if to != from && to < from.saturating_add(len) && from < to.saturating_add(len) {
            let stack = self.frames.stack(call.place.tid);
            let mut error = Error::new(Kind::Overlap, By::Library(index), call.place, call.function, stack);
            (error.addr, error.len, error.from) = (to, len, Some(from));
            error.block = self.heap.holding(to).map(|block| (block.clone(), Relation::Inside(to - block.start)));
            self.errors.add(error, &self.frames);
        }
    }

    /// A system call.
    fn called_system(&mut self, place: Place, ip: u64, made: Made) {
        let is_inside = self.is_inside(place.tid);
        self.brief.iter_mut().for_each(|brief| brief.called(&made));
        if !maps(&mut self.heap, (made.number, &made.args, made.result), is_inside)
            && !is_inside
            && !self.is_allocators(place.tid, ip)
        {
            self.accessed_by_kernel(place, ip, made);
        }
    }
}
