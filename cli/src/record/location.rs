//! Where logs lie: `$BUGNET_DIR`, else the XDG data folder, one numbered folder a recording and a `latest` link.

use super::error::RecordError;
use bugnet_format::folder::{META_FILE, NEW_META_FILE};
use nix::unistd::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{OpenOptions, Permissions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What may be done with the folder of a log: all, by its owner.
const PRIVATE: u32 = 0o700;

/// Name of the link to the newest recording.
pub const LATEST: &str = "latest";

/// The folder in which logs lie by default: `$BUGNET_DIR`, else `$XDG_DATA_HOME/bugnet`, else
/// `~/.local/share/bugnet`. `None` if none of the three variables is set.
pub fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("BUGNET_DIR")
        // The XDG specification says that a relative path is to be ignored.
        .or_else(|| set("XDG_DATA_HOME").filter(|path| path.is_absolute()).map(|path| path.join("bugnet")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/bugnet")))
}

/// A folder for a new log. Unless it is [kept](LogFolder::keep), it is as it was before when this is dropped.
#[derive(Debug)]
pub struct LogFolder {
    path: PathBuf,
    /// What may be done with it by whom, if it was there, and empty; none if it was made here.
    found: Option<Permissions>,
    kept: bool,
    /// Where logs lie by default, with the `latest` link; none if that is not known.
    links: Option<PathBuf>,
}

impl LogFolder {
    /// The folder that the user named: a new one, or one that is there, empty and the user's. It is closed to others. `default` is
    /// where logs lie that are not named.
    pub fn named(path: &Path, default: Option<PathBuf>) -> Result<Self, RecordError> {
        let fail = |source| RecordError::LogFolder { path: path.to_owned(), source };
        let found = match std::fs::create_dir(path) {
            Ok(()) => None,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Some(take_empty(path)?),
            Err(e) => return Err(fail(e)),
        };
        let path = path.canonicalize().map_err(fail)?;
        Ok(Self { path, found, kept: false, links: default })
    }

    /// A new folder `<program>-<number>` below `parent`, which is made where it is missing.
    pub fn numbered(parent: &Path, program: &OsStr) -> Result<Self, RecordError> {
        let fail = |source| RecordError::LogFolder { path: parent.to_owned(), source };
        std::fs::create_dir_all(parent).map_err(fail)?;
        let parent = parent.canonicalize().map_err(fail)?;
        let mut prefix = program.to_owned();
        prefix.push("-");
        let first = next_number(&parent, &prefix).map_err(fail)?;
        for number in first.. {
            let mut name = prefix.clone();
            name.push(number.to_string());
            let path = parent.join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, found: None, kept: false, links: Some(parent) }),
                // Another recording was quicker.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => return Err(RecordError::LogFolder { path, source }),
            }
        }
        Err(fail(Error::from(ErrorKind::QuotaExceeded)))
    }

    /// Absolute path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
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
        match set_link(links, target) {
            Err(_) if !inside && links.join(LATEST).symlink_metadata().is_err() => Ok(()),
            result => result.map_err(|source| RecordError::System { what: "set the link to the latest log", source }),
        }
    }
}

/// Sets the link in the folder `links`, which is made if it is missing, but not the home that it would be in.
fn set_link(links: &Path, target: &Path) -> std::io::Result<()> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| links.starts_with(home));
    if home.is_none_or(|home| home.is_dir()) {
        std::fs::create_dir_all(links)?;
    }
    // A link cannot be overwritten, but a rename replaces one at once.
    let new = links.join(format!(".{LATEST}-{}", std::process::id()));
    std::os::unix::fs::symlink(target, &new)?;
    std::fs::rename(&new, links.join(LATEST)).inspect_err(|_| drop(std::fs::remove_file(&new)))
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        // Nothing better than leaving it can be done where it cannot be removed.
        match &self.found {
            _ if self.kept => {}
            None => drop(std::fs::remove_dir_all(&self.path)),
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

/// One above the highest number that follows `prefix` in the names below `parent`.
fn next_number(parent: &Path, prefix: &OsStr) -> std::io::Result<u64> {
    let mut next = 0;
    for entry in std::fs::read_dir(parent)? {
        let name = entry?.file_name();
        let number = name
            .as_encoded_bytes()
            .strip_prefix(prefix.as_encoded_bytes())
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| digits.parse::<u64>().ok());
        next = next.max(number.map_or(0, |n| n.saturating_add(1)));
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_for(variables: &[(&str, &str)]) -> Option<PathBuf> {
        default_folder(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn default_folders() {
        let all = [("BUGNET_DIR", "/b"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(folder_for(&all), Some("/b".into()));
        assert_eq!(folder_for(&all[1..]), Some("/x/bugnet".into()));
        assert_eq!(folder_for(&all[2..]), Some("/h/.local/share/bugnet".into()));
        assert_eq!(folder_for(&[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]), Some("/h/.local/share/bugnet".into()));
        assert_eq!(folder_for(&[("BUGNET_DIR", ""), ("HOME", "/h")]), Some("/h/.local/share/bugnet".into()));
        assert_eq!(folder_for(&[]), None);
    }

    #[test]
    fn numbers_go_up_and_latest_follows() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("not/yet/there");
        for expected in ["ls-0", "ls-1", "ls-2"] {
            let mut folder = LogFolder::numbered(&parent, OsStr::new("ls")).unwrap();
            folder.keep(true);
            folder.link_latest().unwrap();
            assert!(folder.path().ends_with(expected));
            assert_eq!(std::fs::read_link(parent.join(LATEST)).unwrap(), Path::new(expected));
        }
        // Numbers are not used again while a later one is there.
        std::fs::remove_dir(parent.join("ls-1")).unwrap();
        let folder = LogFolder::numbered(&parent, OsStr::new("ls")).unwrap();
        assert!(folder.path().ends_with("ls-3"));
        assert!(LogFolder::numbered(&parent, OsStr::new("l")).unwrap().path().ends_with("l-0"));
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
