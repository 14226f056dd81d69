//! Removing recordings: those that nobody uses, and nothing else.

use super::entry::{Contents, Entry, State};
use super::{CAPTURED_FILES, CAPTURED_PLACES, SHARED_CAPTURED, SHARED_ELF, lock, mend_latest};
use nix::unistd::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How the name of a folder begins that is being removed: what a kill leaves of one is removed the next time.
const GOING: &str = ".removing-";

/// Why a recording is not removed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Somebody writes it.
    #[error("{path} is still being recorded; it can be removed when that is over")]
    Recording { path: PathBuf },
    /// Somebody reads it, or is just ending its recording.
    #[error("{path} is in use by another bugnet; it can be removed when that has ended")]
    InUse { path: PathBuf },
    /// There is no such file or folder.
    #[error("there is no recording at {path}; bugnet ls lists those that there are")]
    Missing { path: PathBuf },
    /// A link.
    #[error("{path} is a symbolic link, and bugnet removes nothing that a link leads to; name the recording itself")]
    Link { path: PathBuf },
    /// Something else.
    #[error("{path} is no recording of bugnet's; nothing was removed")]
    Foreign { path: PathBuf },
    /// There are other things in it.
    #[error("{path} holds what bugnet did not put there ({what:?}); nothing was removed: take that away first")]
    ForeignContents { path: PathBuf, what: OsString },
    /// The system refused.
    #[error("cannot remove {path}: {source}")]
    System { path: PathBuf, source: Error },
}

/// Whether the recording that an entry describes can be removed now.
pub fn check(entry: &Entry) -> Result<(), Refusal> {
    let path = || entry.path.clone();
    if entry.state == State::Recording {
        return Err(Refusal::Recording { path: path() });
    }
    if !entry.packed {
        let contents = Contents::of(&entry.path).map_err(|source| Refusal::System { path: path(), source })?;
        if let Some(what) = contents.foreign.into_iter().next() {
            return Err(Refusal::ForeignContents { path: path(), what });
        }
        if lock::alone(&entry.path).is_none() {
            return Err(Refusal::InUse { path: path() });
        }
    }
    Ok(())
}

/// Removes a recording. What was known of it is the result. `default` is the default folder.
pub fn remove(entry: Entry, default: Option<&Path>) -> Result<Entry, Refusal> {
    check(&entry)?;
    let fail = |source| Refusal::System { path: entry.path.clone(), source };
    if entry.packed {
        fs::remove_file(&entry.path).map_err(fail)?;
        return Ok(entry);
    }
    // Held until it is gone: who wants to use it waits for that.
    let Some(_lock) = lock::alone(&entry.path) else { return Err(Refusal::InUse { path: entry.path }) };
    let going = default.filter(|default| lies_in(&entry.path, default)).map(|_| going(&entry));
    if let Some(going) = &going {
        // It goes at once for all others, whatever happens here meanwhile.
        fs::rename(&entry.path, going).map_err(fail)?;
    }
    let path = going.unwrap_or_else(|| entry.path.clone());
    match fs::remove_dir_all(&path) {
        // Another one, which found it left over, was quicker.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(source) => return Err(Refusal::System { path, source }),
        Ok(()) => {}
    }
    Ok(entry)
}

/// Whether a recording lies in the default folder, where what a kill leaves of it is found again.
fn lies_in(path: &Path, default: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().is_ok_and(|folder| default.canonicalize().is_ok_and(|default| default == folder))
}

/// What a recording is called while it is removed.
fn going(entry: &Entry) -> PathBuf {
    /// What a file system takes for a name.
    const MOST: usize = 255;
    let mut name = OsString::from(format!("{GOING}{}-", std::process::id()));
    name.push(&entry.name);
    let bytes = name.as_bytes();
    entry.path.with_file_name(OsStr::from_bytes(&bytes[..bytes.len().min(MOST)]))
}

