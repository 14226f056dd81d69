//! How many runs with a change are made: by their number and the program's length, and not by the time that they take, so that what else a machine does
//! changes nothing of what is found.

use std::time::Duration;

/// Instructions that take about as long as it takes to copy a process, and to end it.
const EACH: u64 = 10_000_000;
/// Processor time after which no more runs are made, whatever their number: most of them must then have gone round for ever.
const LONGEST: Duration = Duration::from_secs(40);

/// How many runs are left.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    runs: u64,
    time: Duration,
}

impl Budget {
    /// For so many runs of a program that executes next to nothing, and for fewer, the more instructions it executes.
    pub fn new(runs: u64, instructions: u64) -> Self {
        let all = u128::from(runs) * u128::from(EACH) / (u128::from(EACH) + u128::from(instructions));
        Self { runs: u64::try_from(all).unwrap_or(runs).max(1), time: LONGEST }
    }

    /// Whether nothing is left.
    pub fn is_spent(self) -> bool {
        self.runs == 0 || self.time.is_zero()
    }

    /// A run took so much processor time.
    pub fn spend(&mut self, took: Duration) {
        self.runs = self.runs.saturating_sub(1);
        self.time = self.time.saturating_sub(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_programs_are_run_less_often() {
        let count = |mut budget: Budget, took: Duration| {
            let runs = std::iter::from_fn(|| (!budget.is_spent()).then(|| budget.spend(took)));
            runs.count()
        };
        assert_eq!(count(Budget::new(250, 0), Duration::ZERO), 250);
        assert_eq!(count(Budget::new(250, EACH), Duration::ZERO), 125);
        assert_eq!(count(Budget::new(250, u64::MAX), Duration::ZERO), 1);
        assert_eq!(count(Budget::new(250, 0), Duration::from_secs(4)), 10);
    }
}
