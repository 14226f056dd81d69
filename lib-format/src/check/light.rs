//! The rules of light logs.

use super::{Invariant, Report};
use crate::error::{FormatError, Result};
use crate::light::{self, Beginning, FileKey, Header, How, LIGHT_FILES, LIGHT_FOLDER, Parts, Record, layout};
use crate::types::ProcessId;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

/// The number of `mmap`.
const MMAP: u64 = 9;

/// Where in a light log a record may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// `PROGRAM`, or what a fork begins with.
    First,
    /// `MAP`, or `START`.
    Start,
    /// What happens to the program.
    Any,
    /// The call that maps the file before it.
    Mapping,
    /// The signal whose moment is before it, or the end by that, or another thread's turn.
    Signal,
    /// The first thread of an epoch.
    Thread,
    /// Another one, or what happens to the program.
    Threads,
    /// Nothing.
    Nothing,
}

/// What comes behind a record; none where it may not stand there.
fn behind(expected: Expected, record: &Record<'_>) -> Option<Expected> {
    let expected = match (expected, record) {
        (Expected::Thread | Expected::Threads, Record::Thread(_)) => return Some(Expected::Threads),
        (Expected::Threads, _) => Expected::Any,
        _ => expected,
    };
    match (expected, record) {
        (Expected::Any, Record::Epoch { .. }) => Some(Expected::Thread),
        (Expected::First, Record::Program(_)) => Some(Expected::Start),
        (Expected::Start, Record::Map { .. }) => Some(Expected::Start),
        (Expected::Start, Record::Start { .. }) => Some(Expected::Any),
        (Expected::Any, Record::File { .. }) => Some(Expected::Mapping),
        (Expected::Any | Expected::Mapping, Record::Call(call)) => {
            let maps = call.number == MMAP;
            (expected == Expected::Any || maps).then_some(Expected::Any)
        }
        (Expected::Any, Record::Special { .. }) => Some(Expected::Any),
        (Expected::Any, Record::Moment { .. }) => Some(Expected::Signal),
        (Expected::Any | Expected::Signal, Record::Signal { .. } | Record::Turn { .. }) => Some(Expected::Any),
        (Expected::Any | Expected::Signal, Record::End(_)) => Some(Expected::Nothing),
        _ => None,
    }
}

/// Checks the light log of each process that `is_selected`, and the files that it names.
///
/// # Errors
/// The folder cannot be read; what is wrong with a log is in the report.
pub fn check_light(log: &Path, report: &mut Report, is_selected: impl Fn(ProcessId) -> bool) -> Result<()> {
    let all = Parts::all(log).map_err(FormatError::io(log))?;
    let mut made = HashMap::new();
    for parts in all.iter().filter(|parts| is_selected(parts.header.process)) {
        check_parts(log, parts, report);
        let Header { how, from, process, call, .. } = parts.header;
        let before = all.iter().find(|other| other.header.process == from);
        let is_there = match how {
            How::Started => true,
            How::Forked => before.is_some_and(|before| {
                before.is_left_out
                    || made
                        .entry(from)
                        .or_insert_with(|| Made::of(log, before))
                        .has(call as usize, i64::from(process.pid.0))
            }),
            How::Executed | How::Spawned => before.is_some(),
        };
        if !is_there {
            let what = format!("process {from} has no call at {call} that makes {process}");
            report.error(Invariant::LightOrigin, &parts.paths[0], layout::FROM as u64, what);
        }
    }
    Ok(())
}

/// What the calls of a process gave, by their offsets in its log.
struct Made {
    results: HashMap<usize, i64>,
    /// Where the log begins, if not where the process did.
    begin: Option<usize>,
    /// Where the log ends; none where it cannot be read so far, which is told where it is looked at.
    end: Option<usize>,
}

impl Made {
    fn of(log: &Path, parts: &Parts) -> Self {
        let (mut results, mut last) = (HashMap::new(), 0);
        // What cannot be read is told where it is looked at.
        let begin = parts.beginning(log).ok().flatten().map(|beginning| beginning.before + layout::HEADER);
        let read = parts.each(|bytes| {
            let mut at = layout::HEADER;
            let before = Header::read(bytes, bytes.len() as u64).map_err(io::Error::other)?.before;
            while let Some((record, next)) = light::record(bytes, at).map_err(io::Error::other)? {
                if let Record::Call(call) = record {
                    results.insert(before + at, call.result);
                }
                at = next;
            }
            last = before + bytes.len();
            Ok(())
        });
        Self { results, begin, end: read.is_ok().then_some(last) }
    }

