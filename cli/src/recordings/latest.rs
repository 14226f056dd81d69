//! The `latest` link in the default folder: the recording that commands take when they are given none.

use std::fs;
use std::io::Result;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Name of the link to the newest recording.
pub const LATEST: &str = "latest";

/// Makes the default folder if it is missing, but not the home that it would be in.
///
/// # Errors
/// The operating system's.
pub fn make_default(folder: &Path) -> Result<()> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| folder.starts_with(home));
    if home.is_none_or(|home| home.is_dir()) { fs::create_dir_all(folder) } else { Ok(()) }
}

/// Sets the link in the default folder.
pub fn set_latest(links: &Path, target: &Path) -> Result<()> {
    make_default(links)?;
    // A link cannot be overwritten, but a rename replaces one at once.
    let new = links.join(format!(".{LATEST}-{}", std::process::id()));
    symlink(target, &new)?;
    fs::rename(&new, links.join(LATEST)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Lets a link that leads nowhere lead to the newest recording that is left, or takes it away where none is.
///
/// # Errors
/// The operating system's.
pub fn mend_latest(links: &Path) -> Result<()> {
    let link = links.join(LATEST);
    let leads_nowhere = link.is_symlink() && !link.exists();
    if !leads_nowhere {
        return Ok(());
    }
    match super::list(links, &super::Writers::default())?.first() {
        Some(newest) => set_latest(links, Path::new(&newest.name)),
        None => fs::remove_file(link),
    }
}
