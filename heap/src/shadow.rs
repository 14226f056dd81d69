//! What may be accessed of memory, byte by byte, as far as anything is known of it.
//!
//! Each 8 bytes of memory have one byte here: zero, where nothing is wrong with them; the number of bytes that may be accessed, where these are
//! fewer; or why none may be. Tables are made where something is known, in two levels, so that a look takes the same time wherever the
//! heap is. Large pieces of which all is the same take no room.

use std::ops::Range;

/// Bytes of memory for which one byte stands.
const GRANULE: u64 = 8;
/// Bytes of memory of a leaf.
const LEAF: u64 = 1 << 16;
const GRANULES: usize = (LEAF / GRANULE) as usize;
/// Leaves of a table.
const LEAVES: usize = 1 << 12;
/// Bytes of memory of a table.
const TABLE: u64 = LEAF * LEAVES as u64;
/// Behind all addresses of programs.
const END: u64 = 1 << 47;

/// Nothing is known to be wrong.
const FINE: u8 = 0;
/// The allocator's own, or not given to anybody.
const NEVER: u8 = 0xfa;
/// Given back.
const FREED: u8 = 0xfd;

/// Why bytes must not be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// They are the allocator's own, or nobody got them.
    Never,
    /// They were given back.
    Freed,
}

enum Leaf {
    Same(u8),
    Each(Box<[u8; GRANULES]>),
}

/// Bytes that must not be accessed from here on, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// The first one.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Whether they must not be.
    pub wrong: bool,
}

/// Takes out of changes that come together what others take back at once.
pub fn settle(sets: &mut Vec<Set>) {
    let (mut kept, mut at) = (0, 0);
    while at < sets.len() {
        let set = sets[at];
        while let Some(last) = sets[..kept].last_mut() {
            if set.start <= last.start && last.end <= set.end {
                kept -= 1;
                continue;
            }
            if set.start <= last.start && set.end > last.start {
                last.start = set.end;
            } else if last.end <= set.end && set.start < last.end {
                last.end = set.start;
            } else if last.start < set.start && set.end < last.end {
                // A block in what an allocator has just got from the kernel.
                let behind = Set { start: set.end, ..*last };
                last.end = set.start;
                sets.insert(kept, behind);
                (kept, at) = (kept + 1, at + 1);
            }
            break;
        }
        sets[kept] = set;
        (kept, at) = (kept + 1, at + 1);
    }
    sets.truncate(kept);
}

/// What is known of all memory.
pub struct Shadow {
    tables: Vec<Option<Box<[Leaf]>>>,
    /// Where anything is known.
    known: Range<u64>,
    /// What was changed since somebody asked, if somebody does.
    changes: Option<Vec<Set>>,
}

impl Default for Shadow {
    fn default() -> Self {
        let tables = (0..END / TABLE).map(|_| None).collect();
        Self { tables, known: Range { start: END, end: 0 }, changes: None }
    }
}

impl Shadow {
    /// Notes what is changed from here on.
    pub fn note_changes(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// Whether anything was changed that was noted.
    pub fn has_changes(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| !changes.is_empty())
    }

    /// What was changed, to be taken.
    pub fn changes(&mut self) -> &mut Vec<Set> {
        self.changes.get_or_insert_default()
    }

    /// Outside of this, nothing is known.
    #[inline]
    pub fn known(&self) -> &Range<u64> {
        &self.known
    }

    /// Whether something may be known of these bytes.
    #[inline]
    pub fn may_know(&self, addr: u64, len: u64) -> bool {
        addr < self.known.end && addr.saturating_add(len) > self.known.start
    }

    /// Whether any of these bytes must not be accessed.
    #[inline]
    pub fn is_wrong(&self, addr: u64, len: u64) -> bool {
        if !self.may_know(addr, len) {
            return false;
        }
        // Most accesses lie in one granule, or two, with which nothing is wrong.
        let [first, last] = [addr, addr.saturating_add(len.saturating_sub(1))].map(|at| at / GRANULE);
        let is_fine = last - first <= 1 && self.is_fine(addr) && (last == first || self.is_fine(last * GRANULE));
        !is_fine && self.first_wrong(addr, len).is_some()
    }

