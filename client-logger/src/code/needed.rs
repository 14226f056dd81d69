//! Which code pictures the log needs where only the last intervals of each thread are kept.

use bugnet_format::types::{CodeSeq, Tid};
use hashbrown::HashMap;
use rangemap::RangeInclusiveSet;
use std::collections::VecDeque;

/// The code pictures that intervals of the log begin with or go on to, and those that forked processes began with.
#[derive(Default)]
pub struct Needed {
    /// How many intervals of each thread are kept; 0 for all.
    keep: u64,
    /// The pictures at the starts of the kept intervals of threads that go on.
    threads: HashMap<Tid, VecDeque<CodeSeq>>,
    /// The pictures at which processes were about to be forked.
    forking: Vec<CodeSeq>,
    /// What threads that have ended and processes that were forked need for good.
    for_good: RangeInclusiveSet<u64>,
}

impl Needed {
    /// Nothing is needed yet.
    pub fn new(keep: u64) -> Self {
        Self { keep, ..Self::default() }
    }

    /// How many intervals of each thread are kept; 0 for all.
    pub fn keep(&self) -> u64 {
        self.keep
    }

    /// A thread begins an interval with this picture; the oldest is gone if there were enough.
    pub fn begin(&mut self, tid: Tid, seq: CodeSeq) {
        let kept = self.threads.entry(tid).or_default();
        kept.push_back(seq);
        if kept.len() as u64 > self.keep {
            kept.pop_front();
        }
    }

    /// A thread has ended, at this picture.
    pub fn end(&mut self, tid: Tid, now: CodeSeq) {
        if let Some(oldest) = self.threads.remove(&tid).and_then(|kept| kept.front().copied()) {
            self.for_good.insert(oldest.0..=now.0.max(oldest.0));
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
        self.threads.values().filter_map(|kept| kept.front()).chain(&self.forking).min().copied()
    }

    /// Whether a version of a page is in a needed picture, from its own number up to the next version's.
    pub fn has(&self, page: CodeSeq, next: Option<CodeSeq>) -> bool {
        let last = next.map_or(u64::MAX, |next| next.0 - 1);
        self.oldest().is_none_or(|oldest| last >= oldest.0) || self.for_good.overlaps(&(page.0..=last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_kept_intervals_are_needed() {
        let mut needed = Needed::new(2);
        for seq in [1, 5, 9] {
            needed.begin(Tid(7), CodeSeq(seq));
        }
        assert_eq!(needed.oldest(), Some(CodeSeq(5)));
        assert!(!needed.has(CodeSeq(1), Some(CodeSeq(5))));
        assert!(needed.has(CodeSeq(1), Some(CodeSeq(6))));
        assert!(needed.has(CodeSeq(1), None));
    }

    #[test]
    fn what_has_ended_or_was_forked_is_needed_for_good() {
        let mut needed = Needed::new(1);
        needed.begin(Tid(7), CodeSeq(1));
        needed.begin(Tid(8), CodeSeq(3));
        needed.end(Tid(8), CodeSeq(4));
        needed.before_fork(CodeSeq(10));
        needed.begin(Tid(7), CodeSeq(20));
        assert_eq!(needed.oldest(), Some(CodeSeq(10)), "as long as a fork is under way");
        needed.after_fork(CodeSeq(11));
        assert_eq!(needed.oldest(), Some(CodeSeq(20)));
        let alive = |page: u64, next: u64| needed.has(CodeSeq(page), Some(CodeSeq(next)));
        assert!(alive(2, 4) && alive(4, 9) && alive(9, 11) && alive(11, 12));
        assert!(!alive(1, 3) && !alive(5, 10) && !alive(12, 20));
    }
}
