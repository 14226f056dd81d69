//! A thread's permissions: a byte for each coherence block, which instrumented code compares.
//!
//! The low half of the byte is what the thread may do with the block itself. The high half is never more than what it may do
//! with this block and with the next one: most accesses that begin in a block need to look at nothing else, whether they reach
//! the next one or not.
//!
//! The thread itself raises permissions when it has locked a block's group in the directory, and other threads lower them when
//! they have. Behind the last block of a group comes one of another group, though, and nothing but the order of what is done to
//! the two bytes keeps the last one's high half low enough: who raises it looks again at the next block afterwards, and who lowers
//! a block goes on with the high half of the one before.

use crate::picture::blocks::{Blocks, GROUP, GROUP_SHIFT, MODIFIED, SHARED};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bits of half a byte.
const HALF: u32 = 4;
const LOW: u8 = (1 << HALF) - 1;

/// What the high half is above, or equal to, where this is permitted for the block and the next one: to compare with the whole
/// byte.
pub const fn of_both(permission: u8) -> u8 {
    permission << HALF
}

/// A bit of the byte that is set only if this is permitted for the block.
pub const fn bit_of_one(permission: u8) -> u8 {
    if permission == MODIFIED { MODIFIED & !SHARED } else { SHARED }
}

/// The permissions of a thread.
#[derive(Clone, Copy)]
pub struct Table(*mut u8);

impl Table {
    /// At this address there is a byte for each number of a block.
    ///
    /// # Safety
    /// It is there as long as this, and its copies, are used, and accessed by nobody else but instrumented code.
    pub unsafe fn new(bytes: *mut u8) -> Self {
        Self(bytes)
    }

    /// Where it is.
    pub fn address(self) -> *mut u8 {
        self.0
    }

    fn byte(&self, block: u32) -> &AtomicU8 {
        // SAFETY: one of the bytes of `new`; all that changes them are atomic operations.
        unsafe { AtomicU8::from_ptr(self.0.add(block as usize)) }
    }

    fn change(self, block: u32, f: impl Fn(u8, u8) -> (u8, u8)) {
        let change = |byte: u8| {
            let (low, high) = f(byte & LOW, byte >> HALF);
            low | high << HALF
        };
        let byte = self.byte(block);
        if is_last(block) {
            let _ = byte.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |byte| Some(change(byte)));
        } else {
            // Nobody else has locked the group.
            byte.store(change(byte.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }

    /// What the thread may do with a block.
    pub fn get(self, block: u32) -> u8 {
        self.byte(block).load(Ordering::SeqCst) & LOW
    }

    /// The thread gets this permission for blocks of a group that it has locked, or of which nobody else has any.
    pub fn grant(self, blocks: Blocks, permission: u8) {
        for block in blocks.numbers() {
            self.change(block, |_, high| (permission, high.min(permission)));
        }
        // High halves that may become higher: those of the blocks, and of the ones before them.
        for block in (Blocks { bits: blocks.bits | blocks.bits >> 1, ..blocks }).numbers() {
            self.raise(block);
        }
        if blocks.bits & 1 != 0 {
            self.raise((blocks.group << GROUP_SHIFT).wrapping_sub(1));
        }
    }

    /// Those of the blocks for which the thread does not have a permission.
    pub fn lacking(self, blocks: Blocks, permission: u8) -> u64 {
        let lacks = blocks.numbers().filter(|block| self.get(*block) < permission);
        lacks.fold(0, |bits, block| bits | 1 << (block % GROUP))
    }

    /// The high half of a block becomes as high as it can be.
    fn raise(self, block: u32) {
        let next = || self.get(block.wrapping_add(1));
        let most = next();
        self.change(block, |low, _| (low, low.min(most)));
        if is_last(block) {
            // Another thread may have lowered the next one since, and have gone on to this one before.
            let most = next();
            self.change(block, |low, high| (low, high.min(most)));
        }
    }

    /// Another thread lowers permissions for blocks of a group that it has locked to this, at most.
    pub fn lower(self, blocks: Blocks, to: u8) {
        for block in blocks.numbers() {
            self.change(block, |low, high| (low.min(to), high.min(to)));
            self.change(block.wrapping_sub(1), |low, high| (low, high.min(to)));
        }
    }
}

/// Whether the next block is of another group.
fn is_last(block: u32) -> bool {
    block % GROUP == GROUP - 1
}

const _: () = assert!(MODIFIED <= LOW && GROUP == u64::BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::blocks::INVALID;

    fn both(table: Table, block: u32) -> (u8, u8) {
        let byte = table.byte(block).load(Ordering::SeqCst);
        for permission in [SHARED, MODIFIED] {
            assert_eq!(byte & bit_of_one(permission) != 0, byte & LOW >= permission);
            assert_eq!(byte >= of_both(permission), byte >> HALF >= permission);
        }
        (byte & LOW, byte >> HALF)
    }

    #[test]
    fn the_high_half_is_what_is_permitted_for_two_blocks() {
        let mut bytes = [0; 4 * GROUP as usize];
        // SAFETY: the bytes of four groups, which nobody else uses.
        let table = unsafe { Table::new(bytes.as_mut_ptr()) };
        let blocks = |group, bits| Blocks { group, bits };
        table.grant(blocks(1, 0b11), MODIFIED);
        table.grant(blocks(1, 0b1100), SHARED);
        let of = |range: std::ops::Range<u32>| range.map(|block| both(table, block)).collect::<Vec<_>>();
        let (i, s, m) = (INVALID, SHARED, MODIFIED);
        assert_eq!(of(63..69), [(i, i), (m, m), (m, s), (s, s), (s, i), (i, i)]);
        // From one group to the next.
        table.grant(blocks(0, 1 << 63), SHARED);
        assert_eq!(of(62..65), [(i, i), (s, s), (m, m)]);
        table.grant(blocks(2, u64::MAX), SHARED);
        table.grant(blocks(1, u64::MAX), MODIFIED);
        assert_eq!(of(63..66), [(s, s), (m, m), (m, m)]);
        assert_eq!(of(126..129), [(m, m), (m, s), (s, s)]);
        table.lower(blocks(2, 1), INVALID);
        table.lower(blocks(1, 1 << 5), SHARED);
        assert_eq!(of(127..130), [(m, i), (i, i), (s, s)]);
        assert_eq!(of(67..71), [(m, m), (m, s), (s, s), (m, m)]);
        table.lower(blocks(1, 1), INVALID);
        assert_eq!(of(63..65), [(s, i), (i, i)]);
    }

    /// One thread raises blocks of two groups again and again, and another lowers the second: whenever both have stopped, no
    /// high half is above what it is about.
    #[test]
    fn who_raises_and_who_lowers_meet() {
        let mut bytes = [0; 3 * GROUP as usize];
        for _ in 0..2000 {
            let at = bytes.as_mut_ptr() as usize;
            let start = std::sync::Barrier::new(2);
            // SAFETY: the bytes of three groups, which nobody else uses.
            let table = || unsafe { Table::new(at as *mut u8) };
            table().grant(Blocks { group: 1, bits: 1 }, MODIFIED);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    table().lower(Blocks { group: 1, bits: 1 }, INVALID);
                });
                start.wait();
                table().grant(Blocks { group: 0, bits: 1 << 63 }, MODIFIED);
            });
            assert_eq!((both(table(), 63), both(table(), 64)), ((MODIFIED, INVALID), (INVALID, INVALID)));
            table().lower(Blocks { group: 0, bits: 1 << 63 }, INVALID);
        }
    }
}
