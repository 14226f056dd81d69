//! The processes of a recording: which there are, how each began and how it ended.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use bugnet_format::folder::Ending;
use bugnet_format::process::ProcessInfo;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::types::{Pid, ProcessId};
use serde::Serialize;

/// How a process ended, as far as the log tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum ProcessEnd {
    /// It exited.
    Exited {
        /// Exit status, 0 to 255.
        status: i32,
    },
    /// A signal killed it.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// It executed another program, which is the next process of its id.
    Executed,
    /// Its recording ended before it did.
    Incomplete {
        /// Why, in a sentence.
        why: String,
    },
    /// Nothing of it was recorded.
    Unrecorded {
        /// Why, in a sentence.
        why: String,
    },
    /// It was still running when its log was read, or something killed it that it could not see: SIGKILL, or another
    /// thread's end.
    Unknown,
}

/// A process of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Its id.
    #[serde(flatten)]
    pub id: ProcessId,
    /// What its log says about it; none if the logger was killed before it could write that.
    pub info: Option<ProcessInfo>,
    /// Recorded threads.
    pub threads: u64,
    /// Intervals in the log.
    pub intervals: u64,
    /// Instructions of all threads, since the process began.
    pub instructions: u64,
    /// How it ended.
    pub end: ProcessEnd,
}

/// All processes of a log, in the order in which they began.
///
/// # Errors
/// A part of the log cannot be read.
pub fn processes(log: &Log) -> Result<Vec<Process>> {
    let last_of_first = log.last_of_first_process()?;
    let processes = log.processes()?.into_iter();
    processes.map(|(id, info)| Process::of(log, id, info, last_of_first == Some(id))).collect()
}

impl Process {
    fn of(log: &Log, id: ProcessId, info: Option<ProcessInfo>, last_of_first: bool) -> Result<Self> {
        let mut process = Self { id, info, threads: 0, intervals: 0, instructions: 0, end: ProcessEnd::Unknown };
        for thread in log.threads().filter(|thread| thread.pid == id) {
            process.threads += 1;
            let intervals = log.intervals(thread)?;
            process.intervals += intervals.len() as u64;
            let Some(&interval) = intervals.last() else { continue };
            let read = log.interval(IntervalId { thread, interval })?;
            let Some(last) = read.records().flatten().last() else { continue };
            process.instructions += read.header.instructions_before.saturating_add(last.position.0);
            let Record::End { reason, .. } = last.record else { continue };
            // Of several threads, each has an end; that of the first thread says how the process ended, unless
            // another one's is a signal, which kills all.
            let first = Pid(thread.tid.0) == id.pid;
            if reason == EndReason::Terminated {
                continue;
            }
            if first || process.end == ProcessEnd::Unknown || matches!(reason, EndReason::Signal { .. }) {
                process.end = ProcessEnd::of(reason);
            }
        }
        if let Some(why) = process.info.as_ref().and_then(|info| info.unrecorded.clone()) {
            process.end = ProcessEnd::Unrecorded { why };
        } else if last_of_first {
            // Who waited for it knows better.
            match log.meta().ending {
                Ending::Exited { status } => process.end = ProcessEnd::Exited { status },
                Ending::Killed { signal } => process.end = ProcessEnd::Killed { signal },
                Ending::Unknown => {}
            }
        }
        Ok(process)
    }

    /// File name of its program; empty if it is not known.
    #[must_use]
    pub fn name(&self) -> &str {
        let program = self.info.as_ref().map_or("", |info| &info.program);
        program.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it ended as programs do that failed: with another exit status than 0, or by a signal.
    #[must_use]
    pub fn failed(&self) -> bool {
        match self.end {
            ProcessEnd::Exited { status } => status != 0,
            ProcessEnd::Killed { .. } => true,
            _ => false,
        }
    }

    /// Whether a signal killed it that says that something is wrong with it: not one by which others end it.
    #[must_use]
    pub fn crashed(&self) -> bool {
        const CRASHES: [i32; 7] =
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];
        matches!(self.end, ProcessEnd::Killed { signal } if CRASHES.contains(&signal))
    }
}

impl ProcessEnd {
    fn of(reason: EndReason) -> Self {
        match reason {
            EndReason::Exit { status } => Self::Exited { status: status & 0xff },
            EndReason::Signal { signo, .. } => Self::Killed { signal: signo.cast_signed() },
            EndReason::Exec => Self::Executed,
            EndReason::Unsupported { why } | EndReason::LogStopped { why } => Self::Incomplete { why },
            EndReason::Full | EndReason::Terminated => Self::Unknown,
        }
    }
}

/// The processes that a user means by `name`: an id as `4711.1`, a process id for all programs of it, or the file name
/// of a program for all processes that run it.
///
/// # Errors
/// None in the log.
pub fn select(log: &Log, name: &str) -> Result<Vec<ProcessId>> {
    let all = log.processes()?;
    let by_program = |info: &Option<ProcessInfo>| {
        info.as_ref().is_some_and(|info| info.program == name || info.program.rsplit('/').next() == Some(name))
    };
    let found: Vec<_> =
        all.into_iter().filter(|(id, info)| id.is_meant_by(name) || by_program(info)).map(|(id, _)| id).collect();
    if found.is_empty() {
        let path = log.path().display();
        return Err(ReplayError::OutOfRange(format!("no process {name} in {path}; bugnet ps lists those that are")));
    }
    Ok(found)
}
