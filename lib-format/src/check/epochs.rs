//! The rule that makes the start of an epoch a cut through all threads: what is before it never comes after what is behind.

use super::{Invariant, Report};
use crate::record::{DependencyKind, Placed, Record};
use crate::types::{Epoch, IntervalNo, Position, Tid};
use hashbrown::HashMap;
use std::path::{Path, PathBuf};

/// Up to where other threads have come that an interval is ordered behind: of each the last such place, with the byte offset
/// of the record that says so.
#[derive(Debug, Default)]
pub(super) struct Behind(HashMap<Tid, (IntervalNo, Position, u64)>);

impl Behind {
    /// Takes up what a record says.
    pub(super) fn take(&mut self, placed: &Placed<'_>) {
        let Record::Dependency { kind, other, other_interval, other_position, .. } = placed.record else { return };
        // The system call that creates a thread comes before it, too.
        let position = other_position.0.saturating_add(u64::from(kind == DependencyKind::Birth));
        let found = (other_interval, Position(position), placed.offset as u64);
        let known = self.0.entry(other).or_insert(found);
        *known = (*known).max(found);
    }
}

/// An interval of a process's threads.
struct Interval {
    epoch: Epoch,
    /// Position of its last record.
    end: Position,
}

/// The intervals of a process, and what they are ordered behind.
#[derive(Default)]
pub(super) struct Epochs {
    intervals: HashMap<(Tid, IntervalNo), Interval>,
    behind: Vec<(Epoch, Behind, PathBuf)>,
}

impl Epochs {
    /// Takes up an interval, which ends at this position.
    pub(super) fn add(
        &mut self,
        tid: Tid,
        number: IntervalNo,
        epoch: Epoch,
        end: Position,
        behind: Behind,
        path: &Path,
    ) {
        self.intervals.insert((tid, number), Interval { epoch, end });
        if !behind.0.is_empty() {
            self.behind.push((epoch, behind, path.to_owned()));
        }
    }

    /// The epoch in which a thread has come to a place; none if the log does not hold it.
    fn reached(&self, tid: Tid, number: IntervalNo, position: Position) -> Option<Epoch> {
        let interval = self.intervals.get(&(tid, number)).filter(|_| position.0 > 0)?;
        let next = IntervalNo(number.0.saturating_add(1));
        let beyond = self.intervals.get(&(tid, next)).filter(|_| position > interval.end);
        Some(beyond.unwrap_or(interval).epoch)
    }

    /// Checks the rule.
    pub(super) fn check(&self, report: &mut Report) {
        for (epoch, Behind(others), path) in &self.behind {
            for (other, (number, position, at)) in others {
                if let Some(reached) = self.reached(*other, *number, *position).filter(|reached| reached > epoch) {
                    let detail = format!(
                        "of epoch {epoch}, and behind thread {other} interval {number} instruction {position}, of epoch {reached}"
                    );
                    report.error(Invariant::EpochOrder, path, *at, detail);
                }
            }
        }
    }
}
