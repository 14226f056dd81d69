//! `bugnet rm`: removes recordings.

use crate::args::RmArgs;
use crate::failure::{EXIT_BAD_LOG, EXIT_IMPOSSIBLE, Failure, complain};
use crate::pack::BESIDE;
use crate::recordings::{Entry, LATEST, Refusal, Writers, check, default_folder, list, remove, tidy, together};
use crate::terminal::output;
use indicatif::HumanBytes;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Removes what the user names. What cannot be removed does not keep the rest from it; the worst exit status counts.
pub fn rm(args: &RmArgs) -> Result<ExitCode, Failure> {
    let folder = default_folder(|name| std::env::var_os(name));
    let writers = Writers::default();
    let mut entries = Vec::new();
    let mut status = 0;
    let mut refuse = |refusal: Refusal| {
        complain(&refusal);
        status = status.max(exit_code(&refusal));
    };
    if args.recordings.is_empty() {
        entries = select(args, &folder.clone().ok_or(Failure::NoPlace)?, &writers)?;
    }
    for given in &args.recordings {
        match find(given, folder.as_deref(), &writers) {
            Ok(entry) => {
                for entry in expanded(&entry, &writers).into_iter().chain([entry]) {
                    if entries.iter().all(|other: &Entry| other.path != entry.path) {
                        entries.push(entry);
                    }
                }
            }
            Err(refusal) => refuse(refusal),
        }
    }
    let mut out = output(false);
    let mut gone = Vec::new();
    for entry in entries {
        let done = if args.dry_run { check(&entry).map(|()| entry) } else { remove(entry, folder.as_deref()) };
        match done {
            Ok(entry) => {
                let what = if args.dry_run { "would remove" } else { "removed" };
                writeln!(out, "{what} {} ({})", entry.path.display(), HumanBytes(entry.usage.bytes()))?;
                gone.push(entry);
            }
            Err(refusal) => refuse(refusal),
        }
    }
    if gone.len() > 1 {
        let bytes = HumanBytes(together(gone.iter().map(|entry| &entry.usage)));
        writeln!(out, "{} recordings, {bytes}", gone.len())?;
    }
    out.flush()?;
    if let (Some(folder), false) = (&folder, args.dry_run) {
        tidy(folder).map_err(Failure::system("set the link to the latest log"))?;
    }
    Ok(ExitCode::from(status))
}

/// The recordings in the default folder that the options name.
fn select(args: &RmArgs, folder: &Path, writers: &Writers) -> Result<Vec<Entry>, Failure> {
    let cannot = Failure::system(format!("list the recordings in {}", folder.display()));
    let mut entries = list(folder, writers).map_err(cannot)?;
    // The newest come first.
    entries.drain(..args.keep_last.unwrap_or(0).min(entries.len()));
    entries.retain(|entry| args.older_than.is_none_or(|least| entry.age() > least));
    // The oldest first, in case that it is interrupted.
    entries.reverse();
    Ok(entries)
}

/// The recording that `given` names: a path, or a name in the default folder.
fn find(given: &Path, folder: Option<&Path>, writers: &Writers) -> Result<Entry, Refusal> {
    let path = place(given, folder)?;
    let Ok(metadata) = path.symlink_metadata() else { return Err(Refusal::Missing { path }) };
    if metadata.is_symlink() {
        return Err(Refusal::Link { path });
    }
    Entry::at(&path, writers).ok_or(Refusal::Foreign { path })
}

/// What was made of a packed light log, beside it.
fn expanded(entry: &Entry, writers: &Writers) -> Option<Entry> {
    let mut path = entry.path.clone().into_os_string();
    path.push(BESIDE);
    entry.packed.then(|| Entry::at(Path::new(&path), writers)).flatten()
}

/// Where it lies.
fn place(given: &Path, folder: Option<&Path>) -> Result<PathBuf, Refusal> {
    // Without a slash at the end, which would lead through a link.
    let given: PathBuf = given.components().collect();
    let is_name = given.file_name() == Some(given.as_os_str());
    let inside = folder.filter(|_| is_name && given.symlink_metadata().is_err()).map(|folder| folder.join(&given));
    let Some(inside) = inside.filter(|inside| inside.symlink_metadata().is_ok()) else {
        // A folder without a name of its own, such as `..`, has one where it lies.
        return match given.file_name() {
            Some(_) => Ok(given),
            None => Ok(given.canonicalize().unwrap_or(given)),
        };
    };
    // The link's own name stands for what it leads to, as long as that lies beside it.
    if given.as_os_str() == LATEST
        && let Ok(target) = inside.read_link()
    {
        let is_beside = target.file_name() == Some(target.as_os_str());
        return if is_beside { Ok(inside.with_file_name(target)) } else { Err(Refusal::Link { path: inside }) };
    }
    Ok(inside)
}

fn exit_code(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Missing { .. } | Refusal::Foreign { .. } | Refusal::ForeignContents { .. } | Refusal::Link { .. } => {
            EXIT_BAD_LOG
        }
        Refusal::Recording { .. } | Refusal::InUse { .. } | Refusal::System { .. } => EXIT_IMPOSSIBLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_names_lead() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        std::fs::create_dir(folder.join("one")).unwrap();
        let place = |given: &str| place(Path::new(given), Some(folder));
        assert_eq!(place("one").unwrap(), folder.join("one"));
        assert_eq!(place("./one").unwrap(), Path::new("./one"));
        assert_eq!(place("two").unwrap(), Path::new("two"));
        std::os::unix::fs::symlink("one", folder.join(LATEST)).unwrap();
        assert_eq!(place("latest").unwrap(), folder.join("one"));
        std::fs::remove_file(folder.join(LATEST)).unwrap();
        std::os::unix::fs::symlink("/elsewhere/one", folder.join(LATEST)).unwrap();
        assert!(matches!(place("latest"), Err(Refusal::Link { .. })));
    }
}
