//! How many instructions a thread may execute until its next threshold: what each block takes its instructions from.
//!
//! A block's `sub [counter], n` has to wait for the block before it to have stored the same counter, 5 to 7 cycles on most processors; where
//! blocks are short, that is longer than the program takes for the block. So there are several counters, and a block has one of them
//! by its address: blocks that follow each other mostly do not wait for each other. What is left is the sum of all.
//!
//! Between two blocks, no counter is negative. So whoever crosses the threshold finds their own counter negative, and calls out. If there
//! is something left of the sum then, it is [dealt](Counter::deal) out anew, by what each counter was used for since the last time.

use crate::base::slots::{COUNTERS, Slot};

/// Larger numbers of instructions that a counter was used for are not told apart, so that sums and products have room.
const MOST_USED: u64 = 1 << 26;

/// The counter that the block at an address takes its instructions from.
pub fn of_block(pc: u64) -> Slot {
    // As MurmurHash3 ends: addresses at any distance have different ones most of the time.
    let hash = pc.wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    Slot::Left((hash >> (u64::BITS - COUNTERS.ilog2())) as u8)
}

/// A thread's counters.
pub struct Counter {
    /// They lie one behind the other.
    slots: *mut [u64; COUNTERS],
    /// What each was given when they were last set.
    given: [i64; COUNTERS],
    /// What each is used for, newer uses more than older ones.
    used: [u64; COUNTERS],
}

impl Counter {
    /// The calling thread's.
    pub fn of_thread() -> Self {
        Self { slots: Slot::Left(0).address().cast(), given: [0; COUNTERS], used: [0; COUNTERS] }
    }

    /// Where the first one lies.
    pub fn address(&self) -> u64 {
        self.slots as u64
    }

    fn values(&self) -> [i64; COUNTERS] {
        // SAFETY: the thread's own slots.
        unsafe { self.slots.read() }.map(u64::cast_signed)
    }

    /// Instructions until the threshold; negative behind it.
    pub fn left(&self) -> i64 {
        self.values().into_iter().sum()
    }

    /// So many instructions are left, below 2^32.
    pub fn set(&mut self, left: i64) {
        let values = self.values();
        for ((used, given), value) in self.used.iter_mut().zip(self.given).zip(values) {
            *used = (*used / 2 + given.saturating_sub(value).max(0).cast_unsigned()).min(MOST_USED);
        }
        self.given = shares(left, &self.used);
        // SAFETY: as in `values`.
        unsafe { self.slots.write(self.given.map(i64::cast_unsigned)) };
    }

    /// A counter has become negative: if something is left, each gets its share of that. Whether so.
    pub fn deal(&mut self) -> bool {
        let left = self.left();
        let is_left = left >= 0;
        if is_left && self.values().into_iter().any(i64::is_negative) {
            self.set(left);
        }
        is_left
    }
}

/// Divides what is left by what the counters are used for. If nothing is left, none gets anything.
fn shares(left: i64, used: &[u64; COUNTERS]) -> [i64; COUNTERS] {
    let mut shares = [0; COUNTERS];
    let most = (0..COUNTERS).max_by_key(|at| used[*at]).unwrap_or_default();
    if left > 0 {
        // A counter that was not used may be from now on.
        let weights = used.map(|used| used * COUNTERS as u64 + 1);
        let all: u64 = weights.iter().sum();
        shares = weights.map(|weight| (left.cast_unsigned() * weight / all) as i64);
    }
    shares[most] += left - shares.iter().sum::<i64>();
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_left_is_dealt_out() {
        for used in [[0; COUNTERS], [1, 0, 0, 5, 0, 0, 0, MOST_USED], [MOST_USED; COUNTERS]] {
            for left in [-7, 0, 1, 7, 8, 1000, (1 << 32) - 1] {
                let shares = shares(left, &used);
                assert_eq!(shares.iter().sum::<i64>(), left);
                assert!(shares.iter().all(|share| (0.min(left)..=left.max(0)).contains(share)));
            }
        }
        let shares = shares(10_000, &[0, 0, 900, 0, 0, 0, 100, 0]);
        assert!(shares[2] > 8900 && shares[6] > 900 && shares[0] > 0);
    }

    /// However blocks use their counters, the first one to call out when nothing is left is the one that crosses the threshold.
    #[test]
    fn the_threshold_is_met_at_the_block_that_crosses_it() {
        let mut slots = [0; COUNTERS];
        let mut counter = Counter { slots: &raw mut slots, given: [0; COUNTERS], used: [0; COUNTERS] };
        let mut random = 1_u64;
        for threshold in [0, 1, 100, 5000, 1 << 18] {
            counter.set(threshold);
            let (mut executed, mut dealt) = (0, 0);
            loop {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Mostly two of them.
                let at =
                    if random >> 60 == 0 { (random >> 33) as usize % COUNTERS } else { (random >> 62) as usize & 1 };
                let n = 1 + (random >> 40) as i64 % 30;
                // SAFETY: the test's own.
                let value = unsafe { &mut (*counter.slots)[at] };
                *value = value.wrapping_sub(n.cast_unsigned());
                executed += n;
                assert_eq!(counter.left(), threshold - executed);
                if value.cast_signed() < 0 {
                    if !counter.deal() {
                        break;
                    }
                    dealt += 1;
                }
                assert!(executed <= threshold, "the threshold was crossed by a counter that was not negative");
            }
            assert!(executed > threshold && dealt < 40, "{dealt} times for {threshold} instructions");
        }
    }

    #[test]
    fn neighbours_seldom_share_a_counter() {
        for distance in 1..64 {
            let alike = (0..4000).filter(|at| of_block(0x40_1000 + at) == of_block(0x40_1000 + at + distance)).count();
            assert!((400..600).contains(&alike), "{alike} of 4000 at a distance of {distance}");
        }
    }
}
