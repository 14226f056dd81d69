//! Moments of an execution, as bugnet prints them, and random ones.

use anyhow::{Context, Result};

/// Where a thread is, and when: `4711/3/123 (time @300000123 of 400000000)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The thread, as bugnet names it.
    pub thread: String,
    /// Its interval.
    pub interval: u64,
    /// Instructions since that began.
    pub position: u64,
    /// Instructions of all threads.
    pub time: u64,
    /// The time at the end.
    pub end: u64,
}

impl Moment {
    /// Finds the first one in a text.
    ///
    /// # Errors
    /// There is none.
    pub fn find(text: &str) -> Result<Self> {
        let of_line = |line: &str| {
            let (place, rest) = line.split_once(" (time @")?;
            let (time, rest) = rest.split_once(" of ")?;
            let end = rest.split_once(')')?.0;
            let mut parts = place.split_whitespace().next_back()?.split('/');
            let (thread, interval, position) = (parts.next()?, parts.next()?, parts.next()?);
            Some(Self {
                thread: thread.to_owned(),
                interval: interval.parse().ok()?,
                position: position.parse().ok()?,
                time: time.parse().ok()?,
                end: end.parse().ok()?,
            })
        };
        text.lines().find_map(of_line).with_context(|| format!("no position in {text:?}"))
    }

    /// Whether it is one instruction of the same thread before another.
    #[must_use]
    pub fn is_one_before(&self, other: &Self) -> bool {
        let in_interval = self.interval == other.interval && self.position + 1 == other.position;
        // The last instruction of an interval has the number that the interval's length says, which is not told here.
        let across = self.interval + 1 == other.interval && other.position == 0;
        self.thread == other.thread && self.time < other.time && (in_interval || across)
    }
}

/// Random numbers from a fixed seed (SplitMix64): the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(x ^ (x >> 31)) * u128::from(end)) >> 64) as u64
    }

    /// Times neither at the start nor at the end, of an execution of so many instructions.
    pub fn times(&mut self, number: usize, end: u64) -> Vec<u64> {
        (0..number).map(|_| 1 + self.below(end.saturating_sub(2).max(1))).collect()
    }

    /// Puts something into a random order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_in_what_is_printed() {
        let text =
            "Reading symbols...\n21169.1/2/108698 (time @108698 of 2000000), where SIGSEGV killed thread 21169\n";
        let moment = Moment::find(text).unwrap();
        assert_eq!((moment.thread.as_str(), moment.interval, moment.position), ("21169.1", 2, 108_698));
        assert_eq!((moment.time, moment.end), (108_698, 2_000_000));
        assert!(Moment::find("the log does not hold 1/2/3").is_err());
    }

    #[test]
    fn neighbours() {
        let at = |thread: &str, interval, position, time| {
            let thread = thread.to_owned();
            Moment { thread, interval, position, time, end: 100 }
        };
        assert!(at("7", 1, 4, 40).is_one_before(&at("7", 1, 5, 45)));
        assert!(at("7", 1, 4, 44).is_one_before(&at("7", 2, 0, 45)));
        assert!(!at("7", 1, 5, 45).is_one_before(&at("7", 1, 5, 45)));
        assert!(!at("8", 1, 4, 44).is_one_before(&at("7", 1, 5, 45)));
    }

    #[test]
    fn random_times_are_within_and_repeat() {
        let times = Random::new(1).times(1000, 50);
        assert!(times.iter().all(|time| (1..49).contains(time)));
        assert_eq!(times, Random::new(1).times(1000, 50));
        let mut order: Vec<usize> = (0..100).collect();
        Random::new(2).shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
