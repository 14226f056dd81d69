//! What the records of a process say about the order of its threads.

use super::lent::Loan;
use super::window::Window;
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, ThreadId};
use bugnet_format::frame::Interval;
use bugnet_format::record::{DependencyKind, EndReason, Record};
use bugnet_format::types::{Addr, Epoch, IntervalNo, Position, ProcessId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The threads of a process.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// Those of which the log holds an interval, by thread id.
    pub threads: Vec<OrderedThread>,
}

/// A thread, with what it waited for.
#[derive(Clone, Debug)]
pub struct OrderedThread {
    /// Which one.
    pub id: ThreadId,
    /// Its intervals in the window, ascending; at least one.
    pub intervals: Vec<OrderedInterval>,
    /// Its dependencies, ascending by [`Wait::at`].
    pub waits: Vec<Wait>,
    /// Dependencies that the logger left out, as others imply them.
    pub implied: u64,
    /// Dependencies on threads or intervals that the log does not hold, or that are left out.
    pub outside: u64,
    /// The instruction count from which on it comes after a thread of which nothing was written before the log was cut off;
    /// `u64::MAX` if it never does.
    pub lost_from: u64,
    /// How it ended, if its log was not cut off.
    pub end: Option<EndReason>,
    /// Its system calls that may have lent the process's memory to a child, ascending.
    pub loans: Vec<Loan>,
    /// Its system calls that have a place among those of all threads, ascending.
    pub calls: Vec<OrderedCall>,
}

/// A system call that has a place among those of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedCall {
    /// How many instructions the thread had executed before the call.
    pub at: u64,
    /// Its place: the larger, the later.
    pub order: u64,
}

/// An interval of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedInterval {
    /// Its number.
    pub number: IntervalNo,
    /// The epoch in which it lies.
    pub epoch: Epoch,
    /// Instructions that the thread had executed before it.
    pub before: u64,
    /// Instructions in it.
    pub instructions: u64,
}

impl OrderedInterval {
    /// Instructions that the thread had executed at its end.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.before.saturating_add(self.instructions)
    }
}

/// A dependency, in instructions since the beginning of each thread's recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Wait {
    /// The waiting thread's next instruction when it waited.
    pub at: u64,
    /// Index of the other thread.
    pub other: usize,
    /// The other thread must have executed so many instructions.
    pub until: u64,
    /// Which accesses this orders.
    pub kind: DependencyKind,
    /// The coherence block.
    pub block: Addr,
    /// Whether the log of the other thread was cut off before that.
    pub cut_off: bool,
}

impl OrderedThread {
    fn new(id: ThreadId) -> Self {
        let (intervals, waits, loans, calls) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { id, intervals, waits, implied: 0, outside: 0, lost_from: u64::MAX, end: None, loans, calls }
    }

    /// Whether its log does not hold its last instructions: the next interval should follow a full one.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        matches!(self.end, None | Some(EndReason::Full))
    }

    /// Instructions that it had executed where the log of it begins.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.intervals.first().map_or(0, |interval| interval.before)
    }

    /// Instructions that it had executed where the log of it ends.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.intervals.last().map_or(0, OrderedInterval::end)
    }

    /// Instructions that it had executed at the end of an epoch.
    #[must_use]
    pub fn end_of(&self, epoch: Epoch) -> u64 {
        let behind = self.intervals.partition_point(|interval| interval.epoch <= epoch);
        behind.checked_sub(1).map_or(self.first(), |last| self.intervals[last].end())
    }

    /// The interval in which it executes its instruction number `at`, and the position; at the end, those of the end.
    #[must_use]
    pub fn place(&self, at: u64) -> (IntervalNo, Position) {
        let index = self.intervals.partition_point(|interval| interval.before <= at).saturating_sub(1);
        let Some(interval) = self.intervals.get(index) else { return (IntervalNo(0), Position(at)) };
        (interval.number, Position(at.saturating_sub(interval.before)))
    }

    /// Instruction count at a place of the thread; `u64::MAX` behind its last interval, `None` if the log does not hold the
    /// interval otherwise.
    fn at(&self, interval: IntervalNo, position: Position) -> Option<u64> {
        if self.intervals.last().is_some_and(|last| last.number < interval) {
            return Some(u64::MAX);
        }
        let index = self.intervals.binary_search_by_key(&interval, |interval| interval.number).ok()?;
        Some(self.intervals[index].before.saturating_add(position.0))
    }
}

/// A dependency as the log has it.
struct Recorded {
    at: u64,
    record: (ThreadId, IntervalNo, Position),
    kind: DependencyKind,
    block: Addr,
}

