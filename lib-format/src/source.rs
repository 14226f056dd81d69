//! Where the files of a log are: in a folder, or in one packed file.
//!
//! Paths of a log's files are the same in both: below the path of the folder, or of the packed file as if it were one.

use crate::error::{FormatError, Result};
use crate::files;
use crate::pack::{Pack, ReadAt};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log's folder, or a packed file in its place.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    pack: Option<Arc<Pack>>,
}

impl Source {
    /// What there is at `path`: a packed file, or else a folder, which need not be there.
    ///
    /// # Errors
    /// It is a file, but none that `bugnet pack` has made, or a damaged one.
    pub fn open(path: &Path) -> Result<Self> {
        match open_file(path)? {
            Some(file) => Self::packed(path, Arc::new(file)),
            None => Ok(path.into()),
        }
    }

    /// The packed file with these bytes; `path` is what it is called.
    ///
    /// # Errors
    /// It is none, or damaged.
    pub fn packed(path: &Path, bytes: Arc<dyn ReadAt>) -> Result<Self> {
        Ok(Self { path: path.to_owned(), pack: Some(Arc::new(Pack::open(bytes, path)?)) })
    }

    /// The folder, or the packed file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The packed file, if it is one.
    #[must_use]
    pub fn pack(&self) -> Option<&Pack> {
        self.pack.as_deref()
    }

    /// Bytes that a file of the log, or all files in a folder of it, take; what cannot be read counts as nothing.
    #[must_use]
    pub fn size(&self, path: &Path) -> u64 {
        match &self.pack {
            Some(pack) => files::inside(&self.path, path).map_or(0, |name| pack.size_below(&name)),
            None => size_of(path),
        }
    }
}

impl From<&Path> for Source {
    /// The folder.
    fn from(folder: &Path) -> Self {
        Self { path: folder.to_owned(), pack: None }
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        let same_pack = match (&self.pack, &other.pack) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.path == other.path && same_pack
    }
}

impl Eq for Source {}

/// Opens the regular file at `path`, which may be a link to one; `None` if there is something else, or nothing.
///
/// # Errors
/// The operating system's.
pub fn open_file(path: &Path) -> Result<Option<File>> {
    let is_file = |metadata: std::io::Result<fs::Metadata>| metadata.is_ok_and(|metadata| metadata.is_file());
    if !is_file(fs::metadata(path)) {
        return Ok(None);
    }
    // Without waiting, where it has just become a pipe.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.map_err(FormatError::io(path))?;
    Ok(is_file(file.metadata()).then_some(file))
}

fn size_of(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries.flatten().map(|entry| size_of(&entry.path())).sum()
}
