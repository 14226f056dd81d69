//! Which code pictures the log needs where only the last epochs are kept.

use bugnet_format::types::{CodeSeq, Epoch, Tid};
use hashbrown::HashMap;
use rangemap::RangeInclusiveSet;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Whether intervals of the epoch `old` are kept where one of the epoch `now` begins, if the last `keep` epochs are, or all.
pub fn is_kept(old: Epoch, keep: u64, now: Epoch) -> bool {
    keep == 0 || old.0.saturating_add(keep) > now.0
}

/// The code pictures that intervals of the log begin with or go on to, and those that forked processes began with.
#[derive(Default)]
pub struct Needed {
    /// How many epochs are kept; 0 for all.
    keep: u64,
    /// The epochs of the kept intervals of threads that go on, and the pictures at their starts.
    threads: HashMap<Tid, VecDeque<(Epoch, CodeSeq)>>,
    /// The pictures at which processes were about to be forked.
    forking: Vec<CodeSeq>,
    /// What threads that have ended need, as long as the epochs of their last intervals are kept.
    ended: Vec<(Epoch, RangeInclusive<u64>)>,
    /// What processes that were forked need for good.
    for_good: RangeInclusiveSet<u64>,
}

impl Needed {
    /// Nothing is needed yet.
    pub fn new(keep: u64) -> Self {
        Self { keep, ..Self::default() }
    }

    /// How many epochs are kept; 0 for all.
    pub fn keep(&self) -> u64 {
        self.keep
    }

    /// A thread begins an interval of this epoch with this picture; its intervals of epochs that are not kept are gone.
    pub fn begin(&mut self, tid: Tid, epoch: Epoch, seq: CodeSeq) {
        let kept = self.threads.entry(tid).or_default();
        kept.push_back((epoch, seq));
        kept.retain(|(old, _)| is_kept(*old, self.keep, epoch));
        self.ended.retain(|(old, _)| is_kept(*old, self.keep, epoch));
    }

    /// A thread has ended, at this picture.
    pub fn end(&mut self, tid: Tid, now: CodeSeq) {
        let kept = self.threads.remove(&tid).unwrap_or_default();
        if let (Some((_, oldest)), Some((last, _))) = (kept.front(), kept.back()) {
            self.ended.push((*last, oldest.0..=now.0.max(oldest.0)));
        }
    }

    /// A process may be forked from now on.
    pub fn before_fork(&mut self, now: CodeSeq) {
        self.forking.push(now);
    }

    /// It has been, or has not.
    pub fn after_fork(&mut self, now: CodeSeq) {
        if let Some(before) = self.forking.pop() {
            // Of several threads that fork at the same time, it may be another's.
            let before = self.forking.iter().copied().chain([before]).min().unwrap_or(before);
            self.for_good.insert(before.0..=now.0.max(before.0));
        }
    }

    /// The oldest picture that is needed by threads that go on, and from which on all are.
    pub fn oldest(&self) -> Option<CodeSeq> {
        self.threads.values().filter_map(|kept| kept.front()).map(|(_, seq)| seq).chain(&self.forking).min().copied()
    }

    /// Whether a version of a page is in a needed picture, from its own number up to the next version's.
    pub fn has(&self, page: CodeSeq, next: Option<CodeSeq>) -> bool {
        let last = next.map_or(u64::MAX, |next| next.0 - 1);
        let of_ended = |needed: &RangeInclusive<u64>| page.0 <= *needed.end() && *needed.start() <= last;
        self.oldest().is_none_or(|oldest| last >= oldest.0)
            || self.for_good.overlaps(&(page.0..=last))
            || self.ended.iter().any(|(_, needed)| of_ended(needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_kept_intervals_are_needed() {
        let mut needed = Needed::new(2);
        for (epoch, seq) in [(1, 1), (2, 4), (2, 5), (3, 9)] {
            needed.begin(Tid(7), Epoch(epoch), CodeSeq(seq));
        }
        assert_eq!(needed.oldest(), Some(CodeSeq(4)));
        assert!(!needed.has(CodeSeq(1), Some(CodeSeq(4))));
        assert!(needed.has(CodeSeq(1), Some(CodeSeq(5))));
        assert!(needed.has(CodeSeq(1), None));
    }

    #[test]
    fn what_has_ended_is_needed_for_a_while_and_what_was_forked_for_good() {
        let mut needed = Needed::new(2);
        needed.begin(Tid(7), Epoch(0), CodeSeq(1));
        needed.begin(Tid(8), Epoch(1), CodeSeq(3));
        needed.end(Tid(8), CodeSeq(4));
        needed.before_fork(CodeSeq(10));
        needed.begin(Tid(7), Epoch(2), CodeSeq(20));
        assert_eq!(needed.oldest(), Some(CodeSeq(10)), "as long as a fork is under way");
        needed.after_fork(CodeSeq(11));
        assert_eq!(needed.oldest(), Some(CodeSeq(20)));
        let alive = |needed: &Needed, page: u64, next: u64| needed.has(CodeSeq(page), Some(CodeSeq(next)));
        assert!(alive(&needed, 2, 4) && alive(&needed, 4, 9) && alive(&needed, 9, 11) && alive(&needed, 11, 12));
        assert!(!alive(&needed, 1, 3) && !alive(&needed, 5, 10) && !alive(&needed, 12, 20));
        needed.begin(Tid(7), Epoch(3), CodeSeq(21));
        assert!(!alive(&needed, 2, 4) && !alive(&needed, 4, 9) && alive(&needed, 9, 11) && alive(&needed, 11, 12));
    }
}
