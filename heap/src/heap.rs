//! The heap, as the calls of allocators say that it is: blocks, those that were given back, and what the allocator has from the kernel.

use crate::Family;
use crate::shadow::{Shadow, Wrong};
use bugnet_format::types::Addr;
use std::collections::BTreeMap;
use std::ops::Range;

/// Blocks that were given back, of which a look back for one takes notice.
const NEAR: usize = 8;
/// How far from a block an access may be to be told as so many bytes from it.
const FAR: u64 = 1 << 16;
/// Bytes that a block has at least, whatever the allocator.
const LEAST: u64 = 8;
/// Where blocks begin that have more than that.
const ALIGNED: u64 = 16;

/// A piece of memory that an allocator gave out. `C`: what is kept of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<C> {
    /// First byte.
    pub start: u64,
    /// Bytes that were asked for; none where it was given out before the log begins.
    pub size: Option<u64>,
    /// Who may take it back; none where that is not known.
    pub family: Option<Family>,
    /// Who gave it out; none: it was before the log begins.
    pub allocated: Option<C>,
    /// Who gave it back.
    pub freed: Option<C>,
}

impl<C> Block<C> {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size.unwrap_or(LEAST))
    }

    /// Whether an address is of it; of an empty block, its first byte.
    fn holds(&self, addr: u64) -> bool {
        self.start <= addr && addr < self.end().max(self.start + 1)
    }
}

/// Where an access is, as seen from a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// So many bytes behind its first one.
    Inside(u64),
    /// So many bytes behind its last one: 0 is the first byte that is none of it.
    Behind(u64),
    /// So many bytes before its first one, at least 1.
    Before(u64),
}

/// What is known.
pub struct Heap<C> {
    /// What may be accessed.
    pub shadow: Shadow,
    /// Whether all blocks are known, since the log has the beginning.
    knows_all: bool,
    live: BTreeMap<u64, Block<C>>,
    freed: BTreeMap<u64, Block<C>>,
    /// What the allocator has from the kernel: where it begins, and where it ends.
    regions: BTreeMap<u64, u64>,
    /// Where the break is, as far as it is known.
    at_break: Option<u64>,
}

