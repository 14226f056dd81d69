//! Goes through what all threads of a run executed, and hands on accesses: by whom, in which call, and for which line of the program's own.

use super::object::Object;
use crate::races::clock::Epoch;
use crate::races::heap::{Heap, names};
use crate::races::open::OpenCalls;
use crate::races::place::{Code, Doing, Modules, Whereabouts};
use crate::races::times::Times;
use crate::runs::scene::Spot;
use crate::runs::side::Side;
use bugnet_events::calls::{Called, Calls};
use bugnet_events::effects::Control;
use bugnet_events::onward::walk_on;
use bugnet_events::stretch::Ran;
use bugnet_events::walk::{Did, Visit};
use bugnet_format::types::{Addr, Tid};
use bugnet_replay::Result;
use bugnet_replay::cursor::{Place, Seek};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::trace::Wanted;
use std::collections::{BTreeMap, HashMap};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// An access of memory.
pub struct Access {
    /// Where in the execution.
    pub epoch: Epoch,
    /// The thread's number, and whether a handler in it made the access.
    pub actor: (usize, bool),
    /// The number of the call.
    pub call: u64,
    /// The instruction; for what the C library does for its caller, that of the program's own that called it.
    pub ip: u64,
    pub addr: u64,
    pub len: u64,
    pub reads: bool,
    pub writes: bool,
}

/// Who looks at accesses.
pub trait Look {
    /// Whether it may be interested in what a block accesses.
    fn may_want(&mut self, ran: &Ran<'_>) -> bool;
    /// Looks at an access.
    fn access(&mut self, access: &Access, memory: &mut Memory);
    /// A block of the heap was given out.
    fn allocated(&mut self, start: u64, len: u64, object: &Object);
}

/// What memory is.
pub struct Memory {
    symbols: Symbolizer,
    globals: HashMap<u64, Option<Object>>,
    /// Blocks of the heap, by where they begin.
    blocks: BTreeMap<u64, (u64, Object)>,
}

impl Memory {
    /// The global variable or block that an address is in; none if it is of a stack, or nobody knows.
    pub fn object(&mut self, addr: u64) -> Option<&Object> {
        let Self { symbols, globals, blocks } = self;
        let global = globals.entry(addr).or_insert_with(|| Some(Object::Global(symbols.name_at(Addr(addr))?.0)));
        if global.is_some() {
            return global.as_ref();
        }
        let (start, (len, object)) = blocks.range(..=addr).next_back()?;
        (addr - start < *len).then_some(object)
    }
}

struct Thread {
    whereabouts: Whereabouts,
    calls: OpenCalls,
    /// The last call of the program's own.
    own: u64,
}

/// A walk through a run.
pub struct Follow {
    times: Times,
    code: Code,
    heap: Heap,
    open: Calls,
    threads: Vec<Thread>,
    /// The number of the last call.
    calls: u64,
    memory: Memory,
    /// From where allocators were called, by the slots of their return addresses.
    asked: HashMap<(Tid, u64), Object>,
}

impl Follow {
    /// From the beginning of a run.
    pub fn new(side: &Side<'_>) -> Result<Self> {
        let (log, pid) = (side.recorded.log, side.recorded.pid);
        let times = Times::new(log, pid)?;
        let mut symbols = Symbolizer::new(log, pid)?;
        let heap = Heap::new(symbols.functions(&names()));
        let code = Code::new(Modules::new(log, pid)?, Symbolizer::new(log, pid)?);
        let thread = |number: usize| Thread {
            whereabouts: Whereabouts::new(number == 0),
            calls: OpenCalls::new(number as u64),
            own: 0,
        };
        Ok(Self {
            threads: (0..times.len()).map(thread).collect(),
            calls: times.len() as u64,
            times,
            code,
            heap,
            open: Calls::default(),
            memory: Memory { symbols, globals: HashMap::new(), blocks: BTreeMap::new() },
            asked: HashMap::new(),
        })
    }

