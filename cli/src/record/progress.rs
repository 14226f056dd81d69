//! How far many runs have come, for a person.

use crate::failure::complain;
use indicatif::{HumanCount, HumanDuration};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// So long after the beginning comes the first line; from one to the next, it takes twice as long.
const FIRST: Duration = Duration::from_secs(2);
/// Longest time between two lines.
const LONGEST: Duration = Duration::from_secs(60);

/// Says now and then which run it is, where standard error is a terminal. The lines come between runs: what the program prints is not
/// disturbed.
pub struct Progress {
    began: Instant,
    next: Option<Instant>,
    pause: Duration,
}

impl Progress {
    /// The first run begins.
    pub fn new(quiet: bool) -> Self {
        let began = Instant::now();
        let next = (!quiet && stderr().is_terminal()).then_some(began + FIRST);
        Self { began, next, pause: FIRST }
    }

    /// So many runs are over.
    pub fn ran(&mut self, runs: u64, most: Option<u64>) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let most = most.map_or_else(String::new, |most| format!(" of {}", HumanCount(most)));
        complain(&format_args!("{} runs{most} so far, and none has failed ({})", HumanCount(runs), self.taken()));
        self.pause = (self.pause * 2).min(LONGEST);
        self.next = Some(now + self.pause);
    }

    /// How long all of it has taken.
    pub fn taken(&self) -> HumanDuration {
        HumanDuration(self.began.elapsed())
    }
}
