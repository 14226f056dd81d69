//! A log, opened: threads, intervals and code stores, each read when first asked for.

use crate::error::{ReplayError, Result};
use crate::symbols::SourcePath;
use bugnet_format::FormatError;
use bugnet_format::code::CodeStore;
use bugnet_format::complete::{self, Gap, Mentions};
use bugnet_format::files;
use bugnet_format::folder::{Ending, Meta, Module, Recording, ThreadFiles, interval_file};
use bugnet_format::frame::{HEADER_SIZE, Interval, IntervalHeader};
use bugnet_format::process::ProcessInfo;
use bugnet_format::source::Source;
use bugnet_format::types::{IntervalNo, Pid, ProcessId, Tid};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A thread of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct ThreadId {
    /// The process.
    #[serde(flatten)]
    pub pid: ProcessId,
    /// The thread in it.
    pub tid: Tid,
}

/// An interval of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct IntervalId {
    /// The process and thread.
    #[serde(flatten)]
    pub thread: ThreadId,
    /// The interval in it.
    pub interval: IntervalNo,
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == ProcessId::from(Pid(self.tid.0)) {
            write!(f, "thread {}", self.tid)
        } else {
            write!(f, "process {} thread {}", self.pid, self.tid)
        }
    }
}

impl fmt::Display for IntervalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} interval {}", self.thread, self.interval)
    }
}

/// An opened log. Cheap to share between threads by reference.
#[derive(Debug)]
pub struct Log {
    recording: Recording,
    threads: Vec<ThreadFiles>,
    code: Mutex<BTreeMap<ProcessId, Arc<CodeStore>>>,
    events: Mutex<Events>,
}

/// What is kept of intervals that were read ([`Log::events`]), and how many bytes that is.
#[derive(Debug, Default)]
struct Events {
    all: BTreeMap<IntervalId, Arc<Interval>>,
    bytes: usize,
}

/// Most bytes that are kept.
const MOST_EVENTS: usize = 256 << 20;

impl Log {
    /// Opens the log in the folder `path`, or that is packed into this file.
    ///
    /// # Errors
    /// No log there, one of another version, or one with an interval missing in the middle.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_source(Source::open(path)?)
    }

    /// Opens the log whose files are here.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_source(source: Source) -> Result<Self> {
        let recording = Recording::open_source(source)?;
        let threads = recording.threads()?;
        Ok(Self { recording, threads, code: Mutex::default(), events: Mutex::default() })
    }

    /// The log's folder, or the file into which it is packed, as it was given to [`Self::open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.recording.path
    }

    /// Where its files are.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.recording.source
    }

    /// What was recorded, how, and how it ended.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.recording.meta
    }

    /// All processes, in the order in which they began; with them, how the log describes them.
    ///
    /// # Errors
    /// A description is damaged.
    pub fn processes(&self) -> Result<Vec<(ProcessId, Option<ProcessInfo>)>> {
        let mut processes = Vec::new();
        for id in self.recording.processes()? {
            processes.push((id, self.recording.process(id)?));
        }
        processes.sort_by_key(|(id, info)| (info.as_ref().map_or(u64::MAX, |info| info.began), *id));
        Ok(processes)
    }

    /// Whether this is the first process's last program, and the first process is known to have exited by itself.
    ///
    /// # Errors
    /// A description is damaged.
    pub fn exited(&self, process: ProcessId) -> Result<bool> {
        Ok(matches!(self.meta().ending, Ending::Exited { .. }) && self.last_of_first_process()? == Some(process))
    }

    /// The first process's last program, whose end `recording.json` tells.
    ///
    /// # Errors
    /// A description is damaged.
    pub fn last_of_first_process(&self) -> Result<Option<ProcessId>> {
        Ok(self.recording.last_of_first_process()?)
    }

    /// All threads, by process and thread id.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.threads.iter().map(|t| ThreadId { pid: t.pid, tid: t.tid })
    }

    /// Whether it holds no interval at all: it was cut off before the first checkpoint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads().all(|thread| self.intervals(thread).is_ok_and(<[_]>::is_empty))
    }

    /// The intervals of a thread that the log holds, ascending without gaps; empty if it has none.
    ///
    /// # Errors
    /// No such thread.
    pub fn intervals(&self, thread: ThreadId) -> Result<&[IntervalNo]> {
        Ok(&self.files(thread)?.intervals)
    }

    /// Whether this is the last interval of its thread in the log.
    ///
    /// # Errors
    /// No such thread.
    pub fn is_last(&self, id: IntervalId) -> Result<bool> {
        Ok(self.files(id.thread)?.intervals.last() == Some(&id.interval))
    }

    /// Reads an interval: header and records, decompressed and checked.
    ///
    /// # Errors
    /// No such thread or interval, or it is damaged from its start.
    pub fn interval(&self, id: IntervalId) -> Result<Interval> {
        let files = self.files(id.thread)?;
        if !files.intervals.contains(&id.interval) {
            let (first, last) = match (files.intervals.first(), files.intervals.last()) {
                (Some(first), Some(last)) => (first, last),
                _ => {
                    return Err(ReplayError::OutOfRange(format!("{}: the log holds none of its intervals", id.thread)));
                }
            };
            return Err(ReplayError::OutOfRange(format!("{id} is not in the log, which holds {first} to {last}")));
        }
        Ok(files.interval(id.interval)?)
    }

    /// An interval without what was read ([`Interval::events`]), which is kept: whoever looks for calls and signals need not read it again.
    ///
    /// # Errors
    /// As for [`Self::interval`].
    pub fn events(&self, id: IntervalId) -> Result<Arc<Interval>> {
        match self.known_events(id) {
            Some(known) => Ok(known),
            None => Ok(self.events_of(id, &self.interval(id)?)),
        }
    }

    /// The same, of an interval that one has.
    #[must_use]
    pub fn events_of(&self, id: IntervalId, interval: &Interval) -> Arc<Interval> {
        if let Some(known) = self.known_events(id) {
            return known;
        }
        let events = Arc::new(interval.events());
        let mut kept = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + events.stream.len() <= MOST_EVENTS && kept.all.insert(id, events.clone()).is_none() {
            kept.bytes += events.stream.len();
        }
        events
    }

    fn known_events(&self, id: IntervalId) -> Option<Arc<Interval>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).all.get(&id).cloned()
    }

    /// Reads an interval's header alone.
    ///
    /// # Errors
    /// No such thread or interval, or the header is damaged.
    pub fn header(&self, id: IntervalId) -> Result<IntervalHeader> {
        let thread = self.files(id.thread)?;
        let path = thread.folder.join(interval_file(id.interval));
        let mut header = Vec::with_capacity(HEADER_SIZE);
        let file = files::open(&thread.log, &path, files::MAX_BINARY_FILE)?;
        file.take(HEADER_SIZE as u64).read_to_end(&mut header).map_err(FormatError::io(&path))?;
        Ok(IntervalHeader::decode(&header, &path)?)
    }

    /// The code store of a process; read once, then shared.
    ///
    /// # Errors
    /// It cannot be read or is damaged.
    pub fn code(&self, pid: ProcessId) -> Result<Arc<CodeStore>> {
        // A panic elsewhere leaves the map whole: it is only ever inserted into.
        let mut stores = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(&pid) {
            return Ok(Arc::clone(store));
        }
        let store = Arc::new(self.recording.code(pid)?);
        stores.insert(pid, Arc::clone(&store));
        Ok(store)
    }

    /// The ELF files that were mapped into a process, in the order in which they were mapped.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn modules(&self, pid: ProcessId) -> Result<Vec<Module>> {
        Ok(self.recording.modules(pid)?)
    }

    /// A source file, by the path that debug information has for it, if it was packed together with the log.
    #[must_use]
    pub fn source_file(&self, path: &str) -> Option<Vec<u8>> {
        SourcePath::new(path)?.read(self.source())
    }

    fn files(&self, thread: ThreadId) -> Result<&ThreadFiles> {
        self.threads
            .iter()
            .find(|t| (t.pid, t.tid) == (thread.pid, thread.tid))
            .ok_or_else(|| ReplayError::OutOfRange(format!("{thread} is not in the log")))
    }
}

