//! From where on a log has all that the threads of a process did: where only the last epochs are kept, not from the start.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, ThreadId};
use bugnet_format::types::{Epoch, IntervalNo, ProcessId};
use serde::Serialize;
use std::fmt;

/// The epochs of which the log of a process has all intervals of all threads, and what it has of earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// The first of these epochs.
    pub first: Epoch,
    /// The last of them.
    #[serde(skip)]
    pub last: Epoch,
    /// Intervals in the log of earlier ones, which are left out.
    pub left_out: usize,
    /// Threads that are left out as a whole: they did nothing in these epochs.
    pub threads_left_out: usize,
}

impl Window {
    /// All, of whatever epoch.
    pub const ALL: Self = Self { first: Epoch(0), last: Epoch(u64::MAX), left_out: 0, threads_left_out: 0 };

    /// Looks at the headers of all intervals of a process.
    ///
    /// # Errors
    /// One cannot be read, or there is no epoch of which the log has all.
    pub fn of(log: &Log, pid: ProcessId) -> Result<Self> {
        let (mut epochs, mut last): (Vec<Vec<Epoch>>, _) = (Vec::new(), Epoch(0));
        let mut first = Epoch(0);
        for thread in log.threads().filter(|thread| thread.pid == pid) {
            let mut of_thread = Vec::new();
            for &interval in log.intervals(thread)? {
                let header = log.header(IntervalId { thread, interval })?;
                if of_thread.is_empty() && interval > IntervalNo(0) {
                    // Something of that epoch is gone.
                    first = first.max(Epoch(header.epoch_before.0.saturating_add(1)));
                }
                of_thread.push(header.epoch);
                last = last.max(header.epoch);
            }
            epochs.push(of_thread);
        }
        let keep = log.meta().kept_epochs();
        if keep > 0 {
            // Of earlier ones, threads that have ended are gone as a whole.
            first = first.max(Epoch(last.0.saturating_add(1).saturating_sub(keep)));
        }
        let before = |thread: &Vec<Epoch>| thread.iter().filter(|epoch| **epoch < first).count();
        let gone = |thread: &&Vec<Epoch>| !thread.is_empty() && before(thread) == thread.len();
        let window = Self {
            first,
            last: Epoch(u64::MAX),
            left_out: epochs.iter().map(before).sum(),
            threads_left_out: epochs.iter().filter(gone).count(),
        };
        if first > Epoch(0) && epochs.iter().all(|thread| before(thread) == thread.len()) {
            let what = format!("there is no epoch of which the log has all intervals of process {pid}");
            return Err(ReplayError::OutOfRange(what));
        }
        Ok(window)
    }

    /// One epoch alone.
    #[must_use]
    pub fn only(epoch: Epoch) -> Self {
        Self { first: epoch, last: epoch, ..Self::ALL }
    }

    /// The intervals of a thread that lie in it.
    ///
    /// # Errors
    /// A header cannot be read.
    pub(super) fn intervals<'a>(&self, log: &'a Log, thread: ThreadId) -> Result<&'a [IntervalNo]> {
        let mut intervals = log.intervals(thread)?;
        while let [first, rest @ ..] = intervals
            && self.first > Epoch(0)
            && log.header(IntervalId { thread, interval: *first })?.epoch < self.first
        {
            intervals = rest;
        }
        while let [rest @ .., last] = intervals
            && self.last < Epoch(u64::MAX)
            && log.header(IntervalId { thread, interval: *last })?.epoch > self.last
        {
            intervals = rest;
        }
        Ok(intervals)
    }

    /// Whether it leaves anything out that the log has.
    #[must_use]
    pub fn leaves_out(&self) -> bool {
        self.left_out > 0
    }
}

impl fmt::Display for Window {
    /// A line about where it begins; nothing if that is the start.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, left_out, threads_left_out, .. } = self;
        if *first == Epoch(0) {
            return Ok(());
        }
        write!(f, "from epoch {first} on, the first of which all is there")?;
        if *left_out > 0 {
            let plural = if *left_out == 1 { "" } else { "s" };
            write!(f, "; {left_out} earlier interval{plural} left out")?;
        }
        match threads_left_out {
            0 => writeln!(f),
            1 => writeln!(f, ", and a thread that did nothing since"),
            n => writeln!(f, ", and {n} threads that did nothing since"),
        }
    }
}
