//! How the time of a process is divided: its epochs, with what they begin at.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, ThreadId};
use crate::order::Window;
use bugnet_format::types::{Epoch, IntervalNo, ProcessId, Tid};
use std::collections::BTreeMap;

/// An interval, as its header has it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub number: IntervalNo,
    pub epoch: Epoch,
    /// Instructions of the thread before it.
    pub before: u64,
}

/// The epochs of a process, and the intervals of each of its threads in them.
#[derive(Debug)]
pub(crate) struct Outline {
    threads: BTreeMap<Tid, Vec<Part>>,
    /// Each epoch in which a thread does something, with the time at its start.
    epochs: Vec<(Epoch, u64)>,
    /// The time at the end of all.
    pub end: u64,
}

impl Outline {
    /// Reads the headers of all intervals, and the last one of each thread.
    ///
    /// # Errors
    /// The log does not hold the process, or an interval cannot be read.
    pub fn of(log: &Log, pid: ProcessId) -> Result<Self> {
        let window = Window::of(log, pid)?;
        let (mut threads, mut begins): (BTreeMap<Tid, Vec<Part>>, BTreeMap<Epoch, u64>) = Default::default();
        let mut add = |epoch: Epoch, instructions: u64| {
            let sum = begins.entry(epoch).or_default();
            *sum = sum.saturating_add(instructions);
        };
        for thread in log.threads().filter(|thread| thread.pid == pid) {
            let mut parts = Vec::new();
            for &number in log.intervals(thread)? {
                let header = log.header(IntervalId { thread, interval: number })?;
                if header.epoch >= window.first {
                    parts.push(Part { number, epoch: header.epoch, before: header.instructions_before });
                }
            }
            for pair in parts.windows(2) {
                add(pair[0].epoch, pair[1].before.saturating_sub(pair[0].before));
            }
            if let Some(last) = parts.last() {
                add(last.epoch, instructions(log, thread, last.number)?);
                threads.insert(thread.tid, parts);
            }
        }
        if threads.is_empty() {
            return Err(ReplayError::OutOfRange(format!("the log holds no thread of process {pid}")));
        }
        let mut end = 0_u64;
        let epochs = begins.into_iter().map(|(epoch, instructions)| {
            let begin = end;
            end = end.saturating_add(instructions);
            (epoch, begin)
        });
        Ok(Self { threads, epochs: epochs.collect(), end })
    }

    /// Index of the epoch in which a time lies: of several, the last one that begins there.
    pub fn at(&self, time: u64) -> usize {
        self.epochs.partition_point(|(_, begin)| *begin <= time).saturating_sub(1)
    }

    /// How many epochs there are.
    pub fn epochs(&self) -> usize {
        self.epochs.len()
    }

    /// An epoch, and the time at its start.
    pub fn epoch(&self, index: usize) -> Option<(Epoch, u64)> {
        self.epochs.get(index).copied()
    }

    /// Index of the epoch of an interval, and how many instructions the thread had executed before it.
    pub fn of_interval(&self, tid: Tid, number: IntervalNo) -> Option<(usize, u64)> {
        let part = self.threads.get(&tid)?.iter().find(|part| part.number == number)?;
        let index = self.epochs.binary_search_by_key(&part.epoch, |(epoch, _)| *epoch).ok()?;
        Some((index, part.before))
    }

    /// The intervals of a thread.
    pub fn parts(&self, tid: Tid) -> &[Part] {
        self.threads.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The threads, and the intervals that there are of each.
    pub fn threads(&self) -> impl Iterator<Item = (Tid, std::ops::RangeInclusive<u64>)> {
        let range =
            |parts: &Vec<Part>| parts.first().map_or(0, |p| p.number.0)..=parts.last().map_or(0, |p| p.number.0);
        self.threads.iter().map(move |(tid, parts)| (*tid, range(parts)))
    }
}

/// Instructions in an interval.
fn instructions(log: &Log, thread: ThreadId, interval: IntervalNo) -> Result<u64> {
    let read = log.interval(IntervalId { thread, interval })?;
    Ok(read.records().flatten().last().map_or(0, |last| last.position.0))
}
