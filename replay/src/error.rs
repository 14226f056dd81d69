//! What can go wrong in replay, and whose fault it is.

use crate::log::IntervalId;
use crate::work::Over;
use bugnet_format::FormatError;
use bugnet_format::types::Position;
use std::path::PathBuf;
use std::time::Duration;

/// Result of replaying or inspecting a log.
pub type Result<T> = std::result::Result<T, ReplayError>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read: its fault.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A file of bugnet's own is not where it should be: the installation's fault.
    #[error(
        "{name} is missing: looked in {}; build or unpack bugnet completely, or point BUGNET_LIB at the folder that holds it",
        list(.searched)
    )]
    ToolMissing {
        /// The file's name.
        name: &'static str,
        /// The folders in which it might have been.
        searched: Vec<PathBuf>,
    },
    /// The operating system refused something that replay needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The replay process ended, crashed, or was killed, without having been told to.
    #[error("{interval}: the replay process {how}{}", said(.stderr))]
    ProcessLost {
        /// What it replayed.
        interval: IntervalId,
        /// How it ended, or what was wrong with what it sent.
        how: String,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// Replay was not done in the time that it was given.
    #[error("{interval}: the replay took longer than {} s, and was ended", .limit.as_secs_f64())]
    Overdue {
        /// What was replayed.
        interval: IntervalId,
        /// The time that it was given.
        limit: Duration,
    },
    /// The replay process says that it cannot set up or go on.
    #[error("{interval}: cannot be replayed here: {message}")]
    ProcessFailed {
        /// What it replayed.
        interval: IntervalId,
        /// Its reason.
        message: String,
    },
    /// Replay went another way than the recording, where that leaves nothing to go on with.
    #[error("{interval}: replay diverges at instruction {position}: {what}")]
    Diverged {
        /// What was replayed.
        interval: IntervalId,
        /// Where it was noticed.
        position: Position,
        /// What differs.
        what: String,
    },
    /// No order of a process's threads agrees with the dependencies that the log has: its fault.
    #[error("process {pid}: {what}")]
    Contradiction {
        /// The process.
        pid: bugnet_format::types::ProcessId,
        /// Which dependencies.
        what: String,
    },
    /// What takes long was ended before its end.
    #[error("{0}")]
    Over(Over),
    /// A thread, interval or position that the log does not hold was asked for.
    #[error("{0}")]
    OutOfRange(String),
    /// This machine, or what an interval accesses, does not let its replay process tell what it executes in the way that was asked for.
    #[error("{interval}: {why}")]
    NotTraced {
        /// What was to be traced.
        interval: IntervalId,
        /// Why not.
        why: String,
    },
    /// The reader of the program's output is gone, or its disk is full.
    #[error("cannot write the program's output: {0}")]
    Sink(std::io::Error),
}

impl ReplayError {
    /// Wraps an [`std::io::Error`] with what was tried.
    pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { what: what.into(), source }
    }
}

fn list(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    folders.join(", ")
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; it said:\n{stderr}") }
}
