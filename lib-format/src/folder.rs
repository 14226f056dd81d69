//! The folder of a recording (FORMAT.md, "Folder").
//!
//! ```text
//! LOG/
//!   recording.json            what was recorded, how and how it ended; replaced as a whole (rename)
//!   p<pid>[.<program>]/       one folder a program of a process
//!     process.json            whose child it is, what it runs
//!     code.bnc                code store
//!     modules.jsonl           mapped ELF files, a JSON object a line
//!     t<tid>[.<before>]/      one folder a thread
//!       <interval>.bni        interval files, 8 digits or more
//!       tail, tail2           records that wait for their frame; absent after a clean end
//!   light/p<pid>.<program>    what a program got from outside that ran natively (`light`)
//!   light/files/<key>         files that it had mapped
//!   elf/<name>.zst            copies of ELF files and of the files that hold their debug information, for symbols
//!   sources/<path>            source files, by the paths that debug information has
//! ```

use crate::buffer::Buffer;
use crate::code::CodeStore;
use crate::error::{FormatError, Result};
use crate::files::{self, Folder, MAX_BINARY_FILE, MAX_JSON_FILE, names};
use crate::frame::Interval;
use crate::light;
use crate::process::{Origin, ProcessInfo};
use crate::source::Source;
use crate::types::{CodeSeq, IntervalNo, ProcessId, Tid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the file that describes a recording.
pub const META_FILE: &str = "recording.json";
/// What it is called until it is whole.
pub const NEW_META_FILE: &str = "recording.json.new";
/// Name of the file that describes a process, in its folder.
pub const PROCESS_FILE: &str = "process.json";
/// Name of a process's code store in its folder.
pub const CODE_FILE: &str = "code.bnc";
/// Name of a process's list of modules in its folder.
pub const MODULES_FILE: &str = "modules.jsonl";
/// Names of a thread's tails in its folder.
pub const TAIL_FILES: [&str; 2] = ["tail", "tail2"];
/// Name of the folder of ELF copies.
pub const ELF_FOLDER: &str = "elf";
/// Name of the folder of source files.
pub const SOURCES_FOLDER: &str = "sources";

/// Folder name of a process.
#[must_use]
pub fn process_folder(process: impl Into<ProcessId>) -> String {
    format!("p{}", process.into())
}

/// File name of a process's index, beside its folder: what commands have found out about it, on which nothing depends.
#[must_use]
pub fn index_file(process: impl Into<ProcessId>) -> String {
    format!(".p{}.index", process.into())
}

/// Whether a name in a recording's folder is one that bugnet gives to a file of its own that is no part of the recording: an index, or one that was not finished.
#[must_use]
pub fn is_helper(name: &str) -> bool {
    let process = name.strip_prefix(".p").and_then(|rest| rest.strip_suffix(".index"));
    let is_index = process.is_some_and(|id| id.parse::<ProcessId>().is_ok());
    is_index || name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1)
}

/// How names begin and end of files that are being made, where the file system knows none without a name.
pub const UNFINISHED: (&str, &str) = (".bugnet-", ".new");

/// Folder name of a thread within its process's folder.
#[must_use]
pub fn thread_folder(tid: Tid) -> String {
    format!("t{tid}")
}

/// File name of an interval within its thread's folder.
#[must_use]
pub fn interval_file(interval: IntervalNo) -> String {
    format!("{:08}.bni", interval.0)
}

/// How the recorded program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Ending {
    /// Not known: recording goes on, or the recorder was killed together with the program.
    Unknown,
    /// Exit status.
    Exited {
        /// 0 to 255.
        status: i32,
    },
    /// Killed by a signal.
    Killed {
        /// Signal number.
        signal: i32,
    },
}

