//! The folder of a new log: the one that the user names, or one in the default folder, named by the time and the program.

use super::error::RecordError;
use crate::recordings::lock::{self, Lock};
use crate::recordings::{SHARED_CAPTURED, SHARED_ELF, mend_latest, name, set_latest};
use bugnet_format::folder::{META_FILE, NEW_META_FILE};
use nix::unistd::geteuid;
use std::ffi::OsStr;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What may be done with the folder of a log: all, by its owner.
const PRIVATE: u32 = 0o700;

/// A folder for a new log. Unless it is [kept](LogFolder::keep), it is as it was before when this is dropped.
#[derive(Debug)]
pub struct LogFolder {
    path: PathBuf,
    /// What may be done with it by whom, if it was there, and empty; none if it was made here.
    found: Option<Permissions>,
    kept: bool,
    /// Where logs lie by default, with the `latest` link; none if that is not known.
    links: Option<PathBuf>,
    /// Where ELF files are that recordings share, if not in the default folder.
    shared_elf: Option<PathBuf>,
    /// Nobody removes it while this process lives.
    _lock: Lock,
}

impl LogFolder {
    /// The folder that the user named: a new one, or one that is there, empty and the user's. It is closed to others. `default` is
    /// where logs lie that are not named.
    pub fn named(path: &Path, default: Option<PathBuf>) -> Result<Self, RecordError> {
        let fail = |source| RecordError::LogFolder { path: path.to_owned(), source };
        let found = match DirBuilder::new().mode(PRIVATE).create(path) {
            Ok(()) => None,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Some(take_empty(path)?),
            Err(e) => return Err(fail(e)),
        };
        let path = path.canonicalize().map_err(fail)?;
        let lock = lock::using(&path);
        Ok(Self { path, found, kept: false, links: default, shared_elf: None, _lock: lock })
    }

    /// A new folder below `parent`, which is made where it is missing, for a recording that begins at `time`.
    pub fn dated(parent: &Path, program: &OsStr, mut time: SystemTime) -> Result<Self, RecordError> {
        /// So that the next name is behind this one.
        const STEP: Duration = Duration::from_millis(1);
        let fail = |source| RecordError::LogFolder { path: parent.to_owned(), source };
        std::fs::create_dir_all(parent).map_err(fail)?;
        let parent = parent.canonicalize().map_err(fail)?;
        loop {
            let path = parent.join(name(program, time));
            match DirBuilder::new().mode(PRIVATE).create(&path) {
                Ok(()) => {
                    let lock = lock::using(&path);
                    return Ok(Self {
                        path,
                        found: None,
                        kept: false,
                        links: Some(parent),
                        shared_elf: None,
                        _lock: lock,
                    });
                }
                // Another recording was quicker.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => time += STEP,
                Err(source) => return Err(RecordError::LogFolder { path, source }),
            }
        }
    }

    /// The default folder, if the log lies in it.
    pub fn default_folder(&self) -> Option<&Path> {
        self.links.as_deref().filter(|links| self.path.parent() == Some(links))
    }

    /// Lets it share ELF files with others that have the same folder for them.
    #[must_use]
    pub fn sharing(mut self, folder: PathBuf) -> Self {
        self.shared_elf = Some(folder);
        self
    }

    /// Where ELF files are that recordings share: in the default folder, or in one of their own.
    pub fn shared_elf(&self) -> Option<PathBuf> {
        self.default_folder().map(|default| default.join(SHARED_ELF)).or_else(|| self.shared_elf.clone())
    }

    /// Where light logs find what others have found, which lie anywhere; none where there is no default folder.
    pub fn shared_captured(&self) -> Option<PathBuf> {
        self.links.as_deref().map(|default| default.join(SHARED_CAPTURED))
    }

    /// Absolute path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was made here.
    pub const fn is_new(&self) -> bool {
        self.found.is_none()
    }

    /// Gives it another name beside its own.
    ///
    /// # Errors
    /// The system's reason; it is as before.
    pub fn rename(&mut self, name: &str) -> std::io::Result<()> {
        let path = self.path.with_file_name(name);
        std::fs::rename(&self.path, &path)?;
        self.path = path;
        Ok(())
    }