    /// The first of these bytes that must not be accessed.
    pub fn first_wrong(&self, addr: u64, len: u64) -> Option<(u64, Wrong)> {
        let end = addr.saturating_add(len).min(self.known.end);
        let mut at = addr.max(self.known.start);
        while at < end {
            let next = (at | (GRANULE - 1)) + 1;
            let wrong = match self.granule(at) {
                FINE => None,
                NEVER => Some((at, Wrong::Never)),
                FREED => Some((at, Wrong::Freed)),
                // The first bytes alone may be accessed.
                count => Some((at.max(next - GRANULE + u64::from(count)), Wrong::Never))
                    .filter(|(at, _)| *at < next.min(end)),
            };
            if wrong.is_some() {
                return wrong;
            }
            at = next;
        }
        None
    }

    /// Whether all of these bytes must not be accessed.
    pub fn all_wrong(&self, addr: u64, len: u64) -> bool {
        (addr..addr.saturating_add(len)).all(|at| self.first_wrong(at, 1).is_some())
    }

    /// Whether nothing is known to be wrong with the 8 bytes in which an address is.
    #[inline]
    pub fn is_fine(&self, at: u64) -> bool {
        self.granule(at) == FINE
    }

    #[inline]
    fn granule(&self, at: u64) -> u8 {
        let Some(Some(table)) = self.tables.get((at / TABLE) as usize) else { return FINE };
        match &table[(at % TABLE / LEAF) as usize] {
            Leaf::Same(state) => *state,
            Leaf::Each(states) => states[(at % LEAF / GRANULE) as usize],
        }
    }

    /// These bytes are the allocator's own.
    pub fn own(&mut self, range: Range<u64>) {
        self.set(range, NEVER);
    }

    /// Nothing is known of these bytes any more.
    pub fn forget(&mut self, range: Range<u64>) {
        if self.may_know(range.start, range.end.saturating_sub(range.start)) {
            self.set(range, FINE);
        }
    }

    /// These bytes may be accessed. What follows up to the next multiple of 8 may not be.
    pub fn give(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        self.set(start..end & !(GRANULE - 1), FINE);
        let rest = (end % GRANULE) as u8;
        // What begins in the middle may share its first bytes with something else.
        if rest != 0 {
            let is_alone = end & !(GRANULE - 1) >= start;
            self.set_one(end, if is_alone { rest } else { FINE });
        } else if len == 0 && start.is_multiple_of(GRANULE) {
            self.set_one(start, NEVER);
        }
        if !start.is_multiple_of(GRANULE) {
            self.set_one(start, FINE);
        }
    }

    /// These bytes, which could be accessed, must not be any more.
    pub fn take(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        let whole = start.next_multiple_of(GRANULE)..end & !(GRANULE - 1);
        self.set(whole, FREED);
        let rest = (end % GRANULE) as u8;
        if rest != 0 && self.granule(end) == rest || len == 0 && start.is_multiple_of(GRANULE) {
            self.set_one(end, FREED);
        }
    }

    fn set_one(&mut self, at: u64, state: u8) {
        let start = at & !(GRANULE - 1);
        self.set(start..start + GRANULE, state);
    }

    /// Of whole granules: those that begin in the range.
    fn set(&mut self, range: Range<u64>, state: u8) {
        let (start, end) = (range.start & !(GRANULE - 1), range.end.min(END).next_multiple_of(GRANULE));
        if start >= end {
            return;
        }
        self.known = self.known.start.min(start)..self.known.end.max(end);
        if let Some(changes) = &mut self.changes {
            match state {
                FINE => changes.push(Set { start, end, wrong: false }),
                NEVER | FREED => changes.push(Set { start, end, wrong: true }),
                count => {
                    let at = start + u64::from(count);
                    changes.extend([Set { start, end: at, wrong: false }, Set { start: at, end, wrong: true }]);
                }
            }
        }
        let mut at = start;
        while at < end {
            let next = (at / LEAF * LEAF + LEAF).min(end);
            self.set_in_leaf(at, next, state);
            at = next;
        }
    }

