//! What a light log tells by itself, before the log is made of it: which processes there are, how each ended, and what was kept of it.

mod calls;
mod output;

use crate::args::ProcessArg;
use crate::failure::Failure;
use crate::processes::{Table, most_likely, quoted, say_chosen};
use crate::record::describe_ending;
use crate::terminal::{one_line, output};
use bugnet_format::FormatError;
use bugnet_format::check::{Report, check_light};
use bugnet_format::folder::{Meta, Recording};
use bugnet_format::light::{self, Beginning, End, FileKey, How, LIGHT_FILES, LIGHT_FOLDER, Parts, Record, layout};
use bugnet_format::process::ProcessInfo;
use bugnet_format::types::ProcessId;
use bugnet_replay::ReplayError;
use bugnet_replay::symbols::Kept;
use bugnet_replay::tree::{Process, ProcessEnd};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What was captured of a process.
#[derive(Debug, Serialize)]
pub struct Captured {
    /// The process; how many instructions it executed is not known yet.
    #[serde(flatten)]
    pub process: Process,
    /// System calls.
    calls: u64,
    /// Signals that its handlers took, and that killed it.
    signals: u64,
    /// Those of them that came between two calls.
    moments: u64,
    /// Bytes of its light log.
    size: u64,
    /// Whether a signal killed it; by itself: for what it did, or sent to itself.
    #[serde(skip)]
    failed: Option<bool>,
    /// Whether all of its output was kept.
    #[serde(skip)]
    has_output: bool,
    #[serde(skip)]
    parts: Parts,
}

/// A light log of which no log has been made.
#[derive(Debug, Serialize)]
pub struct Light {
    path: PathBuf,
    recording: Meta,
    processes: Vec<Captured>,
    /// Bytes of copies of the files that were mapped.
    files: u64,
    /// Bytes of memory where epochs begin.
    memory: u64,
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> Failure + '_ {
    move |source| Failure::from(FormatError::io(path)(source))
}

