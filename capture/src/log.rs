//! The log: records in files, one after the other, that memory is shared with. `USED` in a file's header moves on when a record is whole.

use crate::elf::PAGE;
use crate::folder::{self, Entry};
use crate::layout::{
    ASKED, BEFORE, BEGAN, FROM, GROUP, HEAD, HEADER, MAGIC, ORIGIN, PART, PART_BEGAN, PART_NUMBER, PROCESS, USED,
    WENT_ON,
};
use crate::state;
use crate::sys;
use core::ops::Range;

/// Where the log lies.
pub const AT: u64 = 0x1101_0000_0000;

/// Bytes that most processes do not need more of.
const FEW: u64 = 256 << 10;
/// So many bytes behind them get their pages at once: each one by itself would take a fault.
const STEP: usize = 1 << 20;
const MADV_RANDOM: u64 = 1;
const MADV_POPULATE_WRITE: u64 = 23;
const EPERM: i64 = -1;
const ENOENT: i64 = -2;
const EACCES: i64 = -13;
const EEXIST: i64 = -17;
const EFBIG: i64 = -27;
/// Bytes of the smallest first part.
const LEAST: usize = 16 << 10;

/// From which process this one came, and how.
#[derive(Clone, Copy)]
pub struct From {
    pub pid: u32,
    pub program: u32,
    pub how: u32,
    pub call: u32,
    /// The group of processes that share memory, if it is one of those.
    pub group: u64,
}

/// Where in its log the process is.
#[derive(Clone, Copy)]
pub struct Log {
    /// The number of the file, which is a part of the log.
    part: u32,
    /// Bytes of records in the parts before.
    before: u64,
    /// Bytes of the file, of them in use, and with pages that are there.
    size: usize,
    used: usize,
    ready: usize,
    /// What each part's header says.
    from: From,
    began: u64,
}

impl Log {
    pub const fn new() -> Self {
        let from = From { pid: 0, program: 0, how: 0, call: 0, group: 0 };
        Self { part: 0, before: 0, size: 0, used: 0, ready: 0, from, began: 0 }
    }

    /// Bytes of the log, as if it had one part.
    pub fn len(&self) -> u64 {
        self.before + self.used as u64
    }
}

/// Where the file in use lies.
pub fn memory() -> Range<u64> {
    AT..AT + state::get().log.size as u64
}

/// Begins the process's log; the system's error where that is not possible.
pub fn begin(from: From) -> Result<(), i64> {
    let state = state::get();
    // SAFETY: no arguments.
    state.pid = unsafe { sys::call3(sys::GETPID, 0, 0, 0) } as u32;
    state.log = Log { from, began: now(), ..Log::new() };
    for program in 0..u32::MAX {
        state.program = program;
        match open(PART, LEAST) {
            Err(EEXIST) => {}
            other => {
                state.full = false;
                return other;
            }
        }
    }
    Err(EEXIST)
}

/// Nanoseconds since the Unix epoch.
fn now() -> u64 {
    let mut now = [0u64; 2];
    // SAFETY: room for a time.
    unsafe { sys::call3(sys::CLOCK_GETTIME, 0, now.as_mut_ptr() as u64, 0) };
    now[0] * 1_000_000_000 + now[1]
}

/// The file in the folder of light logs that belongs to the program, with this behind its name.
pub fn entry(behind: core::fmt::Arguments<'_>) -> Entry {
    let state = state::get();
    Entry::of(format_args!("p{}.{}{behind}", state.pid, state.program))
}

/// Most bytes that a file may have: more, and the kernel sends a signal.
pub fn limit() -> u64 {
    const RLIMIT_FSIZE: u64 = 1;
    let mut limits = [u64::MAX; 2];
    // SAFETY: room for both of them.
    unsafe { sys::call(sys::PRLIMIT, [0, RLIMIT_FSIZE, 0, limits.as_mut_ptr() as u64, 0, 0]) };
    limits[0]
}

/// Makes the file of a part, with its header, at the log's address: of a size, or of what files may have, but no less than `least`.
fn open(size: usize, least: usize) -> Result<(), i64> {
    let state = state::get();
    let size = (size as u64).min(limit() & !(PAGE - 1)) as usize;
    if size < least {
        return Err(EFBIG);
    }
    let Log { part, from, began, before, .. } = state.log;
    let entry = if part > 0 { entry(format_args!(".{part}")) } else { entry(format_args!("")) };
    let file = entry.open(sys::O_RDWR | sys::O_CREAT | sys::O_EXCL);
    if file < 0 {
        return Err(file);
    }
    // SAFETY: a file that was just made; nothing else lies at the log's address but what was written before, or the log of the process that this one was forked from.
    let mapped = unsafe {
        let sized = sys::call3(sys::FTRUNCATE, file as u64, size as u64, 0);
        let (protection, flags) = (sys::PROT_READ | sys::PROT_WRITE, sys::MAP_SHARED | sys::MAP_FIXED);
        let mapped =
            if sized < 0 { sized } else { sys::call(sys::MMAP, [AT, size as u64, protection, flags, file as u64, 0]) };
        sys::call3(sys::CLOSE, file as u64, 0, 0);
        if part == 0 {
            // Otherwise the kernel fills large parts of the file with zeros at the first touch, of which most processes need little.
            sys::call3(sys::MADVISE, AT, FEW, MADV_RANDOM);
        }
        mapped
    };
    if mapped < 0 {
        return Err(mapped);
    }
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    store(0, MAGIC);
    store(PROCESS, pair(state.pid, state.program));
    store(FROM, pair(from.pid, from.program));
    store(ORIGIN, pair(from.how, from.call));
    store(BEGAN, began);
    store(PART_NUMBER, part.into());
    store(BEFORE, before);
    store(PART_BEGAN, if part > 0 { now() } else { began });
    store(GROUP, from.group);
    store(ASKED, 0);
    store(USED, HEADER as u64);
    (state.log.size, state.log.used, state.log.ready) = (size, HEADER, FEW as usize);
    Ok(())
}

