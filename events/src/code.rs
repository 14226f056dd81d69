//! What was executed, decoded: each block once.

use crate::atoms::Atoms;
use crate::effects::{Control, Decoding, Effects};
use bugnet_replay::trace::{Chunk, Run, Sum, TracedBlock};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What is computed at once, whatever the count: to find out for each block when to stop takes longer than the sums.
pub(crate) const FOUR: usize = 4;
/// Number of the stack pointer.
const RSP: usize = 4;

/// A block, decoded.
#[derive(Debug)]
pub struct Block {
    /// What the replay process says of it.
    pub traced: Arc<TracedBlock>,
    /// Its instructions.
    pub instructions: Vec<Decoded>,
    /// Bytes that it reads, and that it writes, but for those of odd accesses.
    pub bytes: [u64; 2],
    /// How often it reads, and writes, but for odd accesses.
    pub accesses: [u64; 2],
    /// Which of its accesses write, and how many bytes each, but for odd ones.
    pub stores: Vec<(u16, u64)>,
    /// Where the thread goes on behind its last instruction.
    pub control: Control,
    /// How many bytes each of its accesses has, but for odd ones.
    pub(crate) lens: Vec<u32>,
    /// Whether each of them writes.
    pub(crate) writing: Vec<bool>,
    /// The most bytes of one.
    pub(crate) longest: u64,
    /// Whether it neither calls nor returns, and no function begins with it that one wants to know of: where threads are stays as it is.
    pub is_plain: bool,
    /// Whether one of its instructions reads and writes memory in one go.
    pub has_atomic: bool,
    /// What becomes of the stack pointer before the last instruction, and by that one if it neither calls nor returns.
    pub stack: Stack,
    /// The access of the return address, where its last instruction is a call or returns.
    pub(crate) slot: Option<u16>,
    /// How many accesses, and registers, the trace has of it, and whether its one instruction is not executed: as [`Self::traced`] says, but
    /// near to what is looked at each time that it ran.
    pub(crate) traced_counts: [u32; 2],
    pub(crate) is_skipped: bool,
    /// What its instructions read and write of the registers, once somebody has asked.
    registers: OnceLock<[Atoms; 2]>,
}

/// What becomes of the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stack {
    /// It stays.
    Stays,
    /// It moves on the stack on which it is.
    Moves,
    /// It may be of another stack then: it becomes what nothing of this one tells.
    Switches,
}

impl Stack {
    /// What an instruction does to it.
    #[must_use]
    pub fn of(decoded: &Decoded) -> Self {
        let instruction = &decoded.instruction;
        let is_stack_pointer = |register: Register| register.is_gpr() && register.full_register() == Register::RSP;
        let registers =
            |number| (instruction.op_kind(number) == OpKind::Register).then(|| instruction.op_register(number));
        let names_it = || (0..instruction.op_count()).filter_map(registers).any(is_stack_pointer);
        // Most instructions have nothing to do with it, and need not be looked at more closely.
        if !(instruction.is_stack_instruction() || names_it()) || !decoded.writes().meets(Atoms::gpr(RSP)) {
            return Self::Stays;
        }
        let is_of_frame = |register: Register| matches!(register, Register::RSP | Register::RBP);
        let stays_on_it = match instruction.mnemonic() {
            Mnemonic::Mov => instruction.op1_kind() == OpKind::Register && is_of_frame(instruction.op1_register()),
            Mnemonic::Lea => is_of_frame(instruction.memory_base()),
            Mnemonic::Pop => instruction.op0_kind() != OpKind::Register || instruction.op0_register() != Register::RSP,
            Mnemonic::Sub | Mnemonic::Add | Mnemonic::And => instruction.op1_kind() != OpKind::Memory,
            Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Leave | Mnemonic::Enter => true,
            Mnemonic::Call | Mnemonic::Ret => true,
            _ => false,
        };
        if stays_on_it { Self::Moves } else { Self::Switches }
    }
}

