//! What the directory knows: who holds a coherence block, who has written it last, and up to where.
//!
//! Blocks of a page that were always taken together have one entry together: most pages have a single one.

use crate::picture::moment::{Index, Moment};
use bugnet_format::record::DependencyKind;
use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

/// What is known of a block.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The last thread that wrote, and up to where it may have done so; the moment is not known yet while it is the
    /// only one that holds the block.
    writer: Option<(Index, Moment)>,
    /// Whether the only holder may write.
    modified: bool,
    holders: SmallVec<[Index; 4]>,
}

/// Blocks of a group of which the same is known.
struct Part {
    bits: u64,
    entry: Entry,
}

/// Blocks that stand next to each other.
pub struct Group {
    /// Each block is in one of them.
    parts: SmallVec<[Part; 1]>,
    /// The thread that was the last to take something in here, and how often it has done so since another one did.
    taker: Index,
    streak: u32,
}

/// Some groups.
pub type Stripe = HashMap<u32, Box<Group>>;

/// Groups that a thread has taken something of, with their streaks; where several share an entry, the last one.
pub struct Visits(Box<[(u32, u32); 1 << Visits::SHIFT]>);

impl Visits {
    const SHIFT: u32 = 9;

    /// None yet.
    pub fn new() -> Self {
        Self(Box::new([(0, 0); 1 << Self::SHIFT]))
    }

    fn entry(&mut self, group: u32) -> &mut (u32, u32) {
        // Groups at regular distances get entries of their own.
        &mut self.0[(group.wrapping_mul(0x9e37_79b1) >> (u32::BITS - Self::SHIFT)) as usize]
    }

    fn set(&mut self, group: u32, streak: u32) {
        *self.entry(group) = (group, streak);
    }

    /// The streak of the group before or behind one.
    fn beside(&mut self, group: u32) -> u32 {
        let streak = |(found, streak): (u32, u32), wanted| if found == wanted { streak } else { 0 };
        let (before, behind) = (group.wrapping_sub(1), group.wrapping_add(1));
        streak(*self.entry(before), before).max(streak(*self.entry(behind), behind))
    }
}

/// How blocks are taken.
#[derive(Clone, Copy)]
pub struct Taking {
    /// Who takes them.
    pub by: Index,
    /// Whether they are read.
    pub reads: bool,
    /// Whether they are written.
    pub writes: bool,
}

impl Group {
    /// Of which no thread has accessed anything becomes a thread's.
    pub fn given(to: Index, modified: bool) -> Self {
        let writer = modified.then(|| (to, Moment::default()));
        let entry = Entry { writer, modified, holders: smallvec![to] };
        Self { parts: smallvec![Part { bits: u64::MAX, entry }], taker: to, streak: 0 }
    }

    /// A thread comes to take something of the group, which is the one with this number: how often it has come in a row, while
    /// no other thread did. One that comes for the first time goes on from the group before or behind.
    pub fn come(&mut self, number: u32, taker: Index, visits: &mut Visits) -> u32 {
        self.streak = if self.taker == taker { self.streak.saturating_add(1) } else { visits.beside(number) };
        visits.set(number, self.streak);
        self.taker = taker;
        self.streak
    }

    /// What is known of these blocks, with those of which it is.
    pub fn entries(&self, bits: u64) -> impl Iterator<Item = (&Entry, u64)> {
        self.parts.iter().map(move |part| (&part.entry, part.bits & bits)).filter(|(_, bits)| *bits != 0)
    }

    /// A thread takes blocks; `left`: up to where those who stood in the way have come. Calls `add` with what that orders the
    /// thread behind, and for which of the blocks.
    pub fn take(
        &mut self,
        blocks: u64,
        how: Taking,
        left: impl Fn(Index) -> Option<Moment>,
        mut add: impl FnMut(DependencyKind, u64, Index, Moment),
    ) {
        let mut taken: SmallVec<[Part; 1]> = SmallVec::new();
        self.parts.retain(|part| {
            let bits = part.bits & blocks;
            if bits != 0 {
                let mut entry = part.entry.clone();
                entry.take(how, &left, |kind, other, moment| add(kind, bits, other, moment));
                join(&mut taken, Part { bits, entry });
                part.bits &= !bits;
            }
            part.bits != 0
        });
        taken.into_iter().for_each(|part| join(&mut self.parts, part));
    }
}

fn join(parts: &mut SmallVec<[Part; 1]>, part: Part) {
    match parts.iter_mut().find(|other| other.entry == part.entry) {
        Some(other) => other.bits |= part.bits,
        None => parts.push(part),
    }
}

/// Some blocks and those around them, in aligned ranges of 2 to the power of `streak`, up to the whole group.
pub fn around(bits: u64, streak: u32) -> u64 {
    let size = 1 << streak.min(u64::BITS.trailing_zeros());
    let mut near = 0;
    let mut rest = bits;
    while rest != 0 {
        let range = u64::MAX >> (u64::BITS - size) << (rest.trailing_zeros() & !(size - 1));
        near |= range;
        rest &= !range;
    }
    near
}

impl Entry {
    /// Other threads that have what they must not have if a thread gets what it wants.
    pub fn in_the_way(&self, writes: bool, by: Index) -> impl Iterator<Item = Index> {
        let all = writes || self.modified;
        self.holders.iter().copied().filter(move |holder| all && *holder != by)
    }

