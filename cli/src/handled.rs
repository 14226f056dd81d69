//! The signals that a thread's handlers took.

use bugnet_format::types::{IntervalNo, Position, Tid};
use bugnet_replay::signal;
use indicatif::HumanCount;
use serde::Serialize;
use std::fmt;

/// A signal that handlers of a thread took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Handled {
    /// Its number.
    pub signal: u64,
    /// How often.
    pub times: u64,
    /// The first time.
    pub first: Place,
    /// The last time.
    pub last: Place,
}

/// The instruction before which a signal came, or at which it was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The thread.
    pub tid: Tid,
    /// The interval.
    pub interval: IntervalNo,
    /// Instructions since its start.
    pub position: Position,
}

/// Counts a signal.
pub fn count(all: &mut Vec<Handled>, signal: u64, place: Place) {
    match all.iter_mut().find(|handled| handled.signal == signal) {
        Some(known) => {
            known.times += 1;
            known.last = place;
        }
        None => all.push(Handled { signal, times: 1, first: place, last: place }),
    }
}

impl fmt::Display for Handled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signal, times, first, last } = self;
        let name = i32::try_from(*signal).map_or_else(|_| format!("signal {signal}"), signal::name);
        match times {
            1 => write!(f, "{name} handled, at {first}"),
            _ => write!(f, "{name} handled {} times, first at {first}, last at {last}", HumanCount(*times)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {} of interval {}", self.position, self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_has_a_line() {
        let place = |interval| Place { tid: Tid(1), interval: IntervalNo(interval), position: Position(7) };
        let mut all = Vec::new();
        for (signal, interval) in [(11, 0), (14, 0), (14, 1), (14, 2)] {
            count(&mut all, signal, place(interval));
        }
        let lines: Vec<_> = all.iter().map(ToString::to_string).collect();
        let often =
            "SIGALRM handled 3 times, first at instruction 7 of interval 0, last at instruction 7 of interval 2";
        assert_eq!(lines, ["SIGSEGV handled, at instruction 7 of interval 0", often]);
    }
}
