//! What of light logs is kept where only the last stretch is: from an epoch on, whose memory is there, what came after it.

use super::groups::{self, Kept, Mark, Member, begin_with};
use super::layout as l;
use super::parts::{find, memory, read};
use super::{End, How, LIGHT_FOLDER, Record, part_header, record};
use crate::types::ProcessId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Logs of processes that have failed are kept: so many, the last ones.
const FAILED: usize = 20;

/// Drops what is not kept, again and again.
#[derive(Debug, Default)]
pub struct Ring {
    /// Processes that have ended: when that was seen, in nanoseconds since the Unix epoch, and whether they have failed.
    ended: HashMap<ProcessId, (u64, bool)>,
}

/// What there is of a process.
struct Own {
    how: How,
    from: ProcessId,
    /// Where in the other one's log the call is that made it.
    call: usize,
    began: u64,
    parts: BTreeMap<u64, PathBuf>,
    lives: bool,
    /// The group of processes that it shares memory with, and the parts that it has begun for epochs.
    group: Option<ProcessId>,
    marks: Vec<Mark>,
}

impl Own {
    /// Whether its log can be made without that of another process.
    fn is_alone(&self) -> bool {
        self.how != How::Forked || self.epochs().next().is_some()
    }

    /// The parts with which epochs begin whose memory is there.
    fn epochs(&self) -> impl DoubleEndedIterator<Item = &Mark> {
        self.marks.iter().filter(|mark| mark.has_memory)
    }

    /// Drops what comes before a part.
    fn drop_before(&self, log: &Path, process: ProcessId, first: u64) -> io::Result<()> {
        // How a program began stands in its first part.
        let is_old = |part: &u64| *part < first && (*part > 0 || self.how == How::Forked);
        for (part, path) in self.parts.iter().filter(|(part, _)| is_old(part)) {
            remove(path)?;
            remove(&memory(log, process, *part)[0])?;
        }
        Ok(())
    }
}

/// Whether the process whose last part this is has ended by a signal, or with a status other than 0.
fn has_failed(path: &Path) -> io::Result<bool> {
    let (_, bytes) = read(path)?;
    let (mut at, mut failed) = (l::HEADER, true);
    while let Ok(Some((found, next))) = record(&bytes, at) {
        if let Record::End(end) = found {
            failed = match end {
                End::Exits(call) => call.args[0] as u8 != 0,
                End::Executes(_) | End::GoesOn { .. } => false,
                End::Dies(_) | End::DiesInCall { .. } | End::Killed { .. } => true,
            };
        }
        at = next;
    }
    Ok(failed)
}

impl Ring {
    fn read(log: &Path) -> io::Result<BTreeMap<ProcessId, Own>> {
        let mut all = BTreeMap::new();
        for (process, parts) in find(log)? {
            let Some(Ok(header)) = parts.values().next().map(|path| part_header(path)) else { continue };
            let (how, from, call, began) = (header.how, header.from, header.call as usize, header.began);
            // The last part may be being begun.
            let group = parts.values().rev().find_map(|path| part_header(path).ok()).and_then(|last| last.group);
            let marks = groups::marks(log, process, parts.iter().map(|(part, path)| (*part, path.as_path())))?;
            let lives = Path::new("/proc").join(process.pid.to_string()).exists();
            all.insert(process, Own { how, from, call, began, parts, lives, group, marks });
        }
        Ok(all)
    }

    /// Drops, of each process, what came before its last so many epochs and began before a time (nanoseconds since the Unix epoch); and all of one that ended well before
    /// that, unless another one's log needs it.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn drop_old(&mut self, log: &Path, count: usize, time: u64) -> io::Result<()> {
        let mut all = Self::read(log)?;
        self.drop_ended(log, &mut all, time)?;
        drop_of_groups(log, &all, count, time)?;
        let mut needed: HashMap<ProcessId, usize> = HashMap::new();
        // What members of a group need of each other, that one keeps.
        for own in all.values().filter(|own| !own.is_alone() && own.group.is_none()) {
            let call = needed.entry(own.from).or_insert(usize::MAX);
            *call = own.call.min(*call);
        }
        for (process, own) in all.iter().filter(|(_, own)| own.group.is_none()) {
            let needed = needed.get(process).copied().unwrap_or(usize::MAX);
            let old = |mark: &&Mark| mark.began <= time && l::HEADER + mark.before <= needed;
            if let Some(last) = own.epochs().rev().skip(count.saturating_sub(1)).find(old) {
                own.drop_before(log, *process, last.part)?;
            }
        }
        Ok(())
    }

    /// Drops the logs of processes that ended well before a time.
    fn drop_ended(&mut self, log: &Path, all: &mut BTreeMap<ProcessId, Own>, time: u64) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        for (process, own) in all.iter().filter(|(_, own)| !own.lives) {
            if let Some(last) = own.parts.values().next_back()
                && !self.ended.contains_key(process)
            {
                self.ended.insert(*process, (now, has_failed(last)?));
            }
        }
        let mut failed: Vec<_> = self.ended.iter().filter(|(_, (_, failed))| *failed).collect();
        failed.sort_unstable_by_key(|(process, (when, _))| (*when, **process));
        let spared: HashSet<ProcessId> = failed.iter().rev().take(FAILED).map(|(process, _)| **process).collect();
        let first = all.values().map(|own| own.began).min();
        let is_old = |all: &BTreeMap<ProcessId, Own>, (process, own): &(&ProcessId, &Own)| {
            let is_alone = !own.lives && own.group.is_none() && Some(own.began) != first;
            let ended = self.ended.get(process).filter(|_| is_alone);
            ended.is_some_and(|(when, _)| *when <= time)
                && !spared.contains(process)
                && !all.values().any(|other| other.from == **process && other.how != How::Started)
        };
        // With the last one in a line of programs and forks, those before it go.
        loop {
            let old: Vec<ProcessId> = all.iter().filter(|one| is_old(all, one)).map(|(process, _)| *process).collect();
            if old.is_empty() {
                return Ok(());
            }
            for (process, own) in old.into_iter().filter_map(|process| Some((process, all.remove(&process)?))) {
                for (part, path) in own.parts {
                    let [list, pages] = memory(log, process, part);
                    [path, list, pages].iter().try_for_each(|path| remove(path))?;
                }
            }
        }
    }
}

