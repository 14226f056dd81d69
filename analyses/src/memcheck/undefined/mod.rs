//! Undefined values: which bits of registers and memory no instruction has set, followed to where they decide something.
//!
//! The rules are those of Valgrind's memcheck ("Using Valgrind to detect undefined value errors with bit-precision", Seward and Nethercote,
//! USENIX 2005, section 2). Memory that an allocator gives out is undefined, and so is that by which the stack grows; what the kernel or another
//! process writes is defined, and so is all of which nothing is known. Where the rule for an instruction takes the values of defined bits, a
//! replay process is asked for them (`values`).
//!
//! Most blocks read nothing that is undefined: of these a recipe, made once, tells what becomes defined (`recipe`).

mod arrange;
mod bits;
mod bitwise;
mod calls;
mod flags;
mod kinds;
mod operands;
mod origins;
mod recipe;
mod regs;
mod scalar;
mod stack;
mod stored;
mod strings;
mod values;
mod vector;
mod x87;

pub use origins::{Maker, Origin, OriginId};

use super::heap::{Call, Heap};
use bits::{DEFINED, Memory};
use bugnet_events::stretch::{Access, Ran};
use bugnet_format::types::{Position, ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use hashbrown::{HashMap, HashSet};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use origins::Origins;
use recipe::{FLAGS, Mask, Recipe};
use regs::Regs;
use smallvec::SmallVec;
use std::ops::Range;
use values::Values;

/// For what an undefined value is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Which way a branch goes.
    Branch,
    /// Where a jump, a call or a return goes.
    Jump,
    /// Which memory is accessed.
    Address,
    /// An argument of a system call, by its index from 0, or 6: its number.
    Argument(u8),
    /// Memory that a system call takes: the address of the first byte that is undefined.
    Taken(u64),
}

/// An undefined value was used.
#[derive(Clone, Debug)]
pub struct Used {
    pub what: Use,
    pub place: Place,
    pub ip: u64,
    pub instruction: Instruction,
    pub origin: OriginId,
}

/// How much there was to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UndefinedCounts {
    /// Blocks of code that ran.
    pub blocks: u64,
    /// Instructions with something undefined.
    pub instructions: u64,
    /// How often a replay was asked for values.
    pub asked: u64,
    /// How often it is not known whether something is defined, which counts as defined.
    pub unknown: u64,
}

#[derive(Default)]
struct Thread {
    regs: Regs,
    /// What signals' handlers have interrupted.
    interrupted: Vec<Regs>,
    /// Vector registers that were saved in memory in one go, by its address.
    saved: Vec<(u64, Regs)>,
}

/// What is followed.
pub struct Undefined<'a> {
    recipes: HashMap<usize, Recipe>,
    threads: Vec<(Tid, Thread)>,
    last: usize,
    /// Origins that were reported.
    reported: HashSet<OriginId>,
    flow: Flow<'a>,
}

/// What all threads have in common.
struct Flow<'a> {
    memory: Memory,
    origins: Origins,
    values: Values<'a>,
    found: Vec<Used>,
    counts: UndefinedCounts,
    failed: Option<ReplayError>,
}

/// An instruction that is executed.
struct At<'i> {
    instr: &'i Instruction,
    accesses: SmallVec<[Access; 4]>,
    place: Place,
    heap: &'i Heap,
    /// What it does to registers.
    used: recipe::Used,
}

impl<'a> Undefined<'a> {
    /// Before the first instruction, all is defined.
    pub fn new(tools: &'a Tools, log: &'a Log, pid: ProcessId) -> Self {
        let flow = Flow {
            memory: Memory::default(),
            origins: Origins::default(),
            values: Values::new(tools, log, pid),
            found: Vec::new(),
            counts: UndefinedCounts::default(),
            failed: None,
        };
        Self { recipes: HashMap::new(), threads: Vec::new(), last: 0, reported: HashSet::new(), flow }
    }

    /// What was found since one asked last.
    pub fn found(&mut self) -> Vec<Used> {
        std::mem::take(&mut self.flow.found)
    }

    /// Whether a use is the first one of what comes from there.
    pub fn is_first(&mut self, used: &Used) -> bool {
        used.origin == OriginId::NONE || self.reported.insert(used.origin)
    }

    /// Whether there is something.
    #[inline]
    pub fn has_found(&self) -> bool {
        !self.flow.found.is_empty()
    }

    pub fn counts(&self) -> UndefinedCounts {
        UndefinedCounts { asked: self.flow.values.asked, ..self.flow.counts }
    }

