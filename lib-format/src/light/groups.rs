//! Processes that share memory begin epochs together: each as soon as it does anything after the first one has begun. So their logs can be made from an epoch on, together, if each that
//! has done anything since has begun it.

use super::layout as l;
use super::parts::{Parts, memory, part_header};
use super::{How, LIGHT_FOLDER};
use crate::types::ProcessId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    /// Bytes of records in the parts before.
    pub before: usize,
}

/// A process of a group.
pub(super) struct Member {
    pub process: ProcessId,
    /// Whether it is a fork whose log is there from its beginning on; of which process, and where in that one's log the call is.
    pub forked: Option<(ProcessId, usize)>,
    pub marks: Vec<Mark>,
}

/// The marks of these parts of a process, in their order.
pub(super) fn marks<'a>(
    log: &Path,
    process: ProcessId,
    parts: impl Iterator<Item = (u64, &'a Path)>,
) -> io::Result<Vec<Mark>> {
    let mut marks = Vec::new();
    for (part, path) in parts {
        marks.extend(match part_header(path) {
            Ok(header) if header.asked == 0 => None,
            Ok(header) => {
                let has_memory = memory(log, process, part)[0].exists();
                let (began, before) = (header.part_began, header.before);
                Some(Mark { asked: header.asked, part, has_memory, began, before })
            }
            // It is being begun, and for what, nobody knows yet.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
                Some(Mark { asked: u64::MAX, part, has_memory: false, began: 0, before: 0 })
            }
            Err(error) => return Err(error),
        });
    }
    Ok(marks)
}

/// With which part each member of a group begins, if the group does with an epoch: with its own first one from there on, or with 0, where it began itself, if the call is there that forked it. One that
/// has done nothing since has none. None where a member could not begin the epoch. A process comes before those that it has forked.
pub(super) fn begin_with(members: &[Member], asked: u64) -> Option<HashMap<ProcessId, u64>> {
    // And how many bytes of records come before.
    let mut begun: HashMap<ProcessId, (u64, usize)> = HashMap::new();
    for member in members {
        let parent = member.forked.and_then(|(from, call)| begun.get(&from).map(|(_, before)| (before, call)));
        if parent.is_some_and(|(before, call)| before + l::HEADER <= call) {
            begun.insert(member.process, (0, 0));
        } else if let Some(mark) = member.marks.iter().find(|mark| mark.asked >= asked) {
            begun.insert(member.process, mark.has_memory.then_some((mark.part, mark.before))?);
        }
    }
    Some(begun.into_iter().map(|(process, (part, _))| (process, part)).collect())
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
            let begun = members(log, logs, group)?;
            from.extend(begun.iter().filter_map(|one| one.marks.first()).map(|mark| (group, mark.asked)).max());
        }
    }
    for (group, from) in from {
        let all = members(log, logs, group)?;
        let asked: BTreeSet<u64> = all.iter().flat_map(|one| &one.marks).map(|mark| mark.asked).chain([from]).collect();
        let common = asked.into_iter().filter(|asked| *asked >= from).find_map(|asked| begin_with(&all, asked));
        begin(log, logs, group, &common.unwrap_or_default());
    }
    Ok(())
}

/// The members of a group, in the order in which they began.
fn members(log: &Path, logs: &[Parts], group: ProcessId) -> io::Result<Vec<Member>> {
    let of = |one: &Parts| {
        let has_start = one.header.how == How::Forked && one.beginning(log)?.is_none();
        let forked = has_start.then_some((one.header.from, one.header.call as usize));
        Ok(Member { process: one.header.process, forked, marks: one.marks(log)? })
    };
    logs.iter().filter(|one| one.group == Some(group) && !one.is_left_out).map(of).collect()
}

/// Has the members of a group begin with these parts; those that have none are left out.
fn begin(log: &Path, logs: &mut [Parts], group: ProcessId, parts: &HashMap<ProcessId, u64>) {
    for one in logs.iter_mut().filter(|one| one.group == Some(group) && !one.is_left_out) {
        match parts.get(&one.header.process) {
            Some(0) => {}
            Some(part) => match one.late(log, *part) {
                Some(late) => *one = late,
                None => one.is_left_out = true,
            },
            None => one.is_left_out = true,
        }
    }
}

/// Has the group of a process begin with the epoch that begins with a part of that one; whether it can.
///
/// # Errors
/// A part cannot be read.
pub fn begin_together(log: &Path, logs: &mut [Parts], process: ProcessId, part: u64) -> io::Result<bool> {
    let Some(one) = logs.iter().find(|one| one.header.process == process) else { return Ok(false) };
    let Some(group) = one.group else { return Ok(false) };
    let Some(mark) = one.marks(log)?.into_iter().find(|mark| mark.part == part) else { return Ok(false) };
    let common = begin_with(&members(log, logs, group)?, mark.asked);
    common.iter().for_each(|parts| begin(log, logs, group, parts));
    Ok(common.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Pid;

    fn member(pid: u32, forked: Option<(u32, usize)>, all: &[(u64, bool)]) -> Member {
        let id = |pid: u32| ProcessId::from(Pid(pid));
        let mark = |(part, (asked, has_memory)): (u64, &(u64, bool))| {
            let (asked, has_memory) = (*asked, *has_memory);
            Mark { asked, part, has_memory, began: 0, before: part as usize * 1000 }
        };
        let forked = forked.map(|(from, call)| (id(from), call));
        Member { process: id(pid), forked, marks: (1..).zip(all).map(mark).collect() }
    }

    #[test]
    fn a_group_begins_where_each_that_goes_on_has_its_memory() {
        let all = [
            member(1, None, &[(1, true), (3, true), (4, true)]),
            member(2, None, &[(2, false), (4, true)]),
            member(3, None, &[(1, true)]),
            // Forked in the second part of the first one; which could not begin an epoch.
            member(4, Some((1, 2500)), &[(3, false), (4, true)]),
        ];
        let begun = |asked| {
            let begun = begin_with(&all, asked)?;
            Some([1, 2, 3, 4].map(|pid| begun.get(&ProcessId::from(Pid(pid))).copied()))
        };
        assert_eq!([begun(1), begun(2)], [None, None]);
        assert_eq!(begun(3), Some([Some(2), Some(2), None, Some(0)]));
        assert_eq!(begun(4), Some([Some(3), Some(2), None, Some(2)]));
        assert_eq!(begun(5), Some([None; 4]));
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
