//! What is recorded of the process, where that is, and whether it still is.

use crate::base::light;
use crate::base::process::{self, OfProcess};
use crate::base::warn;
use crate::log::origin;
use crate::log::spare;
use bugnet_dr::fragments;
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::types::ProcessId;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The process's part of the log.
pub struct Recording {
    /// Process id, and which of its programs this is.
    id: ProcessId,
    /// The process's folder in the log; empty if it has none, because it could not be made.
    folder: PathBuf,
    /// What the folder says of the process.
    info: ProcessInfo,
    /// Whether it has a log.
    begun: AtomicBool,
    checkpoints: AtomicU64,
    /// Whether nothing is recorded any more.
    over: AtomicBool,
    /// Why.
    why_over: OnceLock<String>,
}

static RECORDING: OfProcess<Recording> = OfProcess::none();

impl Recording {
    /// Of a process that begins; `over`: nothing of it is recorded, perhaps for this reason.
    pub fn new(id: ProcessId, folder: PathBuf, info: ProcessInfo, over: Option<Option<String>>) -> Self {
        let (is_over, why_over) = (over.is_some(), OnceLock::new());
        if let Some(Some(why)) = over {
            let _ = why_over.set(why);
        }
        let (begun, over, checkpoints) = (AtomicBool::new(false), AtomicBool::new(is_over), AtomicU64::new(0));
        Self { id, folder, info, begun, checkpoints, over, why_over }
    }
}

/// A process begins, or a forked child goes on.
pub fn begin(recording: Recording) {
    RECORDING.set(recording);
}

/// Process id, and which of its programs this is.
pub fn id() -> ProcessId {
    RECORDING.get().id
}

/// The process's folder in the log.
pub fn folder() -> &'static Path {
    &RECORDING.get().folder
}

/// A thread of it has a log.
pub fn note_begun() {
    RECORDING.get().begun.store(true, Ordering::SeqCst);
}

/// Number of the next checkpoint, counted over all threads.
pub fn next_checkpoint() -> u64 {
    RECORDING.get().checkpoints.fetch_add(1, Ordering::Relaxed)
}

/// Nothing of this process is recorded any more, for this reason, which the user is told.
pub fn end(why: &str) {
    let Recording { why_over, begun, info, id, folder, .. } = RECORDING.get();
    if why_over.set(why.to_owned()).is_ok() {
        match begun.load(Ordering::SeqCst) {
            // Of an expansion, the others' are told beside it.
            true if light::expands() => warn(&format!("process {id}: recording ends here: {why}")),
            true => warn(&format!("recording ends here: {why}")),
            false => {
                warn(&format!("{} (process {}) is not recorded: {why}", info.program, id.pid));
                origin::mark_unrecorded(folder, info, why);
            }
        }
    }
    leave();
}

/// Why nothing is recorded any more.
pub fn why_over() -> String {
    RECORDING.get().why_over.get().cloned().unwrap_or_default()
}

/// Nothing is recorded any more: blocks are built anew without checks, bit by bit.
pub fn leave() {
    if !RECORDING.get().over.swap(true, Ordering::SeqCst) {
        spare::remove_all();
        fragments::flush_all_later(None);
    }
}

/// Whether nothing is recorded any more.
pub fn over() -> bool {
    RECORDING.get().over.load(Ordering::Relaxed)
}

/// How a program begins that the calling process is about to execute.
pub fn origin_of_executed() -> Origin {
    let from = id();
    // A child of vfork runs in its parent's memory, where the process is the parent's.
    if process::is_own() { Origin::Exec { from } } else { Origin::Spawn { from } }
}
