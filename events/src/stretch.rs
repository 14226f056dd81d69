//! A stretch of an execution that stays, whatever the replay process writes next: what one walks backwards through.

use crate::code::{Block, Blocks, FOUR, Plans};
use bugnet_format::types::Position;
use bugnet_replay::trace::{Chunk, OddAccess, Run as TracedRun, ToldAccess, TracedAccess};
use std::ops::Range;

/// What was executed in a stretch of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    first: u64,
    len: u32,
    runs: Vec<Run>,
    addresses: Vec<u64>,
    odd: Vec<OddAccess>,
    /// Accesses of shaded memory, where these are told.
    told: Vec<ToldAccess>,
}

/// Which block was executed, and where what belongs to it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Its first instruction, counted from the stretch's.
    word: u32,
    /// Its number.
    block: u32,
    /// Its addresses, behind which its registers are.
    start: u32,
    /// Its odd accesses.
    odd: u32,
    /// Its accesses of shaded memory, behind which are those of what was executed before the next one.
    told: u32,
}

/// A block that was executed, in a stretch.
#[derive(Clone, Copy)]
pub struct Ran<'a> {
    /// The block.
    pub block: &'a Block,
    /// Its first instruction's position.
    pub position: Position,
    /// Its addresses, then its registers, then what belongs to blocks behind it.
    words: &'a [u64],
    odd: &'a [OddAccess],
    /// Accesses of shaded memory.
    told: &'a [ToldAccess],
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
    /// Whether it is told where the call in which it was made is not: that has returned, before the thread has made such an access anew.
    pub is_over: bool,
}

impl Access {
    #[inline]
    fn of(told: &ToldAccess) -> Self {
        let ToldAccess { addr, len, .. } = *told;
        let (reads, writes, whole) = (told.reads(), told.writes(), told.is_whole());
        Self { addr, len, reads, writes, whole, is_over: told.is_over() }
    }
}

/// Instructions that were executed one after the other in blocks that an outline has not.
#[derive(Clone, Copy)]
pub struct Untold<'a> {
    /// The first one's position.
    pub position: Position,
    /// How many.
    pub len: u64,
    blocks: &'a Blocks,
    /// The position of the stretch's first instruction.
    first: u64,
    told: &'a [ToldAccess],
}

impl<'a> Untold<'a> {
    /// Their accesses of shaded memory, and perhaps others: each with its instruction, counted from the first one, and with a block that has this
    /// instruction alone.
    #[inline]
    pub fn told(&self) -> impl Iterator<Item = (u64, &'a Block, Access)> {
        let Self { position, blocks, first, told, .. } = *self;
        let before = position.0 - first;
        told.iter().map(move |one| (u64::from(one.word) - before, blocks.get(one.block()), Access::of(one)))
    }
}

