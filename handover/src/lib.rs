//! Frames that recorded threads hand over to `bugnet record`, which compresses them while the threads go on.
//!
//! A file in the log's folder is mapped by both sides. It has a bell, and slots for [jobs](Job). A slot goes through these
//! states:
//!
//! ```text
//!           thread              bugnet          bugnet                bugnet
//! Free ──> Claimed ──> Filled ─────────> Taken ─────────> Writing ─────────────> Free of the next generation
//!                        │                 │                 ├──────> Failed
//!                        └─────────────────┴─────────────────┴──────────┘ thread: Free of the next generation
//! ```
//!
//! The thread never depends on the other side. What nobody has begun it takes back and does itself; for what somebody has
//! begun it waits, but not for ever: bugnet may have been stopped or killed. Each way out of a slot begins its next
//! generation, so an answer that comes late finds the slot changed.
//!
//! bugnet writes what it has made of the records only behind the change to `Writing`. If that succeeds, the thread had not
//! taken the frame back while they were read, so they are the frame's. From there on both sides may write the frame: the
//! same bytes to the same place.

pub mod futex;

use bugnet_format::types::{IntervalNo, Pid, ProcessId, Tid};
use std::fs::{File, OpenOptions};
use std::io::{Error, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Name of the file in the log's folder; it is there while `bugnet record` runs.
pub const FILE: &str = ".handover";
/// First bytes of the file; another layout has others.
const MAGIC: u64 = u64::from_le_bytes(*b"BNHAND02");
/// As many frames can wait at once.
const SLOTS: usize = 64;

/// A frame to be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Whose frame it is.
    pub process: ProcessId,
    /// Its thread.
    pub tid: Tid,
    /// Which of the thread's tails has the records.
    pub tail: u32,
    /// The interval.
    pub interval: IntervalNo,
    /// The frame's number in it.
    pub frame: u32,
    /// Bytes of records.
    pub bytes: u32,
    /// Where in the interval's file the frame is to be.
    pub offset: u64,
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum State {
    Free,
    Claimed,
    Filled,
    Taken,
    Writing,
    Failed,
}

/// Bits of a slot's word that are its state; those above are its generation.
const STATE_BITS: u32 = 3;

/// A slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u32);

impl Word {
    fn generation(self) -> u32 {
        self.0 >> STATE_BITS
    }

    fn is(self, state: State) -> bool {
        self.0 & ((1 << STATE_BITS) - 1) == state as u32
    }

    /// The same generation, in this state.
    fn to(self, state: State) -> Self {
        Self(self.generation() << STATE_BITS | state as u32)
    }

    /// The next generation, free.
    fn next(self) -> Self {
        Self(self.generation().wrapping_add(1) << STATE_BITS)
    }
}

#[repr(C, align(64))]
struct Slot {
    word: AtomicU32,
    pid: AtomicU32,
    program: AtomicU32,
    tid: AtomicU32,
    tail: AtomicU32,
    frame: AtomicU32,
    bytes: AtomicU32,
    interval: AtomicU64,
    offset: AtomicU64,
}

impl Slot {
    fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    fn change(&self, from: Word, to: Word) -> bool {
        self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn put(&self, job: &Job) {
        let put = |word: &AtomicU32, value| word.store(value, Ordering::Relaxed);
        put(&self.pid, job.process.pid.0);
        put(&self.program, job.process.program);
        put(&self.tid, job.tid.0);
        put(&self.tail, job.tail);
        put(&self.frame, job.frame);
        put(&self.bytes, job.bytes);
        self.interval.store(job.interval.0, Ordering::Relaxed);
        self.offset.store(job.offset, Ordering::Relaxed);
    }

    fn job(&self) -> Job {
        let get = |word: &AtomicU32| word.load(Ordering::Relaxed);
        Job {
            process: ProcessId { pid: Pid(get(&self.pid)), program: get(&self.program) },
            tid: Tid(get(&self.tid)),
            tail: get(&self.tail),
            interval: IntervalNo(self.interval.load(Ordering::Relaxed)),
            frame: get(&self.frame),
            bytes: get(&self.bytes),
            offset: self.offset.load(Ordering::Relaxed),
        }
    }
}

/// The file. All of it is atomic: the other side may write at any time.
#[repr(C)]
struct Layout {
    magic: AtomicU64,
    /// Whether jobs are not taken any more.
    closed: AtomicU32,
    /// Changes with each job.
    bell: AtomicU32,
    /// Whether the other side has been there.
    opened: AtomicU32,
    slots: [Slot; SLOTS],
}

/// The shared memory. It stays mapped as long as the process lives.
#[derive(Clone, Copy)]
pub struct Handover(&'static Layout);

/// What a thread has in hand for a frame that it has handed over.
#[derive(Debug)]
pub struct Ticket {
    slot: usize,
    generation: u32,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is in the file.
    Written,
    /// Nobody has begun it, or whoever did does not answer: the thread has to write it.
    TakenBack,
    /// It could not be written: the thread has to try itself.
    Failed,
}

impl Handover {
    /// Makes the file, for the log in this folder.
    ///
    /// # Errors
    /// The operating system's.
    pub fn create(log: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let path = log.join(FILE);
        let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        // Written, and not just made longer: a full disk must not kill whoever writes to the mapping.
        let mut bytes = vec![0; size_of::<Layout>()];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let mapped = file.write_all(&bytes).and_then(|()| map(&file));
        // A part of it is of no use, and takes room.
        mapped.map(Self).inspect_err(|_| drop(std::fs::remove_file(&path)))
    }

    /// Maps the file of the log in this folder.
    ///
    /// # Errors
    /// The operating system's, also where there is none; or the file is another version's.
    pub fn open(log: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(log.join(FILE))?;
        if file.metadata()?.len() != size_of::<Layout>() as u64 {
            return Err(Error::other("a file of another size"));
        }
        let layout = map(&file)?;
        if layout.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(Error::other("a file of another version"));
        }
        layout.opened.store(1, Ordering::Release);
        Ok(Self(layout))
    }

    /// Whether somebody has [opened](Self::open) it.
    #[must_use]
    pub fn was_opened(&self) -> bool {
        self.0.opened.load(Ordering::Acquire) != 0
    }

    /// A thread hands a frame over, whose records stay as they are until the ticket is settled. `None` if it has to compress
    /// it itself.
    #[must_use]
    pub fn offer(&self, job: &Job) -> Option<Ticket> {
        if self.is_closed() {
            return None;
        }
        let free = |slot: &Slot| Some(slot.word()).filter(|word| word.is(State::Free));
        let claim = |slot: &Slot| free(slot).filter(|word| slot.change(*word, word.to(State::Claimed)));
        let (index, slot, word) = self.0.slots.iter().enumerate().find_map(|(i, s)| Some((i, s, claim(s)?)))?;
        slot.put(job);
        slot.word.store(word.to(State::Filled).0, Ordering::Release);
        self.0.bell.fetch_add(1, Ordering::AcqRel);
        futex::wake(&self.0.bell, 1);
        Some(Ticket { slot: index, generation: word.generation() })
    }

    /// The thread needs the frame to be in the file. For one that somebody has begun it waits so long; with no patience, not
    /// at all.
    pub fn settle(&self, ticket: Ticket, patience: Duration) -> Settled {
        let slot = &self.0.slots[ticket.slot];
        let start = Instant::now();
        loop {
            let word = slot.word();
            if word.generation() != ticket.generation {
                return Settled::Written;
            }
            if word.is(State::Taken) || word.is(State::Writing) {
                let left = patience.saturating_sub(start.elapsed());
                if !left.is_zero() {
                    futex::wait(&slot.word, word.0, Some(left));
                    continue;
                }
            }
            if slot.change(word, word.next()) {
                return if word.is(State::Failed) { Settled::Failed } else { Settled::TakenBack };
            }
        }
    }

    /// Waits for a frame that somebody has handed over, and takes it. `None` once nobody is to take any.
    #[must_use]
    pub fn next(&self) -> Option<Taken> {
        loop {
            // Before the looks: whatever comes behind them changes it.
            let bell = self.0.bell.load(Ordering::Acquire);
            if self.is_closed() {
                return None;
            }
            if let Some(taken) = self.take() {
                return Some(taken);
            }
            futex::wait(&self.0.bell, bell, None);
        }
    }

    fn take(&self) -> Option<Taken> {
        self.0.slots.iter().find_map(|slot| {
            let word = slot.word();
            let taken = word.to(State::Taken);
            let is_ours = word.is(State::Filled) && slot.change(word, taken);
            is_ours.then(|| Taken { slot, word: taken, job: slot.job() })
        })
    }

    /// Whether a frame waits to be taken.
    #[must_use]
    pub fn any_waiting(&self) -> bool {
        self.0.slots.iter().any(|slot| slot.word().is(State::Filled))
    }

    /// From here on nobody takes frames.
    pub fn close(&self) {
        self.0.closed.store(1, Ordering::Release);
        self.0.bell.fetch_add(1, Ordering::AcqRel);
        futex::wake(&self.0.bell, i32::MAX);
    }

    fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire) != 0
    }
}