/// `recording.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// [`crate::FORMAT_VERSION`] of the log.
    pub format_version: u32,
    /// Version of the bugnet that recorded.
    pub bugnet_version: String,
    /// Absolute path of the program.
    pub program: String,
    /// Argument vector, with the program's name first; bytes that are not UTF-8 are replaced.
    pub args: Vec<String>,
    /// Working directory at the start.
    pub cwd: String,
    /// Seconds since the Unix epoch at the start.
    pub started: u64,
    /// Kernel and processor of the recording machine, for people.
    pub machine: Machine,
    /// Instructions of a checkpoint interval.
    pub interval: u64,
    /// Only the last so many intervals of each thread were kept, or, of a light log, epochs; 0 for all.
    pub keep: u64,
    /// A `CHECK` at least every so many instructions; 0 for none but those of frames.
    pub check_every: u64,
    /// What `--cpu` was.
    pub cpu_level: String,
    /// Process id of the first process.
    pub pid: Option<u32>,
    /// How it ended.
    pub ending: Ending,
    /// Whether the children of the first process and the programs that it executed were to be recorded, too.
    #[serde(default = "always")]
    pub follow: bool,
    /// The seed with which scheduling was perturbed; none where threads ran undisturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chaos: Option<u64>,
    /// Whether the program ran natively: the log is made of the light one in it, afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub light: bool,
    /// What the log held when the first process had ended; none if that was not seen.
    #[serde(default)]
    pub contents: Option<Contents>,
}

fn always() -> bool {
    true
}

/// What there was in a log at some moment: its processes, by [`ProcessId`]; of each its threads; of each the number
/// behind its last interval's. Where something goes on, more comes later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Contents(pub BTreeMap<String, BTreeMap<Tid, u64>>);

/// The recording machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `uname -sr`.
    pub kernel: String,
    /// The processor's brand string.
    pub cpu: String,
    /// Names of the processor features that the program could see and use (as in /proc/cpuinfo).
    pub features: Vec<String>,
}

/// A line of `modules.jsonl`: an ELF file as it was mapped into the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Where file offset 0 is or would be mapped.
    pub base: u64,
    /// Bytes from `base` to the end of the last mapping.
    pub size: u64,
    /// Absolute path on the recording machine.
    pub path: String,
    /// GNU build id, lower-case hexadecimal; empty if it has none.
    pub build_id: String,
}

/// The lines of `modules.jsonl` that are whole: a line without its newline was cut off.
///
/// A line that is no module is its byte offset and what is wrong with it.
pub(crate) fn module_lines(file: &[u8]) -> impl Iterator<Item = std::result::Result<Module, (u64, String)>> {
    let mut offset = 0;
    file.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n")).map(move |line| {
        let at = offset;
        offset += line.len() as u64;
        serde_json::from_slice(line).map_err(|e| (at, e.to_string()))
    })
}

/// A recording, opened for reading.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its folder, or the packed file.
    pub path: PathBuf,
    /// Where its files are.
    pub source: Source,
    /// `recording.json`.
    pub meta: Meta,
}

/// A thread of a recording and its intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFiles {
    /// The process.
    pub pid: ProcessId,
    /// The thread.
    pub tid: Tid,
    /// The log.
    pub log: Source,
    /// Its own folder, in that.
    pub folder: PathBuf,
    /// Numbers of the intervals that are there, ascending; without gaps, unless epochs of a light log begin between them.
    pub intervals: Vec<IntervalNo>,
    /// Whether they may.
    epochs: bool,
}

/// The number in a name between `prefix` and `suffix`; only digits count.
fn numbered<T: std::str::FromStr>(name: &OsString, prefix: &str, suffix: &str) -> Option<T> {
    let number = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
    number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())?
}

/// The bytes of a JSON file.
pub(crate) fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut json = serde_json::to_vec_pretty(value).map_err(|e| FormatError::Missing(e.to_string()))?;
    json.push(b'\n');
    Ok(json)
}

/// Writes a JSON file as a whole or not at all: as `<path>.new`, which is then renamed.
pub(crate) fn write_json(value: &impl Serialize, path: &Path) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    std::fs::write(&new, json(value)?).map_err(FormatError::io(&new))?;
    std::fs::rename(&new, path).map_err(FormatError::io(path))
}

