//! A light log lies in parts: files of limited size, of which those that are full may be compressed (zstd, `.zst` behind the name).

use super::groups::{self, Mark};
use super::layout as l;
use super::{Header, How, LIGHT_FOLDER};
use crate::types::{Pid, ProcessId};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// How a compressed part's name ends.
const COMPRESSED: &str = ".zst";
/// Most bytes of a part: a record has no more, whatever a stranger's file says.
const MOST: u64 = 1 << 30;
/// How hard parts are compressed: the recorded program may run meanwhile.
const LEVEL: i32 = 1;

/// The light log of a program of a process.
#[derive(Clone, Debug)]
pub struct Parts {
    /// What the header of its first part says.
    pub header: Header,
    /// The group of processes that share memory, if it is of one, by the one that began it.
    pub group: Option<ProcessId>,
    /// Whether nothing of it is made: it has done nothing in what is kept of its group.
    pub is_left_out: bool,
    /// Its files, in their order.
    pub paths: Vec<PathBuf>,
    /// The numbers of these.
    numbers: Vec<u64>,
}

/// Where a light log begins, of which the first parts are gone: at an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The number of the part.
    pub part: u64,
    /// Bytes of records before it.
    pub before: usize,
    /// When: nanoseconds since the Unix epoch.
    pub began: u64,
    /// The list of its memory, and the file with the pages.
    pub memory: [PathBuf; 2],
}

/// Whether this is the name of a compressed part.
#[must_use]
pub fn is_compressed(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(COMPRESSED.as_bytes())
}

/// The process and the part that a file's name says: `p<pid>.<program>`, then `.<part>` from the second one on.
fn parse(name: &str) -> Option<(ProcessId, u64)> {
    let mut numbers = name.strip_prefix('p')?.trim_end_matches(COMPRESSED).splitn(3, '.');
    let (pid, program) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let part = numbers.next().map_or(Ok(0), str::parse).ok()?;
    Some((ProcessId { pid: Pid(pid), program }, part))
}

