//! Temporary folders, which go with the command that made them, however it ends.
//!
//! Signals that can be caught end what is here in [`crate::ending`]. What a SIGKILL leaves the next command removes: a folder whose maker
//! lives is locked (flock), and a lock ends with its process.

use crate::ending::Ends;
use crate::failure::Failure;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::{Builder, TempDir};

/// How the names of all such folders begin.
const NAMES: &str = "bugnet-";
/// What a command adds to that, by which its folders are known.
const KINDS: [&str; 3] = ["debug-", "pack-", "doctor-"];
/// What follows: letters and digits by chance.
const CHANCE: usize = 12;
/// Attempts to make a folder of which nobody thinks that it was left over.
const ATTEMPTS: usize = 16;

/// A folder, which is removed when this is dropped.
#[derive(Debug)]
pub struct Temporary {
    // In the order in which they go: while the folder is removed, a signal that comes waits for nothing.
    folder: TempDir,
    _ends: Option<Ends>,
    _lock: OwnedFd,
}

/// Which command makes it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `bugnet debug`.
    Debug,
    /// `bugnet pack`.
    Pack,
    /// `bugnet doctor`.
    Doctor,
}

impl Temporary {
    /// Makes one, and removes what others like it that were killed have left.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(kind: Kind) -> Result<Self, Failure> {
        Self::new_in(kind, &std::env::temp_dir())
    }

    fn new_in(kind: Kind, parent: &Path) -> Result<Self, Failure> {
        let failed = || Failure::system("make a temporary folder");
        remove_left(parent);
        let prefix = format!("{NAMES}{}", KINDS[kind as usize]);
        for _ in 0..ATTEMPTS {
            let make = || Builder::new().prefix(&prefix).rand_bytes(CHANCE).tempdir_in(parent).map_err(failed());
            let (folder, ends) = Ends::with(make, |folder| Some(folder.path()))?;
            // Before it was locked, another command may have taken it for left over.
            if let Some(lock) = lock_alone(folder.path()) {
                return Ok(Self { folder, _ends: ends, _lock: lock });
            }
        }
        Err(failed()(std::io::ErrorKind::ResourceBusy.into()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks the folder of that name, unless somebody else has: none then, or if it is gone.
fn lock_alone(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty()).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (locked, named) = (fstat(&folder).ok()?, path.symlink_metadata().ok()?);
    (locked.st_uid == geteuid().as_raw() && (locked.st_dev, locked.st_ino) == (named.dev(), named.ino()))
        .then_some(folder)
}

/// Removes this user's folders that nobody holds.
fn remove_left(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_name(&entry.file_name())
            && let Some(_lock) = lock_alone(&entry.path())
        {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether this is the name of such a folder.
fn is_name(name: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(NAMES.as_bytes());
    let chance = rest.and_then(|rest| KINDS.iter().find_map(|kind| rest.strip_prefix(kind.as_bytes())));
    chance.is_some_and(|chance| chance.len() == CHANCE && chance.iter().all(u8::is_ascii_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    #[test]
    fn only_what_nobody_holds_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| -> PathBuf {
            let path = parent.path().join(name);
            fs::create_dir_all(path.join("usr/lib")).unwrap();
            path
        };
        let left = ["bugnet-debug-abcdefghij01", "bugnet-pack-abcdefghij02"].map(folder);
        let others =
            ["bugnet-debug-abc", "bugnet-debug-abcdefghij-1", "debug-abcdefghij01", "bugnet-abcdefghij01"].map(folder);
        let outside = parent.path().join("bugnet-debug-abcdefghij03");
        std::os::unix::fs::symlink(&others[0], &outside).unwrap();
        let held = Temporary::new_in(Kind::Debug, parent.path()).unwrap();
        assert!(left.iter().all(|path| !path.exists()));
        let one_more = Temporary::new_in(Kind::Pack, parent.path()).unwrap();
        let kept: Vec<&Path> =
            others.iter().map(|path| &**path).chain([held.path(), one_more.path(), &outside]).collect();
        assert!(kept.iter().all(|path| path.exists()));
        let path = held.path().to_owned();
        assert!(is_name(path.file_name().unwrap()));
        drop(held);
        assert!(!path.exists());
    }
}
