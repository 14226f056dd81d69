//! What a replay process writes down of an execution, in memory that it shares with the library.
//!
//! The memory holds [`LANES`] lanes of [`CAPACITY`] words of 8 bytes. Each instruction that is executed has one word in each lane: the
//! first one that is executed after the buffer was emptied has the *last* word of each lane, the next one the word before, and so on.
//! Where a block begins, its first instruction's word in lane 0 has the block's number and count ([`tag`]; the upper half is anything). The
//! other words of the block's instructions hold values of registers as the [`TracedBlock`] says, from which the addresses of its
//! accesses follow. A word that it says nothing of is anything.
//!
//! So the number of instructions that are left to execute is the place where they write, and the replay process needs no second count.
//!
//! An *outline* ([`Wanted::outline`]) is of few blocks, and would leave most of that memory empty. There, the memory is one sequence of entries, the first
//! word of which is the *last* word of the memory, the next one the word before, and so on. An entry is a block that was executed: its tag, and in the
//! upper half of that word how many instructions were left then up to the next time that the process looked what is due; then, its other words. Where
//! it looked, two words of their own say so ([`DUE`]).
//!
//! Whoever wants to know nothing of calls in which nothing happens has them left out ([`Wanted::open`]), as has whoever wants to know what is accessed of
//! some memory: a return takes the entry of its call back, if that is the last one.
//!
//! Where memory is *shaded* ([`Wanted::shaded`]), each access of such memory is an entry of its own ([`Told`]), which comes behind that of its block, or
//! before it, but in the order of accesses. Most are of blocks that have no entry. An access that an instruction makes again and again need not be an entry
//! each time ([`Turn`]): then the first one's entry says when it was made last, and where the outline
//! ended then: if what it ended with was taken back, so was the call in which the access was made.

use crate::allocator::Allocators;
use serde::{Deserialize, Serialize};

/// Descriptor of the shared memory in the replay process.
pub const TRACE_FD: i32 = 5;
/// Words of a lane: the most instructions that are executed before the buffer has to be emptied.
pub const CAPACITY: usize = 1 << 19;
/// Lanes.
pub const LANES: usize = 4;
/// Bytes of the shared memory.
pub const BYTES: usize = LANES * CAPACITY * 8;
/// Bits of a block's number.
const NUMBER_BITS: u32 = 22;
/// Most blocks.
pub const MAX_BLOCKS: usize = 1 << NUMBER_BITS;
/// Most instructions of a block.
pub const MAX_INSTRUCTIONS: usize = (1 << (32 - NUMBER_BITS)) - 1;
/// Most items of one answer.
pub const MAX_TRACED: usize = 1 << 12;

/// Instead of a block's tag in an outline: the upper half of the word is how many instructions will have been executed since the buffer was emptied where
/// the next thing is due. The next word is how many had been executed, with [`NO_ADDRESS`].
pub const DUE: u32 = MAX_BLOCKS as u32 - 1;
/// How many words these are.
pub const DUE_WORDS: u64 = 2;
/// A bit of words that are not to be taken for a program's address.
pub const NO_ADDRESS: u64 = 1 << 63;
/// Words of an outline that may be needed for each instruction that is executed, with one at an entry's end, and two that say what is due.
pub const WORDS_EACH: usize = LANES + 3;

/// Where in the buffer word number `word` of a lane lies, the first instruction's word being number 0.
///
/// # Panics
/// There is no such word.
#[must_use]
#[inline]
pub fn index(lane: usize, word: usize) -> usize {
    assert!(lane < LANES && word < CAPACITY, "word {word} of lane {lane}");
    lane * CAPACITY + CAPACITY - 1 - word
}

/// What stands in a block's first word: its number, and the count of its instructions, so that the next one is found without a look at
/// what the block is.
#[must_use]
#[inline]
pub fn tag(number: u32, count: u16) -> u32 {
    u32::from(count) << NUMBER_BITS | number
}

/// Number and count in a block's first word.
#[must_use]
#[inline]
pub fn untag(word: u64) -> (u32, u32) {
    let word = word as u32;
    (word & (MAX_BLOCKS as u32 - 1), word >> NUMBER_BITS)
}

