//! The threads of a process, numbered, and their places as counts of instructions.

use bugnet_format::types::{IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::Result;
use bugnet_replay::births::births;
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use hashbrown::HashMap;
use std::cell::Cell;

#[derive(Clone)]
struct Thread {
    id: ThreadId,
    /// The intervals, and how many instructions the thread had executed before.
    intervals: Vec<(IntervalNo, u64)>,
    /// How many it has executed in the end.
    end: u64,
    /// How many up to where one has come to.
    reached: u64,
}

/// The threads. The first is the one with which the process begins.
#[derive(Clone)]
pub struct Times {
    threads: Vec<Thread>,
    numbers: HashMap<Tid, usize>,
    /// What was asked about last: most places are in the interval of the one before.
    last: Cell<Option<Asked>>,
}

/// An interval of a thread, the thread's number, and how many instructions it had executed before.
#[derive(Clone, Copy)]
struct Asked {
    tid: Tid,
    interval: IntervalNo,
    number: usize,
    before: u64,
}

impl Times {
    /// Of a process.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn new(log: &Log, pid: ProcessId) -> Result<Self> {
        let mut threads = Vec::new();
        for id in births(log, pid)? {
            let (mut intervals, mut end) = (Vec::new(), 0);
            for &interval in log.intervals(id)? {
                intervals.push((interval, log.header(IntervalId { thread: id, interval })?.instructions_before));
            }
            if let Some((interval, before)) = intervals.last() {
                let last = log.events(IntervalId { thread: id, interval: *interval })?;
                let position = last.records().flatten().last().map_or(0, |placed| placed.position.0);
                end = before.saturating_add(position);
            }
            threads.push(Thread { id, intervals, end, reached: 0 });
        }
        let numbers = threads.iter().zip(0..).map(|(thread, number)| (thread.id.tid, number)).collect();
        Ok(Self { threads, numbers, last: Cell::new(None) })
    }

    /// How many threads there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Whether the log has a thread from its beginning on.
    #[must_use]
    pub fn begins(&self, thread: usize) -> bool {
        self.threads[thread].intervals.first().is_none_or(|(interval, _)| *interval == IntervalNo(0))
    }

    /// A thread, by its number.
    #[must_use]
    pub fn id(&self, thread: usize) -> ThreadId {
        self.threads[thread].id
    }

    /// A thread's number.
    #[must_use]
    pub fn number(&self, tid: Tid) -> Option<usize> {
        self.numbers.get(&tid).copied()
    }

    /// A thread's number, and how many instructions it has executed at a place.
    #[must_use]
    #[inline]
    pub fn count(&self, place: Place) -> Option<(usize, u64)> {
        let last = self.last.get().filter(|last| (last.tid, last.interval) == (place.tid, place.interval));
        let asked = match last {
            Some(last) => last,
            None => self.ask(place)?,
        };
        Some((asked.number, asked.before.saturating_add(place.position.0)))
    }

    fn ask(&self, place: Place) -> Option<Asked> {
        let number = *self.numbers.get(&place.tid)?;
        let intervals = &self.threads[number].intervals;
        let at = intervals.binary_search_by_key(&place.interval, |(interval, _)| *interval).ok()?;
        let asked = Asked { tid: place.tid, interval: place.interval, number, before: intervals[at].1 };
        self.last.set(Some(asked));
        Some(asked)
    }

    /// The place at which a thread has executed so many instructions.
    #[must_use]
    pub fn place(&self, thread: usize, count: u64) -> Option<Place> {
        let Thread { id, intervals, .. } = self.threads.get(thread)?;
        let at = intervals.partition_point(|(_, before)| *before <= count).checked_sub(1)?;
        let (interval, before) = intervals[at];
        Some(Place { tid: id.tid, interval, position: Position(count - before) })
    }

    /// A thread has come to a count.
    pub fn reach(&mut self, thread: usize, count: u64) {
        self.threads[thread].reached = count;
    }

    /// A thread has executed so many instructions more.
    #[inline]
    pub fn advance(&mut self, thread: usize, count: u64) {
        self.threads[thread].reached += count;
    }

    /// How many instructions a thread has executed up to where one has come.
    #[must_use]
    #[inline]
    pub fn reached(&self, thread: usize) -> u64 {
        self.threads[thread].reached
    }

    /// Whether one has come to where a thread has executed all that it does, but for the call that ends it.
    #[must_use]
    pub fn has_ended(&self, thread: usize) -> bool {
        let Thread { reached, end, .. } = self.threads[thread];
        reached + 1 >= end
    }

    /// How many instructions a thread has executed in the end.
    #[must_use]
    pub fn end(&self, thread: usize) -> u64 {
        self.threads[thread].end
    }

    /// Threads with this number of the operating system's, in the order in which they had it.
    pub fn with_id(&self, id: u32) -> impl Iterator<Item = usize> {
        let all = self.threads.iter().zip(0..).filter(move |(thread, _)| thread.id.tid.id() == id);
        all.map(|(_, number)| number)
    }
}
