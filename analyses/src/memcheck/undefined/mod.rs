//! Undefined values: which bits of registers and memory no instruction has set, followed to where they decide something.
//!
//! The rules are those of Valgrind's memcheck ("Using Valgrind to detect undefined value errors with bit-precision", Seward and Nethercote,
//! USENIX 2005, section 2). Memory that an allocator gives out is undefined, and so is that by which the stack grows; what the kernel or another
//! process writes is defined, and so is all of which nothing is known. Where the rule for an instruction takes the values of defined bits, a
//! replay process is asked for them (`values`).
//!
//! Most blocks read nothing that is undefined: of these a recipe, made once, tells what becomes defined (`recipe`).

mod bits;
mod calls;
mod flags;
mod kinds;
mod origins;
mod recipe;
mod regs;
mod scalar;
mod strings;
mod values;
mod vector;
mod x87;

pub use origins::{Maker, Origin, OriginId};

use super::heap::{Call, Heap};
use bits::{Bits, DEFINED, Memory};
use bugnet_events::stretch::{Access, Ran};
use bugnet_format::types::{Position, ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use hashbrown::{HashMap, HashSet};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use origins::Origins;
use recipe::{FLAGS, Mask, Recipe, Step};
use regs::{Regs, low};
use smallvec::SmallVec;
use std::ops::Range;
use values::Values;

/// Bytes below the stack pointer that a function may use (x86-64 psABI, 3.2.2).
const RED_ZONE: u64 = 128;
/// How far the stack pointer moves for a frame at most; beyond that, it goes to another stack.
const LARGEST_FRAME: u64 = 1 << 26;

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
    /// Follows steps while all is defined that is read; else, the instruction that reads something undefined.
    #[inline]
    fn steps(&mut self, regs: &mut Regs, place: Place, ran: &Ran<'_>, steps: &[Step]) -> Option<usize> {
        let lens = &ran.block.traced.accesses;
        for step in steps {
            match *step {
                Step::Load { access, instruction } => {
                    let access = usize::from(access);
                    if !self.memory.is_defined(ran.address(access), lens[access].bytes.into()) {
                        return Some(instruction.into());
                    }
                }
                Step::Store { access } => {
                    let access = usize::from(access);
                    self.memory.define(ran.address(access), lens[access].bytes.into());
                }
                _ => self.stack(regs, place, ran, step),
            }
        }
        None
    }

    /// The stack pointer moves.
    fn stack(&mut self, regs: &mut Regs, place: Place, ran: &Ran<'_>, step: &Step) {
        match *step {
            Step::At { access, more } => regs.rsp = Some(ran.address(access.into()).wrapping_add(more.into())),
            Step::Call { access, origin } => {
                let rsp = ran.address(access.into());
                regs.rsp = Some(rsp);
                self.memory.undefine(rsp.saturating_sub(RED_ZONE), RED_ZONE, origin);
            }
            Step::Move { by, origin } => self.move_to(regs, regs.rsp.map(|rsp| rsp.wrapping_add_signed(by)), origin),
            Step::Round { to, origin } => self.move_to(regs, regs.rsp.map(|rsp| rsp & to), origin),
            Step::Ask { instruction, origin } => {
                let at = ran.position.0 + u64::from(instruction) + 1;
                let there = Place { position: Position(at), ..place };
                let to = match self.values.registers(there) {
                    Ok(registers) => registers.map(|registers| registers.gpr[4]),
                    Err(error) => self.fail(error),
                };
                self.move_to(regs, to, origin);
            }
            Step::Lose => regs.rsp = None,
            Step::Load { .. } | Step::Store { .. } => {}
        }
    }

    fn fail<T>(&mut self, error: ReplayError) -> Option<T> {
        self.failed.get_or_insert(error);
        None
    }

    fn move_to(&mut self, regs: &mut Regs, to: Option<u64>, origin: OriginId) {
        if let (Some(from), Some(to)) = (regs.rsp, to)
            && to < from
            && from - to < LARGEST_FRAME
        {
            self.memory.undefine(to, from - to, origin);
        }
        regs.rsp = to;
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
            && accesses.iter().all(|access| !access.reads || self.memory.first_undefined(access.addr, access.len).is_none());
        let instr = &ran.block.instructions[index].instruction;
        if restores(instr) {
            self.restore(thread, &accesses);
        } else if is_defined {
            accesses.iter().filter(|access| access.writes).for_each(|access| self.memory.define(access.addr, access.len));
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
        } else if !scalar::propagate(self, regs, at) && !vector::propagate(self, regs, at) && !x87::propagate(self, regs, at) {
            self.unknown(regs, at);
        }
    }

    /// Nobody knows what becomes of it: that counts as defined.
    fn unknown(&mut self, regs: &mut Regs, at: &At<'_>) {
        self.counts.unknown += 1;
        if std::env::var_os("BUGNET_UNKNOWN").is_some() {
            eprintln!("unknown {} {:x}", at.instr, at.instr.ip());
        }
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

    /// The access with which an instruction reads.
    fn read<'i>(at: &'i At<'_>) -> Option<&'i Access> {
        at.accesses.iter().find(|access| access.reads)
    }

    /// The V bits that an instruction loads.
    fn load(&mut self, at: &At<'_>, addr: u64, len: u64) -> (Bits, OriginId) {
        let bits = self.memory.load(addr, len);
        if bits == DEFINED {
            return (bits, OriginId::NONE);
        }
        (bits, self.loaded_from(at, addr, len))
    }

    fn loaded_from(&mut self, at: &At<'_>, addr: u64, len: u64) -> OriginId {
        let Some((first, origin)) = self.memory.first_undefined(addr, len) else { return OriginId::NONE };
        let block = at.heap.holding(first);
        self.origins.load(origin, first, (at.place, at.instr.ip()), block)
    }

    /// The V bits of an operand, by its number.
    fn operand(&mut self, regs: &Regs, at: &At<'_>, number: u32) -> (Bits, OriginId) {
        match at.instr.op_kind(number) {
            OpKind::Register => regs.get(at.instr.op_register(number)),
            OpKind::Memory => match Self::read(at).copied() {
                Some(access) => self.load(at, access.addr, access.len),
                None => (DEFINED, OriginId::NONE),
            },
            _ => (DEFINED, OriginId::NONE),
        }
    }

    /// Bytes of an operand.
    fn size(at: &At<'_>, number: u32) -> usize {
        match at.instr.op_kind(number) {
            OpKind::Register => at.instr.op_register(number).size(),
            OpKind::Memory => at.instr.memory_size().size(),
            _ => 8,
        }
    }

    /// An operand gets V bits.
    fn write(&mut self, regs: &mut Regs, at: &At<'_>, number: u32, bits: &Bits, origin: OriginId) {
        match at.instr.op_kind(number) {
            OpKind::Register => {
                let zeroes = at.instr.encoding() != iced_x86::EncodingKind::Legacy;
                regs.set(at.instr.op_register(number), bits, origin, zeroes);
            }
            OpKind::Memory => self.store(at, bits, origin),
            _ => {}
        }
    }

    /// What an instruction writes to memory has these V bits.
    fn store(&mut self, at: &At<'_>, bits: &Bits, origin: OriginId) {
        if let Some(access) = at.accesses.iter().rfind(|access| access.writes) {
            self.memory.store(access.addr, access.len, bits, origin);
        }
    }

    /// The value of an operand of up to 8 bytes before the instruction, if it can be had.
    fn value(&mut self, at: &At<'_>, number: u32) -> Option<u64> {
        match at.instr.op_kind(number) {
            OpKind::Register => self.register_value(at, at.instr.op_register(number)),
            OpKind::Memory => Some(self.wide_value(at, number)?[0]),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => None,
            _ => Some(at.instr.immediate(number)),
        }
    }

    fn register_value(&mut self, at: &At<'_>, register: Register) -> Option<u64> {
        let bit = Regs::bit(register).filter(|bit| *bit < recipe::VECTORS)?;
        let is_high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
        let value = match self.values.registers(at.place) {
            Ok(registers) => registers?.gpr[bit as usize],
            Err(error) => return self.fail(error),
        };
        Some(if is_high { value >> 8 & 0xff } else { value & low(register.size()) })
    }

    /// The value of an operand of any size.
    fn wide_value(&mut self, at: &At<'_>, number: u32) -> Option<Bits> {
        match at.instr.op_kind(number) {
            OpKind::Register => {
                let register = at.instr.op_register(number);
                let bit = Regs::bit(register)?.checked_sub(recipe::VECTORS)?;
                match self.values.registers(at.place) {
                    Ok(registers) => {
                        let bytes = registers?.ymm[bit as usize];
                        Some(vector::from_bytes(&bytes))
                    }
                    Err(error) => self.fail(error),
                }
            }
            OpKind::Memory => {
                let access = Self::read(at).copied()?;
                match self.values.memory(at.place, access.addr, access.len) {
                    Ok(bits) => bits,
                    Err(error) => self.fail(error),
                }
            }
            _ => None,
        }
    }

    /// The flags before the instruction.
    fn flags_value(&mut self, at: &At<'_>) -> Option<u64> {
        match self.values.registers(at.place) {
            Ok(registers) => Some(registers?.rflags),
            Err(error) => self.fail(error),
        }
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
