//! What of light logs is kept where only the last stretch is: from an epoch on, whose memory is there, what came after it.

use super::layout as l;
use super::parts::{find, memory};
use super::{End, How, LIGHT_FOLDER, Record, part_header, record};
use crate::types::ProcessId;
use std::collections::{BTreeMap, HashMap, HashSet};
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
    /// Parts with which epochs begin whose memory is there; when, and how many bytes of records came before.
    epochs: BTreeMap<u64, (u64, usize)>,
    lives: bool,
}

impl Own {
    /// Whether its log can be made without that of another process.
    fn is_alone(&self) -> bool {
        self.how != How::Forked || !self.epochs.is_empty()
    }
}

/// Whether the process whose last part this is has ended by a signal, or with a status other than 0.
fn has_failed(path: &Path) -> io::Result<bool> {
    let bytes = fs::read(path)?;
    let header = part_header(path)?;
    let bytes = bytes.get(..header.used).unwrap_or(&bytes);
    let (mut at, mut failed) = (l::HEADER, true);
    while let Ok(Some((found, next))) = record(bytes, at) {
        if let Record::End(end) = found {
            failed = match end {
                End::Exits(call) => call.args[0] as u8 != 0,
                End::Executes(_) | End::GoesOn(_) => false,
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
            let mut epochs = BTreeMap::new();
            for (part, path) in &parts {
                if *part > 0 && memory(log, process, *part)[0].exists() {
                    let header = part_header(path)?;
                    epochs.insert(*part, (header.part_began, header.before));
                }
            }
            let (how, from, call, began) = (header.how, header.from, header.call as usize, header.began);
            all.insert(
                process,
                Own {
                    how,
                    from,
                    call,
                    began,
                    parts,
                    epochs,
                    lives: Path::new("/proc").join(process.pid.to_string()).exists(),
                },
            );
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
        let mut needed: HashMap<ProcessId, usize> = HashMap::new();
        for own in all.values().filter(|own| !own.is_alone()) {
            let call = needed.entry(own.from).or_insert(usize::MAX);
            *call = own.call.min(*call);
        }
        for (process, own) in &all {
            let needed = needed.get(process).copied().unwrap_or(usize::MAX);
            let old = |(_, (began, before)): &(&u64, &(u64, usize))| *began <= time && l::HEADER + before <= needed;
            let last = own.epochs.iter().rev().skip(count.saturating_sub(1)).find(old);
            let Some((first, _)) = last else { continue };
            // How a program began stands in its first part.
            let is_old = |part: &u64| part < first && (*part > 0 || own.how == How::Forked);
            for (part, path) in own.parts.iter().filter(|(part, _)| is_old(part)) {
                remove(path)?;
                remove(&memory(log, *process, *part)[0])?;
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
            let ended = self.ended.get(process).filter(|_| !own.lives && Some(own.began) != first);
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
