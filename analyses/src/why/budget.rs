//! How many runs with a change are made: by their number, by what they do, and by the program's length; and not by the time that they take, so that what
//! machine it is, and what else it does, changes nothing of what is found.

use bugnet_what_if::{Ended, Outcome};

/// Instructions that take about as long as it takes to copy a process, and to end it.
const EACH: u64 = 10_000_000;
/// So many stops do, and a run that does not come to an end takes as long as so many copies.
const STOPS: u64 = 100;
const LATE: u64 = 10;

/// How many runs are left.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    runs: u64,
}

impl Budget {
    /// For so many runs of a program that executes next to nothing, and for fewer, the more instructions it executes.
    pub fn new(runs: u64, instructions: u64) -> Self {
        let all = u128::from(runs) * u128::from(EACH) / (u128::from(EACH) + u128::from(instructions));
        Self { runs: u64::try_from(all).unwrap_or(runs).max(1) }
    }

    /// Whether nothing is left.
    pub fn is_spent(self) -> bool {
        self.runs == 0
    }

    /// There was such a run.
    pub fn spend(&mut self, outcome: &Outcome) {
        let late = if outcome.ended == Ended::Late { LATE } else { 0 };
        self.runs = self.runs.saturating_sub(1 + outcome.stops / STOPS + late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn longer_programs_are_run_less_often() {
        let count = |mut budget: Budget, ended: Ended, stops: u64| {
            let outcome = Outcome { stdout: Vec::new(), ended, took: Duration::ZERO, stops, executions: 0 };
            let runs = std::iter::from_fn(|| (!budget.is_spent()).then(|| budget.spend(&outcome)));
            runs.count()
        };
        let exited = Ended::Exited(0);
        assert_eq!(count(Budget::new(250, 0), exited.clone(), 99), 250);
        assert_eq!(count(Budget::new(250, EACH), exited.clone(), 0), 125);
        assert_eq!(count(Budget::new(250, u64::MAX), exited.clone(), 0), 1);
        assert_eq!(count(Budget::new(250, 0), exited, 4 * STOPS), 50);
        assert_eq!(count(Budget::new(250, 0), Ended::Late, 0), 23);
    }
}
