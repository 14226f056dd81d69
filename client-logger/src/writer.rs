//! Writes a thread's log: interval files, their frames, and the tail that outlives the process.

use bugnet_dr::sys;
use bugnet_format::folder::{TAIL_FILE, interval_file};
use bugnet_format::frame::{IntervalHeader, TAIL_HEADER_SIZE, TailHeader, encode_frame};
use bugnet_format::record::{EndReason, Record, SignalStep, encode_load};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, IntervalNo};
use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of records that the tail holds.
const TAIL_SIZE: usize = 1 << 20;
/// What is kept free in the tail, for the records that end an interval.
const TAIL_RESERVE: usize = 64 << 10;
/// Most `REACH` records of an interval; where there would be more, there are none.
const MOST_REACH: usize = 1024;
/// Most bytes of memory in one record.
pub const CHUNK: usize = 32 << 10;
/// zstd's level: the fastest of its ordinary ones.
const LEVEL: i32 = 1;

/// A file of the log, on a descriptor that DynamoRIO hides from the program.
pub struct LogFile {
    file: sys::file_t,
    path: PathBuf,
}

fn c_path(path: &Path) -> Result<CString, String> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| format!("{}: not a file name", path.display()))
}

impl LogFile {
    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(path: &Path) -> Result<Self, String> {
        let name = c_path(path)?;
        // SAFETY: a C string and flags.
        let file =
            unsafe { sys::dr_open_file(name.as_ptr(), sys::DR_FILE_WRITE_REQUIRE_NEW | sys::DR_FILE_ALLOW_LARGE) };
        if file == sys::INVALID_FILE {
            return Err(format!("cannot create {}", path.display()));
        }
        Ok(Self { file, path: path.to_owned() })
    }

    /// A file that cannot be written.
    pub fn none() -> Self {
        Self { file: sys::INVALID_FILE, path: PathBuf::new() }
    }

    /// Appends.
    ///
    /// # Errors
    /// A sentence; a part may have been written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // SAFETY: an open file of ours and a buffer of the given length.
            let written = unsafe { sys::dr_write_file(self.file, rest.as_ptr().cast(), rest.len()) };
            if written <= 0 {
                let why = match -written as i32 {
                    libc::ENOSPC => "the disk is full",
                    libc::EDQUOT => "the disk quota is used up",
                    libc::EFBIG => "the file size limit is reached",
                    _ => "writing failed",
                };
                return Err(format!("{}: {why}", self.path.display()));
            }
            rest = &rest[written as usize..];
        }
        Ok(())
    }

    /// Closes; writing afterwards fails.
    pub fn close(&mut self) {
        if self.file != sys::INVALID_FILE {
            // SAFETY: an open file of ours.
            unsafe { sys::dr_close_file(self.file) };
            self.file = sys::INVALID_FILE;
        }
    }
}

/// A thread's tail, mapped: see [`bugnet_format::frame::read_tail`].
struct Tail {
    memory: *mut u8,
    used: usize,
}

impl Tail {
    fn create(path: &Path) -> Result<Self, String> {
        use std::os::fd::AsRawFd;
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let size = TAIL_HEADER_SIZE + TAIL_SIZE;
        // The space is taken now: a full disk must not kill the program when the mapping is written.
        // SAFETY: an open file of ours.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as i64) };
        if error != 0 {
            return Err(failed(std::io::Error::from_raw_os_error(error)));
        }
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping that replaces nothing.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(failed(std::io::Error::last_os_error()));
        }
        Ok(Self { memory: memory.cast(), used: 0 })
    }

    fn free(&self) -> usize {
        TAIL_SIZE - self.used - 1
    }

    /// Appends one record, its first byte last, and the zero byte behind it before that.
    fn push(&mut self, record: &[u8]) {
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
    fn cut(&mut self, used: usize) {
        // SAFETY: within the mapping; nobody else in the process refers to it.
        unsafe {
            let at = self.memory.add(TAIL_HEADER_SIZE + used);
            at.write_volatile(0);
        }
        self.used = used;
    }

    fn records(&self) -> &[u8] {
        // SAFETY: `used` bytes behind the header have been written.
        unsafe { std::slice::from_raw_parts(self.memory.add(TAIL_HEADER_SIZE), self.used) }
    }

    /// Empties the tail, which is for another frame from now on. Whenever the process is killed in here, the tail
    /// reads as the old frame's or as empty.
    fn reset(&mut self, header: TailHeader) {
        let bytes = header.encode();
        // SAFETY: within the mapping; nobody else in the process refers to it.
        unsafe {
            self.memory.add(TAIL_HEADER_SIZE).write_volatile(0);
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory, bytes.len());
        }
        self.used = 0;
    }

    /// Unmaps.
    fn unmap(&mut self) {
        if !self.memory.is_null() {
            // SAFETY: the mapping is ours and is not used again.
            unsafe { libc::munmap(self.memory.cast(), TAIL_HEADER_SIZE + TAIL_SIZE) };
            self.memory = std::ptr::null_mut();
        }
    }
}

/// The log of a thread.
pub struct Writer {
    folder: PathBuf,
    keep: u64,
    interval: IntervalNo,
    file: LogFile,
    frame: u32,
    tail: Tail,
    /// Whether there is no tail now.
    resting: bool,
    /// Whether the file ends in an incomplete frame.
    broken: bool,
    /// Position of the last record.
    last: u64,
    /// 1 if the last record stands for an instruction that counts as executed, else 0.
    executed: u64,
    scratch: Vec<u8>,
}