    /// Whether the call there gave that; or the log ends there, as its process was killed, or begins behind it, as what was before is gone.
    fn has(&self, at: usize, result: i64) -> bool {
        self.begin.is_some_and(|begin| at < begin)
            || self.results.get(&at).map_or(self.end.is_none_or(|end| end == at), |found| *found == result)
    }
}

fn check_parts(log: &Path, parts: &Parts, report: &mut Report) {
    let mut expected = if parts.header.how == How::Forked { Expected::Any } else { Expected::First };
    let mut files: Vec<FileKey> = Vec::new();
    let mut number = 0;
    let read = parts.each(|bytes| {
        let path = &parts.paths[number];
        number += 1;
        let mut at = layout::HEADER;
        loop {
            match light::record(bytes, at) {
                Ok(None) => return Ok(()),
                Ok(Some((record, next))) => {
                    report.captured += 1;
                    match behind(expected, &record) {
                        Some(then) => expected = then,
                        None => report.error(
                            Invariant::LightOrder,
                            path,
                            at as u64,
                            format!("{} stands there", name(&record)),
                        ),
                    }
                    if let Record::File { key, .. } | Record::Map { file: Some((key, _)), .. } = record
                        && !files.contains(&key)
                    {
                        files.push(key);
                    }
                    at = next;
                }
                Err(damaged) => {
                    report.error(Invariant::LightRecord, path, damaged.at as u64, damaged.what);
                    return Ok(());
                }
            }
        }
    });
    match parts.beginning(log) {
        Ok(Some(beginning)) => check_memory(&beginning, &mut files, report),
        Ok(None) => {}
        Err(error) => report.error(Invariant::LightPart, &parts.paths[0], 0, error.to_string()),
    }
    let path = &parts.paths[number.min(parts.paths.len() - 1)];
    if let Err(error) = read {
        report.error(Invariant::LightPart, path, 0, error.to_string());
    }
    for key in files {
        let file = log.join(LIGHT_FOLDER).join(LIGHT_FILES).join(key.name());
        let [_, _, size, _] = key.0;
        match fs::metadata(&file) {
            Ok(found) if found.len() == size => {}
            Ok(found) => {
                report.error(Invariant::LightFile, &file, 0, format!("it has {} bytes instead of {size}", found.len()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                report.error(Invariant::LightFile, &file, 0, "there is no such file");
            }
            Err(error) => report.error(Invariant::LightFile, &file, 0, error.to_string()),
        }
    }
}

/// Checks the memory with which a log begins, and adds the files that it names.
fn check_memory(beginning: &Beginning, files: &mut Vec<FileKey>, report: &mut Report) {
    let [list, pages] = &beginning.memory;
    let mut wrong = |at: usize, what: String| report.error(Invariant::LightMemory, list, at as u64, what);
    let bytes = match fs::read(list) {
        Ok(bytes) => bytes,
        Err(error) => return wrong(0, error.to_string()),
    };
    match light::regions(&bytes) {
        Ok(regions) => {
            for (key, _) in regions.into_iter().filter_map(|region| region.file) {
                if !files.contains(&key) {
                    files.push(key);
                }
            }
        }
        Err(damaged) => return wrong(damaged.at, damaged.what.to_owned()),
    }
    let has = fs::metadata(pages).map_or(0, |found| found.len() / layout::PAGE as u64);
    match light::pages(&bytes) {
        Ok(numbers) => {
            if let Some(missing) = numbers.into_iter().find(|number| *number >= has) {
                wrong(0, format!("page {missing} is not in {}", pages.display()));
            }
        }
        Err(damaged) => wrong(damaged.at, damaged.what.to_owned()),
    }
}

fn name(record: &Record<'_>) -> &'static str {
    match record {
        Record::Program(_) => "PROGRAM",
        Record::Map { .. } => "MAP",
        Record::Start { .. } => "START",
        Record::File { .. } => "FILE",
        Record::Call(_) => "CALL",
        Record::Special { .. } => "SPECIAL",
        Record::Moment { .. } => "MOMENT",
        Record::Signal { .. } => "SIGNAL",
        Record::Turn { .. } => "TURN",
        Record::Epoch { .. } => "EPOCH",
        Record::Thread(_) => "THREAD",
        Record::End(_) => "END",
    }
}