impl Meta {
    /// Whether logs of processes that ended before what is kept are gone.
    #[must_use]
    pub fn drops_processes(&self) -> bool {
        self.light && self.keep > 0
    }

    /// The last so many epochs of which the log has all; 0 where none was dropped: of a light log, the log is made from where that begins.
    #[must_use]
    pub fn kept_epochs(&self) -> u64 {
        if self.light { 0 } else { self.keep }
    }

    /// Writes `recording.json` into `folder`, as a whole or not at all.
    ///
    /// # Errors
    /// The operating system's.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write_json(self, &folder.join(META_FILE))
    }
}

impl Recording {
    /// Opens the folder of a recording, or the file into which it was packed: reads and checks `recording.json`.
    ///
    /// # Errors
    /// No such folder, not a log, or one of another version.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_source(Source::open(path)?)
    }

    /// Opens a recording whose files are here.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_source(source: Source) -> Result<Self> {
        let path = source.path();
        let file = path.join(META_FILE);
        let not_a_log = |found: String| FormatError::NotALog { path: path.to_owned(), what: "log", found };
        let json = files::read(&source, &file, MAX_JSON_FILE).map_err(|error| match &error {
            FormatError::Io { source: reason, .. } => match reason.kind() {
                ErrorKind::NotFound if path.is_dir() || source.pack().is_some() => {
                    not_a_log(format!("there is no {META_FILE} in it"))
                }
                ErrorKind::NotFound => FormatError::Missing(format!("no log at {}", path.display())),
                ErrorKind::NotADirectory if !path.is_dir() => not_a_log("it is no folder".to_owned()),
                _ => error,
            },
            _ => error,
        })?;
        // The version first: the rest of another version's file may not fit at all.
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let no_json = |e: serde_json::Error| FormatError::NotALog {
            path: file.clone(),
            what: "recording.json",
            found: e.to_string(),
        };
        let version: Version = serde_json::from_slice(&json).map_err(no_json)?;
        if version.format_version != crate::FORMAT_VERSION {
            return Err(FormatError::Version {
                path: file,
                found: version.format_version,
                expected: crate::FORMAT_VERSION,
            });
        }
        let meta = serde_json::from_slice(&json).map_err(no_json)?;
        Ok(Self { path: path.to_owned(), source, meta })
    }

    /// All threads of all processes, by process and thread id.
    ///
    /// A last interval of which the log has no record (the logger was killed as it began) is left out; a thread may
    /// thus have none.
    ///
    /// # Errors
    /// A folder cannot be read, or an interval is missing between others.
    pub fn threads(&self) -> Result<Vec<ThreadFiles>> {
        let mut threads = self.thread_folders()?;
        for thread in &mut threads {
            thread.leave_out_not_begun()?;
        }
        Ok(threads)
    }

    /// As [`Self::threads`], each with its last interval, if it has any.
    ///
    /// # Errors
    /// As for that, or an interval is damaged from its start.
    pub fn last_intervals(&self) -> Result<impl Iterator<Item = Result<(ThreadFiles, Option<Interval>)>>> {
        Ok(self.thread_folders()?.into_iter().map(|mut thread| {
            let interval = match (thread.leave_out_not_begun()?, thread.intervals.last()) {
                (_, None) => None,
                (Some(read), Some(last)) => Some(thread.decode(*last, &read)?),
                (None, Some(last)) => Some(thread.interval(*last)?),
            };
            Ok((thread, interval))
        }))
    }

    /// The processes for which there is a folder, by process id and program.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn processes(&self) -> Result<Vec<ProcessId>> {
        let id = |name: &OsString| name.to_str()?.strip_prefix('p')?.parse().ok();
        let mut processes: Vec<_> = names(&self.source, &self.path)?.iter().filter_map(id).collect();
        processes.sort_unstable();
        Ok(processes)
    }

    /// What the log holds now.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn contents(&self) -> Result<Contents> {
        let mut contents = BTreeMap::new();
        for process in self.processes()? {
            contents.insert(process.to_string(), BTreeMap::new());
        }
        for thread in self.thread_folders()? {
            let next = thread.intervals.last().map_or(0, |last| last.0.saturating_add(1));
            contents.entry(thread.pid.to_string()).or_default().insert(thread.tid, next);
        }
        Ok(Contents(contents))
    }

    /// The program with which the first process ended, as far as the log tells: what it began with, or what that
    /// executed.
    ///
    /// # Errors
    /// A folder or file cannot be read, or is damaged.
    pub fn last_of_first_process(&self) -> Result<Option<ProcessId>> {
        let Some(pid) = self.meta.pid else { return Ok(None) };
        let mut last = None;
        for id in self.processes()?.into_iter().filter(|id| id.pid.0 == pid) {
            match self.process(id)?.map(|info| info.origin) {
                Some(Origin::Start) => last = Some(id),
                Some(Origin::Exec { from }) if Some(from) == last => last = Some(id),
                _ => {}
            }
        }
        Ok(last)
    }

    /// What there is to know about a process; `None` if the logger was killed before it wrote that.
    ///
    /// # Errors
    /// The file is there, but cannot be read or is damaged.
    pub fn process(&self, process: ProcessId) -> Result<Option<ProcessInfo>> {
        ProcessInfo::read(&self.source, &self.path.join(process_folder(process)))
    }

    /// The folders of all threads and the interval files in them, as they are.
    pub(crate) fn thread_folders(&self) -> Result<Vec<ThreadFiles>> {
        let mut threads = Vec::new();
        for pid in self.processes()? {
            let process = self.path.join(process_folder(pid));
            let tid = |name: &OsString| name.to_str()?.strip_prefix('t')?.parse().ok();
            let mut tids: Vec<Tid> = names(&self.source, &process)?.iter().filter_map(tid).collect();
            tids.sort_unstable();
            for tid in tids {
                let folder = process.join(thread_folder(tid));
                let mut intervals: Vec<_> = names(&self.source, &folder)?
                    .iter()
                    .filter_map(|n| numbered(n, "", ".bni"))
                    .map(IntervalNo)
                    .collect();
                intervals.sort_unstable();
                let (log, epochs) = (self.source.clone(), self.meta.light && self.meta.keep > 0);
                threads.push(ThreadFiles { pid, tid, log, folder, intervals, epochs });
            }
        }
        Ok(threads)
    }

    /// The modules of a process, in the order in which they were mapped: behind those of the process that it was forked
    /// from, its own. A last line that was cut off is left out.
    ///
    /// # Errors
    /// A file is there but cannot be read, or the process is its own ancestor.
    pub fn modules(&self, process: ProcessId) -> Result<Vec<Module>> {
        let mut modules = Vec::new();
        for (ancestor, _) in self.forks(process)?.into_iter().rev() {
            let path = self.path.join(process_folder(ancestor)).join(MODULES_FILE);
            if let Some(lines) = files::read_if_there(&self.source, &path, MAX_JSON_FILE)? {
                modules.extend(module_lines(&lines).map_while(std::result::Result::ok));
            }
        }
        Ok(modules)
    }

    /// A process, the one that it was forked from, and so on, each with how many of its code pages the one before has.
    fn forks(&self, process: ProcessId) -> Result<Vec<(ProcessId, Option<CodeSeq>)>> {
        let mut line = vec![(process, None)];
        let mut youngest = process;
        while let Some(Origin::Fork { from, code_pages }) = self.process(youngest)?.map(|info| info.origin) {
            if line.iter().any(|(known, _)| *known == from) {
                let path = self.path.join(process_folder(process)).join(PROCESS_FILE);
                return Err(FormatError::damaged(&path, 0, "the process is its own ancestor"));
            }
            line.push((from, Some(CodeSeq(code_pages))));
            youngest = from;
        }
        Ok(line)
    }

    /// The code store of a process, with the pages that it has from the process that it was forked from.
    ///
    /// # Errors
    /// It, or that of a process that it was forked from, cannot be read or is damaged.
    pub fn code(&self, process: ProcessId) -> Result<CodeStore> {
        let mut store = CodeStore::default();
        // Whoever has no pages of another one's needs none of those before, which may not be there.
        let mut line = self.forks(process)?;
        let own = line.iter().position(|(_, inherits)| *inherits == Some(CodeSeq(0)));
        line.truncate(own.unwrap_or(line.len()));
        for (ancestor, inherits) in line.into_iter().rev() {
            let path = self.path.join(process_folder(ancestor)).join(CODE_FILE);
            let bytes = files::read(&self.source, &path, MAX_BINARY_FILE)?;
            store = CodeStore::decode(&bytes, store.pages, &path)?;
            if let Some(inherits) = inherits {
                if !store.covers(inherits) {
                    return Err(FormatError::damaged(&path, 0, "it lacks pages that a forked process has from it"));
                }
                let len = store.up_to(inherits).len();
                store.pages.truncate(len);
            }
        }
        Ok(store)
    }
}

