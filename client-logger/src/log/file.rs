//! A file of the log.

use crate::base::descriptors::undisturbed;
use crate::log::file_size_limit as limit;
use crate::log::files;
use crate::log::spare;
use bugnet_dr::file::File;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether there is, or was, another process with the same table of descriptors.
static SHARED: AtomicBool = AtomicBool::new(false);

/// A process is about to be made that has memory of its own, but the same table of descriptors.
pub fn share_descriptors() {
    SHARED.store(true, Ordering::SeqCst);
}

/// Whether there is no descriptor left for another file.
pub fn descriptors_are_used_up() -> bool {
    undisturbed(|| {
        // SAFETY: opens a folder that is always there, and closes it.
        unsafe {
            let file = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            if file >= 0 {
                libc::close(file);
                return false;
            }
        }
        matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
    })
}

/// Whether there is no room left where the log is.
fn is_full(why: &std::io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// A file of the log, on a descriptor that DynamoRIO hides from the program.
pub struct LogFile {
    /// None once it is closed, or is the other process's.
    file: Option<File>,
    path: PathBuf,
    /// Where the next byte goes.
    written: u64,
}

fn c_path(path: &Path) -> Result<CString, String> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| format!("{}: not a file name", path.display()))
}

/// Why a file that does not exist yet cannot be made, of which DynamoRIO does not tell.
fn why_not(path: &Path) -> String {
    match undisturbed(|| OpenOptions::new().write(true).create_new(true).open(path).map(drop)) {
        Ok(()) => {
            let _ = std::fs::remove_file(path);
            "DynamoRIO has no descriptor for it".into()
        }
        Err(e) => e.to_string(),
    }
}

impl LogFile {
    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(path: &Path) -> Result<Self, String> {
        let name = c_path(path)?;
        let Some(file) = undisturbed(|| File::create_new(&name)) else {
            return Err(format!("cannot create {}: {}", path.display(), why_not(path)));
        };
        // SAFETY: an open file of ours, whose number is a descriptor's.
        unsafe { libc::fchmod(file.descriptor(), files::PRIVATE) };
        Ok(Self { file: Some(file), path: path.to_owned(), written: 0 })
    }

    /// A file that cannot be written.
    pub fn none() -> Self {
        Self { file: None, path: PathBuf::new(), written: 0 }
    }

    /// Appends.
    ///
    /// # Errors
    /// A sentence; a part may have been written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let len = self.written + bytes.len() as u64;
        limit::check(len).map_err(|e| format!("{}: {e}", self.path.display()))?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let closed = || std::io::Error::from_raw_os_error(libc::EBADF);
            let written = self.file.ok_or_else(closed).and_then(|file| file.write(rest));
            if let Err(why) = &written
                && is_full(why)
                && spare::remove_all()
            {
                continue;
            }
            rest = &rest[written.map_err(|why| format!("{}: {why}", self.path.display()))?..];
        }
        self.written = len;
        Ok(())
    }

    /// Goes to the end, behind what another process has written. Returns where that is.
    ///
    /// # Errors
    /// A sentence.
    pub fn end(&mut self) -> Result<u64, String> {
        let end = self.file.and_then(File::end);
        self.written = end.ok_or_else(|| format!("{}: its end is not found", self.path.display()))?;
        Ok(self.written)
    }

    /// Goes to the beginning.
    ///
    /// # Errors
    /// A sentence.
    pub fn rewind(&mut self) -> Result<(), String> {
        if !self.file.is_some_and(File::rewind) {
            return Err(format!("{}: its beginning is not found", self.path.display()));
        }
        self.written = 0;
        Ok(())
    }

    /// Lets go of a file that is the other process's, in a child that was just forked.
    pub fn abandon(&mut self) {
        if SHARED.load(Ordering::SeqCst) {
            // The descriptor is, too.
            self.file = None;
        } else {
            self.close();
        }
    }

    /// Closes; writing afterwards fails.
    pub fn close(&mut self) {
        if let Some(file) = self.file.take() {
            file.close();
        }
    }
}
