//! Small files of the log, written with the standard library.
//!
//! DynamoRIO gives a client another `write` than libc's: it returns an error's number where the standard library expects -1 and
//! `errno`, and takes it for an enormous length. `pwrite` is libc's own.
//!
//! A log is for its owner, who can read and write it, whatever the program wants of the files that it makes: its file mode
//! creation mask is left alone, since all threads see a change at once.

use crate::base::descriptors::{How, OwnFile, names, undisturbed};
use crate::base::light;
use crate::log::file_size_limit as limit;
use std::ffi::OsStr;
use std::fs::{DirBuilder, OpenOptions, Permissions, remove_dir, remove_file, rename, set_permissions};
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What may be done with a file.
pub const PRIVATE: u32 = 0o600;
/// What may be done with a folder.
const PRIVATE_FOLDER: u32 = 0o700;

/// Makes a folder.
pub fn create_folder(path: &Path) -> Result<()> {
    DirBuilder::new().mode(PRIVATE_FOLDER).create(path)?;
    // An expansion may not change what its user may do with files, and has no mask of the program's.
    if light::expands() {
        return Ok(());
    }
    set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER))
}

/// Takes a folder away in which there are files only.
pub fn remove_folder(path: &Path) {
    for name in names(path).unwrap_or_default() {
        let _ = remove_file(path.join(OsStr::from_bytes(&name)));
    }
    let _ = remove_dir(path);
}

/// Opens a file; one that is new is made private.
pub fn open(path: &Path, how: How) -> Result<OwnFile> {
    let file = OwnFile::open(path, how)?;
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
    let file = open(&new, How::Empty)?;
    file.write_all_at(bytes, 0).and_then(|()| rename(&new, path)).inspect_err(|_| drop(remove_file(&new)))
}

/// Writes a file in its place, where there may be no room for another one.
pub fn overwrite(path: &Path, bytes: &[u8]) -> Result<()> {
    limit::check(bytes.len() as u64)?;
    undisturbed(|| {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, 0)?;
        file.set_len(bytes.len() as u64)
    })
}

/// Appends to a file, which is made if there is none.
pub fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    // Such a file is appended to at whatever offset.
    let file = open(path, How::Append)?;
    limit::check(file.metadata()?.len() + bytes.len() as u64)?;
    file.write_all_at(bytes, 0)
}
