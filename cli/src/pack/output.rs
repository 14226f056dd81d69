//! The file that is made: it gets its name once it is whole, and until then leaves nothing behind, however this process ends.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use std::fs::File;
use std::io;
use std::path::Path;
use tempfile::NamedTempFile;

/// A file without its name.
pub enum Output {
    /// It has none at all.
    Nameless(File),
    /// The file system knows no such files: it has another one.
    Named(NamedTempFile),
}

impl Output {
    /// Makes one that can get a name in this folder.
    ///
    /// # Errors
    /// The operating system's.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let private = Mode::RUSR | Mode::WUSR;
        match open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, private) {
            Ok(file) => Ok(Self::Nameless(file.into())),
            Err(_) => tempfile::Builder::new().prefix(".bugnet-pack-").tempfile_in(folder).map(Self::Named),
        }
    }

    /// To write into.
    pub fn file(&self) -> &File {
        match self {
            Self::Nameless(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// Gives it its name, unless there is something of that name.
    ///
    /// # Errors
    /// The operating system's.
    pub fn persist(self, name: &Path) -> io::Result<()> {
        match self {
            Self::Nameless(file) => {
                use std::os::fd::AsRawFd;
                let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
                Ok(linkat(CWD, itself, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
            }
            Self::Named(file) => Ok(file.persist_noclobber(name).map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn only_whole_files_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let named = tempfile::Builder::new().tempfile_in(folder.path()).map(Output::Named).unwrap();
        for (number, output) in [Output::create(folder.path()).unwrap(), named].into_iter().enumerate() {
            let path = folder.path().join(number.to_string());
            output.file().write_all(b"all of it").unwrap();
            assert!(!path.exists());
            output.persist(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"all of it");
            // What is there stays.
            let other = Output::create(folder.path()).unwrap();
            assert_eq!(other.persist(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"all of it");
        }
        drop(Output::create(folder.path()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
