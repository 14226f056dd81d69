//! Small files of the log, written with the standard library.
//!
//! DynamoRIO gives a client another `write` than libc's: it returns an error's number where the standard library expects -1 and
//! `errno`, and takes it for an enormous length. `pwrite` is libc's own.
//!
//! A log is for its owner, who can read and write it, whatever the program wants of the files that it makes: its file mode
//! creation mask is left alone, since all threads see a change at once.

use crate::log::file_size_limit as limit;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, remove_file, rename, set_permissions};
use std::io::Result;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What may be done with a file.
pub const PRIVATE: u32 = 0o600;
/// What may be done with a folder.
const PRIVATE_FOLDER: u32 = 0o700;

/// Makes a folder.
pub fn create_folder(path: &Path) -> Result<()> {
    DirBuilder::new().mode(PRIVATE_FOLDER).create(path)?;
    set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER))
}

/// Opens a file with these options; one that is new is made private.
pub fn open(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let file = options.mode(PRIVATE).open(path)?;
    // Where that is not permitted, the file is not a new one.
    let _ = file.set_permissions(Permissions::from_mode(PRIVATE));
    Ok(file)
}

/// Writes a file as a whole or not at all: as `<path>.new`, which is then renamed.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    limit::check(bytes.len() as u64)?;
    let file = open(OpenOptions::new().write(true).create(true).truncate(true), &new)?;
    file.write_all_at(bytes, 0).and_then(|()| rename(&new, path)).inspect_err(|_| drop(remove_file(&new)))
}

/// Writes a file in its place, where there may be no room for another one.
pub fn overwrite(path: &Path, bytes: &[u8]) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    limit::check(bytes.len() as u64)?;
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)
}

/// Appends to a file, which is made if there is none.
pub fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    // Such a file is appended to at whatever offset.
    let file = open(OpenOptions::new().create(true).append(true), path)?;
    limit::check(file.metadata()?.len() + bytes.len() as u64)?;
    file.write_all_at(bytes, 0)
}