    /// Goes to the end; what knows the places of the accesses.
    pub fn walk(mut self, side: &mut Side<'_>, look: &mut dyn Look) -> Result<Times> {
        let functions = self.heap.functions().collect::<std::collections::BTreeSet<u64>>().into_iter().collect();
        let wanted = Arc::new(Wanted { functions, ..Wanted::default() });
        side.cursor.seek(Seek::Start)?;
        let start = side.cursor.place();
        walk_on(side.recorded.tools, side.recorded.log, side.recorded.pid, start, &wanted, &mut |visit| {
            self.visit(visit, look);
            ControlFlow::Continue(())
        })?;
        Ok(self.times)
    }

    fn visit(&mut self, visit: Visit<'_>, look: &mut dyn Look) {
        let mut called = Vec::new();
        self.open.visit(&visit, &mut |one| match one {
            Called::Entered(call) => called.push((true, call.clone(), None)),
            Called::Returned { call, result, .. } => {
                self.heap.called(one);
                called.push((false, call.clone(), result));
            }
            Called::Left(_) => {}
        });
        for (begins, call, result) in called {
            let key = (call.place.tid, call.slot);
            if begins {
                let object = self.asked_from(call.place);
                self.asked.insert(key, object);
            } else if let (Some(object), Some(start)) = (self.asked.remove(&key), result)
                && let Some(block) = self.heap.block(start).filter(|block| block.place == call.place)
            {
                look.allocated(start, block.len, &object);
                self.memory.blocks.insert(start, (block.len, object));
            }
        }
        self.heap.changes.clear();
        match visit {
            Visit::Ran { place, ran, instructions } => self.ran(place, ran, instructions, look),
            Visit::Skipped { place, did: Did::Return, .. } => {
                let Some((thread, _)) = self.times.count(place) else { return };
                self.threads[thread].whereabouts.resume();
                self.threads[thread].calls.resume();
            }
            Visit::Skipped { .. } | Visit::Resumed { .. } => {}
            Visit::Delivered { place, .. } => {
                let Some((thread, _)) = self.times.count(place) else { return };
                self.threads[thread].whereabouts.interrupt();
                self.threads[thread].calls.interrupt(&mut self.calls);
            }
        }
    }

    /// What an allocator gives out that is called now, named by the line that called it.
    fn asked_from(&mut self, place: Place) -> Object {
        let own = self.times.count(place).map_or(0, |(thread, _)| self.threads[thread].own);
        Object::Block(Spot::of(&mut self.memory.symbols, own).to_string())
    }

    fn ran(&mut self, place: Place, ran: &Ran<'_>, instructions: Range<usize>, look: &mut dyn Look) {
        let Some((thread, count)) = self.times.count(place) else { return };
        let known = self.code.of(ran.block);
        let state = &mut self.threads[thread];
        if instructions.start == 0 {
            state.whereabouts.enter(known);
        }
        let doing = known.doing(&state.whereabouts);
        if doing == Doing::Own && known.ends == Control::Call && instructions.end == ran.block.instructions.len() {
            // What libraries do next, they do for this one; stubs on the way to them jump.
            state.own = ran.block.instructions[instructions.end - 1].instruction.ip();
        }
        if doing.is_looked_at() && look.may_want(ran) {
            for number in instructions.clone() {
                let ip = if doing == Doing::Own { ran.block.instructions[number].instruction.ip() } else { state.own };
                let epoch = Epoch::new(thread, count + (number - instructions.start) as u64);
                for touched in ran.accesses(number) {
                    let access = Access {
                        epoch,
                        actor: (thread, state.whereabouts.in_handler()),
                        call: state.calls.innermost(),
                        ip,
                        addr: touched.addr,
                        len: touched.len,
                        reads: touched.reads,
                        writes: touched.writes,
                    };
                    look.access(&access, &mut self.memory);
                }
            }
        }
        if instructions.end == ran.block.instructions.len() {
            state.calls.ended(ran, &mut self.calls);
        }
    }
}