impl Threads {
    /// Reads what all threads of a process did in a window, one interval at a time.
    ///
    /// # Errors
    /// No such process in the log, or an interval cannot be read.
    pub fn read(log: &Log, pid: ProcessId, window: &Window) -> Result<Self> {
        Self::read_events_with(log, pid, window, |_, _| {})
    }

    /// The same; `look` gets what every interval says beside what was read ([`Log::events`]), with its thread's index.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_events_with(
        log: &Log,
        pid: ProcessId,
        window: &Window,
        mut look: impl FnMut(usize, &Interval),
    ) -> Result<Self> {
        Self::read_by(log, pid, window, |id, thread| {
            let events = log.events(id)?;
            look(thread, &events);
            Ok(events)
        })
    }

    /// As [`Self::read`]; `keep` gets every interval with its thread's index.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_with(
        log: &Log,
        pid: ProcessId,
        window: &Window,
        mut keep: impl FnMut(usize, Interval),
    ) -> Result<Self> {
        Self::read_by(log, pid, window, |id, thread| {
            let interval = log.interval(id)?;
            let events = log.events_of(id, &interval);
            keep(thread, interval);
            Ok(events)
        })
    }

    /// With what says of each interval, and of the index of its thread, what happened in it.
    fn read_by(
        log: &Log,
        pid: ProcessId,
        window: &Window,
        mut events: impl FnMut(IntervalId, usize) -> Result<Arc<Interval>>,
    ) -> Result<Self> {
        let mut threads = Vec::new();
        let mut recorded = Vec::new();
        for id in log.threads().filter(|thread| thread.pid == pid) {
            let intervals = window.intervals(log, id)?;
            if intervals.is_empty() {
                continue;
            }
            let mut thread = OrderedThread::new(id);
            let mut dependencies = Vec::new();
            for &number in intervals {
                let events = events(IntervalId { thread: id, interval: number }, threads.len())?;
                thread.take(&events, &mut dependencies);
            }
            threads.push(thread);
            recorded.push(dependencies);
        }
        if threads.is_empty() {
            return Err(ReplayError::OutOfRange(format!("the log holds no thread of process {pid}")));
        }
        let index: BTreeMap<ThreadId, usize> = threads.iter().enumerate().map(|(i, thread)| (thread.id, i)).collect();
        // Where all threads are there from their first intervals on, one that is not there has not been written yet.
        let is_cut_off = !window.leaves_out()
            && threads.iter().any(OrderedThread::is_cut_off)
            && threads.iter().all(|thread| thread.intervals[0].number == IntervalNo(0));
        for (i, dependencies) in recorded.into_iter().enumerate() {
            for dependency in dependencies {
                let Recorded { at, kind, block, record: (other, interval, position) } = dependency;
                let Some(&other) = index.get(&other) else {
                    if is_cut_off {
                        threads[i].lost_from = threads[i].lost_from.min(at);
                    }
                    threads[i].outside += 1;
                    continue;
                };
                let Some(until) = threads[other].at(interval, position) else {
                    threads[i].outside += 1;
                    continue;
                };
                // A parent's system call is what its child's birth waits for.
                let until = until.saturating_add(u64::from(kind == DependencyKind::Birth));
                // A log that was cut off can be behind what others saw of its thread.
                let cut_off = until > threads[other].last() && threads[other].is_cut_off();
                let until = until.min(threads[other].last());
                threads[i].waits.push(Wait { at, other, until, kind, block, cut_off });
            }
        }
        let mut threads = Self { threads };
        threads.forget_loans_to_threads();
        Ok(threads)
    }
}

impl OrderedThread {
    fn take(&mut self, interval: &Interval, dependencies: &mut Vec<Recorded>) {
        let header = &interval.header;
        let mut instructions = 0;
        self.end = None;
        for placed in interval.records().flatten() {
            instructions = placed.position.0;
            match placed.record {
                Record::Dependency { kind, block, other, other_interval, other_position, implied, .. } => {
                    let other = ThreadId { pid: self.id.pid, tid: other };
                    let at = header.instructions_before.saturating_add(placed.position.0);
                    self.implied = self.implied.saturating_add(implied);
                    dependencies.push(Recorded { at, record: (other, other_interval, other_position), kind, block });
                }
                Record::Syscall { number, args, result, order, .. } => {
                    let at = header.instructions_before.saturating_add(placed.position.0);
                    self.loans.extend(Loan::of(at, number, &args, result));
                    self.calls.extend((order > 0).then_some(OrderedCall { at, order }));
                }
                Record::End { reason, .. } => self.end = Some(reason),
                _ => {}
            }
        }
        let (before, epoch) = (header.instructions_before, header.epoch);
        self.intervals.push(OrderedInterval { number: header.interval, epoch, before, instructions });
    }
}
