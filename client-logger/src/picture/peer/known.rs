//! Up to where a thread is ordered behind others.

use crate::picture::moment::{Index, Moment};
use hashbrown::HashMap;

/// Of so many other threads it is remembered, and then half of them are forgotten: with thousands of threads, each would know, and
/// pass on, something of each. What is forgotten is recorded once more.
const MOST: usize = 64;

/// Moments of other threads that a thread is ordered behind.
#[derive(Default)]
pub struct Known(HashMap<Index, Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    moment: Moment,
    /// Since when in the thread itself.
    since: Moment,
}

impl Known {
    /// Whether the thread is ordered behind this moment.
    pub fn has(&self, other: Index, moment: Moment) -> bool {
        self.0.get(&other).is_some_and(|known| moment <= known.moment)
    }

    /// From now on it is.
    pub fn add(&mut self, other: Index, moment: Moment, now: Moment) {
        if self.has(other, moment) {
            return;
        }
        if self.0.len() == MOST && !self.0.contains_key(&other) {
            self.forget();
        }
        self.0.insert(other, Entry { moment, since: now });
    }

    /// Forgets half of it: what has been known for longest.
    fn forget(&mut self) {
        let mut age: Vec<(Moment, Index)> = self.0.iter().map(|(index, known)| (known.since, *index)).collect();
        let (old, ..) = age.select_nth_unstable(MOST / 2);
        for (_, index) in old {
            self.0.remove(index);
        }
    }

    /// What the thread knew before a moment, and can pass on to whoever is ordered behind that.
    pub fn before(&self, moment: Moment) -> impl Iterator<Item = (Index, Moment)> {
        self.0.iter().filter(move |(_, known)| known.since < moment).map(|(index, known)| (*index, known.moment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64) -> Moment {
        Moment { interval: 0, position }
    }

    #[test]
    fn later_moments_replace_earlier_ones() {
        let mut known = Known::default();
        known.add(7, at(50), at(1));
        known.add(7, at(40), at(2));
        assert!(known.has(7, at(50)) && !known.has(7, at(51)) && !known.has(8, at(0)));
        assert_eq!(known.before(at(2)).collect::<Vec<_>>(), [(7, at(50))]);
        known.add(7, at(60), at(3));
        assert!(known.has(7, at(60)));
        assert_eq!(known.before(at(3)).count(), 0);
    }

    #[test]
    fn what_was_learned_last_is_remembered() {
        let mut known = Known::default();
        for other in 0..1000 {
            known.add(other, at(5), at(other.into()));
            assert!(known.0.len() <= MOST);
            assert!((other.saturating_sub(20)..=other).all(|other| known.has(other, at(5))));
        }
    }
}