    /// Whether the folder outlives this value.
    pub fn keep(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// Lets the `latest` link refer to this log. Where there is none yet and none can be made, so that no older log is
    /// taken for the latest, that is no error for a log that the user named.
    pub fn link_latest(&self) -> Result<(), RecordError> {
        let Some(links) = &self.links else { return Ok(()) };
        // A log beside the link can be moved along with it.
        let inside = self.path.parent() == Some(links);
        let target = self.path.file_name().filter(|_| inside).map_or(self.path.as_path(), Path::new);
        match set_latest(links, target) {
            Err(_) if !inside && links.join(crate::recordings::LATEST).symlink_metadata().is_err() => Ok(()),
            result => result.map_err(|source| RecordError::System { what: "set the link to the latest log", source }),
        }
    }
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        // Nothing better than leaving it can be done where it cannot be removed.
        match &self.found {
            _ if self.kept => {}
            None => {
                let _ = std::fs::remove_dir_all(&self.path);
                if let Some(links) = &self.links {
                    let _ = mend_latest(links);
                }
            }
            Some(before) => {
                for file in [META_FILE, NEW_META_FILE] {
                    let _ = std::fs::remove_file(self.path.join(file));
                }
                let _ = std::fs::set_permissions(&self.path, before.clone());
            }
        }
    }
}

/// Takes an empty folder of the user's own, which others may not look into from then on. What they could before is the result.
/// Whoever else could put something there, or let the path lead elsewhere, would read or choose what is recorded.
fn take_empty(path: &Path) -> Result<Permissions, RecordError> {
    let fail = |source| RecordError::LogFolder { path: path.to_owned(), source };
    let exists = || RecordError::LogExists { path: path.to_owned() };
    // Without a slash at the end, which would lead through a link.
    let last: PathBuf = path.components().collect();
    if std::fs::symlink_metadata(&last).map_err(fail)?.is_symlink() {
        return Err(RecordError::LogIsLink { path: last });
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(&last).map_err(|e| match e.kind() {
        ErrorKind::NotADirectory => exists(),
        _ => fail(e),
    })?;
    let metadata = folder.metadata().map_err(fail)?;
    if metadata.uid() != geteuid().as_raw() {
        return Err(RecordError::LogOfAnother { path: last, owner: metadata.uid() });
    }
    folder.set_permissions(Permissions::from_mode(PRIVATE)).map_err(fail)?;
    if std::fs::read_dir(&last).map_err(fail)?.next().is_some() {
        let _ = folder.set_permissions(metadata.permissions());
        return Err(exists());
    }
    Ok(metadata.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_up_and_latest_follows() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().canonicalize().unwrap().join("not/yet/there");
        let now = SystemTime::now();
        let mut names = Vec::new();
        // All in the same moment.
        for program in ["zsh", "awk", "awk"] {
            let mut folder = LogFolder::dated(&parent, OsStr::new(program), now).unwrap();
            folder.keep(true);
            folder.link_latest().unwrap();
            let name = folder.path().file_name().unwrap().to_owned();
            assert_eq!(std::fs::read_link(parent.join(crate::recordings::LATEST)).unwrap(), Path::new(&name));
            assert_eq!(folder.default_folder(), Some(parent.as_path()));
            assert!(lock::alone(folder.path()).is_none());
            names.push(name);
        }
        assert!(names[1] < names[2], "{names:?}");
        assert_eq!(LogFolder::named(&dir.path().join("log"), Some(parent)).unwrap().default_folder(), None);
    }

    #[test]
    fn dropped_folders_are_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        drop(LogFolder::named(&path, None).unwrap());
        assert!(!path.exists());

        std::fs::create_dir(&path).unwrap();
        let folder = LogFolder::named(&path, None).unwrap();
        for file in [META_FILE, NEW_META_FILE] {
            std::fs::write(folder.path().join(file), "{}").unwrap();
        }
        drop(folder);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);

        LogFolder::named(&path, None).unwrap().keep(true);
        assert!(path.exists());
    }

    #[test]
    fn only_new_or_empty_folders_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(LogFolder::named(&file, None), Err(RecordError::LogExists { .. })));
        assert!(matches!(LogFolder::named(dir.path(), None), Err(RecordError::LogExists { .. })));
        assert!(matches!(LogFolder::named(&dir.path().join("no/parent"), None), Err(RecordError::LogFolder { .. })));
        assert!(file.exists());
    }
}