/// Drops, of processes that share memory, what came before the last so many epochs with which they can begin together, and began before a time. Of one that has done nothing since, that is
/// all, if it has ended.
fn drop_of_groups(log: &Path, all: &BTreeMap<ProcessId, Own>, count: usize, time: u64) -> io::Result<()> {
    let mut kept = Kept::read(log)?;
    let of: BTreeSet<ProcessId> = all.values().filter_map(|own| own.group).collect();
    for group in of {
        let mut own: Vec<(&ProcessId, &Own)> = all.iter().filter(|(_, own)| own.group == Some(group)).collect();
        own.sort_by_key(|(process, own)| (own.began, **process));
        let member = |(process, own): &(&ProcessId, &Own)| {
            let has_start = own.how == How::Forked && own.parts.contains_key(&0);
            Member { process: **process, forked: has_start.then_some((own.from, own.call)), marks: own.marks.clone() }
        };
        let members: Vec<Member> = own.iter().map(member).collect();
        let asked: BTreeMap<u64, u64> =
            members.iter().flat_map(|one| &one.marks).rev().map(|mark| (mark.asked, mark.began)).collect();
        let common =
            asked.iter().rev().filter_map(|(asked, began)| Some((*asked, *began, begin_with(&members, *asked)?)));
        let is_old = |(asked, began, _): &(u64, u64, HashMap<ProcessId, u64>)| {
            *began <= time && kept.from.get(&group).is_none_or(|before| before < asked)
        };
        let last = common.skip(count.saturating_sub(1)).find(is_old);
        let Some((asked, _, parts)) = last else { continue };
        kept.from.insert(group, asked);
        // What a process was that has executed another program, that one's log needs.
        let is_needed = |process: &ProcessId| {
            all.values().any(|other| other.from == *process && other.group != Some(group) && other.how != How::Started)
        };
        let is_over =
            |(process, own): &&(&ProcessId, &Own)| !own.lives && !parts.contains_key(*process) && !is_needed(process);
        // Of forks, not even how their programs began is kept.
        let gone = own.iter().filter(is_over).filter(|(_, own)| own.how != How::Forked);
        kept.gone.extend(gone.map(|(process, _)| **process));
        kept.write(log)?;
        for (process, own) in own.iter().filter(is_over) {
            own.drop_before(log, **process, u64::MAX)?;
            remove(&memory(log, **process, 0)[1])?;
        }
        for (process, own) in &own {
            if let Some(first) = parts.get(*process) {
                own.drop_before(log, **process, *first)?;
            }
        }
    }
    Ok(())
}

/// Whether the memory of an epoch is still being written: until it is, the list has the id of the process that does so, and another name.
#[must_use]
pub fn is_written(log: &Path) -> bool {
    let Ok(entries) = fs::read_dir(log.join(LIGHT_FOLDER)) else { return false };
    let is_unfinished = |name: &str| name.ends_with(&format!("{}{}", l::SNAPSHOT, l::UNFINISHED));
    let unfinished = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_unfinished));
    let writer = |path: PathBuf| Some(u64::from_le_bytes(fs::read(path).ok()?.get(..8)?.try_into().ok()?));
    unfinished
        .filter_map(|entry| writer(entry.path()))
        .any(|pid| pid == l::MEMORY_MAGIC || Path::new("/proc").join(pid.to_string()).exists())
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Bytes that all files of epochs' memory have on disk.
///
/// # Errors
/// The folder cannot be read.
pub fn size_of_memory(log: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(log.join(LIGHT_FOLDER))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(l::SNAPSHOT) || name.ends_with(l::PAGES)) {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