impl Ran<'_> {
    #[inline]
    fn addresses(&self) -> &[u64] {
        &self.words[..self.block.traced_counts[0] as usize]
    }

    #[inline]
    fn registers(&self) -> &[u64] {
        let [accesses, registers] = self.block.traced_counts.map(|count| count as usize);
        &self.words[accesses..accesses + registers]
    }

    /// Whether the block may access something of a range: always where it does. This costs less than a look at each access.
    #[must_use]
    #[inline]
    pub fn may_touch(&self, range: &Range<u64>) -> bool {
        // What begins before this ends before the range, however long it is.
        let low = range.start.saturating_sub(self.block.longest);
        let size = range.end.saturating_sub(low);
        let mut left = self.block.traced_counts[0];
        for four in self.words.as_chunks::<FOUR>().0 {
            let is_in = four.map(|addr| u32::from(addr.wrapping_sub(low) < size));
            let bits = is_in[0] | is_in[1] << 1 | is_in[2] << 2 | is_in[3] << 3;
            if bits & ((1 << left.min(FOUR as u32)) - 1) != 0 {
                return true;
            }
            if left <= FOUR as u32 {
                break;
            }
            left -= FOUR as u32;
        }
        self.is_odd()
    }

    /// The value of a general purpose register, by its number, where the block begins; none where it was not asked for, or the block has no
    /// room for it.
    #[must_use]
    pub fn register(&self, number: u8) -> Option<u64> {
        let known = self.block.traced.registers.iter().position(|(known, _)| *known == number)?;
        self.registers().get(known).copied()
    }

    /// In an outline, what is in RAX where the block returns with its last instruction, and where it goes on; none elsewhere.
    #[must_use]
    #[inline]
    pub fn returned(&self) -> Option<(u64, u64)> {
        self.block.traced.entry?.returned?;
        let [accesses, registers] = self.block.traced_counts.map(|count| count as usize);
        let from = accesses + registers;
        Some((*self.words.get(from)?, *self.words.get(from + 1)?))
    }

    /// In an outline of open calls, where the stack pointer is behind the last instruction of the block that may take it to another stack; none if
    /// that is not told.
    #[must_use]
    pub fn stack(&self) -> Option<u64> {
        let entry = self.block.traced.entry?;
        entry.stack?;
        let [accesses, registers] = self.block.traced_counts.map(|count| count as usize);
        let returned = if entry.returned.is_some() { 2 } else { 0 };
        self.words.get(accesses + registers + returned).copied()
    }

    /// How many registers are known where the block begins.
    #[must_use]
    #[inline]
    pub fn registers_told(&self) -> usize {
        self.block.traced_counts[1] as usize
    }

    /// What the block accesses of memory: first bytes, and how many.
    #[inline]
    pub fn touched(&self) -> impl Iterator<Item = (u64, u64)> {
        let plain = self.addresses().iter().zip(&self.block.lens).map(|(addr, len)| (*addr, (*len).into()));
        plain.chain(self.odd.iter().map(|odd| (odd.addr, odd.len)))
    }

    /// The first byte of an access, by its index among [`bugnet_replay::trace::TracedBlock::accesses`].
    ///
    /// # Panics
    /// The block has not so many.
    #[must_use]
    #[inline]
    pub fn address(&self, access: usize) -> u64 {
        self.addresses()[access]
    }

    /// Whether there were accesses of which the block does not tell where they are.
    #[must_use]
    #[inline]
    pub fn is_odd(&self) -> bool {
        !self.odd.is_empty()
    }

    /// Where accesses of shaded memory are told ([`bugnet_replay::trace::Wanted::shaded`]): whether the block has made such.
    #[must_use]
    #[inline]
    pub fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// Those accesses, and perhaps others: each with the index of its instruction.
    #[inline]
    pub fn told(&self) -> impl Iterator<Item = (usize, Access)> {
        self.told.iter().map(|one| ((one.word - self.word) as usize, Access::of(one)))
    }

    /// Whether something is true of any part of memory that the block accesses, by its first byte and how many.
    #[inline]
    pub fn touches_any(&self, mut is_it: impl FnMut(u64, u64) -> bool) -> bool {
        for (addr, len) in self.addresses().iter().zip(&self.block.lens) {
            if is_it(*addr, (*len).into()) {
                return true;
            }
        }
        self.odd.iter().any(|odd| is_it(odd.addr, odd.len))
    }

    /// Where the return address is, if the block's last instruction is a call, which puts it there, or returns, and takes it from there.
    #[must_use]
    #[inline]
    pub fn slot(&self) -> Option<u64> {
        Some(self.addresses()[usize::from(self.block.slot?)])
    }

    /// Where the block writes to memory: first bytes, and how many.
    #[inline]
    pub fn stores(&self) -> impl Iterator<Item = (u64, u64)> {
        let plain = self.block.stores.iter().map(|(access, bytes)| (self.addresses()[usize::from(*access)], *bytes));
        plain.chain(self.odd.iter().filter(|odd| odd.writes).map(|odd| (odd.addr, odd.len)))
    }

    /// Whether something is true of any part of memory that the block writes to, by its first byte and how many.
    #[inline]
    pub fn stores_any(&self, mut is_it: impl FnMut(u64, u64) -> bool) -> bool {
        for (access, bytes) in &self.block.stores {
            if is_it(self.addresses()[usize::from(*access)], *bytes) {
                return true;
            }
        }
        self.odd.iter().any(|odd| odd.writes && is_it(odd.addr, odd.len))
    }

    /// What the block accesses, but for odd accesses: each with the index of its instruction.
    #[inline]
    pub fn plain_accesses(&self) -> impl Iterator<Item = (usize, Access)> {
        let plain = self.block.traced.accesses.iter().zip(self.addresses());
        plain.map(|(access, addr)| {
            let (addr, len) = (*addr, access.bytes.into());
            let TracedAccess { reads, writes, .. } = *access;
            (access.instruction.into(), Access { addr, len, reads, writes, whole: true, is_over: false })
        })
    }

    /// What the block's instruction with this index accesses.
    pub fn accesses(&self, instruction: usize) -> impl Iterator<Item = Access> {
        let traced = &self.block.traced.accesses;
        let from = traced.partition_point(|access| usize::from(access.instruction) < instruction);
        let own = move |access: &&TracedAccess| usize::from(access.instruction) == instruction;
        let plain = traced[from..].iter().take_while(own).zip(&self.addresses()[from..]).map(|(access, addr)| Access {
            addr: *addr,
            len: access.bytes.into(),
            reads: access.reads,
            writes: access.writes,
            whole: true,
            is_over: false,
        });
        let word = self.word + instruction as u32;
        let odd = self.odd.iter().filter(move |odd| odd.word == word).map(|odd| Access {
            addr: odd.addr,
            len: odd.len,
            reads: !odd.writes,
            writes: odd.writes,
            whole: odd.whole,
            is_over: false,
        });
        plain.chain(odd)
    }
}

