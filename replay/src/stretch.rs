//! Intervals of all threads of a process that are replayed together, and the order in which they run.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::order::{Threads, Window, schedule, unknown_from};
use crate::package::PackageWriter;
use crate::patches;
use crate::process::Process;
use crate::tools::Tools;
use crate::window::Used;
use bugnet_format::control::Explanation;
use bugnet_format::frame::Interval;
use bugnet_format::package::{self, IntervalOutline, Outline, Segment};
use bugnet_format::types::{CodeSeq, ProcessId};
use std::io::Write;

/// Most bytes of records that are handed to a process which is there already; a new one gets a file.
const MOST_HANDED_ON: u64 = 256 << 20;

/// A replay process that keeps track of which bytes are known, and can be given another stretch of the same recorded process.
#[derive(Debug)]
pub(crate) struct Tracked {
    /// The process, at the start of a stretch when it is made.
    pub process: Process,
    pid: ProcessId,
    /// Where in the address space it lies.
    window: u64,
    /// What the stretches use of the address space that it has had.
    used: Used,
    /// Whether it has had stretches of several threads.
    several: bool,
}

impl Tracked {
    /// Parts of the address space for [`bugnet_format::control::Request::Compare`].
    pub fn rooms(&self, threads: usize) -> Vec<u64> {
        self.used.rooms(threads, self.window)
    }
}

/// A stretch of a process's execution.
pub(crate) struct Stretch {
    pid: ProcessId,
    /// The threads that did something in it.
    pub threads: Threads,
    outlines: Vec<Outline>,
    order: Vec<Segment>,
    used: Used,
}

impl Stretch {
    /// Reads what lies in a window, an interval at a time.
    ///
    /// # Errors
    /// The log does not hold the process, or its dependencies contradict each other.
    pub fn read(log: &Log, pid: ProcessId, window: &Window) -> Result<Self> {
        Self::read_with(log, pid, window, |_| {})
    }

    /// As [`Self::read`]; `look` gets every interval, in the order of the threads.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn read_with(log: &Log, pid: ProcessId, window: &Window, mut look: impl FnMut(&Interval)) -> Result<Self> {
        let code = log.code(pid)?;
        let (mut intervals, mut used): (Vec<Vec<IntervalOutline>>, _) = (Vec::new(), Used::default());
        let threads = Threads::read_with(log, pid, window, |thread, interval| {
            if intervals.len() <= thread {
                intervals.push(Vec::new());
            }
            look(&interval);
            intervals[thread].push(IntervalOutline::of(&interval));
            used = used.and(&Used::of(&interval, &code));
        })?;
        let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
        let outlines = threads.threads.iter().zip(intervals).zip(unknown_from(&threads));
        let outlines = outlines
            .map(|((thread, intervals), unknown_from)| Outline { tid: thread.id.tid, unknown_from, intervals })
            .collect();
        Ok(Self { pid, threads, outlines, order, used })
    }

    /// The order in which the threads run.
    pub fn order(&self) -> &[Segment] {
        &self.order
    }

    /// Starts a replay process at its start.
    ///
    /// # Errors
    /// The log cannot be read, or the process cannot be started.
    pub fn start(&self, tools: &Tools, log: &Log) -> Result<Process> {
        self.start_at(tools, log, self.used.window())
    }

    /// Parts of the address space for [`bugnet_format::control::Request::Compare`] in a process that [`Self::start`] has started.
    pub fn rooms(&self) -> Vec<u64> {
        self.used.rooms(self.threads.threads.len(), self.used.window())
    }

    fn start_at(&self, tools: &Tools, log: &Log, window: u64) -> Result<Process> {
        let mut writer = PackageWriter::new(self.stream()).map_err(failed())?;
        self.write(log, &mut writer)?;
        Process::start(tools, self.first(), writer.finish().map_err(failed())?, window)
    }

    /// The same with a process that keeps track of what is known: one that is done with another stretch, if there is one and it will
    /// do. It has the code already, in the code cache, too. With several threads, it has to be told how to know what they read.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn track(&self, tools: &Tools, log: &Log, before: Option<Tracked>) -> Result<Tracked> {
        let several = self.threads.threads.len() > 1;
        let mut used = self.used.clone();
        if let Some(mut before) = before.filter(|before| before.pid == self.pid && before.several == several) {
            // A window that nothing pointed into for long is one that the next stretches leave free, too.
            used = used.and(&before.used);
            if before.process.is_fresh() && self.used.leaves(before.window) && self.stream() <= MOST_HANDED_ON {
                let mut package = Vec::new();
                self.write(log, &mut package)?;
                // Whatever became of the process before, this stretch is not to suffer.
                if before.process.next(self.first(), &[&package]).is_ok() {
                    return Ok(Tracked { used, ..before });
                }
            }
        }
        let (window, used) = match used.free() {
            Some(window) => (window, used),
            None => (self.used.window(), self.used.clone()),
        };
        let mut process = self.start_at(tools, log, window)?;
        process.track()?;
        Ok(Tracked { process, pid: self.pid, window, used, several })
    }

    /// The same with a process that, with several threads, compares what they read: what one finds in memory need not be what another one
    /// left there, since the kernel may have written between them.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn compare(&self, tools: &Tools, log: &Log, before: Option<Tracked>) -> Result<Tracked> {
        let mut tracked = self.track(tools, log, before)?;
        if tracked.several {
            let rooms = tracked.rooms(self.threads.threads.len());
            patches::compare(&mut tracked.process, Explanation::None, rooms)?;
        }
        Ok(tracked)
    }

    /// The first interval of its first thread.
    fn first(&self) -> IntervalId {
        let first = &self.threads.threads[0];
        IntervalId { thread: first.id, interval: first.place(0).0 }
    }

    /// Bytes of all its streams.
    fn stream(&self) -> u64 {
        self.outlines.iter().flat_map(|thread| &thread.intervals).map(IntervalOutline::stream).sum()
    }

    /// Writes the package, whose streams are read one after the other.
    fn write(&self, log: &Log, writer: &mut impl Write) -> Result<()> {
        let code = log.code(self.pid)?;
        package::write_head(writer, &self.outlines, &code, CodeSeq(0), &self.order).map_err(failed())?;
        for thread in &self.threads.threads {
            for interval in &thread.intervals {
                let id = IntervalId { thread: thread.id, interval: interval.number };
                let interval = log.interval(id)?;
                interval.replayed().iter().try_for_each(|piece| writer.write_all(piece)).map_err(failed())?;
            }
        }
        Ok(())
    }
}

fn failed() -> impl FnOnce(std::io::Error) -> ReplayError {
    ReplayError::system("hand the log to the replay process")
}