impl<C> Default for Heap<C> {
    fn default() -> Self {
        let (shadow, live, freed, regions) = (Shadow::default(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { shadow, knows_all: false, live, freed, regions, at_break: None }
    }
}

impl<C> Heap<C> {
    /// Nothing is known yet. If the log has the beginning, there are no blocks either.
    #[must_use]
    pub fn new(knows_all: bool) -> Self {
        Self { knows_all, ..Self::default() }
    }

    /// An allocator has given a block out.
    pub fn allocate(&mut self, block: Block<C>) {
        let (start, end) = (block.start, block.end().max(block.start + 1));
        // What was there before is gone, whoever has given it back.
        while let Some((&other, _)) = self.live.range(..end).next_back().filter(|(_, other)| other.end() > start) {
            // Where a block was made smaller, the rest goes back.
            let rest = self.live.remove(&other).filter(|_| other == start).map_or(0, |other| other.end());
            self.shadow.own(end.next_multiple_of(8)..rest.next_multiple_of(8));
        }
        let covered: Vec<u64> = self.freed.range(start..end).map(|(other, _)| *other).collect();
        covered.iter().for_each(|other| drop(self.freed.remove(other)));
        if let Some(size) = block.size {
            self.shadow.give(start, size);
            self.surround(start, size, matches!(block.family, None | Some(Family::Named(_))));
        }
        self.live.insert(start, block);
    }

    /// What lies around a block is nobody's, also where it is not known from where the allocator has it: blocks of more than 8 bytes begin at
    /// multiples of 16, and if all blocks are known, there is none before it. Other memory is not in its page. Of allocators that somebody has
    /// named, nothing is known.
    fn surround(&mut self, start: u64, size: u64, is_named: bool) {
        let end = start.saturating_add(size);
        if is_named || size <= LEAST || !start.is_multiple_of(ALIGNED) {
            return;
        }
        self.shadow.own(end.next_multiple_of(LEAST)..end.next_multiple_of(ALIGNED));
        let before = start.saturating_sub(LEAST);
        if self.knows_all
            && before / Addr::PAGE == start / Addr::PAGE
            && self.holding(start - 1).is_none()
            && self.shadow.is_fine(before)
        {
            self.shadow.own(before..start);
        }
    }

    /// An allocator takes a block back that begins here; whether there is one.
    pub fn release(&mut self, start: u64, by: C) -> Option<&Block<C>> {
        let mut block = self.live.remove(&start)?;
        block.freed = Some(by);
        self.shadow.take(start, block.size.unwrap_or(0));
        self.freed.insert(start, block);
        self.freed.get(&start)
    }

    /// An allocator takes a block back that nobody knows: it was given out before the log begins.
    pub fn release_unknown(&mut self, start: u64, by: C) {
        let block = Block { start, size: None, family: None, allocated: None, freed: Some(by) };
        self.shadow.take(start, LEAST);
        self.freed.insert(start, block);
    }

    /// A block may be used up to another size than was asked for.
    pub fn resize(&mut self, start: u64, size: u64) {
        if let Some(block) = self.live.get_mut(&start) {
            block.size = Some(size);
            self.shadow.give(start, size);
        }
    }

    /// The block that begins here.
    #[must_use]
    pub fn block(&self, start: u64) -> Option<&Block<C>> {
        self.live.get(&start)
    }

    /// The block in which an address is.
    #[must_use]
    pub fn holding(&self, addr: u64) -> Option<&Block<C>> {
        self.live.range(..=addr).next_back().map(|(_, block)| block).filter(|block| block.holds(addr))
    }

    /// The block, of those that were given back, in which an address was, whatever has become of the memory.
    #[must_use]
    pub fn was_in(&self, addr: u64) -> Option<&Block<C>> {
        self.freed.range(..=addr).rev().take(NEAR).map(|(_, block)| block).find(|block| block.holds(addr))
    }

    /// The block, of those that were given back, that began here.
    #[must_use]
    pub fn given_back(&self, start: u64) -> Option<&Block<C>> {
        self.freed.get(&start)
    }

    /// All blocks that were not given back, in ascending order.
    pub fn live(&self) -> impl Iterator<Item = &Block<C>> {
        self.live.values()
    }

    /// Whether memory is the allocator's, as far as the kernel gave it to it while the log went on.
    #[must_use]
    pub fn is_own(&self, addr: u64) -> bool {
        self.regions.range(..=addr).next_back().is_some_and(|(_, end)| addr < *end)
    }

    /// The block with which an access that is wrong has to do, and where it is from there.
    #[must_use]
    pub fn near(&self, addr: u64, why: Wrong) -> Option<(&Block<C>, Relation)> {
        let is_in = |block: &&Block<C>| block.holds(addr);
        let freed = self.freed.range(..=addr).rev().take(NEAR).map(|(_, block)| block);
        if why == Wrong::Freed
            && let Some(block) = freed.clone().find(is_in)
        {
            return Some((block, Relation::Inside(addr - block.start)));
        }
        let before = self.live.range(..=addr).next_back().map(|(_, block)| block);
        let before = before.into_iter().chain(freed.take(1)).map(|block| (addr.saturating_sub(block.end()), 0, block));
        let behind = [self.live.range(addr + 1..).next(), self.freed.range(addr + 1..).next()];
        let behind = behind.into_iter().flatten().map(|(start, block)| (start - addr, 1, block));
        let nearest = before.chain(behind).filter(|(distance, ..)| *distance < FAR);
        let (distance, side, block) =
            nearest.min_by_key(|(distance, side, block)| (*distance, block.freed.is_some(), *side))?;
        Some((block, if side == 0 { Relation::Behind(distance) } else { Relation::Before(distance) }))
    }

    /// The kernel has given memory to an allocator.
    pub fn own(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.forget(range.clone());
        self.shadow.own(range.clone());
        self.regions.insert(range.start, range.end);
    }

    /// Something else is mapped there.
    pub fn mapped(&mut self, range: Range<u64>) {
        let gone: Vec<u64> = self.freed.range(range.clone()).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| drop(self.freed.remove(start)));
        self.forget(range);
    }

    /// Memory is mapped anew, or not any more.
    pub fn forget(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let meets: Vec<(u64, u64)> = self
            .regions
            .range(..range.end)
            .map(|(start, end)| (*start, *end))
            .rev()
            .take_while(|(_, end)| *end > range.start)
            .collect();
        for (start, end) in meets {
            self.regions.remove(&start);
            if start < range.start {
                self.regions.insert(start, range.start);
            }
            if end > range.end {
                self.regions.insert(range.end, end);
            }
        }
        // Blocks stay: whoever gives one back has its memory taken away on the way.
        self.shadow.forget(range);
    }

    /// `brk` has moved the break; an allocator has called it, or the program.
    pub fn moved_break(&mut self, to: u64, by_allocator: bool) {
        let before = self.at_break.replace(to);
        match before {
            Some(before) if before < to && by_allocator => self.own(before..to),
            Some(before) if to < before => self.forget(to..before),
            _ => {}
        }
    }

    /// It is not known what an allocator gave out: what nobody got is not known either, from here on.
    pub fn lose(&mut self) {
        for (start, end) in std::mem::take(&mut self.regions) {
            self.shadow.forget(start..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn block(start: u64, size: u64) -> Block<u64> {
        Block { start, size: Some(size), family: Some(Family::C), allocated: Some(1), freed: None }
    }

    fn relation(heap: &Heap<u64>, addr: u64) -> Option<(u64, Relation)> {
        let (_, why) = heap.shadow.first_wrong(addr, 1)?;
        heap.near(addr, why).map(|(block, relation)| (block.start, relation))
    }

    #[test]
    fn where_accesses_are() {
        let mut heap = Heap::default();
        heap.moved_break(0x10000, true);
        heap.moved_break(0x20000, true);
        heap.allocate(block(0x10010, 24));
        heap.allocate(block(0x10030, 100));
        assert_eq!(relation(&heap, 0x10027), None);
        assert_eq!(relation(&heap, 0x10028), Some((0x10010, Relation::Behind(0))));
        assert_eq!(relation(&heap, 0x1002f), Some((0x10030, Relation::Before(1))));
        assert_eq!(relation(&heap, 0x1000f), Some((0x10010, Relation::Before(1))));
        assert_eq!(relation(&heap, 0x10030 + 103), Some((0x10030, Relation::Behind(3))));
        assert!(heap.release(0x10010, 2).is_some());
        assert!(heap.release(0x10010, 3).is_none());
        assert_eq!(relation(&heap, 0x10012), Some((0x10010, Relation::Inside(2))));
        // Memory of which it is not known whose it is.
        heap.allocate(block(0x8010, 40));
        assert_eq!(relation(&heap, 0x8038), Some((0x8010, Relation::Behind(0))));
        assert_eq!((relation(&heap, 0x8040), relation(&heap, 0x800f)), (None, None));
        heap.knows_all = true;
        heap.allocate(block(0x9010, 40));
        assert_eq!(relation(&heap, 0x900f), Some((0x9010, Relation::Before(1))));
        heap.allocate(block(0xa000, 40));
        assert_eq!(relation(&heap, 0x9fff), None);
        // The same memory again, and smaller.
        heap.allocate(block(0x10010, 8));
        assert_eq!(relation(&heap, 0x10017), None);
        assert_eq!(relation(&heap, 0x10018), Some((0x10010, Relation::Behind(0))));
        assert!(heap.given_back(0x10010).is_none());
        // What the program itself has from the kernel.
        heap.moved_break(0x30000, false);
        assert_eq!(relation(&heap, 0x20008), None);
        assert!(heap.is_own(0x1ffff) && !heap.is_own(0x20000));
    }

    #[test]
    fn memory_that_goes_back_to_the_kernel() {
        let mut heap = Heap::default();
        heap.own(0x10000..0x30000);
        heap.forget(0x18000..0x20000);
        assert_eq!(relation(&heap, 0x18000), None);
        assert!(heap.is_own(0x17fff) && !heap.is_own(0x18000) && heap.is_own(0x20000));
        heap.lose();
        assert!(!heap.is_own(0x20000));
        assert_eq!(heap.shadow.first_wrong(0x10000, 0x20000), None);
    }

    #[test]
    fn blocks_of_which_the_log_does_not_have_the_start() {
        let mut heap = Heap::default();
        heap.release_unknown(0x10010, 1);
        assert_eq!(relation(&heap, 0x10017), Some((0x10010, Relation::Inside(7))));
        assert_eq!(heap.shadow.first_wrong(0x10010, 64), Some((0x10010, Wrong::Freed)));
        assert_eq!(relation(&heap, 0x10010), Some((0x10010, Relation::Inside(0))));
        assert_eq!(heap.shadow.first_wrong(0x10018, 64), None);
    }
}
