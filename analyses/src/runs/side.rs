//! One of two runs of a program: a process of a log.

use crate::path::objects::Objects;
use bugnet_format::process::ProcessInfo;
use bugnet_format::types::{IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::tree::{Process, ProcessEnd, processes};
use bugnet_replay::{ReplayError, Result};
use serde::Serialize;
use std::collections::BTreeMap;

/// A run.
pub struct Side<'a> {
    /// What was recorded of it.
    pub recorded: Recorded<'a>,
    /// What it is, for people.
    pub run: Ran,
    /// Names for addresses in it.
    pub symbols: Symbolizer,
    /// A moment of it.
    pub cursor: Cursor<'a>,
}

/// What was recorded of a run; several may look at it at the same time.
pub struct Recorded<'a> {
    /// What replay needs.
    pub tools: &'a Tools,
    /// Its log.
    pub log: &'a Log,
    /// Its process.
    pub pid: ProcessId,
    /// What is mapped into it.
    pub objects: Objects,
    /// Of each thread, its intervals, with how many instructions it had executed before each.
    intervals: BTreeMap<Tid, Vec<(IntervalId, u64)>>,
}

/// What was run, and how it ended.
#[derive(Clone, Debug, Serialize)]
pub struct Ran {
    /// Where its log is.
    pub log: String,
    /// The process.
    #[serde(flatten)]
    pub pid: ProcessId,
    /// The program's file.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Instructions of all threads.
    pub instructions: u64,
    /// How it ended.
    pub end: ProcessEnd,
}

fn info(process: &Process) -> Result<&ProcessInfo> {
    let what = || ReplayError::OutOfRange(format!("the log does not say which program process {} ran", process.id));
    process.info.as_ref().ok_or_else(what)
}

/// The process of another log that runs the same program as this one: where several do, the one that began as the same of them.
///
/// # Errors
/// None does, or it is another version, which it may be if `any_build`: then its file has the same name.
pub fn counterpart(log: &Log, pid: ProcessId, other: &Log, any_build: bool) -> Result<ProcessId> {
    let (own, others) = (processes(log)?, processes(other)?);
    let nothing = || ReplayError::OutOfRange(format!("{} has no process {pid}", log.path().display()));
    let process = own.iter().find(|process| process.id == pid).ok_or_else(nothing)?;
    let program = &info(process)?.program;
    let version = |log: &Log, process: &Process| -> Result<Option<String>> {
        let Some(info) = &process.info else { return Ok(None) };
        if any_build {
            return Ok(info.program.rsplit('/').next().map(ToOwned::to_owned));
        }
        let modules = log.modules(process.id)?;
        let module = modules.into_iter().find(|module| module.path == info.program);
        Ok(module.map(|module| if module.build_id.is_empty() { module.path } else { module.build_id }))
    };
    let wanted = version(log, process)?;
    let mut same = Vec::new();
    for candidate in &others {
        if wanted.is_some() && version(other, candidate)? == wanted && candidate.intervals > 0 {
            same.push(candidate.id);
        }
    }
    let mut rank = 0;
    for earlier in own.iter().take_while(|earlier| earlier.id != pid) {
        rank += usize::from(version(log, earlier)? == wanted && earlier.intervals > 0);
    }
    if let Some(found) = same.get(rank).or(same.last()) {
        return Ok(*found);
    }
    let (here, there) = (log.path().display(), other.path().display());
    let file = |process: &Process| process.info.as_ref().map_or("", |info| &info.program).to_owned();
    let is_alike = |process: &&Process| process.name() == program.rsplit('/').next().unwrap_or_default();
    let what = match others.iter().find(is_alike) {
        Some(alike) => format!(
            "these are logs of different programs: {} in {there} is another build of {program} than the one in {here} (--other-build compares two builds)",
            file(alike)
        ),
        None => {
            let ran: Vec<String> = others.iter().map(file).collect();
            format!("these are logs of different programs: {here} ran {program}, {there} {}", ran.join(", "))
        }
    };
    Err(ReplayError::OutOfRange(what))
}