/// Bytes of the copies of files that were mapped.
pub fn size_of_files(log: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(log.join(LIGHT_FOLDER).join(LIGHT_FILES))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Hands over all records of a light log.
fn each_record(parts: &Parts, see: &mut dyn FnMut(Record<'_>)) -> io::Result<()> {
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    parts.each(|bytes| {
        let mut at = layout::HEADER;
        while let Some((record, next)) = light::record(bytes, at).map_err(damaged)? {
            see(record);
            at = next;
        }
        Ok(())
    })
}

/// Why the log of a process ends before it did.
pub fn why_cut(parts: &Parts) -> io::Result<String> {
    // Where even that could not be written:
    let mut why = "the disk was full, or the log could not be written".to_owned();
    each_record(parts, &mut |record| {
        if let Record::End(End::GoesOn { why: text, .. }) = record {
            why = String::from_utf8_lossy(text).into_owned();
        }
    })?;
    Ok(why)
}

/// Whether a light log has so many calls, from where it begins on.
pub fn has_calls(parts: &Parts, most: usize) -> io::Result<bool> {
    let mut calls = 0;
    each_record(parts, &mut |record| calls += usize::from(matches!(record, Record::Call(_))))?;
    Ok(calls >= most)
}

/// Whether a program that was executed has come to its first instruction.
pub fn begins(parts: &Parts) -> bool {
    let mut begins = false;
    // What is damaged is told where it is made.
    let mut see = |record: Record<'_>| begins |= matches!(record, Record::Start { .. } | Record::Epoch { .. });
    let whole = each_record(&parts.first(), &mut see);
    begins || whole.is_err()
}

/// Where the files lie that a process had mapped, by their paths then.
pub fn kept_files(log: &Path, parts: &Parts, kept: &mut Kept) -> io::Result<()> {
    let folder = log.join(LIGHT_FOLDER).join(LIGHT_FILES);
    let mut keep = |key: FileKey, path: String| {
        let (files, file) = (kept.entry(path).or_default(), folder.join(key.name()));
        if !files.contains(&file) {
            files.push(file);
        }
    };
    if let Some(Beginning { memory: [list, _], .. }) = parts.beginning(log)? {
        let regions = light::regions(&fs::read(list)?).map_err(io::Error::other)?;
        regions.into_iter().filter_map(|region| region.file).for_each(|(key, path)| keep(key, path));
    }
    each_record(parts, &mut |record| {
        if let Record::Map { file: Some((key, path)), .. } | Record::File { key, path, .. } = record {
            keep(key, String::from_utf8_lossy(path).into_owned());
        }
    })
}

impl Captured {
    fn read(parts: Parts, programs: &HashMap<ProcessId, (String, Vec<String>)>) -> io::Result<Self> {
        let header = &parts.header;
        let (mut program, mut args) = programs.get(&header.from).cloned().unwrap_or_default();
        let mut end = ProcessEnd::Unknown;
        let (mut calls, mut signals, mut moments, mut failed, mut has_output) = (0, 0, 0, None, true);
        let mut threads = HashSet::from([header.process.pid.0]);
        let mut at_moment = false;
        let mut see = |record: Record<'_>| {
            let is_moment = matches!(record, Record::Moment { .. });
            moments += u64::from(at_moment && matches!(record, Record::Signal { .. } | Record::End(_)));
            at_moment = is_moment;
            match record {
                Record::Program(texts) => {
                    let mut texts = texts.into_iter().map(|text| String::from_utf8_lossy(text).into_owned());
                    program = texts.next().unwrap_or_default();
                    args = texts.skip(1).collect();
                }
                Record::Call(call) => {
                    calls += 1;
                    has_output &= call.has_output();
                }
                Record::Signal { .. } => signals += 1,
                Record::Turn { thread, .. } => {
                    threads.insert(thread);
                }
                Record::Moment { .. } | Record::Epoch { .. } | Record::Thread(_) => {}
                Record::End(ended) => {
                    end = match ended {
                        End::Exits(call) => ProcessEnd::Exited { status: (call.args[0] & 0xff) as i32 },
                        End::Executes(_) => ProcessEnd::Executed,
                        End::GoesOn { why, .. } => {
                            ProcessEnd::Incomplete { why: String::from_utf8_lossy(why).into_owned() }
                        }
                        End::Dies(signal) | End::DiesInCall { signal, .. } | End::Killed { signal, .. } => {
                            signals += 1;
                            failed = Some(match ended {
                                End::DiesInCall { code, .. } | End::Killed { code, .. } => code == libc::SI_TKILL,
                                _ => true,
                            });
                            ProcessEnd::Killed { signal: signal as i32 }
                        }
                    };
                }
                Record::Map { .. } | Record::Start { .. } | Record::File { .. } | Record::Special { .. } => {}
            }
        };
        if let Err(damaged) = each_record(&parts, &mut see) {
            end = ProcessEnd::Incomplete { why: damaged.to_string() };
        }
        let info = ProcessInfo {
            parent: header.from.pid.0,
            origin: header.origin(),
            began: header.began,
            program,
            args,
            unrecorded: None,
        };
        let process = Process {
            id: header.process,
            info: Some(info),
            threads: threads.len() as u64,
            intervals: 0,
            instructions: 0,
            end,
        };
        Ok(Self { process, calls, signals, moments, size: parts.size()?, failed, has_output, parts })
    }
}

impl Light {
    /// Reads what a light log tells by itself.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let recording = Recording::open(path)?.meta;
        let mut programs = HashMap::new();
        let mut parents: HashMap<ProcessId, u32> = HashMap::new();
        let mut processes = Vec::new();
        for parts in Parts::all(path).map_err(system(path))? {
            let (header, is_left_out) = (parts.header, parts.is_left_out);
            let mut captured = Captured::read(parts, &programs).map_err(system(path))?;
            if let Some(info) = &mut captured.process.info {
                programs.insert(header.process, (info.program.clone(), info.args.clone()));
                if header.how == How::Executed {
                    info.parent = parents.get(&header.from).copied().unwrap_or_default();
                }
                parents.insert(header.process, info.parent);
            }
            if !is_left_out {
                processes.push(captured);
            }
        }
        let files = size_of_files(path).map_err(system(path))?;
        let memory = light::size_of_memory(path).map_err(system(path))?;
        Ok(Self { path: path.to_owned(), recording, processes, files, memory })
    }

    /// The processes with this id, or with a program of this name (`tree::select`).
    pub fn select(&self, name: &str) -> Vec<ProcessId> {
        let is_meant = |process: &&Process| {
            let program = process.info.as_ref().map_or("", |info| &info.program);
            process.id.is_meant_by(name) || program == name || program.rsplit('/').next() == Some(name)
        };
        self.processes().filter(is_meant).map(|process| process.id).collect()
    }

    /// The same; an error where there is none.
    ///
    /// # Errors
    /// There is none.
    fn select_some(&self, name: &str) -> Result<Vec<ProcessId>, Failure> {
        let selected = self.select(name);
        if selected.is_empty() {
            let path = self.path.display();
            let why = format!("no process {name} in {path}; bugnet ps lists those that are");
            return Err(ReplayError::OutOfRange(why).into());
        }
        Ok(selected)
    }

    /// The process that a command looks at; where that is a choice, it is said.
    fn meant_by(&self, arg: &ProcessArg) -> Result<ProcessId, Failure> {
        let name = arg.process.as_deref();
        let number = name.map_or(Ok(self.processes.len()), |name| self.select_some(name).map(|some| some.len()))?;
        let nothing = || ReplayError::OutOfRange(format!("{} holds no process", self.path.display()));
        let chosen = self.meant(name).ok_or_else(nothing)?;
        if number > 1 {
            let info = self.processes().find(|process| process.id == chosen).and_then(|process| process.info.as_ref());
            say_chosen(number, chosen, info.map_or(&[][..], |info| &info.args));
        }
        Ok(chosen)
    }

    /// The light log of a process.
    fn parts(&self, id: ProcessId) -> Result<&Parts, Failure> {
        let found = self.processes.iter().find(|one| one.process.id == id).map(|one| &one.parts);
        found.ok_or_else(|| ReplayError::OutOfRange(format!("the log has no process {id}")).into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `bugnet check`: of the light logs alone.
    ///
    /// # Errors
    /// There is no such process, or the folder cannot be read.
    pub fn check(&self, arg: &ProcessArg) -> Result<Report, Failure> {
        let selected = arg.process.as_deref().map(|name| self.select_some(name)).transpose()?;
        let mut report = Report::default();
        check_light(&self.path, &mut report, |id| selected.as_ref().is_none_or(|some| some.contains(&id)))?;
        Ok(report)
    }

    fn unreadable(&self, source: io::Error) -> Failure {
        system(&self.path)(source)
    }

    /// All processes, in the order in which they began.
    pub fn processes(&self) -> impl DoubleEndedIterator<Item = &Process> + Clone {
        self.processes.iter().map(|captured| &captured.process)
    }

    /// The one that a command looks at: of these, the last that failed, or else the last; or the last that died of what it did itself, of what somebody sent, or the program that
    /// was recorded (`crash::failed`).
    pub fn meant(&self, name: Option<&str>) -> Option<ProcessId> {
        if let Some(name) = name {
            let selected = self.select(name);
            return most_likely(self.processes().filter(|process| selected.contains(&process.id)));
        }
        let failed = |by_itself| self.processes.iter().rev().find(|one| one.failed == Some(by_itself));
        let first = self.processes.first().map(|one| one.process.id.pid);
        let of_first = || self.processes.iter().rev().find(|one| Some(one.process.id.pid) == first);
        failed(true).or_else(|| failed(false)).or_else(of_first).map(|one| one.process.id)
    }

    /// `bugnet ps`.
    ///
    /// # Errors
    /// Nobody reads what is printed.
    pub fn ps(&self, json: bool) -> Result<(), Failure> {
        let processes: Vec<&Process> = self.processes().collect();
        let mut out = output(json);
        if json {
            serde_json::to_writer_pretty(&mut out, &processes).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            write!(out, "{}", Table::of_captured(&processes))?;
        }
        Ok(out.flush()?)
    }

    /// `bugnet info`.
    ///
    /// # Errors
    /// Nobody reads what is printed.
    pub fn info(&self, json: bool) -> Result<(), Failure> {
        let mut out = output(json);
        if json {
            serde_json::to_writer_pretty(&mut out, self).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            write!(out, "{self}")?;
        }
        Ok(out.flush()?)
    }
}

impl fmt::Display for Light {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.recording;
        let list = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            writeln!(f, "{name:<13} {}", one_line(&value.to_string()))
        };
        list(f, "log", &self.path.display())?;
        list(f, "program", &meta.program)?;
        list(f, "arguments", &quoted(&meta.args))?;
        list(f, "folder", &meta.cwd)?;
        list(f, "started", &crate::info::time(meta.started))?;
        list(f, "machine", &format_args!("{}, {}", meta.machine.cpu, meta.machine.kernel))?;
        list(f, "ended", &describe_ending(&meta.ending))?;
        list(f, "recorded", &"lightly (--light): it ran natively, and the log with its instructions is not made yet")?;
        let first = self.processes.iter().find_map(|one| one.parts.beginning(&self.path).ok().flatten());
        if let Some(beginning) = first {
            let began = crate::info::time(beginning.began / 1_000_000_000);
            list(
                f,
                "kept",
                &format_args!("its end, as --keep says: of the first process, what it did from {began} on"),
            )?;
        } else if meta.keep > 0 {
            list(f, "kept", &"all: no epoch has gone by of which what came before was to go")?;
        }
        if let Some(seed) = meta.chaos {
            list(f, "chaos", &crate::info::chaos(seed))?;
        }
        let sum = |of: fn(&Captured) -> u64| self.processes.iter().map(of).sum::<u64>();
        let [calls, signals, moments, size] =
            [sum(|one| one.calls), sum(|one| one.signals), sum(|one| one.moments), sum(|one| one.size)];
        list(
            f,
            "captured",
            &format_args!(
                "{} system calls, signals: {} ({} between two calls)",
                HumanCount(calls),
                HumanCount(signals),
                HumanCount(moments)
            ),
        )?;
        let total = HumanBytes(size + self.files + self.memory);
        let memory = if self.memory > 0 { format!(", {} memory", HumanBytes(self.memory)) } else { String::new() };
        list(f, "size", &format_args!("{total} ({} of them copies of mapped files{memory})", HumanBytes(self.files)))?;
        let processes: Vec<&Process> = self.processes().collect();
        write!(f, "\n{}", Table::of_captured(&processes))?;
        let unknown = processes.iter().filter(|process| process.end == ProcessEnd::Unknown).count();
        if unknown > 0 {
            writeln!(
                f,
                "\nOf {unknown} that nothing tells the end of, it is not known how far they computed after their last system call."
            )?;
        }
        if processes.iter().any(|process| matches!(process.end, ProcessEnd::Incomplete { .. })) {
            writeln!(
                f,
                "\nWhere the light part ended, the process went on and was not recorded; without --light, all of it is."
            )?;
        }
        let log = quoted(&[self.path.display().to_string()]);
        writeln!(f, "\nnext:")?;
        writeln!(
            f,
            "  bugnet expand {log}\n      make the log with its instructions now; what needs it makes it otherwise"
        )?;
        match &meta.ending {
            bugnet_format::folder::Ending::Exited { status: 0 } => Ok(()),
            _ => writeln!(f, "  bugnet why {log}\n      what led to this end"),
        }
    }
}