    pub fn origin(&self, id: OriginId) -> Option<&Origin> {
        self.flow.origins.get(id)
    }

    /// What has failed, if anything.
    ///
    /// # Errors
    /// A replay process was lost.
    pub fn check(&mut self) -> Result<()> {
        self.flow.failed.take().map_or(Ok(()), Err)
    }

    fn thread(threads: &mut Vec<(Tid, Thread)>, last: &mut usize, tid: Tid) -> usize {
        if threads.get(*last).is_none_or(|(known, _)| *known != tid) {
            *last = threads.iter().position(|(known, _)| *known == tid).unwrap_or(threads.len());
            if *last == threads.len() {
                threads.push((tid, Thread::default()));
            }
        }
        *last
    }

    /// A thread executes a part of a block.
    #[inline]
    pub fn ran(&mut self, place: Place, ran: &Ran<'_>, part: &Range<usize>, heap: &Heap) {
        let Self { recipes, threads, last, flow, .. } = self;
        let key = std::sync::Arc::as_ptr(&ran.block.traced) as usize;
        let recipe = recipes.entry(key).or_insert_with(|| Recipe::of(ran.block, &mut flow.origins));
        let number = Self::thread(threads, last, place.tid);
        let thread = &mut threads[number].1;
        flow.counts.blocks += 1;
        let is_whole = part.start == 0 && part.end == recipe.used.len();
        let mut from = part.start;
        if is_whole && thread.regs.mask & recipe.reads == 0 && !recipe.is_special && !ran.is_odd() {
            match flow.steps(&mut thread.regs, place, ran, &recipe.steps) {
                None => {
                    thread.regs.clear(recipe.clears);
                    return;
                }
                Some(instruction) => from = instruction,
            }
            let cleared = recipe.used[..from].iter().fold(0, |all, used| all | used.clears);
            thread.regs.clear(cleared);
        }
        for index in from..part.end {
            let here = Place { position: Position(place.position.0 + (index - part.start) as u64), ..place };
            flow.one(thread, recipe, ran, index, (here, heap));
        }
    }

    /// A signal's handler begins: the kernel has put down what was interrupted.
    pub fn delivered(&mut self, tid: Tid, frame: u64) {
        /// Bytes that are enough for any of the kernel's frames.
        const FRAME: u64 = 1 << 14;
        let number = Self::thread(&mut self.threads, &mut self.last, tid);
        let thread = &mut self.threads[number].1;
        let end = thread.regs.rsp.filter(|rsp| frame < *rsp && rsp - frame < FRAME).unwrap_or(frame + FRAME / 2);
        self.flow.memory.define(frame, end - frame);
        thread.interrupted.push(std::mem::take(&mut thread.regs));
        thread.regs.rsp = Some(frame);
    }

    /// The handler is over.
    pub fn returned(&mut self, tid: Tid) {
        let number = Self::thread(&mut self.threads, &mut self.last, tid);
        let thread = &mut self.threads[number].1;
        thread.regs = thread.interrupted.pop().unwrap_or_default();
    }

    /// The parent of a child of `vfork` goes on, with registers of which nothing is known to be undefined.
    pub fn resumed(&mut self, tid: Tid) {
        let number = Self::thread(&mut self.threads, &mut self.last, tid);
        self.threads[number].1.regs = Default::default();
    }

    /// An allocator gives memory out, of which the first bytes have what they had.
    pub fn allocated(&mut self, start: u64, size: u64, keeps: u64, call: Call) {
        let origin = self.flow.origins.heap(call);
        if keeps < size {
            self.flow.memory.undefine(start.saturating_add(keeps), size - keeps, origin);
        }
    }

    /// Nothing of this is undefined.
    pub fn define(&mut self, start: u64, len: u64) {
        self.flow.memory.define(start, len);
    }
}

