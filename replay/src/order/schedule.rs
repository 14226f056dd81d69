//! From a partial order to a total one.

use super::threads::{OrderedThread, Threads, Wait};
use bugnet_format::package::Segment;
use bugnet_format::types::Epoch;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;

/// Threads that wait for each other: each for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle(Vec<(String, String)>);

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the threads' dependencies contradict each other")?;
        self.0.iter().try_for_each(|(waiting, other)| write!(f, "; {waiting} comes after {other}"))
    }
}

/// Where each thread is, while an order is made.
struct Scheduler<'a> {
    threads: &'a [OrderedThread],
    at: Vec<u64>,
    /// How far each thread may go for now.
    limits: Vec<u64>,
    /// Index of the first dependency of each thread that is not known to be satisfied.
    next: Vec<usize>,
    /// The same of its first system call that has a place in their order and was not run.
    calls: Vec<usize>,
    segments: Vec<Segment>,
}

/// Makes a total order: runs of one thread each, the last run of each to its end.
///
/// Each thread runs as far as its dependencies let it, and then the one for which it waits. As a dependency only asks
/// that another thread has come far enough, running ahead never stands in anyone's way. It goes epoch by epoch.
///
/// System calls that have a place among those of all threads come in that order. Dependencies count more; those of a recording never stand
/// against it, as whatever a call comes after was over by then.
///
/// What comes after instructions that a log, having been cut off, does not hold ([`unknown_from`]) stands at the end: such an
/// instruction may be ordered behind others by the lost ones alone. What is known never waits for it.
///
/// # Errors
/// There is no such order.
pub fn schedule(threads: &Threads) -> Result<Vec<Segment>, Cycle> {
    let limits = unknown_from(threads);
    let threads = &threads.threads;
    let at = threads.iter().map(OrderedThread::first).collect();
    let (known, next, calls) = (limits.clone(), vec![0; threads.len()], vec![0; threads.len()]);
    let mut scheduler = Scheduler { threads, at, limits, next, calls, segments: Vec::new() };
    let epochs: BTreeSet<Epoch> =
        threads.iter().flat_map(|thread| &thread.intervals).map(|interval| interval.epoch).collect();
    for epoch in epochs.range(..epochs.last().copied().unwrap_or_default()) {
        let ends = known.iter().zip(threads).map(|(known, thread)| thread.end_of(*epoch).min(*known));
        scheduler.finish_all(ends.collect())?;
    }
    scheduler.finish_all(known)?;
    scheduler.finish_all(vec![u64::MAX; threads.len()])?;
    Ok(scheduler.segments)
}

/// For each thread, the instruction count from which on it comes after instructions of another thread that the log, having
/// been cut off, does not hold; `u64::MAX` if it never does.
#[must_use]
pub fn unknown_from(threads: &Threads) -> Vec<u64> {
    let threads = &threads.threads;
    let mut unknown: Vec<u64> = threads.iter().map(|thread| thread.lost_from).collect();
    // One that became unknown makes those unknown that come after it, until nothing changes.
    let mut changed = true;
    while changed {
        changed = false;
        for (index, thread) in threads.iter().enumerate() {
            let known = thread.waits.iter().take_while(|wait| wait.at < unknown[index]);
            let first = known.into_iter().find(|wait| wait.cut_off || unknown[wait.other] < wait.until);
            if let Some(at) = first.map(|wait| wait.at) {
                (unknown[index], changed) = (at, true);
            }
        }
    }
    unknown
}

impl Scheduler<'_> {
    /// Runs all threads to these ends.
    fn finish_all(&mut self, ends: Vec<u64>) -> Result<(), Cycle> {
        // The next call of each, by their order.
        let calls = ends.iter().enumerate().filter_map(|(thread, end)| self.hold(thread, *end));
        let mut calls: BinaryHeap<_> = calls.collect();
        while let Some(Reverse((_, thread))) = calls.pop() {
            let next = &mut self.calls[thread];
            self.limits[thread] = self.threads[thread].calls[*next].at.saturating_add(1);
            *next += 1;
            self.finish(thread)?;
            calls.extend(self.hold(thread, ends[thread]));
        }
        self.limits = ends;
        (0..self.threads.len()).try_for_each(|thread| self.finish(thread))
    }

    /// Holds a thread before its next call, if that is before an end, or there: the call's place, and the thread.
    fn hold(&mut self, thread: usize, end: u64) -> Option<Reverse<(u64, usize)>> {
        let call = self.threads[thread].calls.get(self.calls[thread]).filter(|call| call.at < end);
        self.limits[thread] = call.map_or(end, |call| call.at);
        call.map(|call| Reverse((call.order, thread)))
    }

    /// Runs a thread to its limit, and others as far as it needs them.
    fn finish(&mut self, thread: usize) -> Result<(), Cycle> {
        // Each waits for the one behind it.
        let mut chain: Vec<(usize, Wait)> = Vec::new();
        let mut running = thread;
        loop {
            let blocked = self.run(running);
            if let Some((waiting, _)) = chain.pop_if(|(_, wait)| self.at[wait.other] >= wait.until) {
                running = waiting;
            } else if let Some(wait) = blocked {
                if let Some(start) = chain.iter().position(|(waiting, _)| *waiting == running) {
                    return Err(self.cycle(&chain[start..]));
                }
                chain.push((running, wait));
                running = wait.other;
            } else {
                // Nobody waits for it, so the chain is empty, and it is `thread` that has come to its limit. Or its limit is an
                // epoch's end, and the log breaks the rule that nobody waits for what is beyond.
                return Ok(());
            }
        }
    }

    /// Runs a thread as far as it can; returns what it waits for, or nothing at its limit.
    fn run(&mut self, index: usize) -> Option<Wait> {
        let (thread, limit) = (&self.threads[index], self.limits[index]);
        let blocked = loop {
            let wait = thread.waits.get(self.next[index]).filter(|wait| wait.at < limit);
            let Some(wait) = wait else { break None };
            if self.at[wait.other] < wait.until {
                break Some(*wait);
            }
            self.next[index] += 1;
        };
        let until = blocked.map_or(limit, |wait| wait.at);
        if until > self.at[index] {
            self.at[index] = until;
            match self.segments.last_mut().filter(|last| last.thread == index) {
                Some(last) => last.until = until,
                None => self.segments.push(Segment { thread: index, until }),
            }
        }
        blocked
    }

    fn cycle(&self, chain: &[(usize, Wait)]) -> Cycle {
        let place = |index: usize, at: u64| {
            let thread = &self.threads[index];
            let (interval, position) = thread.place(at);
            format!("{} interval {interval} instruction {position}", thread.id)
        };
        Cycle(chain.iter().map(|(waiting, wait)| (place(*waiting, wait.at), place(wait.other, wait.until))).collect())
    }
}