fn invalid(what: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A part: what its header says, that header's bytes, and what comes behind it.
fn open(path: &Path) -> io::Result<(Header, Vec<u8>, Box<dyn Read>)> {
    let (file, mut head) = (File::open(path)?, vec![0; l::HEADER]);
    let (len, mut from): (u64, Box<dyn Read>) = if is_compressed(path) {
        (MOST, Box::new(zstd::Decoder::new(file)?))
    } else {
        (file.metadata()?.len(), Box::new(file))
    };
    from.read_exact(&mut head)?;
    Ok((Header::read(&head, len).map_err(invalid)?, head, from))
}

/// The bytes of a part that are in use, and its header.
pub(super) fn read(path: &Path) -> io::Result<(Header, Vec<u8>)> {
    let (header, mut bytes, from) = open(path)?;
    from.take((header.used - l::HEADER) as u64).read_to_end(&mut bytes)?;
    if bytes.len() < header.used {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((header, bytes))
}

/// The files of all parts.
pub(super) fn find(log: &Path) -> io::Result<BTreeMap<ProcessId, BTreeMap<u64, PathBuf>>> {
    let mut found: BTreeMap<ProcessId, BTreeMap<u64, PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(log.join(LIGHT_FOLDER))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((process, part)) = name.to_str().and_then(parse) else { continue };
        let parts = found.entry(process).or_default();
        // What is being compressed is there twice for a moment.
        if entry.file_type()?.is_file() && (!is_compressed(&entry.path()) || !parts.contains_key(&part)) {
            parts.insert(part, entry.path());
        }
    }
    Ok(found)
}

/// The list of memory where this part begins, and the file with the pages of the process's.
pub(super) fn memory(log: &Path, process: ProcessId, part: u64) -> [PathBuf; 2] {
    let (folder, ProcessId { pid, program }) = (log.join(LIGHT_FOLDER), process);
    [format!("p{pid}.{program}.{part}{}", l::SNAPSHOT), format!("p{pid}.{program}{}", l::PAGES)]
        .map(|name| folder.join(name))
}

/// Compresses the parts that are full, behind which another one has begun.
///
/// # Errors
/// The folder, or a part, cannot be read or written.
pub fn compress_full(log: &Path) -> io::Result<()> {
    for parts in find(log)?.into_values().filter(|parts| parts.len() > 1) {
        let full = parts
            .iter()
            .zip(parts.keys().skip(1))
            .filter(|((part, path), next)| *part + 1 == **next && !is_compressed(path));
        full.map(|((_, path), _)| path).try_for_each(|path| compress(path))?;
    }
    Ok(())
}

impl Parts {
    /// All light logs of a log, in the order in which the processes began. What has no header of a light log is none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(log: &Path) -> io::Result<Vec<Self>> {
        let mut logs: Vec<Self> =
            find(log)?.into_values().filter_map(|parts| Self::of(log, parts.into_iter().collect())).collect();
        logs.sort_by_key(|log| (log.header.began, log.header.process));
        // Where the call is gone that made a fork, that one's log begins with its own first epoch.
        for at in 0..logs.len() {
            let own = &logs[at];
            let Header { how, from, call, .. } = own.header;
            if how != How::Forked || own.beginning(log)?.is_some() {
                continue;
            }
            let parent = logs.iter().find(|other| other.header.process == from);
            let begins = parent.map(|parent| parent.beginning(log)).transpose()?.flatten();
            if begins.is_some_and(|begins| (call as usize) < begins.before + l::HEADER)
                && let Some(late) = own.without_start(log)
            {
                logs[at] = late;
            }
        }
        groups::align(log, &mut logs)?;
        Ok(logs)
    }

    /// That of these parts: from the first one on, if nothing is missing behind it; otherwise from an epoch on, with what the first one says of how the program began.
    fn of(log: &Path, parts: Vec<(u64, PathBuf)>) -> Option<Self> {
        let (header, ..) = open(&parts.first()?.1).ok()?;
        let group = part_header(&parts.last()?.1).map_or(header.group, |last| last.group);
        let mut begin = parts.len();
        while begin > 1 && parts[begin - 1].0 == parts[begin - 2].0 + 1 {
            begin -= 1;
        }
        begin -= 1;
        let has_memory = |(part, _): &(u64, PathBuf)| memory(log, header.process, *part)[0].exists();
        let is_first = |(part, _): &(u64, PathBuf)| *part == 0;
        let epoch = parts[begin..].iter().position(|part| is_first(part) || has_memory(part));
        let tail = epoch.map_or(&[][..], |epoch| &parts[begin + epoch..]);
        let first = &parts[..1];
        // Behind a part that is not there, nobody knows what was before.
        let whole = || parts.iter().enumerate().take_while(|(at, (part, _))| *at as u64 == *part).count();
        let (first, tail) = match tail.first() {
            None => (&parts[..whole()], tail),
            Some((0, _)) => (&[][..], tail),
            Some((part, _)) => (if first[0].0 == 0 && *part != 0 { first } else { &[] }, tail),
        };
        let (numbers, paths): (_, Vec<PathBuf>) = first.iter().chain(tail).cloned().unzip();
        (!paths.is_empty()).then_some(Self { header, group, is_left_out: false, paths, numbers })
    }

    /// What there is from the first epoch on.
    fn without_start(&self, log: &Path) -> Option<Self> {
        let rest = self.numbers.iter().zip(&self.paths).skip(1);
        Self::of(log, rest.map(|(number, path)| (*number, path.clone())).collect())
    }

    /// The numbers of the parts with which epochs begin, from which on it can be made.
    pub fn epochs(&self, log: &Path) -> impl Iterator<Item = u64> {
        let process = self.header.process;
        self.numbers.iter().copied().filter(move |part| *part > 0 && memory(log, process, *part)[0].exists())
    }

    /// The parts that it has begun for epochs.
    pub(super) fn marks(&self, log: &Path) -> io::Result<Vec<Mark>> {
        let parts = self.numbers.iter().copied().zip(self.paths.iter().map(PathBuf::as_path));
        groups::marks(log, self.header.process, parts)
    }

    /// The number of the turn with which its first epoch begins; none where it begins with none.
    ///
    /// # Errors
    /// The part cannot be read.
    pub fn first_turn(&self, log: &Path) -> io::Result<Option<u32>> {
        let Some(begun) = self.beginning(log)? else { return Ok(None) };
        let Some(at) = self.numbers.iter().position(|number| *number == begun.part) else { return Ok(None) };
        let (_, bytes) = read(&self.paths[at])?;
        match super::record(&bytes, l::HEADER).map_err(invalid)? {
            Some((super::Record::Epoch { turn, .. }, _)) => Ok(Some(turn)),
            _ => Ok(None),
        }
    }

    /// What there is of it from this epoch on; none where that is not one of its own.
    #[must_use]
    pub fn late(&self, log: &Path, epoch: u64) -> Option<Self> {
        let is_kept = |(number, _): &(&u64, &PathBuf)| **number >= epoch || **number == 0 && self.is_start();
        let parts = self.numbers.iter().zip(&self.paths).filter(is_kept);
        let late = Self::of(log, parts.map(|(number, path)| (*number, path.clone())).collect())?;
        // With the next part, nothing is missing.
        (epoch > 1 || !self.is_start()).then_some(late).filter(|late| late.numbers.contains(&epoch))
    }

    /// Whether its first part is one that says how a program began.
    fn is_start(&self) -> bool {
        self.header.how != How::Forked
    }

    /// The number of the part from which on it is there; 0 where that is where the process began.
    ///
    /// # Errors
    /// The part cannot be read.
    pub fn begins(&self, log: &Path) -> io::Result<u64> {
        Ok(self.beginning(log)?.map_or(0, |beginning| beginning.part))
    }

    /// The first part alone, which says how the program began.
    #[must_use]
    pub fn first(&self) -> Self {
        let (paths, numbers) = (self.paths[..1].to_vec(), self.numbers[..1].to_vec());
        Self { paths, numbers, ..self.clone() }
    }

    /// Where it begins; none where that is where the process did.
    ///
    /// # Errors
    /// The part cannot be read.
    pub fn beginning(&self, log: &Path) -> io::Result<Option<Beginning>> {
        let mut found = self.numbers.iter().zip(&self.paths).skip_while(|(number, _)| **number == 0);
        let Some((&part, path)) = found.next() else { return Ok(None) };
        if part == 1 && self.numbers[0] == 0 {
            return Ok(None);
        }
        let (header, ..) = open(path)?;
        let memory = memory(log, self.header.process, part);
        Ok(Some(Beginning { part, before: header.before, began: header.part_began, memory }))
    }

    /// Hands over the parts' bytes, headers and all. What the header of another process or part has is no part of it.
    ///
    /// # Errors
    /// A part cannot be read, or is damaged.
    pub fn each(&self, mut see: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        for (number, path) in self.numbers.iter().zip(&self.paths) {
            let (header, bytes) = read(path)?;
            if header.process != self.header.process || header.part != *number {
                let what = super::Damaged { at: l::PART_NUMBER, what: "this is no part of the process's log" };
                return Err(invalid(what));
            }
            see(&bytes)?;
        }
        Ok(())
    }

    /// Writes it as one file, as if it had one part. `start`: the log that says how the program began, where this one's begins at an epoch, and is that of a fork.
    /// The header then has the epoch's part, and how many bytes of records are left out.
    ///
    /// # Errors
    /// As [`Self::each`]; or the file cannot be written.
    pub fn join(&self, log: &Path, start: &Self, to: &Path) -> io::Result<()> {
        if let [only] = &*self.paths
            && self.numbers == [0]
            && !is_compressed(only)
            && fs::hard_link(only, to).is_ok()
        {
            return Ok(());
        }
        let file = File::create(to)?;
        let mut out = io::BufWriter::new(&file);
        let mut used = 0;
        let beginning = self.beginning(log)?;
        if beginning.is_some() && self.numbers.first() != Some(&0) {
            let (_, mut bytes) = read(&start.paths[0])?;
            let (_, mut head, _) = open(&self.paths[0])?;
            head.extend(bytes.drain(l::HEADER..));
            used = head.len() as u64;
            out.write_all(&head)?;
        }
        let mut before = if used > 0 { used as usize - l::HEADER } else { 0 };
        self.each(|bytes| {
            let part = if used == 0 { bytes } else { &bytes[l::HEADER..] };
            if used == 0 {
                before = part.len() - l::HEADER;
            }
            used += part.len() as u64;
            out.write_all(part)
        })?;
        out.flush()?;
        drop(out);
        let put =
            |at: usize, word: u64| std::os::unix::fs::FileExt::write_all_at(&file, &word.to_le_bytes(), at as u64);
        put(l::USED, used)?;
        let (part, left_out) = beginning.map_or((0, 0), |begun| (begun.part, begun.before.wrapping_sub(before)));
        put(l::PART_NUMBER, part)?;
        put(l::BEFORE, left_out as u64)
    }

    /// Bytes of its files.
    ///
    /// # Errors
    /// There is no such file any more.
    pub fn size(&self) -> io::Result<u64> {
        self.paths.iter().map(|path| Ok(fs::metadata(path)?.len())).sum()
    }
}

