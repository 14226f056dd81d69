//! Where indexes are: beside the log, or in the user's cache folder.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::new_file::NewFile;
use bugnet_format::files::{self, LogFile, MAX_JSON_FILE};
use bugnet_format::folder::{META_FILE, index_file, interval_file, process_folder, thread_folder};
use bugnet_format::index::IndexReader;
use bugnet_format::types::ProcessId;
use std::fs::File;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// What tells whether an index is about a process of a log as it is: all but the records themselves, which nobody changes.
///
/// # Errors
/// The log cannot be read.
pub(super) fn identity(log: &Log, pid: ProcessId) -> Result<u128> {
    let mut hash = Xxh3::new();
    hash.update(&files::read(log.source(), &log.path().join(META_FILE), MAX_JSON_FILE)?);
    hash.update(pid.to_string().as_bytes());
    for thread in log.threads().filter(|thread| thread.pid == pid) {
        let folder = log.path().join(process_folder(pid)).join(thread_folder(thread.tid));
        hash.update(thread.tid.to_string().as_bytes());
        for &interval in log.intervals(thread)? {
            let header = log.header(IntervalId { thread, interval })?;
            let size = log.source().size(&folder.join(interval_file(interval)));
            for number in [interval.0, header.epoch.0, header.instructions_before, header.code_seq.0, size] {
                hash.update(&number.to_le_bytes());
            }
        }
    }
    Ok(hash.digest128())
}

/// Beside the log, if that is a folder.
fn beside(log: &Log, pid: ProcessId) -> Option<PathBuf> {
    log.source().pack().is_none().then(|| log.path().join(index_file(pid)))
}

/// In the user's cache folder, if there is one.
fn cached(identity: u128) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("bugnet").join(format!("{identity:032x}.index")))
}

/// The index that fits. One that does not, or is damaged, is none.
pub(super) fn find(log: &Log, pid: ProcessId, identity: u128) -> Option<(IndexReader, PathBuf)> {
    let open = |file: File, path: PathBuf| Some((IndexReader::open(file, &path, identity).ok()??, path));
    let own = beside(log, pid).and_then(|path| match files::open(log.source(), &path, u64::MAX) {
        Ok(LogFile::Plain(file)) => open(file, path),
        _ => None,
    });
    own.or_else(|| {
        let path = cached(identity)?;
        open(File::open(&path).ok()?, path)
    })
}

/// Lets `write` write one, and puts it where it belongs.
///
/// # Errors
/// Those of `write`, or there is no place.
pub(super) fn create(
    log: &Log,
    pid: ProcessId,
    identity: u128,
    write: impl FnOnce(File) -> Result<File>,
) -> Result<(IndexReader, PathBuf)> {
    let failed = || ReplayError::system("write an index of the log");
    let (new, path) = new_file(log, pid, identity).map_err(failed())?;
    let mut reread = write(new.file().try_clone().map_err(failed())?)?;
    new.replace(&path).map_err(failed())?;
    std::io::Seek::rewind(&mut reread).map_err(failed())?;
    let opened = IndexReader::open(reread, &path, identity)?;
    let reader = opened.ok_or_else(|| failed()(std::io::Error::other("it is not what was written")))?;
    Ok((reader, path))
}

/// A file that becomes the one at the path.
fn new_file(log: &Log, pid: ProcessId, identity: u128) -> std::io::Result<(NewFile, PathBuf)> {
    let temporary = |path: &Path| NewFile::create(path.parent().unwrap_or(Path::new(".")));
    if let Some(path) = beside(log, pid)
        && let Ok(file) = temporary(&path)
    {
        return Ok((file, path));
    }
    let path = cached(identity).ok_or_else(|| std::io::Error::other("there is no cache folder: HOME is not set"))?;
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    Ok((temporary(&path)?, path))
}

/// Takes a damaged one away.
pub(super) fn remove(path: &Path) {
    // Nobody relies on it; if it cannot be removed, it is found damaged again.
    let _ = std::fs::remove_file(path);
}