/// What is written down beside blocks and addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The registers that are stored.
    pub operands: bool,
    /// Functions, by the addresses at which they begin, in ascending order: with what they were called, and, if there are any, what RAX is
    /// where a block begins.
    pub functions: Vec<u64>,
    /// Of blocks, nothing but which they are, and where return addresses lie that calls put down and returns take; beside what is said of
    /// functions.
    pub outline: bool,
    /// Code of which all is told nevertheless: addresses from one up to another, in ascending order.
    pub closely: Vec<(u64, u64)>,
    /// In an outline, memory whose accesses are told: first bytes, and how many, in ascending order. Accesses of other memory may be told, too.
    pub shaded: Vec<(u64, u64)>,
    /// In an outline with shaded memory, libraries of which it is told whenever their code begins: addresses from one up to another, in any order. Of their
    /// blocks, there are the first one, and those that may lead elsewhere ([`Entry::leaves`]), beside those that are there in other code, too. So whatever
    /// is executed behind one that does not, up to the next one, is of the library.
    pub libraries: Vec<(u64, u64)>,
    /// In an outline without shaded memory, calls are left out that return to where they came from with nothing else told in between, and these returns; with
    /// shaded memory, they always are. So whoever reads it knows at each entry which calls are open, but not at each instruction.
    pub open: bool,
    /// In an outline of open calls of a process that has one thread: the replay process keeps the heap by itself, and looks at each access whether it may
    /// be wrong ([`crate::shade::Suspect`]). So nobody has to follow the outline first.
    pub heap: Option<Allocators>,
}

impl Wanted {
    /// Whether an outline has a block that begins at an address, whatever the block does.
    #[must_use]
    pub fn has_block(&self, pc: u64) -> bool {
        self.tells_accesses(pc) || self.is_in_library(pc)
    }

    /// Whether the code at an address is of a library.
    #[must_use]
    pub fn is_in_library(&self, pc: u64) -> bool {
        self.libraries.iter().any(|(start, end)| (*start..*end).contains(&pc))
    }

    /// Whether it is told what a block accesses that begins at an address.
    #[must_use]
    pub fn tells_accesses(&self, pc: u64) -> bool {
        let before = self.closely.partition_point(|(start, _)| *start <= pc);
        !self.outline || self.closely[..before].last().is_some_and(|(_, end)| pc < *end)
    }
}

/// What a thread does without another one in between, which begins where so many instructions of the package have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// So many.
    pub at: u64,
    /// Whether each access of shaded memory is told in it ([`Wanted::shaded`]), as it is where no turns are told. Else, of those that an instruction makes of
    /// the same bytes with no signal in between, the first and the last one are, where it is neither an atomic one nor in [`Wanted::libraries`].
    pub each: bool,
}

/// How much was written down in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Instructions that were executed.
    pub words: u32,
    /// Words that were used of an outline.
    pub used: u32,
    /// Where an outline's first word is, as an address of the replay process.
    pub start: u64,
    /// Blocks that there are.
    pub blocks: u32,
    /// Odd accesses that there were.
    pub odd: u32,
}

/// A word among those of a block's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WordPlace {
    /// Its lane.
    pub lane: u8,
    /// Words from the block's first on.
    pub at: u16,
}

/// A segment register that an address is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TracedSegment {
    /// FS.
    Fs,
    /// GS.
    Gs,
}

/// An access of an instruction in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedAccess {
    /// Index of the instruction in the block.
    pub instruction: u16,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// How many bytes.
    pub bytes: u32,
    /// A word that is added.
    pub base: Option<WordPlace>,
    /// Another one, and what it is multiplied by.
    pub index: Option<(WordPlace, u8)>,
    /// A constant.
    pub disp: u64,
    /// Whose base is added.
    pub segment: Option<TracedSegment>,
    /// The register whose value is stored, or with which memory is changed, before the instruction; none where it is not wanted, or no
    /// single register tells.
    pub operand: Option<Operand>,
}

/// The value of a register, or its lowest 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// A word.
    pub place: WordPlace,
    /// What is added to it.
    pub more: u64,
    /// How many bytes of the sum count.
    pub bytes: u8,
}