/// Those of accesses whose instructions come before this one.
#[inline]
fn before(told: &[ToldAccess], word: u32) -> &[ToldAccess] {
    match told.last() {
        Some(last) if last.word >= word => &told[..told.partition_point(|one| one.word < word)],
        _ => told,
    }
}

impl Stretch {
    /// Of a chunk, whose blocks were learnt.
    #[must_use]
    pub fn of(chunk: &Chunk<'_>, blocks: &Blocks) -> Self {
        let mut stretch = Self::default();
        stretch.fill(chunk, chunk.runs.iter().copied(), blocks.plans());
        stretch
    }

    /// Becomes that of a chunk, in the memory that it has. Blocks come as they are read, so that they are gone through once.
    pub(crate) fn fill(&mut self, chunk: &Chunk<'_>, runs: impl Iterator<Item = TracedRun>, plans: &Plans) {
        self.runs.clear();
        self.addresses.clear();
        let mut odd = 0;
        for run in runs {
            while chunk.odd.get(odd).is_some_and(|odd| odd.word < run.word) {
                odd += 1;
            }
            let start = self.addresses.len() as u32;
            self.runs.push(Run { word: run.word, block: run.block, start, odd: odd as u32, told: 0 });
            let (sums, count) = plans.get(run.block);
            for four in sums {
                let four: [u64; FOUR] = std::array::from_fn(|number| chunk.sum(run, &four[number]));
                self.addresses.extend_from_slice(&four);
            }
            self.addresses.truncate(start as usize + count);
        }
        // So that four may be looked at wherever a block's begin.
        self.addresses.extend_from_slice(&[0; FOUR]);
        (self.first, self.len) = (chunk.first.0, chunk.len);
        self.odd.clone_from(&chunk.odd);
    }

    /// Takes accesses of shaded memory, in their order, and leaves memory that is not needed any more.
    pub(crate) fn tell(&mut self, told: &mut Vec<ToldAccess>) {
        let mut at = 0;
        for run in &mut self.runs {
            while told.get(at).is_some_and(|one| one.word < run.word) {
                at += 1;
            }
            run.told = at as u32;
        }
        std::mem::swap(&mut self.told, told);
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
        let run = self.runs[index];
        let block = blocks.get(run.block);
        let words = &self.addresses[run.start as usize..];
        let next = self.runs.get(index + 1);
        let odd = match &*self.odd {
            [] => &[],
            odd => &odd[run.odd as usize..next.map_or(odd.len(), |next| next.odd as usize)],
        };
        let told = match &*self.told {
            [] => &[],
            told => {
                let told = &told[run.told as usize..next.map_or(told.len(), |next| next.told as usize)];
                before(told, run.word + block.instructions.len() as u32)
            }
        };
        let position = Position(self.first + u64::from(run.word));
        Ran { block, position, words, odd, told, word: run.word }
    }

    /// What was executed before the block with this index, between two positions, without any other block in between.
    pub(crate) fn untold<'a>(&'a self, next: usize, positions: Range<u64>, blocks: &'a Blocks) -> Untold<'a> {
        let told = |index: Option<usize>, none: usize| {
            index.and_then(|index| self.runs.get(index)).map_or(none, |run| run.told as usize)
        };
        let all = &self.told[told(next.checked_sub(1), 0)..told(Some(next), self.told.len())];
        let word = |position: u64| (position - self.first) as u32;
        let all = &all[before(all, word(positions.start)).len()..];
        let told = before(all, word(positions.end));
        let len = positions.end - positions.start;
        Untold { position: Position(positions.start), len, blocks, first: self.first, told }
    }

    /// The block in which the instruction at a position is, as [`Self::at`] counts them.
    pub(crate) fn holding(&self, position: Position) -> usize {
        let behind = self.runs.partition_point(|run| self.first + u64::from(run.word) <= position.0);
        behind.saturating_sub(1)
    }
}
