//! The files of a log, opened: all readers open them here, be the log a folder or one packed file.
//!
//! A log may be a stranger's work. What is opened is a regular file that lies in the log itself: no link leads out of
//! it, no pipe or device is waited for or read, and no file is longer than its kind can be.

use crate::error::{FormatError, Result};
use crate::frame::MAX_INTERVAL_STREAM;
use crate::pack::{Pack, PackedFile};
use crate::source::Source;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Most bytes of a file that holds JSON.
pub const MAX_JSON_FILE: u64 = 1 << 30;
/// Most bytes of an interval file, a code store or a tail: frames that do not compress are a little longer than what they
/// hold.
pub const MAX_BINARY_FILE: u64 = MAX_INTERVAL_STREAM as u64 + (MAX_INTERVAL_STREAM as u64 >> 4);

/// A file of a log, opened for reading.
#[derive(Debug)]
pub enum LogFile {
    /// In a folder.
    Plain(File),
    /// In a packed file.
    Packed(PackedFile),
}

impl Read for LogFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Packed(file) => file.read(buffer),
        }
    }
}

/// Opens `path`, which lies in the log: a regular file of at most `most` bytes.
///
/// # Errors
/// The system's; or a folder on the way is a link, or what is there is no regular file or too long.
pub fn open(log: &Source, path: &Path, most: u64) -> Result<LogFile> {
    match log.pack() {
        Some(pack) => open_packed(pack, log, path, most).map(LogFile::Packed),
        None => open_plain(log.path(), path, most).map(LogFile::Plain),
    }
}

fn open_packed(pack: &Pack, log: &Source, path: &Path, most: u64) -> Result<PackedFile> {
    let name = inside(log.path(), path).unwrap_or_default();
    match pack.open_file(&name).map_err(FormatError::io(path))? {
        (file, size) if size <= most => Ok(file),
        (_, size) => Err(too_long(path, size, most)),
    }
}

fn too_long(path: &Path, size: u64, most: u64) -> FormatError {
    FormatError::damaged(path, most, format!("{size} bytes long, but a log has at most {most} there"))
}

/// The name in a packed file of what is called `path` in the log.
pub(crate) fn inside(log: &Path, path: &Path) -> Option<String> {
    let name = path.strip_prefix(log).ok()?.to_str()?;
    Some(name.to_owned())
}

fn open_plain(log: &Path, path: &Path, most: u64) -> Result<File> {
    // Without waiting for who writes into a pipe.
    let file = File::from(open_as(log, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
    let stat = fstat(&file).map_err(|e| FormatError::io(path)(e.into()))?;
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if size <= most => return Ok(file),
        FileType::RegularFile => return Err(too_long(path, size, most)),
        FileType::Directory => "a folder",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    Err(not_a_file(path, kind))
}

/// The bytes of a file of a log, as [`open`] opens it.
///
/// # Errors
/// As for [`open`], or it cannot be read.
pub fn read(log: &Source, path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One that grows meanwhile is no longer than it may be, either.
    open(log, path, most)?.take(most).read_to_end(&mut bytes).map_err(|error| match error.kind() {
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => FormatError::damaged(path, 0, error.to_string()),
        _ => FormatError::io(path)(error),
    })?;
    Ok(bytes)
}

/// As [`read`]; `None` if there is no such file.
///
/// # Errors
/// As for [`read`].
pub fn read_if_there(log: &Source, path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    match read(log, path, most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names in a folder of a log, sorted.
///
/// # Errors
/// The system's, or it is no folder of the log itself.
pub fn names(log: &Source, folder: &Path) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    if let Some(pack) = log.pack() {
        let name = inside(log.path(), folder).unwrap_or_default();
        names.extend(pack.names(&name).map_err(FormatError::io(folder))?.into_iter().map(OsString::from));
    } else {
        drop(open_as(log.path(), folder, OFlags::PATH | OFlags::DIRECTORY)?);
        for entry in std::fs::read_dir(folder).map_err(FormatError::io(folder))? {
            names.push(entry.map_err(FormatError::io(folder))?.file_name());
        }
    }
    names.sort();
    Ok(names)
}

/// Opens what lies at `path` in the folder `log`, where nothing on the way may be a link. The log's own folder may be.
fn open_as(log: &Path, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = path.strip_prefix(log).unwrap_or(path);
    let mut names = inside.components().peekable();
    let opened = openat(CWD, log, folder, Mode::empty()).and_then(|mut opened| {
        while let Some(name) = names.next() {
            let flags = if names.peek().is_some() { folder } else { flags | OFlags::CLOEXEC };
            opened = openat(&opened, name.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(opened)
    });
    opened.map_err(|error| {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        match error {
            // With O_DIRECTORY, a link is no folder.
            Errno::LOOP | Errno::NOTDIR if is_link => not_a_file(path, "a symbolic link"),
            // A socket.
            Errno::NXIO => not_a_file(path, "a socket"),
            _ => FormatError::io(path)(error.into()),
        }
    })
}

fn not_a_file(path: &Path, kind: &'static str) -> FormatError {
    FormatError::NotALog { path: path.to_owned(), what: "file", found: format!("it is {kind}") }
}