/// A frame that is being compressed. If it is dropped before it is written, it has failed.
pub struct Taken {
    slot: &'static Slot,
    word: Word,
    /// What is to be done. Whoever shares the memory may have written anything here.
    pub job: Job,
}

impl Taken {
    /// The frame is about to be written. `false` if the thread has taken it back: then what was read may be another frame's.
    #[must_use]
    pub fn begin_writing(&mut self) -> bool {
        let writing = self.word.to(State::Writing);
        let is_ours = self.slot.change(self.word, writing);
        self.word = writing;
        is_ours
    }

    /// The frame is in the file.
    pub fn written(self) {
        self.answer(self.word.next());
        std::mem::forget(self);
    }

    fn answer(&self, word: Word) {
        // If this fails, the thread has taken it back.
        if self.slot.change(self.word, word) {
            futex::wake(&self.slot.word, i32::MAX);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.answer(self.word.to(State::Failed));
    }
}

fn map(file: &File) -> Result<&'static Layout> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping that replaces nothing.
    let memory = unsafe {
        libc::mmap(std::ptr::null_mut(), size_of::<Layout>(), protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if memory == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: the file is as long as the layout, which is valid with any bytes, and the mapping is aligned to pages. It is
    // never unmapped, and nothing in it but atomics is read or written.
    Ok(unsafe { &*memory.cast::<Layout>() })
}

#[cfg(test)]
mod tests;