impl Writer {
    /// Creates the thread's folder and begins its first interval.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(
        folder: PathBuf,
        keep: u64,
        header: &IntervalHeader,
        checkpoint: &Record<'_>,
    ) -> Result<Self, String> {
        std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let tail = Tail::create(&folder.join(TAIL_FILE))?;
        let file = LogFile { file: sys::INVALID_FILE, path: folder.clone() };
        let scratch = Vec::with_capacity(CHUNK);
        let mut writer = Self {
            folder,
            keep,
            interval: header.interval,
            file,
            frame: 0,
            tail,
            resting: false,
            broken: false,
            last: 0,
            executed: 0,
            scratch,
        };
        writer.begin(header, checkpoint)?;
        Ok(writer)
    }

    /// Begins an interval.
    ///
    /// # Errors
    /// A sentence.
    pub fn begin(&mut self, header: &IntervalHeader, checkpoint: &Record<'_>) -> Result<(), String> {
        self.interval = header.interval;
        self.frame = 0;
        self.last = 0;
        self.executed = 0;
        if std::mem::take(&mut self.resting) {
            self.tail = Tail::create(&self.folder.join(TAIL_FILE))?;
        }
        self.tail.reset(TailHeader { interval: header.interval, frame: 0 });
        self.scratch.clear();
        checkpoint.encode(&mut self.scratch);
        self.tail.push(&self.scratch);
        // The file gets its name when it has its header and the tail its first record: a reader never meets an
        // interval with nothing in it.
        let path = self.folder.join(interval_file(header.interval));
        let new = path.with_extension("new");
        self.file = LogFile::create(&new)?;
        self.file.write(&header.encode())?;
        std::fs::rename(&new, &path).map_err(|e| format!("{}: {e}", path.display()))?;
        if self.keep > 0 && header.interval.0 >= self.keep {
            let old = self.folder.join(interval_file(IntervalNo(header.interval.0 - self.keep)));
            let _ = std::fs::remove_file(old);
        }
        Ok(())
    }

    fn push(&mut self) -> Result<(), String> {
        self.tail.push(&self.scratch);
        if self.tail.free() < TAIL_RESERVE { self.flush() } else { Ok(()) }
    }

    /// Appends the record that `make` returns for its distance from the record before.
    ///
    /// # Errors
    /// A sentence: a frame was due, and could not be written.
    pub fn record<'a>(&mut self, position: u64, make: impl FnOnce(u64) -> Record<'a>) -> Result<(), String> {
        let record = make(position - self.last);
        // Some kinds have no position of their own and do not move it.
        self.last += record.delta();
        self.executed = match &record {
            Record::Syscall { .. } | Record::Special { .. } | Record::Signal { step: SignalStep::Return, .. } => 1,
            record if record.has_position() => 0,
            _ => self.executed,
        };
        self.scratch.clear();
        record.encode(&mut self.scratch);
        self.push()
    }

    /// Appends a `LOAD` record.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn load(&mut self, position: u64, ordinal: u8, offset: u64, value: &[u8]) -> Result<(), String> {
        self.scratch.clear();
        encode_load(&mut self.scratch, position - self.last, ordinal, offset, value);
        self.last = position;
        self.executed = 0;
        self.push()
    }

    /// The position up to which replay comes with the records that there are.
    pub fn last_position(&self) -> u64 {
        self.last + self.executed
    }

    fn flush(&mut self) -> Result<(), String> {
        if self.broken {
            return Err("an earlier frame is incomplete".into());
        }
        self.scratch.clear();
        encode_frame(self.frame, self.tail.records(), LEVEL, &mut self.scratch).map_err(|e| e.to_string())?;
        if let Err(why) = self.file.write(&self.scratch) {
            // A part of the frame may stand there; nothing can follow it, and the tail still has its records.
            self.broken = true;
            return Err(why);
        }
        self.frame += 1;
        self.tail.reset(TailHeader { interval: self.interval, frame: self.frame });
        Ok(())
    }

    /// Ends the interval, in which memory was accessed in these parts of the address space.
    ///
    /// # Errors
    /// A sentence; the interval's records are in the tail nevertheless.
    pub fn end(
        &mut self,
        position: u64,
        reason: EndReason,
        regs: RegisterFile,
        reach: &[Range<u64>],
    ) -> Result<(), String> {
        let delta = position - self.last;
        self.scratch.clear();
        for part in reach.iter().filter(|_| reach.len() <= MOST_REACH) {
            Record::Reach { addr: Addr(part.start), len: part.end - part.start }.encode(&mut self.scratch);
        }
        let full = reason == EndReason::Full;
        let end = |reason: EndReason, regs| Record::End { delta, reason, regs: Box::new(regs) };
        end(reason, regs.clone()).encode(&mut self.scratch);
        let used = self.tail.used;
        self.tail.push(&self.scratch);
        if let Err(why) = self.flush() {
            if full {
                // There will be no next interval.
                self.scratch.clear();
                end(EndReason::LogStopped { why: why.clone() }, regs).encode(&mut self.scratch);
                self.tail.cut(used);
                self.tail.push(&self.scratch);
            }
            return Err(why);
        }
        self.file.close();
        Ok(())
    }

    /// An interval has ended, and maybe none follows: takes the tail away.
    pub fn rest(&mut self) {
        self.tail.unmap();
        let _ = std::fs::remove_file(self.folder.join(TAIL_FILE));
        self.resting = true;
    }

    /// The thread has ended and all is in its interval files.
    pub fn finish(mut self) {
        self.tail.unmap();
        let _ = std::fs::remove_file(self.folder.join(TAIL_FILE));
    }

    /// Lets go of everything without a trace in the log: this is a forked child's copy.
    pub fn abandon(mut self) {
        self.tail.unmap();
        self.file.close();
    }
}
