//! A stretch of an execution that stays, whatever the replay process writes next: what one walks backwards through.

use crate::code::{Block, Blocks};
use bugnet_format::types::Position;
use bugnet_replay::trace::{Chunk, OddAccess, Run, TracedAccess};

/// What was executed in a stretch of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    first: u64,
    len: u32,
    runs: Vec<Run>,
    /// For each run, where its addresses begin.
    starts: Vec<u32>,
    addresses: Vec<u64>,
    odd: Vec<OddAccess>,
}

/// A block that was executed, in a stretch.
#[derive(Clone, Copy)]
pub struct Ran<'a> {
    /// The block.
    pub block: &'a Block,
    /// Its first instruction's position.
    pub position: Position,
    addresses: &'a [u64],
    odd: &'a [OddAccess],
    word: u32,
}

/// An access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Whether all of these bytes are accessed for sure; else, some of them.
    pub whole: bool,
}

impl Ran<'_> {
    /// What the block accesses of memory: first bytes, and how many.
    pub fn touched(&self) -> impl Iterator<Item = (u64, u64)> {
        let plain = self.block.traced.accesses.iter().zip(self.addresses);
        let plain = plain.map(|(access, addr)| (*addr, access.bytes.into()));
        plain.chain(self.odd.iter().map(|odd| (odd.addr, odd.len)))
    }

    /// Where the block writes to memory: first bytes, and how many.
    #[inline]
    pub fn stores(&self) -> impl Iterator<Item = (u64, u64)> {
        let plain = self.block.stores.iter().map(|(access, bytes)| (self.addresses[usize::from(*access)], *bytes));
        plain.chain(self.odd.iter().filter(|odd| odd.writes).map(|odd| (odd.addr, odd.len)))
    }

    /// What the block's instruction with this index accesses.
    pub fn accesses(&self, instruction: usize) -> impl Iterator<Item = Access> {
        let traced = &self.block.traced.accesses;
        let from = traced.partition_point(|access| usize::from(access.instruction) < instruction);
        let own = move |access: &&TracedAccess| usize::from(access.instruction) == instruction;
        let plain = traced[from..].iter().take_while(own).zip(&self.addresses[from..]).map(|(access, addr)| Access {
            addr: *addr,
            len: access.bytes.into(),
            reads: access.reads,
            writes: access.writes,
            whole: true,
        });
        let word = self.word + instruction as u32;
        let odd = self.odd.iter().filter(move |odd| odd.word == word).map(|odd| Access {
            addr: odd.addr,
            len: odd.len,
            reads: !odd.writes,
            writes: odd.writes,
            whole: odd.whole,
        });
        plain.chain(odd)
    }
}

impl Stretch {
    /// Of a chunk, whose blocks were learnt.
    #[must_use]
    pub fn of(chunk: &Chunk<'_>, blocks: &Blocks) -> Self {
        let (mut starts, mut addresses) = (Vec::with_capacity(chunk.runs.len()), Vec::new());
        for run in chunk.runs {
            starts.push(addresses.len() as u32);
            addresses.extend(blocks.get(run.block).traced.accesses.iter().map(|access| chunk.address(*run, access)));
        }
        let (first, len, odd) = (chunk.first.0, chunk.len, chunk.odd.clone());
        Self { first, len, runs: chunk.runs.to_vec(), starts, addresses, odd }
    }

    /// The position of its first instruction.
    #[must_use]
    pub fn first(&self) -> Position {
        Position(self.first)
    }

    /// The position behind its last one.
    #[must_use]
    pub fn end(&self) -> Position {
        Position(self.first + u64::from(self.len))
    }

    /// What was executed, in order, or backwards by `rev`. `blocks` are those with which it was made, or what became of them since.
    pub fn ran<'a>(&'a self, blocks: &'a Blocks) -> impl DoubleEndedIterator<Item = Ran<'a>> {
        (0..self.len()).map(|index| self.at(index, blocks))
    }

    /// How many blocks were executed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The block with this index among those that were executed, as [`Self::ran`] has them.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    #[inline]
    pub fn at<'a>(&'a self, index: usize, blocks: &'a Blocks) -> Ran<'a> {
        let (run, start) = (self.runs[index], self.starts[index] as usize);
        let block = blocks.get(run.block);
        let odd = match &*self.odd {
            [] => &[],
            odd => &odd[odd.partition_point(|odd| odd.word < run.word)..],
        };
        Ran {
            block,
            position: Position(self.first + u64::from(run.word)),
            addresses: &self.addresses[start..start + block.traced.accesses.len()],
            odd: &odd[..odd.partition_point(|odd| odd.word < run.word + u32::from(block.traced.count))],
            word: run.word,
        }
    }
}