    /// See [`Group::take`].
    fn take(
        &mut self,
        how: Taking,
        left: impl Fn(Index) -> Option<Moment>,
        mut add: impl FnMut(DependencyKind, Index, Moment),
    ) {
        let me = how.by;
        if let Some((writer, moment)) = &mut self.writer
            && *writer != me
        {
            if self.modified
                && let Some(left) = left(*writer)
            {
                *moment = left;
            }
            let kind = if how.reads { DependencyKind::Raw } else { DependencyKind::Waw };
            add(kind, *writer, *moment);
        }
        if how.writes {
            if !self.modified {
                for reader in self.holders.iter().filter(|holder| **holder != me) {
                    if let Some(moment) = left(*reader) {
                        add(DependencyKind::War, *reader, moment);
                    }
                }
            }
            self.holders.clear();
            self.writer = Some((me, Moment::default()));
        }
        // Who may write and has lost its own permissions with its shadow may only read here: up to where it has written is not known yet.
        let still_modified = self.modified && self.writer.is_some_and(|(writer, _)| writer == me);
        self.modified = how.writes || still_modified;
        if !self.holders.contains(&me) {
            self.holders.push(me);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits_of(group: &Group) -> Vec<u64> {
        let mut bits: Vec<u64> = group.parts.iter().map(|part| part.bits).collect();
        bits.sort_unstable();
        assert_eq!(bits.iter().fold(0, |all, bits| all ^ bits), u64::MAX);
        bits
    }

    fn holders(group: &Group, bit: u32) -> Vec<Index> {
        let of = |(entry, _): (&Entry, u64)| entry.holders.to_vec();
        group.entries(1 << bit).map(of).next().unwrap()
    }

    #[test]
    fn ranges_around_blocks_are_aligned_and_grow() {
        assert_eq!(around(1 << 5, 0), 1 << 5);
        assert_eq!(around(1 << 5, 1), 0b11 << 4);
        assert_eq!(around(1 << 5 | 1 << 40, 2), 0b1111 << 4 | 0b1111 << 40);
        assert_eq!(around(1 << 63, 5), u64::MAX << 32);
        assert_eq!(around(1 << 17, 6), u64::MAX);
        assert_eq!(around(1 << 17, 1000), u64::MAX);
    }

    #[test]
    fn a_writer_that_takes_its_block_again_to_read_it_has_written_it() {
        let mut group = Group::given(1, true);
        let left = |index| (index == 1).then_some(Moment { interval: 0, position: 70 });
        let read = |group: &mut Group, by| {
            let mut found = Vec::new();
            let add = |kind, _, other, moment: Moment| found.push((kind, other, moment.position));
            group.take(1, Taking { by, reads: true, writes: false }, left, add);
            found
        };
        assert_eq!(read(&mut group, 1), []);
        assert!(group.entries(1).all(|(entry, _)| entry.in_the_way(false, 2).eq([1])));
        assert_eq!(read(&mut group, 2), [(DependencyKind::Raw, 1, 70)]);
        // From here on, it is known.
        assert_eq!(read(&mut group, 1), []);
        assert!(group.entries(1).all(|(entry, _)| entry.in_the_way(false, 3).next().is_none()));
        assert_eq!(read(&mut group, 3), [(DependencyKind::Raw, 1, 70)]);
    }

    #[test]
    fn blocks_that_are_taken_alone_part_and_those_taken_together_join() {
        let mut group = Group::given(1, true);
        let left = |index| (index == 1).then_some(Moment { interval: 0, position: 70 });
        let take = |group: &mut Group, bits, by, reads, writes| {
            let mut found = Vec::new();
            let add = |kind, bits, other, moment: Moment| found.push((kind, bits, other, moment.position));
            group.take(bits, Taking { by, reads, writes }, left, add);
            found
        };
        assert_eq!(take(&mut group, 0b100, 2, true, false), [(DependencyKind::Raw, 0b100, 1, 70)]);
        assert_eq!(
            (bits_of(&group), holders(&group, 2), holders(&group, 3)),
            (vec![0b100, !0b100], vec![1, 2], vec![1])
        );
        // The same for others.
        assert_eq!(take(&mut group, 0b11, 2, true, false), [(DependencyKind::Raw, 0b11, 1, 70)]);
        assert_eq!(bits_of(&group), [0b111, !0b111]);
        // All of it, whatever was known of its parts.
        let dependencies = take(&mut group, u64::MAX, 3, false, true);
        assert!(dependencies.contains(&(DependencyKind::Waw, 0b111, 1, 70)), "{dependencies:?}");
        assert!(dependencies.contains(&(DependencyKind::War, 0b111, 1, 70)), "{dependencies:?}");
        assert!(dependencies.contains(&(DependencyKind::Waw, !0b111, 1, 70)), "{dependencies:?}");
        assert_eq!((bits_of(&group), holders(&group, 2)), (vec![u64::MAX], vec![3]));
        assert!(
            group
                .entries(1)
                .all(|(entry, _)| entry.in_the_way(false, 1).eq([3]) && entry.in_the_way(true, 3).next().is_none())
        );
    }
}
