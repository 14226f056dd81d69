//! Small files of the log, written with the standard library.
//!
//! DynamoRIO gives a client another `write` than libc's: it returns an error's number where the standard library expects -1 and
//! `errno`, and takes it for an enormous length. `pwrite` is libc's own.

use std::fs::{File, OpenOptions, rename};
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Writes a file as a whole or not at all: as `<path>.new`, which is then renamed.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    File::create(&new)?.write_all_at(bytes, 0)?;
    rename(&new, path)
}

/// Appends to a file, which is made if there is none.
pub fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    // Such a file is appended to at whatever offset.
    OpenOptions::new().create(true).append(true).open(path)?.write_all_at(bytes, 0)
}
