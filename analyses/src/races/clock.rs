//! Vector clocks and epochs (Flanagan and Freund, "FastTrack", 2009, section 3), in which a thread's clock is the number of instructions that it
//! has executed. So an epoch is the very place of an access, and no clock has to be advanced at a release.

/// Bits of an epoch that count instructions: a thread that executes a billion a second has enough of them for three days.
const COUNT_BITS: u32 = 48;

/// A place in a thread's execution, by the thread's number and the instructions that it had executed before; or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// No place.
    pub const NONE: Self = Self(0);

    /// A place. Threads are numbered from 0; a number of 2^16 - 1 or more has no place.
    #[must_use]
    pub fn new(thread: usize, count: u64) -> Self {
        match u16::try_from(thread + 1) {
            Ok(number) => Self(u64::from(number) << COUNT_BITS | count & ((1 << COUNT_BITS) - 1)),
            Err(_) => Self::NONE,
        }
    }

    /// Whether it is none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The thread's number, of one that is not none.
    #[must_use]
    pub fn thread(self) -> usize {
        (self.0 >> COUNT_BITS).saturating_sub(1) as usize
    }

    /// The instructions that the thread had executed before.
    #[must_use]
    pub fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

/// Up to where one is ordered behind each thread: what it did before so many instructions has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<u64>);

impl Clock {
    /// Whether a place lies before.
    #[must_use]
    #[inline]
    pub fn has(&self, epoch: Epoch) -> bool {
        self.0.get(epoch.thread()).is_some_and(|until| epoch.count() < *until)
    }

    /// Up to which count of a thread.
    #[must_use]
    pub fn until(&self, thread: usize) -> u64 {
        self.0.get(thread).copied().unwrap_or(0)
    }

    /// All that lies before the other one lies before this one, too. Returns whether something was new.
    pub fn join(&mut self, other: &Self) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut is_more = false;
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            is_more |= more > own;
            *own = (*own).max(*more);
        }
        is_more
    }

    /// What a thread did before it had executed so many instructions lies before.
    pub fn reach(&mut self, thread: usize, count: u64) {
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] = self.0[thread].max(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_before() {
        let (mut one, mut other) = (Clock::default(), Clock::default());
        one.reach(2, 10);
        assert!(one.has(Epoch::new(2, 9)) && !one.has(Epoch::new(2, 10)) && !one.has(Epoch::new(3, 0)));
        other.reach(0, 5);
        other.join(&one);
        assert!(other.has(Epoch::new(2, 9)) && other.has(Epoch::new(0, 4)) && !one.has(Epoch::new(0, 4)));
        let place = Epoch::new(7, 1 << 40);
        assert_eq!((place.thread(), place.count(), place.is_none()), (7, 1 << 40, false));
        assert!(Epoch::new(1 << 16, 3).is_none());
    }
}
