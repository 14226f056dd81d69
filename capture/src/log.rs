//! The log: records in a file that memory is shared with. `USED` in the header moves on when a record is whole.

use crate::layout::{BEGAN, FROM, HEAD, HEADER, MAGIC, ORIGIN, PROCESS, SEGMENT, USED};
use crate::state;
use crate::sys;
use crate::text::Text;
use core::fmt::Write;

/// Where the log lies.
pub const AT: u64 = 0x1001_0000_0000;

/// Bytes that most processes do not need more of.
const FEW: u64 = 256 << 10;
const MADV_RANDOM: u64 = 1;

/// From which process this one came, and how.
#[derive(Clone, Copy)]
pub struct From {
    pub pid: u32,
    pub program: u32,
    pub how: u32,
    pub call: u32,
}

/// Begins the process's file; the system's error where that is not possible.
pub fn begin(from: From) -> Result<(), i64> {
    let state = state::get();
    // SAFETY: no arguments.
    state.pid = unsafe { sys::call3(sys::GETPID, 0, 0, 0) } as u32;
    let mut file = -1;
    for program in 0..u32::MAX {
        let mut path = Text::<1200>::new();
        path.push(state::text(&state.folder));
        let _ = write!(path, "/light/p{}.{program}", state.pid);
        let flags = sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC;
        // SAFETY: a path that ends with a zero byte.
        file = unsafe { sys::call3(sys::OPEN, path.address(), flags, 0o600) };
        if file != -17 {
            state.program = program;
            break;
        }
    }
    if file < 0 {
        return Err(file);
    }
    // SAFETY: a file that was just made; nothing else lies at the log's address but the log of the process that this one was forked from.
    let mapped = unsafe {
        let sized = sys::call3(sys::FTRUNCATE, file as u64, SEGMENT as u64, 0);
        let (protection, flags) = (sys::PROT_READ | sys::PROT_WRITE, sys::MAP_SHARED | sys::MAP_FIXED);
        let mapped = if sized < 0 {
            sized
        } else {
            sys::call(sys::MMAP, [AT, SEGMENT as u64, protection, flags, file as u64, 0])
        };
        sys::call3(sys::CLOSE, file as u64, 0, 0);
        // Otherwise the kernel fills large parts of the file with zeros at the first touch, of which most processes need little.
        sys::call3(sys::MADVISE, AT, FEW, MADV_RANDOM);
        mapped
    };
    if mapped < 0 {
        return Err(mapped);
    }
    let mut now = [0u64; 2];
    // SAFETY: room for a time.
    unsafe { sys::call3(sys::CLOCK_GETTIME, 0, now.as_mut_ptr() as u64, 0) };
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    store(0, MAGIC);
    store(PROCESS, pair(state.pid, state.program));
    store(FROM, pair(from.pid, from.program));
    store(ORIGIN, pair(from.how, from.call));
    store(BEGAN, now[0] * 1_000_000_000 + now[1]);
    state.used = HEADER;
    store(USED, HEADER as u64);
    state.full = false;
    Ok(())
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
        let start = state::get().used;
        if start + HEAD + most.next_multiple_of(8) > SEGMENT {
            return None;
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
        state.used = self.at;
        // What comes before is written: the processor does not exchange stores. On a full disk, it is nowhere.
        if !state.full {
            store(USED, self.at as u64);
        }
    }
}

/// Takes back what was written since the log had so many bytes.
pub fn take_back(used: usize) {
    state::get().used = used;
    store(USED, used as u64);
}
