//! Processes that share memory begin epochs together: each as soon as it does anything after the first one has begun. So their logs can be made from an epoch on, together, if each that
//! has done anything since has begun it.

use super::layout as l;
use super::parts::{Parts, memory, part_header};
use super::{How, LIGHT_FOLDER};
use crate::types::ProcessId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// File, in the folder of light logs, that says what is kept of groups.
pub const KEPT: &str = "kept";

/// What is kept of groups: a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// From which epochs on, by what the clock said: `from <group> <number>`.
    pub from: BTreeMap<ProcessId, u64>,
    /// Of which processes there is nothing but how their programs began: `gone <process>`.
    pub gone: BTreeSet<ProcessId>,
}

/// A part that a process has begun for an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// What the clock said.
    pub asked: u64,
    pub part: u64,
    /// Whether it could: the list of its memory is there.
    pub has_memory: bool,
    /// When: nanoseconds since the Unix epoch.
    pub began: u64,
}

/// The marks of these parts of a process, in their order.
pub(super) fn marks<'a>(
    log: &Path,
    process: ProcessId,
    parts: impl Iterator<Item = (u64, &'a Path)>,
) -> io::Result<Vec<Mark>> {
    let mut marks = Vec::new();
    for (part, path) in parts {
        let header = part_header(path)?;
        if header.asked > 0 {
            let has_memory = memory(log, process, part)[0].exists();
            marks.push(Mark { asked: header.asked, part, has_memory, began: header.part_began });
        }
    }
    Ok(marks)
}

/// Where a process begins, if its group does with an epoch: the first one that it has begun from there on; none if it has done nothing since.
pub(super) fn first(marks: &[Mark], asked: u64) -> Option<Mark> {
    marks.iter().copied().find(|mark| mark.asked >= asked)
}

/// Whether a group with these marks can begin with an epoch.
pub(super) fn is_common<'a>(mut members: impl Iterator<Item = &'a [Mark]>, asked: u64) -> bool {
    members.all(|marks| first(marks, asked).is_none_or(|mark| mark.has_memory))
}

