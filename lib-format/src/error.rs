//! What can be wrong with a log, and where.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Result of reading or writing a log.
pub type Result<T> = std::result::Result<T, FormatError>;

/// What went wrong, in which file, at which byte.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Not a bugnet log at all.
    #[error("{path} is not a bugnet {what}: {found}")]
    NotALog {
        /// The file or folder.
        path: PathBuf,
        /// What was expected: "log", "interval file", ...
        what: &'static str,
        /// What was found instead.
        found: String,
    },
    /// A log of another version of the format.
    #[error("{path} has log format version {found}, this bugnet reads version {expected}; use the bugnet that made it")]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The version that this crate reads.
        expected: u32,
    },
    /// The file's bytes break a rule of the format: the log is damaged or was altered.
    #[error("{path}: damaged at byte {offset}: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Byte offset: in the file for frames and headers, in the interval's record stream for records.
        offset: u64,
        /// The rule that is broken.
        reason: String,
    },
    /// The asked-for thread, interval or file is not in the log.
    #[error("{0}")]
    Missing(String),
}

impl FormatError {
    /// Wraps an [`std::io::Error`] with the path that it is about.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Whether the file or folder is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::NotFound)
    }

    /// Whether the system refused something that is no fault of the log: a right, or memory, or a disk that fails.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let of_the_log = [
            ErrorKind::NotFound,
            ErrorKind::NotADirectory,
            ErrorKind::IsADirectory,
            ErrorKind::InvalidFilename,
            ErrorKind::InvalidInput,
        ];
        // FilesystemLoop has no stable name.
        let is_loop = |source: &std::io::Error| source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        matches!(self, Self::Io { source, .. } if !of_the_log.contains(&source.kind()) && !is_loop(source))
    }

    /// Damage at `offset` of `path`.
    pub fn damaged(path: &Path, offset: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), offset, reason: reason.into() }
    }
}