impl<'a> Side<'a> {
    /// A process of a log. Mapped files of the names in `own` count as the program's own.
    ///
    /// # Errors
    /// The log does not hold it, it has no such files, or it cannot be replayed.
    pub fn open(tools: &'a Tools, log: &'a Log, pid: ProcessId, own: &[String]) -> Result<Self> {
        let all = processes(log)?;
        let nothing = || ReplayError::OutOfRange(format!("{} has no process {pid}", log.path().display()));
        let process = all.into_iter().find(|process| process.id == pid).ok_or_else(nothing)?;
        let ProcessInfo { program, args, .. } = info(&process)?.clone();
        let mut intervals = BTreeMap::new();
        for thread in log.threads().filter(|thread| thread.pid == pid) {
            let with_before = |&interval| {
                let id = IntervalId { thread, interval };
                Ok((id, log.header(id)?.instructions_before))
            };
            intervals.insert(thread.tid, log.intervals(thread)?.iter().map(with_before).collect::<Result<_>>()?);
        }
        let mut cursor = Cursor::open(tools, log, pid)?;
        cursor.seek(Seek::End)?;
        let files: Vec<String> = log.modules(pid)?.into_iter().map(|module| module.path).collect();
        let is_there =
            |name: &&String| files.iter().any(|path| path == *name || path.rsplit('/').next() == Some(*name));
        if let Some(name) = own.iter().find(|name| !is_there(name)) {
            let what = format!("process {pid} has mapped no {name}; it has {}", files.join(", "));
            return Err(ReplayError::OutOfRange(what));
        }
        let objects = Objects::of(log, pid, &program, own, cursor.mappings()?)?;
        let path = log.path().display().to_string();
        let run = Ran { log: path, pid, program, args, instructions: process.instructions, end: process.end };
        let symbols = Symbolizer::new(log, pid)?;
        Ok(Self { recorded: Recorded { tools, log, pid, objects, intervals }, run, symbols, cursor })
    }

    /// Goes to where a thread has executed so many instructions, and says where and when that is.
    ///
    /// # Errors
    /// The log does not hold that, or the replay process is lost.
    pub fn go(&mut self, tid: Tid, count: u64) -> Result<Moment> {
        let place = self.recorded.place(tid, count)?;
        self.cursor.seek(Seek::Place(place))?;
        Ok(Moment { position: place.to_string(), time: self.cursor.time() })
    }
}

impl Recorded<'_> {
    /// The intervals of a thread, with how many instructions it had executed before each.
    #[must_use]
    pub fn intervals(&self, tid: Tid) -> &[(IntervalId, u64)] {
        self.intervals.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// How many instructions a thread has executed at the end of its log.
    ///
    /// # Errors
    /// Its last interval cannot be read.
    pub fn end(&self, tid: Tid) -> Result<u64> {
        let Some(&(id, before)) = self.intervals(tid).last() else { return Ok(0) };
        let last = self.log.interval(id)?.records().flatten().last().map_or(0, |placed| placed.position.0);
        Ok(before + last)
    }

    /// Intervals behind this one are not looked at.
    pub fn end_with(&mut self, last: IntervalNo) {
        self.intervals.values_mut().for_each(|intervals| intervals.retain(|(id, _)| id.interval <= last));
    }

    /// All intervals, thread by thread.
    pub fn all(&self) -> impl Iterator<Item = IntervalId> {
        self.intervals.values().flatten().map(|(id, _)| *id)
    }

    /// How many intervals there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.intervals.values().map(Vec::len).sum()
    }

    /// Where a thread is that has executed so many instructions.
    ///
    /// # Errors
    /// The log does not hold that.
    pub fn place(&self, tid: Tid, count: u64) -> Result<Place> {
        let found = self.intervals(tid).iter().rfind(|(_, before)| *before <= count);
        let what = || ReplayError::OutOfRange(format!("the log does not hold instruction {count} of thread {tid}"));
        let (id, before) = found.ok_or_else(what)?;
        Ok(Place { tid, interval: id.interval, position: Position(count - before) })
    }
}

/// When something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// The position, as `bugnet at` takes it.
    pub position: String,
    /// Instructions that all threads had executed.
    pub time: u64,
}