impl ThreadFiles {
    /// Reads an interval, with what the thread's tails add to it.
    ///
    /// # Errors
    /// It is not there, cannot be read, or is damaged from its start.
    pub fn interval(&self, interval: IntervalNo) -> Result<Interval> {
        self.decode(interval, &self.read_bytes(interval)?)
    }

    fn decode(&self, interval: IntervalNo, bytes: &IntervalBytes) -> Result<Interval> {
        let read = Interval::decode(&bytes.file, &bytes.tails, &bytes.path)?;
        if (read.header.interval, read.header.tid, read.header.pid) != (interval, self.tid, self.pid.pid) {
            return Err(FormatError::damaged(&bytes.path, 16, "the header names another interval or thread"));
        }
        Ok(read)
    }

    /// Leaves a last interval out of which the log has no record. Returns what was read of it if it stays.
    fn leave_out_not_begun(&mut self) -> Result<Option<IntervalBytes>> {
        if let Some(missing) = self.missing_interval() {
            let folder = self.folder.display();
            return Err(FormatError::Missing(format!("{folder}: interval {missing} is missing")));
        }
        let Some(last) = self.intervals.last() else { return Ok(None) };
        let read = self.read_bytes(*last)?;
        if Interval::has_begun(&read.file, &read.tails, &read.path) {
            return Ok(Some(read));
        }
        self.intervals.pop();
        Ok(None)
    }

