//! Intervals of all threads of a process that are replayed together, and the order in which they run.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::order::{Threads, Window, schedule, unknown_from};
use crate::package::{Package, PackageWriter};
use crate::process::Process;
use crate::tools::Tools;
use crate::window::Used;
use bugnet_format::package::{self, IntervalOutline, Outline, Segment};
use bugnet_format::types::{CodeSeq, ProcessId};
use std::io::Write;

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
        let code = log.code(pid)?;
        let (mut intervals, mut used): (Vec<Vec<IntervalOutline>>, _) = (Vec::new(), Used::default());
        let threads = Threads::read_with(log, pid, window, |thread, interval| {
            if intervals.len() <= thread {
                intervals.push(Vec::new());
            }
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
        let first = &self.threads.threads[0];
        let id = IntervalId { thread: first.id, interval: first.place(0).0 };
        Process::start(tools, id, self.package(log)?, self.used.window())
    }

    /// The package, whose streams are read and written one after the other.
    fn package(&self, log: &Log) -> Result<Package> {
        let failed = || ReplayError::system("hand the log to the replay process");
        let intervals = || self.outlines.iter().flat_map(|thread| &thread.intervals);
        let mut writer = PackageWriter::new(intervals().map(IntervalOutline::stream).sum()).map_err(failed())?;
        let code = log.code(self.pid)?;
        package::write_head(&mut writer, &self.outlines, &code, CodeSeq(0), &self.order).map_err(failed())?;
        for thread in &self.threads.threads {
            for interval in &thread.intervals {
                let id = IntervalId { thread: thread.id, interval: interval.number };
                let interval = log.interval(id)?;
                interval.replayed().iter().try_for_each(|piece| writer.write_all(piece)).map_err(failed())?;
            }
        }
        writer.finish().map_err(failed())
    }
}
