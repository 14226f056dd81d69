//! The files of a log, opened: all readers open them here.
//!
//! A log may be a stranger's work. What is opened is a regular file that lies in the log itself: no link leads out of
//! it, no pipe or device is waited for or read, and no file is longer than its kind can be.

use crate::error::{FormatError, Result};
use crate::frame::MAX_INTERVAL_STREAM;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Most bytes of a file that holds JSON.
pub const MAX_JSON_FILE: u64 = 1 << 30;
/// Most bytes of an interval file, a code store or a tail: frames that do not compress are a little longer than what they
/// hold.
pub const MAX_BINARY_FILE: u64 = MAX_INTERVAL_STREAM as u64 + (MAX_INTERVAL_STREAM as u64 >> 4);

/// Opens `path`, which lies in the folder `log`: a regular file of at most `most` bytes.
///
/// # Errors
/// The system's; or a folder on the way is a link, or what is there is no regular file or too long.
pub fn open(log: &Path, path: &Path, most: u64) -> Result<File> {
    // Without waiting for who writes into a pipe.
    let file = File::from(open_as(log, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
    let stat = fstat(&file).map_err(|e| FormatError::io(path)(e.into()))?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if u64::try_from(stat.st_size).is_ok_and(|size| size <= most) => return Ok(file),
        FileType::RegularFile => {
            let reason = format!("{} bytes long, but a log has at most {most} there", stat.st_size);
            return Err(FormatError::damaged(path, most, reason));
        }
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
pub fn read(log: &Path, path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One that grows meanwhile is no longer than it may be, either.
    open(log, path, most)?.take(most).read_to_end(&mut bytes).map_err(FormatError::io(path))?;
    Ok(bytes)
}

/// As [`read`]; `None` if there is no such file.
///
/// # Errors
/// As for [`read`].
pub fn read_if_there(log: &Path, path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
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
pub(crate) fn names(log: &Path, folder: &Path) -> Result<Vec<OsString>> {
    drop(open_as(log, folder, OFlags::PATH | OFlags::DIRECTORY)?);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(FormatError::io(folder))? {
        names.push(entry.map_err(FormatError::io(folder))?.file_name());
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