impl Kept {
    /// Reads it; nothing where nothing is gone.
    pub fn read(log: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(log.join(LIGHT_FOLDER).join(KEPT)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        let mut kept = Self::default();
        for line in text.lines() {
            match *line.split(' ').collect::<Vec<_>>() {
                ["from", group, asked] => {
                    kept.from.extend(group.parse::<ProcessId>().ok().zip(asked.parse::<u64>().ok()))
                }
                ["gone", process] => kept.gone.extend(process.parse::<ProcessId>()),
                _ => {}
            }
        }
        Ok(kept)
    }

    /// Writes it, before what came earlier goes.
    pub fn write(&self, log: &Path) -> io::Result<()> {
        let path = log.join(LIGHT_FOLDER).join(KEPT);
        let new = path.with_extension("new");
        let from = self.from.iter().map(|(group, asked)| format!("from {group} {asked}\n"));
        let text: String = from.chain(self.gone.iter().map(|process| format!("gone {process}\n"))).collect();
        fs::write(&new, text)?;
        fs::rename(new, path)
    }
}

/// Has the members of groups of which some is gone begin with an epoch together: the first one with which they can. Those that have done nothing since are left out.
pub(super) fn align(log: &Path, logs: &mut [Parts]) -> io::Result<()> {
    let kept = Kept::read(log)?;
    for one in logs.iter_mut().filter(|one| kept.gone.contains(&one.header.process)) {
        one.is_left_out = true;
    }
    let mut from = kept.from;
    for one in logs.iter().filter(|one| one.header.how == How::Forked && !one.is_left_out) {
        // Of one that was forked within what is there, that would be, too.
        if let Some(group) = one.group
            && !from.contains_key(&group)
            && one.beginning(log)?.is_some()
        {
            let begun: Vec<Vec<Mark>> = members(log, logs, group)?;
            from.extend(begun.iter().filter_map(|marks| marks.first()).map(|mark| (group, mark.asked)).max());
        }
    }
    for (group, from) in from {
        let all = members(log, logs, group)?;
        let asked: BTreeSet<u64> = all.iter().flatten().map(|mark| mark.asked).chain([from]).collect();
        let common = |asked: &u64| *asked >= from && is_common(all.iter().map(Vec::as_slice), *asked);
        let first = asked.into_iter().find(common);
        begin(log, logs, group, first.unwrap_or(u64::MAX))?;
    }
    Ok(())
}

/// The marks of a group's members.
fn members(log: &Path, logs: &[Parts], group: ProcessId) -> io::Result<Vec<Vec<Mark>>> {
    logs.iter().filter(|one| one.group == Some(group)).map(|one| one.marks(log)).collect()
}

/// Has the members of a group begin with an epoch: those that have done anything since.
fn begin(log: &Path, logs: &mut [Parts], group: ProcessId, asked: u64) -> io::Result<()> {
    for at in 0..logs.len() {
        let (before, [one, ..]) = logs.split_at_mut(at) else { continue };
        if one.group != Some(group) || one.is_left_out {
            continue;
        }
        let parent = before.iter().find(|other| other.header.process == one.header.from && !other.is_left_out);
        if let Some(parent) = parent
            && one.header.how == How::Forked
            && one.beginning(log)?.is_none()
            && parent.beginning(log)?.is_none_or(|begun| begun.before + l::HEADER <= one.header.call as usize)
        {
            continue;
        }
        match first(&one.marks(log)?, asked).and_then(|mark| one.late(log, mark.part)) {
            Some(late) => *one = late,
            None => one.is_left_out = true,
        }
    }
    Ok(())
}

/// Has the group of a process begin with the epoch that begins with a part of that one; whether it can.
///
/// # Errors
/// A part cannot be read.
pub fn begin_together(log: &Path, logs: &mut [Parts], process: ProcessId, part: u64) -> io::Result<bool> {
    let Some(one) = logs.iter().find(|one| one.header.process == process) else { return Ok(false) };
    let Some(group) = one.group else { return Ok(false) };
    let Some(mark) = one.marks(log)?.into_iter().find(|mark| mark.part == part) else { return Ok(false) };
    let all = members(log, logs, group)?;
    let can = is_common(all.iter().map(Vec::as_slice), mark.asked);
    if can {
        begin(log, logs, group, mark.asked)?;
    }
    Ok(can)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(all: &[(u64, bool)]) -> Vec<Mark> {
        let mark = |(part, (asked, has_memory)): (u64, &(u64, bool))| Mark {
            asked: *asked,
            part,
            has_memory: *has_memory,
            began: 0,
        };
        (1..).zip(all).map(mark).collect()
    }

    #[test]
    fn a_group_begins_where_each_that_goes_on_has_its_memory() {
        let all = [marks(&[(1, true), (3, true), (4, true)]), marks(&[(2, false), (4, true)]), marks(&[(1, true)])];
        let common = |asked| is_common(all.iter().map(Vec::as_slice), asked);
        assert_eq!([1, 2, 3, 4, 5].map(common), [false, false, true, true, true]);
        assert_eq!(first(&all[1], 3).map(|mark| mark.part), Some(2));
        assert_eq!(first(&all[2], 3), None);
    }

    #[test]
    fn what_is_kept_of_groups_is_read_as_it_was_written() {
        let log = tempfile::tempdir().unwrap();
        fs::create_dir(log.path().join(LIGHT_FOLDER)).unwrap();
        assert_eq!(Kept::read(log.path()).unwrap(), Kept::default());
        let from = BTreeMap::from([("7".parse().unwrap(), 3), ("9.2".parse().unwrap(), 12)]);
        let kept = Kept { from, gone: BTreeSet::from(["7".parse().unwrap()]) };
        kept.write(log.path()).unwrap();
        assert_eq!(Kept::read(log.path()).unwrap(), kept);
    }
}
