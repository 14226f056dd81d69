//! Recordings as things that people keep: the folder in which they lie by default, what is in it, and what goes out of it.

mod disk;
mod entry;
mod latest;
mod limit;
pub mod lock;
mod name;
mod remove;
mod writers;

pub use disk::{Usage, together};
pub use entry::{Entry, State};
pub use latest::{LATEST, make_default, mend_latest, set_latest};
pub use limit::{Limit, WrongLimit};
pub use name::name;
pub use remove::{Refusal, check, remove, tidy};
pub use writers::Writers;

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The folder below the default one in which copies of ELF files have a second name, by which other recordings find them.
pub const SHARED_ELF: &str = ".elf";

/// The folder below the default one in which light logs find what others have found of mapped files: copies, and what is known of their code.
pub const SHARED_CAPTURED: &str = ".captured";
/// Folders in it.
pub const CAPTURED_FILES: &str = "files";
pub const CAPTURED_PLACES: &str = "places";

/// The folder in which logs lie by default: `$BUGNET_DIR`, else `$XDG_DATA_HOME/bugnet`, else
/// `~/.local/share/bugnet`. `None` if none of the three variables is set.
pub fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("BUGNET_DIR")
        // The XDG specification says that a relative path is to be ignored.
        .or_else(|| set("XDG_DATA_HOME").filter(|path| path.is_absolute()).map(|path| path.join("bugnet")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/bugnet")))
}

/// Whether somebody still writes the recording at `path`.
pub fn is_being_recorded(path: &Path) -> bool {
    // However the path leads there.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    lock::is_written(&path) || Writers::default().write_any(&writers::tails(&path))
}

/// The recordings in a folder, the newest first. A folder that is not there holds none.
///
/// # Errors
/// The folder cannot be read.
pub fn list(folder: &Path, writers: &Writers) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let names = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(entries),
        names => names?,
    };
    for name in names {
        let name = name?.file_name();
        // Hidden ones are bugnet's own business.
        if !name.as_bytes().starts_with(b".") {
            entries.extend(Entry::at(&folder.join(name), writers));
        }
    }
    entries.sort_by(|a, b| (b.started, &b.name).cmp(&(a.started, &a.name)));
    Ok(entries)
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
}