/// An instruction, decoded.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// What it is; its address is [`Instruction::ip`].
    pub instruction: Instruction,
    /// Where the thread goes on behind it.
    pub control: Control,
    /// What it does, what it writes of the registers, and whether it may write to memory, once somebody has asked: who looks at accesses alone never does.
    does: OnceLock<(Effects, Atoms, bool)>,
}

impl Decoded {
    fn new(instruction: Instruction) -> Self {
        Self { control: Control::of(&instruction), instruction, does: OnceLock::new() }
    }

    #[inline]
    fn does(&self) -> &(Effects, Atoms, bool) {
        thread_local!(static DECODING: RefCell<Decoding> = RefCell::default());
        self.does.get_or_init(|| {
            let effects = DECODING.with_borrow_mut(|decoding| decoding.effects(&self.instruction));
            let (writes, stores) = (effects.writes(), effects.flows.iter().any(|flow| flow.to_memory));
            (effects, writes, stores)
        })
    }

    /// What it does.
    #[must_use]
    #[inline]
    pub fn effects(&self) -> &Effects {
        &self.does().0
    }

    /// What it writes of the registers, or may write.
    #[must_use]
    #[inline]
    pub fn writes(&self) -> Atoms {
        self.does().1
    }

    /// Whether it may write to memory.
    #[must_use]
    #[inline]
    pub fn stores(&self) -> bool {
        self.does().2
    }
}

/// Whether an instruction reads and writes memory in one go.
#[must_use]
pub fn is_atomic(instruction: &Instruction) -> bool {
    let has_memory = || (0..instruction.op_count()).any(|number| instruction.op_kind(number) == OpKind::Memory);
    instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg && has_memory()
}

impl Block {
    /// Of instructions alone: nothing is told of what they access.
    pub(crate) fn bare(pc: u64, code: &[u8]) -> Self {
        let count = Decoder::with_ip(64, code, pc, DecoderOptions::NONE).into_iter().count() as u16;
        let (accesses, registers) = (Vec::new(), Vec::new());
        let traced = TracedBlock { pc, count, code: code.to_vec(), accesses, skipped: false, registers, entry: None };
        Self::new(Arc::new(traced))
    }

    fn new(traced: Arc<TracedBlock>) -> Self {
        let mut decoder = Decoder::with_ip(64, &traced.code, traced.pc, DecoderOptions::NONE);
        let instructions: Vec<Decoded> = (0..traced.count).map(|_| Decoded::new(decoder.decode())).collect();
        let (mut bytes, mut accesses) = ([0; 2], [0; 2]);
        for access in &traced.accesses {
            for (number, _) in [access.reads, access.writes].iter().enumerate().filter(|(_, does)| **does) {
                bytes[number] += u64::from(access.bytes);
                accesses[number] += 1;
            }
        }
        let stores = traced.accesses.iter().zip(0_u16..).filter(|(access, _)| access.writes);
        let stores = stores.map(|(access, number)| (number, access.bytes.into())).collect();
        let traced_counts = [traced.accesses.len() as u32, traced.registers.len() as u32];
        let is_skipped = traced.skipped;
        let control = instructions.last().map_or(Control::Next, |last| last.control);
        let has_atomic = instructions.iter().any(|decoded| is_atomic(&decoded.instruction));
        let slot = traced.accesses.iter().position(|access| {
            access.instruction + 1 == traced.count
                && (control == Control::Call && access.writes || control == Control::Return && access.reads)
        });
        let slot = slot.and_then(|slot| u16::try_from(slot).ok());
        let lens: Vec<u32> = traced.accesses.iter().map(|access| access.bytes).collect();
        let writing = traced.accesses.iter().map(|access| access.writes).collect();
        let longest = lens.iter().copied().max().unwrap_or(0).into();
        let is_plain = !matches!(control, Control::Call | Control::Return) && traced_counts[1] <= 1 && !is_skipped;
        let calls = usize::from(matches!(control, Control::Call | Control::Return));
        let before = instructions.len().saturating_sub(calls);
        let stack = instructions[..before].iter().map(Stack::of).max().unwrap_or(Stack::Stays);
        Self {
            traced,
            instructions,
            bytes,
            accesses,
            stores,
            control,
            lens,
            writing,
            longest,
            is_plain,
            has_atomic,
            stack,
            slot,
            traced_counts,
            is_skipped,
            registers: OnceLock::new(),
        }
    }