/// Instructions that are executed one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedBlock {
    /// Address of the first.
    pub pc: u64,
    /// How many.
    pub count: u16,
    /// Their bytes.
    #[serde(with = "serde_bytes")]
    pub code: Vec<u8>,
    /// What they access, in the order of the instructions; without those whose accesses stand in [`OddAccess`]es.
    pub accesses: Vec<TracedAccess>,
    /// Whether its one instruction is not executed by replay: a record says what it did.
    pub skipped: bool,
    /// General purpose registers, by their numbers, whose values at the block's start are in these words.
    pub registers: Vec<(u8, WordPlace)>,
    /// What it is in an outline.
    pub entry: Option<Entry>,
}

/// What a block has in an outline. Its words are all in lane 0, and as many as need be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// How many words, at least one.
    pub words: u16,
    /// How many of its instructions are counted where its first word is written.
    pub counted: u16,
    /// If its last instruction returns, where RAX is and where it goes on.
    pub returned: Option<(WordPlace, WordPlace)>,
    /// Where the stack pointer is behind the last instruction that may take it to another stack, with [`Wanted::open`]; none if there is none, or
    /// no instruction behind it.
    pub stack: Option<WordPlace>,
    /// If the entry is no block's, but that of an access: which.
    pub told: Option<Told>,
    /// Of a library's block, whether it may lead to other code, as its last instruction goes to an address that the code does not have.
    pub leaves: bool,
}

/// An access of shaded memory, of which an outline has an entry: its first byte is in the second word, or what [`key`] makes of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Told {
    /// How far the instruction is ahead of what the first word says.
    pub ahead: i16,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// How many bytes; none if the third word says that.
    pub bytes: Option<u16>,
    /// Whether all of these bytes are accessed for sure; else, some of them.
    pub whole: bool,
    /// Whether the second word is a [`key`], and the third one says when the same access was made last: minus how many instructions had been executed
    /// then since the buffer was emptied, as far as the first word counts them, in its lower half; zero: it was made once. The fourth one is where the next
    /// entry's first word would have been then, as an address of the replay process.
    pub again: bool,
}

impl Told {
    /// How many words its entries have.
    #[must_use]
    pub fn words(&self) -> u16 {
        match (self.again, self.bytes) {
            (true, _) => 4,
            (false, Some(_)) => 2,
            (false, None) => 3,
        }
    }
}

/// Most numbers of blocks from which a [`key`] can be made.
pub const MAX_KEYS: usize = 1 << 17;

/// What an access is known by again: the address, and in the bits that it leaves free the number of a block with its tag. No two accesses have the same one, as
/// addresses have 47 bits.
#[must_use]
#[inline]
pub fn key(tag: u32, addr: u64) -> u64 {
    addr.wrapping_add(u64::from(tag).rotate_left(KEY_TURN))
}

/// The address from which a [`key`] was made.
#[must_use]
#[inline]
pub fn address_of(tag: u32, key: u64) -> u64 {
    key.wrapping_sub(u64::from(tag).rotate_left(KEY_TURN))
}

/// By how many bits a tag is turned to the left for that.
pub const KEY_TURN: u32 = 47;

/// An access that no sum of registers tells, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OddAccess {
    /// The instruction's word.
    pub word: u32,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it writes; else it reads.
    pub writes: bool,
    /// Whether all of these bytes are accessed for sure; else, some of them.
    pub whole: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_one_access() {
        let (last, top) = (tag(MAX_KEYS as u32 - 1, 1), (1 << 47) - 1);
        let all = [(tag(0, 1), 0), (tag(0, 1), top), (tag(1, 1), 0), (tag(1, 1), top), (last, 0), (last, top)];
        let keys: std::collections::BTreeSet<u64> = all.iter().map(|(tag, addr)| key(*tag, *addr)).collect();
        assert_eq!(keys.len(), all.len());
        assert!(all.iter().all(|(tag, addr)| address_of(*tag, key(*tag, *addr)) == *addr));
    }

    #[test]
    fn words_go_down() {
        assert_eq!(index(0, 0), CAPACITY - 1);
        assert_eq!(index(0, CAPACITY - 1), 0);
        assert_eq!(index(LANES - 1, 0), BYTES / 8 - 1);
        let (number, count) = (MAX_BLOCKS as u32 - 1, MAX_INSTRUCTIONS as u16);
        assert_eq!(untag(u64::from(tag(number, count)) | 7 << 32), (number, count.into()));
    }
}