/// Takes away what removed recordings leave in the default folder: copies of ELF files that no recording has any more, what a kill
/// has left of a removal, and a `latest` that leads nowhere.
///
/// # Errors
/// The link to the latest recording cannot be set.
pub fn tidy(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().as_bytes().starts_with(GOING.as_bytes()) {
            // Unless somebody is at it.
            if let Some(_lock) = lock::alone(&entry.path()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
    unused(&folder.join(SHARED_ELF), |name, metadata| name.as_bytes().ends_with(b".zst") && metadata.nlink() == 1);
    let captured = folder.join(SHARED_CAPTURED);
    unused(&captured.join(CAPTURED_FILES), |_, metadata| metadata.nlink() == 1);
    unused(&captured.join(CAPTURED_PLACES), |name, _| !captured.join(CAPTURED_FILES).join(name).exists());
    mend_latest(folder)
}

/// Removes the files of a folder of the user's own that nobody needs any more.
fn unused(folder: &Path, is_unused: impl Fn(&OsStr, &fs::Metadata) -> bool) {
    // Another user's could be exchanged for something else meanwhile.
    let is_own = |metadata: fs::Metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw();
    if !folder.symlink_metadata().is_ok_and(is_own) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_unused = |metadata: fs::Metadata| metadata.is_file() && is_unused(&entry.file_name(), &metadata);
        // A recording that takes it in this moment keeps it: its own name stays.
        if entry.metadata().is_ok_and(is_unused) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LATEST, Writers, list, set_latest};
    use super::*;

    fn recording(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(path.join("p1/t1")).unwrap();
        fs::write(path.join("p1/process.json"), "{}").unwrap();
        fs::write(path.join("recording.json"), r#"{"format_version": 99}"#).unwrap();
        path
    }

    fn entry(path: &Path) -> Entry {
        Entry::at(path, &Writers::default()).unwrap()
    }

    #[test]
    fn what_goes_and_what_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| recording(folder.path(), name));
        let outside = folder.path().join("outside");
        fs::write(&outside, "kept").unwrap();
        std::os::unix::fs::symlink(&outside, one.join("p1/link")).unwrap();
        set_latest(folder.path(), Path::new("one")).unwrap();
        remove(entry(&one), Some(folder.path())).unwrap();
        assert!(!one.exists() && outside.exists() && two.exists());
        tidy(folder.path()).unwrap();
        assert_eq!(fs::read_link(folder.path().join(LATEST)).unwrap(), Path::new("two"));

        fs::write(two.join("notes.txt"), "mine").unwrap();
        assert!(matches!(remove(entry(&two), None), Err(Refusal::ForeignContents { what, .. }) if what == "notes.txt"));
        assert!(two.join("p1/process.json").exists());
        fs::remove_file(two.join("notes.txt")).unwrap();
        let lock = lock::using(&two);
        assert!(matches!(remove(entry(&two), None), Err(Refusal::InUse { .. })));
        drop(lock);
        remove(entry(&two), None).unwrap();
        tidy(folder.path()).unwrap();
        assert!(!folder.path().join(LATEST).is_symlink());
        assert!(list(folder.path(), &Writers::default()).unwrap().is_empty());
    }

    #[test]
    fn leftovers_go() {
        let folder = tempfile::tempdir().unwrap();
        let half = recording(folder.path(), ".removing-1-x");
        let shared = folder.path().join(SHARED_ELF);
        fs::create_dir(&shared).unwrap();
        fs::write(shared.join("unused.zst"), "").unwrap();
        fs::write(shared.join("notes"), "").unwrap();
        fs::write(shared.join("used.zst"), "").unwrap();
        let user = recording(folder.path(), "user");
        fs::hard_link(shared.join("used.zst"), user.join("copy")).unwrap();
        let captured = folder.path().join(SHARED_CAPTURED);
        for kind in [CAPTURED_FILES, CAPTURED_PLACES] {
            fs::create_dir_all(captured.join(kind)).unwrap();
            ["unused", "used"].into_iter().for_each(|name| fs::write(captured.join(kind).join(name), "").unwrap());
        }
        fs::hard_link(captured.join(CAPTURED_FILES).join("used"), user.join("captured")).unwrap();
        tidy(folder.path()).unwrap();
        let left = ["unused.zst", "used.zst", "notes"].map(|name| shared.join(name).exists());
        assert_eq!((half.exists(), left), (false, [false, true, true]));
        for kind in [CAPTURED_FILES, CAPTURED_PLACES] {
            let left = ["unused", "used"].map(|name| captured.join(kind).join(name).exists());
            assert_eq!(left, [false, true]);
        }
    }

    #[test]
    fn foreign_folders_are_no_recordings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder");
        fs::create_dir(&path).unwrap();
        let none = || Entry::at(&path, &Writers::default()).is_none();
        assert!(none());
        fs::write(path.join("recording.json"), r#"{"title": "a song"}"#).unwrap();
        fs::create_dir(path.join("p1")).unwrap();
        assert!(none());
        fs::write(path.join("p1/code.bnc"), "").unwrap();
        assert!(!none());
    }
}