impl Flow<'_> {
    fn fail<T>(&mut self, error: ReplayError) -> Option<T> {
        self.failed.get_or_insert(error);
        None
    }

    /// One instruction.
    fn one(
        &mut self,
        thread: &mut Thread,
        recipe: &Recipe,
        ran: &Ran<'_>,
        index: usize,
        (place, heap): (Place, &Heap),
    ) {
        let used = recipe.used[index];
        let accesses: SmallVec<[Access; 4]> = ran.accesses(index).collect();
        let is_defined = thread.regs.mask & used.reads == 0
            && accesses
                .iter()
                .all(|access| !access.reads || self.memory.first_undefined(access.addr, access.len).is_none());
        let instr = &ran.block.instructions[index].instruction;
        if restores(instr) {
            self.restore(thread, &accesses);
        } else if is_defined {
            accesses
                .iter()
                .filter(|access| access.writes)
                .for_each(|access| self.memory.define(access.addr, access.len));
            thread.regs.clear(used.clears);
        } else {
            self.counts.instructions += 1;
            let at = At { instr, accesses, place, heap, used };
            self.propagate(&mut thread.regs, &at);
        }
        let steps = usize::from(recipe.starts[index])..usize::from(recipe.starts[index + 1]);
        for step in &recipe.steps[steps] {
            self.stack(&mut thread.regs, place, ran, step);
        }
    }

    /// Vector registers come from where they were saved.
    fn restore(&mut self, thread: &mut Thread, accesses: &[Access]) {
        let from = accesses.iter().find(|access| access.reads).map(|access| access.addr);
        let saved = thread.saved.iter().rposition(|(addr, _)| Some(*addr) == from);
        let vectors = ((1 << 16) - 1) << recipe::VECTORS;
        thread.regs.clear(vectors);
        if let Some(saved) = saved {
            let regs = &thread.saved[saved].1;
            thread.regs.ymm = regs.ymm;
            thread.regs.mask |= regs.mask & vectors;
            let range = recipe::VECTORS as usize..recipe::FLAGS as usize;
            thread.regs.origins[range.clone()].copy_from_slice(&regs.origins[range]);
            thread.saved.truncate(saved);
        }
    }

    /// An instruction reads something undefined.
    fn propagate(&mut self, regs: &mut Regs, at: &At<'_>) {
        self.check_address(regs, at);
        if at.instr.is_string_instruction() {
            strings::propagate(self, regs, at);
        } else if !scalar::propagate(self, regs, at)
            && !vector::propagate(self, regs, at)
            && !x87::propagate(self, regs, at)
        {
            self.unknown(regs, at);
        }
    }

    /// Nobody knows what becomes of it: that counts as defined.
    fn unknown(&mut self, regs: &mut Regs, at: &At<'_>) {
        self.counts.unknown += 1;
        regs.clear(at.used.clears);
        for access in at.accesses.iter().filter(|access| access.writes) {
            self.memory.define(access.addr, access.len);
        }
        if at.instr.rflags_modified() != 0 {
            regs.set_flags(regs::ALL, 0, None, OriginId::NONE);
        }
        if at.instr.op_count() > 0 && at.instr.op0_kind() == OpKind::Register {
            regs.set(at.instr.op0_register(), &DEFINED, OriginId::NONE, false);
        }
    }

    /// The registers of an address are to be defined.
    fn check_address(&mut self, regs: &mut Regs, at: &At<'_>) {
        let instr = at.instr;
        let has_address = !at.accesses.is_empty() && instr.mnemonic() != Mnemonic::Lea;
        let is_memory = (0..instr.op_count()).any(|number| instr.op_kind(number) == OpKind::Memory);
        if !has_address || !is_memory {
            return;
        }
        for register in [instr.memory_base(), instr.memory_index()] {
            self.check_register(regs, at, register, Use::Address);
        }
    }

    /// A register is used for something that has to be defined.
    fn check_register(&mut self, regs: &mut Regs, at: &At<'_>, register: Register, what: Use) {
        let (bits, origin) = regs.get(register);
        if bits != DEFINED {
            self.used(at, what, origin);
            regs.set(register.full_register(), &DEFINED, OriginId::NONE, false);
        }
    }

    /// Something undefined decides.
    fn used(&mut self, at: &At<'_>, what: Use, origin: OriginId) {
        let (place, ip, instruction) = (at.place, at.instr.ip(), *at.instr);
        self.found.push(Used { what, place, ip, instruction, origin });
    }

    /// A branch goes by flags.
    fn decides(&mut self, regs: &mut Regs, at: &At<'_>, mask: Mask) {
        let origin = regs.origins[mask.trailing_zeros() as usize];
        self.used(at, Use::Branch, origin);
        regs.clear(mask);
        if mask == 1 << FLAGS {
            regs.set_flags(regs::ALL, 0, None, OriginId::NONE);
        }
    }
}

fn restores(instr: &Instruction) -> bool {
    matches!(instr.mnemonic(), Mnemonic::Xrstor | Mnemonic::Xrstor64 | Mnemonic::Fxrstor | Mnemonic::Fxrstor64)
}
