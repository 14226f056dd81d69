//! One order of all threads of a process that agrees with every recorded dependency.
//!
//! A thread's `DEPENDENCY` records say how far other threads had come before it went on ([`Threads::read`]). They are a
//! partial order of all instructions; [`schedule()`] makes a total one of it that changes threads seldom, or finds the
//! cycle that makes the log contradict itself. Where only the last epochs are kept, it begins with the first of which the log
//! has all ([`Window`]).

mod lent;
mod schedule;
mod summary;
mod threads;
mod window;

pub use lent::Loan;
pub use schedule::{Cycle, schedule, unknown_from};
pub use summary::{OrderedDependency, ThreadSummary, WaitedFor, in_order, per_million, summaries};
pub use threads::{OrderedCall, OrderedInterval, OrderedThread, Threads, Wait};
pub use window::Window;

use bugnet_format::package::Segment;
use bugnet_format::types::{Epoch, IntervalNo, Position, Tid};
use serde::Serialize;

/// A stretch of one thread within one interval, in the total order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// The thread.
    pub tid: Tid,
    /// The interval.
    pub interval: IntervalNo,
    /// The epoch in which that lies.
    pub epoch: Epoch,
    /// The first instruction.
    pub from: Position,
    /// The instruction behind the last.
    pub to: Position,
}

/// The stretches of an order, cut at the ends of intervals.
#[must_use]
pub fn stretches(threads: &Threads, order: &[Segment]) -> Vec<Stretch> {
    let mut at: Vec<u64> = threads.threads.iter().map(OrderedThread::first).collect();
    let mut out = Vec::new();
    for segment in order {
        let thread = &threads.threads[segment.thread];
        let until = segment.until.min(thread.last());
        for interval in &thread.intervals {
            let (start, end) = (at[segment.thread].max(interval.before), until.min(interval.end()));
            if start < end {
                let position = |at: u64| Position(at - interval.before);
                let (tid, epoch) = (thread.id.tid, interval.epoch);
                let (from, to) = (position(start), position(end));
                let stretch = Stretch { tid, interval: interval.number, epoch, from, to };
                out.push(stretch);
            }
        }
        at[segment.thread] = at[segment.thread].max(until);
    }
    out
}

#[cfg(test)]
mod tests;
