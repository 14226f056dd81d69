//! One recording: what it is, and how it is with it.

use super::disk::Usage;
use super::lock;
use super::name::is_name;
use super::writers::{Writers, tails};
use crate::encrypted::is_encrypted;
use bugnet_format::folder::{ELF_FOLDER, Ending, META_FILE, Meta, NEW_META_FILE, Recording, SOURCES_FOLDER, is_helper};
use bugnet_format::light::LIGHT_FOLDER;
use bugnet_format::pack::PACK_MAGIC;
use bugnet_format::source::open_file;
use bugnet_format::types::ProcessId;
use bugnet_handover::FILE as HANDOVER;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A folder with a recording's name and nothing in it may be one that is just beginning, for so long.
const BEGINNING: Duration = Duration::from_secs(10);

/// How it is with a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody still writes it.
    Recording,
    /// The program has ended.
    Ended(Ending),
    /// The recorder was killed, and nobody writes any more.
    CutOff,
    /// It cannot be read.
    Damaged(String),
    /// A packed file for which an identity is needed.
    Encrypted,
}

/// A recording.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name in the folder in which it lies.
    pub name: OsString,
    /// Its folder, or the file into which it is packed.
    pub path: PathBuf,
    /// How it is with it.
    pub state: State,
    /// Whether it is one file.
    pub packed: bool,
    /// What was recorded, if that can be read.
    pub meta: Option<Meta>,
    /// Seconds since the Unix epoch when it began, or as well as that is known.
    pub started: u64,
    /// The room that it takes.
    pub usage: Usage,
}

impl Entry {
    /// The recording at `path`, which is not followed if it is a link; none if there is no recording.
    pub fn at(path: &Path, writers: &Writers) -> Option<Self> {
        let metadata = path.symlink_metadata().ok()?;
        let name = path.file_name()?.to_owned();
        let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
        let (state, meta, packed) = if metadata.is_dir() {
            let (state, meta) = folder(path, modified, writers)?;
            (state, meta, false)
        } else if metadata.is_file() {
            let (state, meta) = file(path)?;
            (state, meta, true)
        } else {
            return None;
        };
        let seconds = || modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let started = meta.as_ref().map_or_else(seconds, |meta| meta.started);
        Some(Self { name, path: path.to_owned(), state, packed, meta, started, usage: Usage::of(path) })
    }

    /// How long ago it began.
    pub fn age(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(self.started)).unwrap_or_default()
    }
}

/// A folder with a recording in it.
fn folder(path: &Path, modified: SystemTime, writers: &Writers) -> Option<(State, Option<Meta>)> {
    let contents = Contents::of(path).ok()?;
    if !contents.is_recording(path) {
        return None;
    }
    let is_young = || SystemTime::now().duration_since(modified).is_ok_and(|age| age < BEGINNING);
    let is_written = lock::is_written(path) || writers.write_any(&tails(path)) || contents.is_empty() && is_young();
    let read = Recording::open(path);
    let state = match &read {
        _ if is_written => State::Recording,
        Ok(recording) if recording.meta.ending == Ending::Unknown => State::CutOff,
        Ok(recording) => State::Ended(recording.meta.ending.clone()),
        Err(error) => State::Damaged(error.to_string()),
    };
    Some((state, read.ok().map(|recording| recording.meta)))
}

/// A file into which a recording is packed.
fn file(path: &Path) -> Option<(State, Option<Meta>)> {
    let mut magic = Vec::new();
    open_file(path).ok()??.take(64).read_to_end(&mut magic).ok()?;
    if is_encrypted(&magic) {
        return Some((State::Encrypted, None));
    }
    if !magic.starts_with(&PACK_MAGIC) {
        return None;
    }
    Some(match Recording::open(path) {
        Ok(Recording { meta, .. }) if meta.ending == Ending::Unknown => (State::CutOff, Some(meta)),
        Ok(Recording { meta, .. }) => (State::Ended(meta.ending.clone()), Some(meta)),
        Err(error) => (State::Damaged(error.to_string()), None),
    })
}

/// The names in a folder that may be a recording's.
#[derive(Debug, Default)]
pub struct Contents {
    processes: Vec<OsString>,
    others: usize,
    /// What bugnet does not write.
    pub foreign: Vec<OsString>,
}

impl Contents {
    /// Of this folder.
    pub fn of(folder: &Path) -> std::io::Result<Self> {
        const OURS: [&str; 6] = [META_FILE, NEW_META_FILE, HANDOVER, ELF_FOLDER, SOURCES_FOLDER, LIGHT_FOLDER];
        let mut contents = Self::default();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            if is_process(&name) {
                contents.processes.push(name);
            } else if OURS.iter().any(|own| name == *own) || name.to_str().is_some_and(is_helper) {
                contents.others += 1;
            } else {
                contents.foreign.push(name);
            }
        }
        Ok(contents)
    }

    fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.others == 0 && self.foreign.is_empty()
    }

    /// Whether bugnet has made this: by the name that it has, or by what is in it.
    pub fn is_recording(&self, path: &Path) -> bool {
        let has_name = path.file_name().is_some_and(is_name) && self.foreign.is_empty();
        let has_process = || self.processes.iter().any(|name| has_files_of_a_process(&path.join(name)));
        has_name || path.join(HANDOVER).is_file() || describes_a_recording(&path.join(META_FILE)) || has_process()
    }
}

fn is_process(name: &OsStr) -> bool {
    name.to_str().and_then(|name| name.strip_prefix('p')).is_some_and(|id| id.parse::<ProcessId>().is_ok())
}

fn has_files_of_a_process(folder: &Path) -> bool {
    use bugnet_format::folder::{CODE_FILE, MODULES_FILE, PROCESS_FILE};
    [CODE_FILE, MODULES_FILE, PROCESS_FILE].iter().any(|name| folder.join(name).is_file())
}

/// Whether this is a `recording.json`, of whatever version.
fn describes_a_recording(path: &Path) -> bool {
    use bugnet_format::files::MAX_JSON_FILE;
    let mut json = Vec::new();
    let read = open_file(path).ok().flatten().map(|file| file.take(MAX_JSON_FILE).read_to_end(&mut json));
    let value: Option<serde_json::Value> = serde_json::from_slice(&json).ok().filter(|_| read.is_some());
    value.is_some_and(|value| value["format_version"].is_u64())
}
