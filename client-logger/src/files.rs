//! Small files of the log, written with the standard library.
//!
//! DynamoRIO gives a client another `write` than libc's: it returns an error's number where the standard library expects -1 and
//! `errno`, and takes it for an enormous length. `pwrite` is libc's own.
//!
//! A log is for its owner, who can read and write it, whatever the program wants of the files that it makes: its file mode
//! creation mask is left alone, since all threads see a change at once.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, rename, set_permissions};
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
    open(OpenOptions::new().write(true).create(true).truncate(true), &new)?.write_all_at(bytes, 0)?;
    rename(&new, path)
}

/// Appends to a file, which is made if there is none.
pub fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    // Such a file is appended to at whatever offset.
    open(OpenOptions::new().create(true).append(true), path)?.write_all_at(bytes, 0)
}