    fn registers(&self) -> &[Atoms; 2] {
        self.registers.get_or_init(|| {
            let reads = self.instructions.iter().map(|decoded| decoded.effects().reads()).collect();
            [reads, self.instructions.iter().map(Decoded::writes).collect()]
        })
    }

    /// What its instructions read of the registers, for whatever purpose.
    #[must_use]
    #[inline]
    pub fn reads(&self) -> Atoms {
        self.registers()[0]
    }

    /// What they write, or may write.
    #[must_use]
    #[inline]
    pub fn writes(&self) -> Atoms {
        self.registers()[1]
    }
}

/// How the addresses of what blocks access follow from a trace, and the registers behind them.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    sums: Vec<[Sum; FOUR]>,
    /// For each block, where its sums begin and end, and how many they are without those that only fill up.
    ranges: Vec<(u32, u32, u32)>,
}

impl Plans {
    fn add(&mut self, block: &TracedBlock) {
        let start = self.sums.len() as u32;
        let accesses = block.accesses.iter().map(Sum::of_access);
        let returned = block.entry.and_then(|entry| entry.returned);
        let returned = returned.into_iter().flat_map(|(rax, target)| [(0, rax), (0, target)]);
        let stack = block.entry.and_then(|entry| entry.stack).map(|stack| (0, stack));
        let registers = block.registers.iter().copied().chain(returned).chain(stack);
        let all: Vec<Sum> = accesses.chain(registers.map(Sum::of_register)).collect();
        let four = |some: &[Sum]| std::array::from_fn(|number| some.get(number).copied().unwrap_or(Sum::NOTHING));
        self.sums.extend(all.chunks(FOUR).map(four));
        self.ranges.push((start, self.sums.len() as u32, all.len() as u32));
    }

    /// Those of the first blocks alone.
    fn first(&self, count: usize) -> Self {
        let ranges = self.ranges[..count].to_vec();
        let end = ranges.last().map_or(0, |(_, end, _)| *end as usize);
        Self { sums: self.sums[..end].to_vec(), ranges }
    }

    /// Of the block with a number, and how many of them count.
    #[inline]
    pub fn get(&self, number: u32) -> (&[[Sum; FOUR]], usize) {
        let (start, end, count) = self.ranges[number as usize];
        (&self.sums[start as usize..end as usize], count as usize)
    }
}

/// Blocks that were decoded for somebody: the same ones, of other intervals or copies of a tracer, need not be decoded again.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<Mutex<HashMap<u64, Vec<Arc<Block>>>>>);

impl Known {
    /// The block, decoded now if it was not before.
    fn block(&self, traced: &Arc<TracedBlock>) -> Arc<Block> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = known.entry(traced.pc).or_default();
        if let Some(same) = there.iter().find(|block| *block.traced == **traced) {
            return same.clone();
        }
        let block = Arc::new(Block::new(traced.clone()));
        there.push(block.clone());
        block
    }
}

/// Decodes what chunks bring.
#[derive(Default)]
pub(crate) struct Learner {
    pub plans: Plans,
    last: Option<Arc<TracedBlock>>,
    known: Option<Known>,
}

/// Blocks that one did not know before.
#[derive(Clone, Default)]
pub(crate) struct Fresh {
    /// The numbers mean other blocks from now on.
    begins_anew: bool,
    new: Vec<Arc<Block>>,
}

