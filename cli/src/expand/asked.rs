//! What is asked of a light log, and of which of its programs the log is made.

use super::EXPANDED;
use crate::light::{self, Light};
use bugnet_format::light::{How, LIGHT_FOLDER, Parts, begin_together};
use bugnet_format::types::ProcessId;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// Of which processes a command needs the log.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// All.
    All,
    /// All with this id, or with a program of this name.
    Some(&'a str),
    /// One: the last of those, or the one that a command takes by itself.
    One(Option<&'a str>),
    /// The same, and of it, only so much.
    End(Option<&'a str>, From),
}

/// From where on a log is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The last epoch in which something happened.
    Last,
    /// The one that begins with this part.
    Part(u64),
}

/// So many calls an epoch has in which something happened.
const SOMETHING: usize = 100;

/// The log's end, as far as it is asked, and if it can begin there; all of it, where no epoch lies between.
fn late(
    log: &Path,
    one: &Parts,
    from: From,
    mut can_begin: impl FnMut(&Parts, u64) -> io::Result<bool>,
) -> io::Result<Option<Parts>> {
    let mut epochs: Vec<u64> = one.epochs(log).collect();
    let begins = one.begins(log)?;
    epochs.retain(|epoch| *epoch > begins.max(1));
    for epoch in epochs.into_iter().rev() {
        let Some(late) = one.late(log, epoch) else { continue };
        let is_it = match from {
            From::Part(part) => epoch <= part,
            From::Last => light::has_calls(&late, SOMETHING)?,
        };
        if is_it && can_begin(&late, epoch)? {
            return Ok(Some(late));
        }
    }
    Ok(None)
}

impl Asked<'_> {
    /// These processes; none for all.
    pub(super) fn of(self, light: &Light) -> Option<Vec<ProcessId>> {
        match self {
            Self::All => None,
            Self::Some(name) => Some(light.select(name)),
            Self::One(name) | Self::End(name, _) => Some(light.meant(name).into_iter().collect()),
        }
    }
}

/// If only the end of a process's log is asked, that takes the place of all of it; and so do the ends of those that it shares memory with.
pub(super) fn shorten(log: &Path, all: &mut [Parts], chosen: Option<&[ProcessId]>, asked: Asked<'_>) -> io::Result<()> {
    let (Asked::End(_, from), Some([id])) = (asked, chosen) else { return Ok(()) };
    let Some(at) = all.iter().position(|one| one.header.process == *id) else { return Ok(()) };
    let one = all[at].clone();
    let end = late(log, &one, from, |end, epoch| Ok(end.group.is_none() || begin_together(log, all, *id, epoch)?))?;
    if let Some(end) = end.filter(|end| end.group.is_none()) {
        all[at] = end;
    }
    Ok(())
}

/// From which part on there is a process's log.
pub(super) fn begins(log: &Path, all: &[Parts], process: ProcessId) -> u64 {
    // What cannot be read is told where it is made.
    let one = all.iter().find(|one| one.header.process == process);
    one.and_then(|one| one.begins(log).ok()).unwrap_or(0)
}

/// A program whose log is made.
pub(super) struct Made {
    pub(super) process: ProcessId,
    /// From which part on.
    pub(super) from: u64,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, from } = self;
        if *from == 0 { write!(f, "{process}") } else { write!(f, "{process} {from}") }
    }
}

impl Made {
    fn parse(line: &str) -> Option<Self> {
        let (process, from) = line.split_once(' ').unwrap_or((line, "0"));
        Some(Self { process: process.parse().ok()?, from: from.parse().ok()? })
    }
}

/// The program with whose log that of a process is made: its own, or that of whom it was forked by.
pub(super) fn root(log: &Path, all: &[Parts], id: ProcessId) -> ProcessId {
    origin(all, id, |one| is_root(log, one))
}

/// Whether the log of a process is made by itself: that of a program that was executed, or that of a fork of which only the end is there.
pub(super) fn is_root(log: &Path, one: &Parts) -> bool {
    // What cannot be read is told where it is made.
    one.header.how != How::Forked || one.beginning(log).is_ok_and(|beginning| beginning.is_some())
}

/// The group of a process that begins with other ones, all of them at an epoch.
pub(super) fn together(log: &Path, one: &Parts) -> Option<ProcessId> {
    one.group.filter(|_| !one.is_left_out && one.beginning(log).is_ok_and(|beginning| beginning.is_some()))
}

/// The process, or the first one before it in the line of forks of which this is true.
pub(super) fn origin(all: &[Parts], mut id: ProcessId, is_it: impl Fn(&Parts) -> bool) -> ProcessId {
    // No longer than there are processes: what headers say may lead round.
    for _ in all {
        match all.iter().find(|one| one.header.process == id) {
            Some(one) if !is_it(one) => id = one.header.from,
            _ => break,
        }
    }
    id
}

/// The programs whose logs are made.
pub(super) fn made(log: &Path) -> io::Result<Vec<Made>> {
    let text = match fs::read_to_string(log.join(LIGHT_FOLDER).join(EXPANDED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    Ok(text.lines().filter_map(Made::parse).collect())
}

/// The programs of these processes, or of all, whose logs are not made.
pub(super) fn missing<'a>(
    log: &Path,
    all: &'a [Parts],
    made: &[Made],
    chosen: Option<Vec<ProcessId>>,
) -> Vec<&'a Parts> {
    let chosen = chosen.map(|chosen| chosen.into_iter().map(|id| root(log, all, id)).collect::<Vec<_>>());
    let is_missing = |one: &Parts| {
        let process = one.header.process;
        let is_wanted = chosen.as_ref().is_none_or(|chosen| chosen.contains(&process));
        let is_made = || made.iter().any(|made| made.process == process && made.from <= begins(log, all, process));
        !one.is_left_out && is_wanted && is_root(log, one) && !is_made()
    };
    // The logs of those that begin together are made together.
    let is_with = |one: &Parts| {
        let with = together(log, one);
        with.is_some() && all.iter().any(|other| together(log, other) == with && is_missing(other))
    };
    all.iter().filter(|one| is_missing(one) || is_with(one)).collect()
}

/// Whether the log of these processes of a light one, or of all, is made; or it is no light one.
fn is_made_of(log: &Path, asked: Asked<'_>, chosen: Option<Vec<ProcessId>>) -> bool {
    if !log.join(LIGHT_FOLDER).is_dir() {
        return true;
    }
    let (Ok(made), Ok(mut all)) = (made(log), Parts::all(log)) else { return false };
    if shorten(log, &mut all, chosen.as_deref(), asked).is_err() {
        return false;
    }
    missing(log, &all, &made, chosen).is_empty()
}

/// Whether the log of a light one is made as a whole; or it is no light one.
pub fn is_made(log: &Path) -> bool {
    is_made_of(log, Asked::All, None)
}

/// Whether of a light log what is asked is made.
pub fn has(light: &Light, asked: Asked<'_>) -> bool {
    is_made_of(light.path(), asked, asked.of(light))
}