/// What the header of a part says.
///
/// # Errors
/// It cannot be read, or is none.
pub fn part_header(path: &Path) -> io::Result<Header> {
    open(path).map(|(header, ..)| header)
}

/// Compresses a part that nobody writes to any more. Where it cannot be read, or the disk is full, the part is there as before.
fn compress(path: &Path) -> io::Result<()> {
    let (_, bytes) = read(path)?;
    let name = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    // Only what is whole gets the name of a part.
    let (new, whole) = (name(".new"), name(COMPRESSED));
    let written = File::create(&new).and_then(|file| {
        zstd::stream::copy_encode(&*bytes, &file, LEVEL)?;
        fs::rename(&new, &whole)
    });
    match written {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&new);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, part: u64, records: &[u8]) -> PathBuf {
        let mut bytes = vec![0; l::HEADER];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(0, l::MAGIC);
        put(l::PROCESS, 7);
        put(l::USED, (l::HEADER + records.len()) as u64);
        put(l::PART_NUMBER, part);
        bytes.extend_from_slice(records);
        // Behind what is in use, there may be room.
        bytes.extend_from_slice(&[0; 100]);
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn parts_are_joined_in_their_order_whether_compressed_or_not() {
        let log = tempfile::tempdir().unwrap();
        let folder = log.path().join(LIGHT_FOLDER);
        fs::create_dir(&folder).unwrap();
        let first = write(&folder, "p7.0", 0, &[1; 8]);
        for (part, byte) in (1..12).zip(2..) {
            write(&folder, &format!("p7.0.{part}"), part, &[byte; 8]);
        }
        // Behind a part that is not there, nobody knows what was before.
        write(&folder, "p7.0.13", 13, &[99; 8]);
        compress(&first).unwrap();
        compress(&folder.join("p7.0.5")).unwrap();
        assert!(!first.exists());
        let [own] = &*Parts::all(log.path()).unwrap() else { panic!("one log") };
        assert_eq!(own.paths.len(), 12);
        own.join(log.path(), own, &log.path().join("joined")).unwrap();
        let joined = fs::read(log.path().join("joined")).unwrap();
        let header = Header::read(&joined, joined.len() as u64).unwrap();
        assert_eq!(header.used, joined.len());
        let expected: Vec<u8> = (1..=12).flat_map(|byte| [byte; 8]).collect();
        assert_eq!(joined[l::HEADER..], expected);
    }

    #[test]
    fn a_part_of_another_log_is_an_error() {
        let log = tempfile::tempdir().unwrap();
        let folder = log.path().join(LIGHT_FOLDER);
        fs::create_dir(&folder).unwrap();
        write(&folder, "p7.0", 0, &[1; 8]);
        write(&folder, "p7.0.1", 2, &[2; 8]);
        let [own] = &*Parts::all(log.path()).unwrap() else { panic!("one log") };
        assert_eq!(
            own.join(log.path(), own, &log.path().join("joined")).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
