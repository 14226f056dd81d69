//! Blocks that nobody gave back: whether anything points at them at the end, as Valgrind's leak check asks.
//!
//! Pointers are looked for in all memory and registers that are known there: in global variables, stacks above their stack pointers, and blocks
//! that are reached. A block to whose start one points is reached. Where only pointers to its inside are found, it may be.

use super::heap::{Block, Call, Heap};
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::memory::Memory;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = Addr::PAGE;
const WORD: u64 = 8;
/// Where C++ keeps the number of elements of an array, the pointer that the program has is behind it.
const COUNT: u64 = 8;
/// A thread of glibc's knows the second element of its table of thread-local storage, each of two words.
const SECOND: u64 = 16;

/// Whether a block that was not given back can still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Nothing points at it.
    Definite,
    /// Only blocks point at it that are lost themselves.
    Indirect,
    /// Something points into it, but nothing at its start.
    Possible,
    /// Something points at it.
    Reachable,
}

/// Blocks that the same callers got, and that are lost in the same way.
#[derive(Clone, Debug)]
pub struct Lost {
    pub loss: Loss,
    /// The first one's allocation.
    pub first: Call,
    pub blocks: u64,
    pub bytes: u64,
}

/// A pointer, to a block by its index.
#[derive(Clone, Copy)]
struct Pointer {
    block: usize,
    is_start: bool,
}

struct Search<'a> {
    blocks: Vec<&'a Block>,
    roots: Vec<Pointer>,
    /// From each block.
    inside: Vec<Vec<Pointer>>,
    losses: Vec<Option<Loss>>,
}

/// What is lost at the end, where the cursor goes; the largest losses first.
///
/// # Errors
/// The replay process is lost.
pub fn leaks(cursor: &mut Cursor<'_>, heap: &Heap) -> Result<Vec<Lost>> {
    let blocks: Vec<&Block> = heap.live().filter(|block| block.allocated.is_some()).collect();
    let (inside, losses) = (blocks.iter().map(|_| Vec::new()).collect(), vec![None; blocks.len()]);
    let mut search = Search { blocks, roots: Vec::new(), inside, losses };
    if !search.blocks.is_empty() {
        search.look(cursor, heap)?;
    }
    search.judge();
    let mut lost: BTreeMap<_, Lost> = BTreeMap::new();
    for (block, loss) in search.blocks.iter().zip(&search.losses) {
        let (Some(call), Some(size), Some(loss)) = (block.allocated, block.size, *loss) else { continue };
        let one =
            lost.entry((loss, call.stack, call.function)).or_insert(Lost { loss, first: call, blocks: 0, bytes: 0 });
        one.blocks += 1;
        one.bytes += size;
        if call.place < one.first.place {
            one.first = call;
        }
    }
    let mut lost: Vec<Lost> = lost.into_values().collect();
    lost.sort_by_key(|one| (one.loss, std::cmp::Reverse(one.bytes), one.first.place));
    Ok(lost)
}

impl Search<'_> {
    /// Looks for pointers in all that is known.
    fn look(&mut self, cursor: &mut Cursor<'_>, heap: &Heap) -> Result<()> {
        cursor.seek(Seek::End)?;
        let threads = cursor.threads()?;
        let registers: Vec<u64> = threads.iter().flat_map(|thread| thread.regs.gpr).collect();
        for value in registers {
            let found = self.pointer(value);
            self.roots.extend(found);
        }
        let mappings = cursor.mappings()?;
        let unused: Vec<Range<u64>> = threads
            .iter()
            .filter_map(|thread| {
                let pointer = thread.regs.gpr[4];
                mappings.at(pointer).map(|stack| stack.start..pointer)
            })
            .collect();
        for page in cursor.pages()? {
            let bytes = cursor.read_known(Addr(page), PAGE)?;
            let value = |word: &[Option<u8>]| {
                word.iter().rev().try_fold(0, |value: u64, byte| byte.map(|byte| value << 8 | u64::from(byte)))
            };
            let words: Vec<Option<u64>> = bytes.chunks_exact(WORD as usize).map(value).collect();
            for (number, value) in words.iter().enumerate() {
                let at = page + number as u64 * WORD;
                let Some(mut pointer) = value.and_then(|value| self.pointer(value)) else { continue };
                if *value == Some(self.blocks[pointer.block].start + SECOND) && is_table_of_thread(&words, number, at) {
                    pointer.is_start = true;
                }
                match self.index(at) {
                    Some(block) => self.inside[block].push(pointer),
                    None if heap.is_own(at) || unused.iter().any(|range| range.contains(&at)) => {}
                    None => self.roots.push(pointer),
                }
            }
        }
        Ok(())
    }

    /// The block in which an address is.
    fn index(&self, addr: u64) -> Option<usize> {
        let index = self.blocks.partition_point(|block| block.start <= addr).checked_sub(1)?;
        let block = self.blocks[index];
        let is_in = addr == block.start || addr < block.start + block.size.unwrap_or(0);
        is_in.then_some(index)
    }

    fn pointer(&self, value: u64) -> Option<Pointer> {
        let block = self.index(value)?;
        let start = self.blocks[block].start;
        Some(Pointer { block, is_start: value == start || value == start + COUNT })
    }

    fn judge(&mut self) {
        let roots = std::mem::take(&mut self.roots);
        self.reach(
            roots.iter().filter(|pointer| pointer.is_start).map(|pointer| pointer.block).collect(),
            Loss::Reachable,
            false,
        );
        let mut possible: Vec<usize> = roots.iter().map(|pointer| pointer.block).collect();
        let reached = (0..self.blocks.len()).filter(|block| self.losses[*block].is_some());
        possible.extend(reached.flat_map(|block| self.inside[block].iter().map(|pointer| pointer.block)));
        self.reach(possible, Loss::Possible, true);
        for block in 0..self.blocks.len() {
            if self.losses[block].is_none() {
                let next =
                    self.inside[block].iter().map(|pointer| pointer.block).filter(|other| *other != block).collect();
                self.losses[block] = Some(Loss::Definite);
                self.reach(next, Loss::Indirect, true);
                self.losses[block] = Some(Loss::Definite);
            }
        }
    }

    /// All blocks that can be reached from these, and of which nothing better is known, are lost in this way.
    fn reach(&mut self, mut left: Vec<usize>, loss: Loss, by_inside: bool) {
        while let Some(block) = left.pop() {
            let is_new = self.losses[block].is_none_or(|known| loss == Loss::Indirect && known == Loss::Definite);
            if is_new {
                self.losses[block] = Some(loss);
                let next = self.inside[block].iter().filter(|pointer| by_inside || pointer.is_start);
                left.extend(next.map(|pointer| pointer.block));
            }
        }
    }
}

/// Whether the word at an address, the one with this number of its page, is where glibc has a thread's table: between two words that are the address of
/// the thread's control block, which begins with the first of them.
fn is_table_of_thread(words: &[Option<u64>], number: usize, at: u64) -> bool {
    let is_own = |number: usize| words.get(number).copied().flatten() == Some(at - WORD);
    number.checked_sub(1).is_some_and(is_own) && is_own(number + 1)
}