impl Learner {
    /// What is new among all blocks of a tracer, as [`Blocks::learn`].
    pub fn learn(&mut self, traced: &[Arc<TracedBlock>]) -> Fresh {
        let known = self.plans.ranges.len();
        // A tracer that has begun anew numbers its blocks anew.
        let begins_anew = match &self.last {
            None => true,
            Some(last) => !traced.get(known - 1).is_some_and(|traced| Arc::ptr_eq(last, traced)),
        };
        if begins_anew {
            self.plans = Plans::default();
        }
        let new = &traced[self.plans.ranges.len()..];
        new.iter().for_each(|traced| self.plans.add(traced));
        self.last = traced.last().cloned();
        let decoded = new.iter().map(|traced| match &self.known {
            Some(known) => known.block(traced),
            None => Arc::new(Block::new(traced.clone())),
        });
        Fresh { begins_anew, new: decoded.collect() }
    }
}

/// The blocks of a tracer, by their numbers.
#[derive(Default)]
pub struct Blocks {
    all: Vec<Arc<Block>>,
    learner: Learner,
}

impl Blocks {
    /// Decodes what is new in a chunk. Chunks of one tracer, and of those that go on behind it, belong together.
    pub fn learn(&mut self, chunk: &Chunk<'_>) {
        self.learn_all(chunk.blocks);
    }

    /// Decodes what is new among all blocks of a tracer.
    pub(crate) fn learn_all(&mut self, traced: &[Arc<TracedBlock>]) {
        let fresh = self.learner.learn(traced);
        self.take(fresh);
    }

    /// Takes what somebody else has learnt.
    pub(crate) fn take(&mut self, fresh: Fresh) {
        if fresh.begins_anew {
            self.all.clear();
        }
        self.all.extend(fresh.new);
    }

    /// None yet, of those that were decoded for others.
    pub(crate) fn knowing(known: &Known) -> Self {
        Self { learner: Learner { known: Some(known.clone()), ..Learner::default() }, ..Self::default() }
    }

    /// The first ones alone: those of a copy of the tracer, which was made when it had these, and goes on with numbers of its own.
    pub(crate) fn first(&self, traced: &[Arc<TracedBlock>]) -> Self {
        let (count, known) = (traced.len(), self.learner.known.clone());
        let plans = self.learner.plans.first(count);
        let learner = Learner { plans, last: traced.last().cloned(), known };
        Self { all: self.all[..count].to_vec(), learner }
    }

    /// What a block accessed of memory when it ran, as [`Self::accessed`], and whether it writes.
    #[inline]
    pub fn touched<'a>(&'a self, chunk: &'a Chunk<'_>, run: Run) -> impl Iterator<Item = (u64, u32, bool)> + 'a {
        let (sums, _) = self.learner.plans.get(run.block);
        let sums = sums.iter().flatten().map(move |sum| chunk.sum(run, sum));
        let block = self.get(run.block);
        sums.zip(block.lens.iter().zip(&block.writing)).map(|(addr, (len, writes))| (addr, *len, *writes))
    }

    /// What a block accessed of memory when it ran: first bytes, and how many; without what stands in [`Chunk::odd`].
    #[inline]
    pub fn accessed<'a>(&'a self, chunk: &'a Chunk<'_>, run: Run) -> impl Iterator<Item = (u64, u32)> + 'a {
        let (sums, _) = self.learner.plans.get(run.block);
        let sums = sums.iter().flatten().map(move |sum| chunk.sum(run, sum));
        sums.zip(&self.get(run.block).lens).map(|(addr, len)| (addr, *len))
    }

    pub(crate) fn plans(&self) -> &Plans {
        &self.learner.plans
    }

    /// The block with a number.
    ///
    /// # Panics
    /// There is none in the chunks that were learnt.
    #[must_use]
    #[inline]
    pub fn get(&self, number: u32) -> &Block {
        &self.all[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_instructions() {
        let is = |code: &[u8]| is_atomic(&Decoder::new(64, code, DecoderOptions::NONE).decode());
        // lock inc dword ptr [rax]; xchg [rax], ecx; xchg eax, ecx; inc dword ptr [rax]
        assert!(is(&[0xf0, 0xff, 0x00]) && is(&[0x87, 0x08]));
        assert!(!is(&[0x91]) && !is(&[0xff, 0x00]));
    }
}