    /// The first number that is missing between the intervals.
    pub(crate) fn missing_interval(&self) -> Option<IntervalNo> {
        let begins_epoch = |number: u64| self.epochs && number.is_multiple_of(light::layout::INTERVALS);
        let follows = |w: &[IntervalNo]| w[1].0 - w[0].0 == 1 || begins_epoch(w[1].0);
        let gap = self.intervals.windows(2).find(|w| !follows(w))?;
        Some(IntervalNo(gap[0].0.wrapping_add(1)))
    }

    /// An interval's file: its path and bytes.
    pub(crate) fn read_file(&self, interval: IntervalNo) -> Result<(PathBuf, Buffer)> {
        let path = self.folder.join(interval_file(interval));
        let file = files::read(&self.log, &path, MAX_BINARY_FILE)?;
        Ok((path, file))
    }

    /// The bytes of an interval's file, and of the thread's tails, of those that there are.
    fn read_bytes(&self, interval: IntervalNo) -> Result<IntervalBytes> {
        let (folder, name) = (Folder::open(&self.log, &self.folder)?, interval_file(interval));
        let file = folder.read(&name, MAX_BINARY_FILE)?;
        let tails = TAIL_FILES.iter().filter_map(|name| folder.read_if_there(name, MAX_BINARY_FILE).transpose());
        Ok(IntervalBytes { path: self.folder.join(name), file, tails: tails.collect::<Result<_>>()? })
    }
}

/// What is to be read of an interval.
struct IntervalBytes {
    path: PathBuf,
    file: Buffer,
    tails: Vec<Buffer>,
}
