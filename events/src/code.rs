//! What was executed, decoded: each block once.

use crate::atoms::Atoms;
use crate::effects::{Decoding, Effects};
use bugnet_replay::trace::{Chunk, TracedBlock};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::sync::Arc;

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
    /// What its instructions write of the registers, or may write.
    pub writes: Atoms,
    /// What they read, for whatever purpose.
    pub reads: Atoms,
    /// Which of its accesses write, and how many bytes each, but for odd ones.
    pub stores: Vec<(u16, u64)>,
}

/// An instruction, decoded.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// What it is; its address is [`Instruction::ip`].
    pub instruction: Instruction,
    /// What it does.
    pub effects: Effects,
    /// What it writes of the registers, or may write.
    pub writes: Atoms,
    /// Whether it may write to memory.
    pub stores: bool,
}

impl Block {
    fn new(traced: Arc<TracedBlock>, decoding: &mut Decoding) -> Self {
        let mut decoder = Decoder::with_ip(64, &traced.code, traced.pc, DecoderOptions::NONE);
        let mut next = || {
            let instruction = decoder.decode();
            let effects = decoding.effects(&instruction);
            let stores = effects.flows.iter().any(|flow| flow.to_memory);
            Decoded { writes: effects.writes(), stores, instruction, effects }
        };
        let instructions: Vec<Decoded> = (0..traced.count).map(|_| next()).collect();
        let writes = instructions.iter().map(|decoded| decoded.writes).collect();
        let (mut bytes, mut accesses) = ([0; 2], [0; 2]);
        for access in &traced.accesses {
            for (number, _) in [access.reads, access.writes].iter().enumerate().filter(|(_, does)| **does) {
                bytes[number] += u64::from(access.bytes);
                accesses[number] += 1;
            }
        }
        let reads = instructions.iter().map(|decoded| decoded.effects.reads()).collect();
        let stores = traced.accesses.iter().zip(0_u16..).filter(|(access, _)| access.writes);
        let stores = stores.map(|(access, number)| (number, access.bytes.into())).collect();
        Self { traced, instructions, bytes, accesses, writes, reads, stores }
    }
}

/// The blocks of a tracer, by their numbers.
#[derive(Default)]
pub struct Blocks {
    all: Vec<Block>,
    decoding: Decoding,
}

impl Blocks {
    /// Decodes what is new in a chunk. Chunks of one tracer, and of those that go on behind it, belong together.
    pub fn learn(&mut self, chunk: &Chunk<'_>) {
        // A tracer that has begun anew numbers its blocks anew.
        let is_same = |(own, traced): (&Block, &Arc<TracedBlock>)| Arc::ptr_eq(&own.traced, traced);
        if self.all.len() > chunk.blocks.len()
            || !self.all.last().zip(chunk.blocks.get(self.all.len().wrapping_sub(1))).is_none_or(is_same)
        {
            self.all.clear();
        }
        for traced in &chunk.blocks[self.all.len()..] {
            self.all.push(Block::new(traced.clone(), &mut self.decoding));
        }
    }

    /// The block with a number.
    ///
    /// # Panics
    /// There is none in the chunks that were learnt.
    #[must_use]
    pub fn get(&self, number: u32) -> &Block {
        &self.all[number as usize]
    }
}
