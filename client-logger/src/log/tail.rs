//! A tail: the records of a frame to come, in a mapped file that outlives the process.

use crate::base::descriptors::How;
use crate::base::own_memory;
use crate::log::file_size_limit as limit;
use crate::log::files;
use bugnet_format::folder::TAIL_FILES;
use bugnet_format::frame::{TAIL_HEADER_SIZE, TailHeader};
use bugnet_format::types::IntervalNo;
use std::path::{Path, PathBuf};

/// Bytes of records that a tail holds.
pub const TAIL_SIZE: usize = 1 << 20;

/// One of a thread's tails, mapped: see [`bugnet_format::frame::read_tail`].
pub struct Tail {
    number: usize,
    path: PathBuf,
    memory: *mut u8,
    used: usize,
}

// SAFETY: whoever has it is the only one who refers to its memory.
unsafe impl Send for Tail {}

impl Tail {
    /// Makes one of the tails of the thread with this folder, without a header.
    pub fn create(folder: &Path, number: usize) -> Result<Self, String> {
        let path = folder.join(TAIL_FILES[number]);
        match map_new(&path) {
            Ok(memory) => Ok(Self { number, path, memory, used: 0 }),
            Err(e) => Err(format!("{}: {e}", path.display())),
        }
    }

    /// Which of the thread's it is.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Bytes of records.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Bytes that records may still have.
    pub fn free(&self) -> usize {
        TAIL_SIZE - self.used - 1
    }

    /// Appends one record, its first byte last, and the zero byte behind it before that.
    pub fn push(&mut self, record: &[u8]) {
        assert!(record.len() <= self.free(), "record larger than the tail's reserve");
        // SAFETY: within the mapping, as asserted; nobody else in the process refers to it.
        unsafe {
            let at = self.memory.add(TAIL_HEADER_SIZE + self.used);
            std::ptr::copy_nonoverlapping(record[1..].as_ptr(), at.add(1), record.len() - 1);
            at.add(record.len()).write(0);
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
            at.write_volatile(record[0]);
        }
        self.used += record.len();
    }

    /// Takes back what was pushed when `used` bytes were used.
    pub fn cut(&mut self, used: usize) {
        // SAFETY: within the mapping; nobody else in the process refers to it.
        unsafe {
            let at = self.memory.add(TAIL_HEADER_SIZE + used);
            at.write_volatile(0);
        }
        self.used = used;
    }

    /// The records.
    pub fn records(&self) -> &[u8] {
        // SAFETY: `used` bytes behind the header have been written.
        unsafe { std::slice::from_raw_parts(self.memory.add(TAIL_HEADER_SIZE), self.used) }
    }

    /// Empties the tail, which is for another frame from now on. Whenever the process is killed in here, the tail
    /// reads as the old frame's or as empty.
    pub fn reset(&mut self, header: TailHeader) {
        let bytes = header.encode();
        // SAFETY: within the mapping; nobody else in the process refers to it.
        unsafe {
            self.memory.add(TAIL_HEADER_SIZE).write_volatile(0);
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory, bytes.len());
        }
        self.used = 0;
    }

    /// Empties the tail, as one that has not been used yet.
    pub fn empty(&mut self) {
        self.reset(TailHeader { interval: IntervalNo(0), frame: 0 });
    }

    /// Moves it to another thread, of which it becomes the tail with this number.
    pub fn move_to(&mut self, folder: &Path, number: usize) -> std::io::Result<()> {
        let path = folder.join(TAIL_FILES[number]);
        std::fs::rename(&self.path, &path)?;
        (self.path, self.number) = (path, number);
        Ok(())
    }

    /// Whether it is a thread's with this folder.
    pub fn lies_in(&self, folder: &Path) -> bool {
        self.path.parent() == Some(folder)
    }

    /// Unmaps: it is not used again here.
    pub fn unmap(&mut self) {
        if !self.memory.is_null() {
            own_memory::unmapped(self.memory.cast());
            // SAFETY: the mapping is ours and is not used again.
            unsafe { libc::munmap(self.memory.cast(), TAIL_HEADER_SIZE + TAIL_SIZE) };
            self.memory = std::ptr::null_mut();
        }
    }

    /// Takes it away: all of it is in the interval's file.
    pub fn remove(&mut self) {
        self.unmap();
        let _ = std::fs::remove_file(&self.path);
    }
}

fn map_new(path: &Path) -> std::io::Result<*mut u8> {
    use std::os::fd::AsRawFd;
    let file = files::open(path, How::New)?;
    let size = TAIL_HEADER_SIZE + TAIL_SIZE;
    let map = || {
        // The space is taken now: a full disk must not kill the program when the mapping is written.
        limit::check(size as u64)?;
        // SAFETY: an open file of ours.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as i64) };
        if error != 0 {
            return Err(std::io::Error::from_raw_os_error(error));
        }
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping that replaces nothing.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        own_memory::mapped(memory, size);
        Ok(memory.cast())
    };
    map().inspect_err(|_| {
        // Nothing is in it.
        let _ = std::fs::remove_file(path);
    })
}