/// The log goes on in another file, which has room for a record of so many bytes.
fn go_on(most: usize) -> bool {
    let before = state::get().log;
    let log = &mut state::get().log;
    log.part += 1;
    log.before += (log.used - HEADER) as u64;
    let least = HEADER + most;
    let opened = open(PART.max(least.next_multiple_of(PAGE as usize)), least);
    if let Err(error) = opened {
        (state::get().log, state::get().refused) = (before, error);
    }
    opened.is_ok()
}

/// Why the log does not go on.
pub fn why_full() -> &'static str {
    match state::get().refused {
        EPERM | ENOENT | EACCES => "the process may not write to the log's folder, or no longer sees it",
        EFBIG => "the log's files may not be larger (ulimit -f)",
        _ => "the disk is full, or the log cannot be written",
    }
}

/// The log goes on in another file, if that is possible: its number. `asked`: for which epoch, by what the clock said; 0 for none.
pub fn begin_part(asked: u32) -> Option<u32> {
    let is_open = !state::get().full && go_on(0);
    if is_open {
        store(ASKED, asked.into());
    }
    is_open.then(|| state::get().log.part)
}

/// The process shares memory with those that it makes: the group of all that do, which is its own from here on, unless it is of one.
pub fn begin_group() -> u64 {
    let state = state::get();
    if state.log.from.group == 0 {
        state.log.from.group = u64::from(state.pid) | u64::from(state.program) << 32;
        if !state.full {
            store(GROUP, state.log.from.group);
        }
    }
    state.log.from.group
}

/// The log is over, and the process goes on: nobody has it mapped from here on, so that it can be removed, and nothing more can be written.
pub fn close() {
    let state = state::get();
    store(WENT_ON, 1);
    // SAFETY: the log's own memory.
    unsafe { sys::call3(sys::MUNMAP, AT, state.log.size as u64, 0) };
    folder::close();
    (state.log, state.full) = (Log::new(), true);
}

/// Gives the log's next bytes their pages. A kernel that does not know that, or a full disk, does so when they are written, or not.
fn make_ready(least: usize) {
    let log = &mut state::get().log;
    let from = log.ready;
    log.ready = (least + STEP).next_multiple_of(PAGE as usize).min(log.size);
    if from < log.ready {
        // SAFETY: the log's own memory.
        unsafe { sys::call3(sys::MADVISE, AT + from as u64, (log.ready - from) as u64, MADV_POPULATE_WRITE) };
    }
}

fn store(at: usize, word: u64) {
    // SAFETY: in the log's first page.
    unsafe { ((AT as usize + at) as *mut u64).write_volatile(word) };
}

/// A record that is being written.
pub struct Record {
    start: usize,
    at: usize,
}

impl Record {
    /// Begins one that has at most so many bytes; none where there is no room for it.
    pub fn begin(kind: u16, number: u16, most: usize) -> Option<Self> {
        let log = &state::get().log;
        let most = HEAD + most.next_multiple_of(8);
        if log.used + most > log.size && (state::get().full || !go_on(most)) {
            return None;
        }
        let start = state::get().log.used;
        if start + most > state::get().log.ready {
            make_ready(start + most);
        }
        let mut record = Self { start, at: start };
        record.word(u64::from(kind) << 32 | u64::from(number) << 48);
        Some(record)
    }

    fn address(&self) -> *mut u8 {
        (AT as usize + self.at) as *mut u8
    }

    pub fn word(&mut self, word: u64) {
        // SAFETY: in the room that `begin` has found.
        unsafe { self.address().cast::<u64>().write_unaligned(word) };
        self.at += 8;
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as above; the log is nobody's reference.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(), bytes.len()) };
        self.at += bytes.len();
    }

    /// The program's memory: address, length, and what of it is there, from the first byte on.
    pub fn memory(&mut self, from: u64, bytes: u64) {
        let len = self.at + 8;
        self.word(from);
        self.word(0);
        // SAFETY: as above.
        let copied = unsafe { sys::copy(self.address(), from, bytes as usize) };
        // SAFETY: as above.
        unsafe { ((AT as usize + len) as *mut u64).write_unaligned(copied as u64) };
        self.at += copied;
        self.align();
    }

    pub fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }

    /// The record is whole.
    pub fn end(mut self) {
        self.align();
        // SAFETY: in the record's head.
        unsafe { ((AT as usize + self.start) as *mut u32).write_unaligned((self.at - self.start) as u32) };
        let state = state::get();
        state.log.used = self.at;
        // What comes before is written: the processor does not exchange stores. On a full disk, it is nowhere.
        if !state.full {
            store(USED, self.at as u64);
        }
    }
}

/// Where a few short records would begin that may be taken back: they are all in one part.
pub fn mark() -> usize {
    const ROOM: usize = 6 << 10;
    let log = &state::get().log;
    if log.used + ROOM > log.size && !state::get().full {
        go_on(ROOM);
    }
    state::get().log.used
}

/// Takes back what was written since.
pub fn take_back(mark: usize) {
    state::get().log.used = mark;
    store(USED, mark as u64);
}
