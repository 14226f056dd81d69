//! Files on descriptors that DynamoRIO hides from the program.

use crate::sys;
use std::ffi::CStr;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::RawFd;

/// An open file; it stays open until [`Self::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File(sys::file_t);

impl File {
    /// Creates a file that does not exist yet, for writing.
    #[must_use]
    pub fn create_new(path: &CStr) -> Option<Self> {
        Self::open(path, sys::DR_FILE_WRITE_REQUIRE_NEW | sys::DR_FILE_ALLOW_LARGE)
    }

    /// Opens a file or a folder for reading.
    #[must_use]
    pub fn open_read(path: &CStr) -> Option<Self> {
        Self::open(path, sys::DR_FILE_READ)
    }

    /// Creates a file, or empties one, for writing.
    #[must_use]
    pub fn create(path: &CStr) -> Option<Self> {
        Self::open(path, sys::DR_FILE_WRITE_OVERWRITE | sys::DR_FILE_ALLOW_LARGE)
    }

    /// Opens a file, or creates one, to be appended to.
    #[must_use]
    pub fn append(path: &CStr) -> Option<Self> {
        Self::open(path, sys::DR_FILE_WRITE_APPEND | sys::DR_FILE_ALLOW_LARGE)
    }

    fn open(path: &CStr, flags: u32) -> Option<Self> {
        // SAFETY: a C string and flags.
        let file = unsafe { sys::dr_open_file(path.as_ptr(), flags) };
        (file != sys::INVALID_FILE).then_some(Self(file))
    }

    /// Its descriptor.
    #[must_use]
    pub fn descriptor(self) -> RawFd {
        self.0
    }

    /// Writes some bytes, at least one; how many.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(self, bytes: &[u8]) -> Result<usize> {
        // SAFETY: a buffer of the given length; of a file that is closed, DynamoRIO says so.
        match unsafe { sys::dr_write_file(self.0, bytes.as_ptr().cast(), bytes.len()) } {
            0 => Err(ErrorKind::WriteZero.into()),
            error @ ..0 => Err(Error::from_raw_os_error(-error as i32)),
            written => Ok(written as usize),
        }
    }

    /// Goes to the end; where that is.
    #[must_use]
    pub fn end(self) -> Option<u64> {
        // SAFETY: asks DynamoRIO about a file.
        let end = unsafe {
            if sys::dr_file_seek(self.0, 0, sys::DR_SEEK_END as i32) == 0 { -1 } else { sys::dr_file_tell(self.0) }
        };
        u64::try_from(end).ok()
    }

    /// Goes to the beginning; whether that was possible.
    #[must_use]
    pub fn rewind(self) -> bool {
        // SAFETY: as in `end`.
        unsafe { sys::dr_file_seek(self.0, 0, sys::DR_SEEK_SET as i32) != 0 }
    }

    /// Closes it.
    pub fn close(self) {
        // SAFETY: DynamoRIO knows which of its files are open.
        unsafe { sys::dr_close_file(self.0) };
    }
}