    fn set_in_leaf(&mut self, start: u64, end: u64, state: u8) {
        let table = &mut self.tables[(start / TABLE) as usize];
        if table.is_none() && state == FINE {
            return;
        }
        let table = table.get_or_insert_with(|| (0..LEAVES).map(|_| Leaf::Same(FINE)).collect());
        let leaf = &mut table[(start % TABLE / LEAF) as usize];
        if end - start == LEAF {
            *leaf = Leaf::Same(state);
            return;
        }
        if let Leaf::Same(all) = leaf {
            if *all == state {
                return;
            }
            *leaf = Leaf::Each(Box::new([*all; GRANULES]));
        }
        let Leaf::Each(states) = leaf else { return };
        let first = (start % LEAF / GRANULE) as usize;
        states[first..first + ((end - start) / GRANULE) as usize].fill(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, byte by byte.
    struct Plain(Vec<Option<Wrong>>);

    const BASE: u64 = 0x5555_5555_0000 - 4096;
    const SIZE: u64 = 3 * LEAF;

    #[test]
    fn as_byte_by_byte() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut shadow, mut plain) = (Shadow::default(), Plain(vec![Some(Wrong::Never); SIZE as usize]));
        shadow.own(BASE..BASE + SIZE);
        let mut blocks: Vec<(u64, u64)> = Vec::new();
        for _ in 0..4000 {
            if blocks.len() > 30 && random.bool() {
                let (start, len) = blocks.swap_remove(random.usize(0..blocks.len()));
                shadow.take(start, len);
                let first = (start - BASE) as usize;
                plain.0[first..(first + len as usize).next_multiple_of(8)].fill(Some(Wrong::Freed));
            }
            let most = if random.u8(..) < 3 { 80_000 } else { 200 };
            let (start, len) = (BASE + 16 * random.u64(0..SIZE / 16), 1 + random.u64(0..most));
            let is_free = |(other, size): &(u64, u64)| start + len + 8 <= *other || other + size + 8 <= start;
            if start + len + 8 <= BASE + SIZE && blocks.iter().all(is_free) {
                shadow.give(start, len);
                let (first, end) = ((start - BASE) as usize, (start - BASE + len) as usize);
                plain.0[first..end].fill(None);
                plain.0[end..end.next_multiple_of(8)].fill(Some(Wrong::Never));
                blocks.push((start, len));
            }
            for _ in 0..20 {
                let (start, len) = (BASE + random.u64(0..SIZE - 64), random.u64(1..64));
                let first = (start - BASE) as usize;
                let wrong = (first..first + len as usize).find_map(|at| Some((BASE + at as u64, plain.0[at]?)));
                assert_eq!(shadow.first_wrong(start, len), wrong, "{start:#x} {len}");
            }
        }
        shadow.forget(BASE..BASE + SIZE);
        assert_eq!(shadow.first_wrong(BASE, SIZE), None);
        assert!(blocks.len() > 10);
    }

    #[test]
    fn nothing_is_wrong_where_nothing_is_known() {
        let mut shadow = Shadow::default();
        assert!(!shadow.may_know(0, END));
        shadow.give(0x1000, 13);
        assert_eq!(shadow.first_wrong(0x1000, 13), None);
        assert_eq!(shadow.first_wrong(0x1000, 14), Some((0x100d, Wrong::Never)));
        assert_eq!(shadow.first_wrong(0x1010, 64), None);
    }

    #[test]
    fn blocks_that_share_a_granule() {
        let mut shadow = Shadow::default();
        shadow.give(0x1000, 13);
        shadow.give(0x100d, 6);
        shadow.take(0x1000, 13);
        assert_eq!(shadow.first_wrong(0x1000, 1), Some((0x1000, Wrong::Freed)));
        assert_eq!(shadow.first_wrong(0x100d, 6), None);
    }

    #[test]
    fn changes_that_are_taken_back() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let set = |start: u64, len: u64, wrong: bool| Set { start, end: start + len, wrong };
            let sets: Vec<Set> =
                (0..random.usize(1..8)).map(|_| set(random.u64(0..40), random.u64(1..20), random.bool())).collect();
            let apply = |sets: &[Set]| {
                let mut all = [false; 64];
                sets.iter().for_each(|set| all[set.start as usize..set.end as usize].fill(set.wrong));
                all
            };
            let mut less = sets.clone();
            settle(&mut less);
            assert_eq!(apply(&less), apply(&sets), "{sets:?} {less:?}");
        }
    }
}
