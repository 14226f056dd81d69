//! The files of a log, opened: all readers open them here, be the log a folder or one packed file.
//!
//! A log may be a stranger's work. What is opened is a regular file that lies in the log itself: no link leads out of
//! it, no pipe or device is waited for or read, and no file is longer than its kind can be.

use crate::buffer::Buffer;
use crate::error::{FormatError, Result};
use crate::frame::MAX_INTERVAL_STREAM;
use crate::pack::{Pack, PackedFile};
use crate::source::Source;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
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
        None => plain(open_as(log.path(), path, TO_READ)?, path, most).map(|(file, _)| LogFile::Plain(file)),
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

/// How a file is opened: without waiting for who writes into a pipe.
const TO_READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// What was opened at `path`, if it is a regular file of at most `most` bytes, and how long it is.
fn plain(opened: OwnedFd, path: &Path, most: u64) -> Result<(File, u64)> {
    let file = File::from(opened);
    let stat = fstat(&file).map_err(|e| FormatError::io(path)(e.into()))?;
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if size <= most => return Ok((file, size)),
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
pub fn read(log: &Source, path: &Path, most: u64) -> Result<Buffer> {
    match log.pack() {
        Some(pack) => read_all(open_packed(pack, log, path, most)?, 0, path, most),
        None => {
            let (file, size) = plain(open_as(log.path(), path, TO_READ)?, path, most)?;
            read_all(file, size, path, most)
        }
    }
}

/// All of an opened file, which is `size` bytes long, as far as that is known.
fn read_all(file: impl Read, size: u64, path: &Path, most: u64) -> Result<Buffer> {
    /// What a file says of its length is believed up to this.
    const AHEAD: u64 = 1 << 20;
    // A byte more: whoever reads meets the end without more room for what might follow.
    let mut bytes = Buffer::for_about(size);
    bytes.reserve(size.min(AHEAD) as usize + 1);
    // One that grows meanwhile is no longer than it may be, either.
    file.take(most).read_to_end(&mut bytes).map_err(|error| match error.kind() {
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => FormatError::damaged(path, 0, error.to_string()),
        _ => FormatError::io(path)(error),
    })?;
    Ok(bytes)
}

/// A folder of a log, opened once for several files in it.
pub(crate) struct Folder<'a> {
    log: &'a Source,
    path: &'a Path,
    /// None in a packed file.
    opened: Option<OwnedFd>,
}

impl<'a> Folder<'a> {
    /// Opens it.
    ///
    /// # Errors
    /// The system's; or it is a link, or there is one on the way.
    pub fn open(log: &'a Source, path: &'a Path) -> Result<Self> {
        let opened = match log.pack() {
            Some(_) => None,
            None => Some(open_as(log.path(), path, OFlags::PATH | OFlags::DIRECTORY)?),
        };
        Ok(Self { log, path, opened })
    }

    /// As [`read`], of a file in this folder.
    ///
    /// # Errors
    /// As for that.
    pub fn read(&self, name: &str, most: u64) -> Result<Buffer> {
        let path = self.path.join(name);
        let Some(folder) = &self.opened else { return read(self.log, &path, most) };
        let opened = open_in(folder, name.as_ref(), TO_READ).map_err(|error| not_opened(&path, error))?;
        let (file, size) = plain(opened, &path, most)?;
        read_all(file, size, &path, most)
    }

    /// As [`Self::read`]; `None` if there is no such file.
    ///
    /// # Errors
    /// As for that.
    pub fn read_if_there(&self, name: &str, most: u64) -> Result<Option<Buffer>> {
        if_there(self.read(name, most))
    }
}

fn if_there(read: Result<Buffer>) -> Result<Option<Buffer>> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// As [`read`]; `None` if there is no such file.
///
/// # Errors
/// As for [`read`].
pub fn read_if_there(log: &Source, path: &Path, most: u64) -> Result<Option<Buffer>> {
    if_there(read(log, path, most))
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
        let failed = |error: Errno| FormatError::io(folder)(error.into());
        let opened = open_as(log.path(), folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        for entry in Dir::new(opened).map_err(failed)? {
            let name = OsStr::from_bytes(entry.map_err(failed)?.file_name().to_bytes()).to_owned();
            names.extend((name != "." && name != "..").then_some(name));
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
    let first = if names.peek().is_some() { folder } else { flags | OFlags::CLOEXEC };
    let opened = openat(CWD, log, first, Mode::empty()).and_then(|mut opened| {
        while let Some(name) = names.next() {
            opened = open_in(&opened, name.as_os_str(), if names.peek().is_some() { folder } else { flags })?;
        }
        Ok(opened)
    });
    opened.map_err(|error| not_opened(path, error))
}

/// Opens what has this name in a folder, unless it is a link.
fn open_in(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
}

fn not_opened(path: &Path, error: Errno) -> FormatError {
    let is_link = || path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    match error {
        // With O_DIRECTORY, a link is no folder.
        Errno::LOOP | Errno::NOTDIR if is_link() => not_a_file(path, "a symbolic link"),
        // A socket.
        Errno::NXIO => not_a_file(path, "a socket"),
        _ => FormatError::io(path)(error.into()),
    }
}

fn not_a_file(path: &Path, kind: &'static str) -> FormatError {
    FormatError::NotALog { path: path.to_owned(), what: "file", found: format!("it is {kind}") }
}
