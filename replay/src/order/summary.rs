//! Threads and their dependencies in numbers, and in the merged order.

use super::threads::{OrderedInterval, OrderedThread, Threads};
use bugnet_format::package::Segment;
use bugnet_format::record::{DependencyKind, EndReason};
use bugnet_format::types::{Addr, Epoch, IntervalNo, Position, Tid};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A thread in numbers.
#[derive(Debug, Serialize)]
pub struct ThreadSummary {
    /// The thread.
    pub tid: Tid,
    /// How many intervals the log holds.
    pub intervals: usize,
    /// The epochs of the first and the last of them.
    pub epochs: [Epoch; 2],
    /// Instructions in them.
    pub instructions: u64,
    /// Dependencies in the log.
    pub dependencies: u64,
    /// Dependencies before reduction: those in the log, and those that follow from them.
    pub before_reduction: u64,
    /// Dependencies on what the log does not hold.
    pub outside: u64,
    /// For which threads it waited, and how often.
    pub waited_for: Vec<WaitedFor>,
    /// How it ended; none if the log was cut off.
    pub end: Option<EndReason>,
}

/// How often a thread waited for another one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WaitedFor {
    /// The other thread.
    pub tid: Tid,
    /// To read what it wrote.
    pub raw: u64,
    /// To write what it wrote.
    pub waw: u64,
    /// To write what it read.
    pub war: u64,
    /// To be born.
    pub birth: u64,
}

/// How many instructions a thread has executed in these intervals, and between those that follow each other: an `execve` that failed.
fn executed(intervals: &[OrderedInterval]) -> u64 {
    let within: u64 = intervals.iter().map(|interval| interval.instructions).sum();
    let follow = |two: &&[OrderedInterval]| two[1].number.0 == two[0].number.0 + 1;
    let between = intervals.windows(2).filter(follow).map(|two| two[1].before.saturating_sub(two[0].end()));
    within + between.sum::<u64>()
}

/// `count` for each million of `instructions`.
#[must_use]
pub fn per_million(count: u64, instructions: u64) -> f64 {
    if instructions == 0 { 0.0 } else { count as f64 * 1e6 / instructions as f64 }
}

/// Each thread in numbers.
#[must_use]
pub fn summaries(threads: &Threads) -> Vec<ThreadSummary> {
    let summary = |thread: &OrderedThread| {
        let mut others: BTreeMap<usize, WaitedFor> = BTreeMap::new();
        for wait in &thread.waits {
            let other = others.entry(wait.other).or_default();
            *match wait.kind {
                DependencyKind::Raw => &mut other.raw,
                DependencyKind::Waw => &mut other.waw,
                DependencyKind::War => &mut other.war,
                DependencyKind::Birth => &mut other.birth,
            } += 1;
        }
        let named = |(other, waited): (usize, WaitedFor)| WaitedFor { tid: threads.threads[other].id.tid, ..waited };
        let dependencies = thread.waits.len() as u64 + thread.outside;
        ThreadSummary {
            tid: thread.id.tid,
            intervals: thread.intervals.len(),
            epochs: [thread.intervals.first(), thread.intervals.last()]
                .map(|interval| interval.map_or(Epoch(0), |interval| interval.epoch)),
            instructions: executed(&thread.intervals),
            dependencies,
            before_reduction: dependencies.saturating_add(thread.implied),
            outside: thread.outside,
            waited_for: others.into_iter().map(named).collect(),
            end: thread.end.clone(),
        }
    };
    threads.threads.iter().map(summary).collect()
}

impl fmt::Display for WaitedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.tid)?;
        let counts = [(self.raw, "read after write"), (self.waw, "write after write"), (self.war, "write after read")];
        let mut texts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if self.birth > 0 {
            texts.push("born".into());
        }
        write!(f, ": {}", texts.join(", "))
    }
}

/// A dependency in the merged order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OrderedDependency {
    /// The thread that waits.
    pub tid: Tid,
    /// Its interval.
    pub interval: IntervalNo,
    /// Its next instruction.
    pub position: Position,
    /// What the two accesses are.
    pub kind: DependencyKind,
    /// The coherence block.
    pub block: Addr,
    /// The thread for which it waits.
    pub other: Tid,
    /// An interval of that.
    pub other_interval: IntervalNo,
    /// So many instructions of it come before.
    pub other_position: Position,
}

/// The dependencies in the merged order, each when its thread passes it.
pub fn in_order(threads: &Threads, order: &[Segment]) -> impl Iterator<Item = OrderedDependency> {
    let mut next = vec![0; threads.threads.len()];
    order.iter().flat_map(move |segment| {
        let thread = &threads.threads[segment.thread];
        let start = next[segment.thread];
        let end = thread.waits.partition_point(|wait| wait.at < segment.until);
        next[segment.thread] = end.max(start);
        thread.waits.get(start..end).unwrap_or_default().iter().map(|wait| {
            let other = &threads.threads[wait.other];
            let ((interval, position), (other_interval, other_position)) =
                (thread.place(wait.at), other.place(wait.until));
            let (kind, block) = (wait.kind, wait.block);
            let (tid, other) = (thread.id.tid, other.id.tid);
            OrderedDependency { tid, interval, position, kind, block, other, other_interval, other_position }
        })
    })
}

impl fmt::Display for OrderedDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tid, interval, position, other, other_interval, other_position, block, .. } = self;
        let what = match self.kind {
            DependencyKind::Raw => format!("reads {block} after the write"),
            DependencyKind::Waw => format!("writes {block} after the write"),
            DependencyKind::War => format!("writes {block} after the read"),
            DependencyKind::Birth => "begins after its creation".to_owned(),
        };
        write!(f, "thread {tid} interval {interval} instruction {position} {what} ")?;
        write!(f, "of thread {other} interval {other_interval} instruction {other_position}")
    }
}
