//! How far a thread is, and how far it is to the next threshold.

use crate::emitted::counter::Counter;

/// Most instructions between two thresholds: after so many, a thread looks whether to leave the code cache. (The
/// flag-free form of the count wants counters below 2^32.)
pub const STRETCH: u64 = 1 << 18;
/// Fewest, while thresholds still meet blocks of which it is [not known](crate::emitted::by_rip) that they run often.
const SHORT_STRETCH: u64 = 1 << 15;

/// How many instructions a thread executes from one threshold to the next: where it then is, is a sample of what runs often.
pub struct Stretch {
    /// About so many.
    length: u64,
    /// Makes them differ, lest loops are met at the same block each time.
    random: u64,
}

impl Stretch {
    fn new() -> Self {
        Self { length: STRETCH, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A threshold has `found` something or not: the less they find, the fewer there are.
    pub fn adapt(&mut self, found: bool) {
        let length = if found { self.length / 2 } else { self.length + self.length / 8 };
        self.length = length.clamp(SHORT_STRETCH, STRETCH);
    }

    /// Instructions to the next one.
    pub fn next(&mut self) -> u64 {
        // Marsaglia's xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.length - self.random % (self.length / 2)
    }
}

/// How far a thread is.
pub struct Count {
    /// What is left until the next threshold.
    pub counter: Counter,
    /// Position up to which the counter counts down.
    pub threshold: u64,
    /// How far it is from there to the next one.
    pub stretch: Stretch,
    /// Position of the next `CHECK`.
    pub next_check: u64,
}

impl Count {
    /// Of the calling thread, which begins.
    pub fn new() -> Self {
        Self { counter: Counter::of_thread(), threshold: 0, stretch: Stretch::new(), next_check: 0 }
    }
}
