//! A file that is made: it gets its name once it is whole, and until then leaves nothing behind, however this process ends.

use bugnet_format::folder::UNFINISHED;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::linkat;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

/// A file without its name.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// Another name that it has, where the file system knows no files without one.
    named: Option<TempPath>,
    folder: PathBuf,
}

/// Other names of files that get their own later.
fn other_names() -> Builder<'static, 'static> {
    let mut names = Builder::new();
    names.prefix(UNFINISHED.0).suffix(UNFINISHED.1);
    names
}

/// Gives a file without a name this one.
fn link(file: &File, name: &Path) -> io::Result<()> {
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(AT_FDCWD, &*itself, AT_FDCWD, name, AtFlags::AT_SYMLINK_FOLLOW)?)
}

impl NewFile {
    /// Makes one that can get a name in this folder.
    ///
    /// # Errors
    /// The operating system's.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let private = Mode::S_IRUSR | Mode::S_IWUSR;
        match open(folder, OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC, private) {
            Ok(file) => Ok(Self { file: file.into(), named: None, folder: folder.to_owned() }),
            Err(_) => Self::create_named(folder),
        }
    }

    fn create_named(folder: &Path) -> io::Result<Self> {
        let (file, named) = other_names().tempfile_in(folder)?.into_parts();
        Ok(Self { file, named: Some(named), folder: folder.to_owned() })
    }

    /// To write into.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// The other name that it has meanwhile, of which whoever makes it may see to it that it goes.
    #[must_use]
    pub fn other_name(&self) -> Option<&Path> {
        self.named.as_deref()
    }

    /// Gives it its name, unless there is something of that name.
    ///
    /// # Errors
    /// The operating system's.
    pub fn persist(self, name: &Path) -> io::Result<()> {
        match self.named {
            None => link(&self.file, name),
            Some(named) => Ok(named.persist_noclobber(name)?),
        }
    }

    /// Gives it its name, in place of a file that has it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn replace(self, name: &Path) -> io::Result<()> {
        let named = match self.named {
            // Only a rename replaces a file at once.
            None => other_names().make_in(&self.folder, |other| link(&self.file, other))?.into_temp_path(),
            Some(named) => named,
        };
        Ok(named.persist(name)?)
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
        for make in [NewFile::create, NewFile::create_named] {
            let path = folder.path().join("new");
            let new = make(folder.path()).unwrap();
            new.file().write_all(b"all of it").unwrap();
            assert!(!path.exists());
            new.persist(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"all of it");
            // What is there stays.
            let other = make(folder.path()).unwrap();
            assert_eq!(other.persist(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"all of it");
            // Unless it is to be replaced.
            let other = make(folder.path()).unwrap();
            other.file().write_all(b"more").unwrap();
            other.replace(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"more");
            drop(make(folder.path()).unwrap());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn it_has_no_name_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let new = NewFile::create(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), usize::from(new.other_name().is_some()));
    }
}