/// Which part of a log to look at; the default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these processes.
    pub processes: Option<Vec<ProcessId>>,
    /// Only threads of this id.
    pub tid: Option<Tid>,
    /// Only intervals from the first number up to, but not including, the second.
    pub intervals: Option<std::ops::Range<u64>>,
}

impl Selection {
    /// The selected intervals, by process and thread, ascending.
    ///
    /// # Errors
    /// Nothing in the log fits.
    pub fn intervals_of(&self, log: &Log) -> Result<Vec<IntervalId>> {
        let mut selected = Vec::new();
        for thread in log.threads() {
            if self.processes.as_ref().is_some_and(|only| !only.contains(&thread.pid))
                || self.tid.is_some_and(|tid| tid != thread.tid)
            {
                continue;
            }
            let wanted = |no: &&IntervalNo| self.intervals.as_ref().is_none_or(|range| range.contains(&no.0));
            let intervals = log.intervals(thread)?.iter().filter(wanted);
            selected.extend(intervals.map(|&interval| IntervalId { thread, interval }));
        }
        // A recorder that was killed before its first checkpoint leaves a log with nothing in it: that is all of it.
        let everything = self.processes.is_none() && self.tid.is_none() && self.intervals.is_none();
        if selected.is_empty() && !(everything && log.is_empty()) {
            return Err(self.nothing(log));
        }
        Ok(selected)
    }

    /// What the log lacks of the selected processes, by what their intervals mention; of some threads or intervals, where
    /// the recording of these ended early.
    ///
    /// # Errors
    /// A folder of the log cannot be read.
    pub fn gaps(&self, log: &Log, mentions: &Mentions) -> Result<Vec<Gap>> {
        if self.tid.is_some() || self.intervals.is_some() {
            return Ok(complete::early_ends(mentions));
        }
        let wanted = |pid| self.processes.as_ref().is_none_or(|only| only.contains(&pid));
        Ok(complete::gaps(&log.recording, mentions, wanted)?)
    }

    fn nothing(&self, log: &Log) -> ReplayError {
        /// As many threads are named.
        const MOST: usize = 10;
        let mut there: Vec<String> = Vec::new();
        for thread in log.threads().take(MOST) {
            let range = match log.intervals(thread) {
                Ok([first, .., last]) => format!("{thread} with intervals {first} to {last}"),
                Ok([only]) => format!("{thread} with interval {only}"),
                _ => format!("{thread} without intervals"),
            };
            there.push(range);
        }
        let more = log.threads().count().saturating_sub(MOST);
        if more > 0 {
            there.push(format!("{more} more (`bugnet info --threads` has all)"));
        }
        let there = if there.is_empty() { "no thread at all".to_owned() } else { there.join(", ") };
        ReplayError::OutOfRange(format!("nothing to replay: {} holds {there}", log.path().display()))
    }
}
