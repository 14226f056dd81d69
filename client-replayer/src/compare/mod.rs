//! Comparing what threads read with the memory of all threads.
//!
//! Memory, at its own addresses, is what the threads' stores have made of it in the order in which they run. Each thread has
//! its *picture* beside it, which its own records and stores alone determine, just as when it is replayed alone. Before an
//! instruction reads, the two are compared. Where they are the same, the order explains what the thread read. Where
//! not, the thread gets what its picture says, which is what it read when it was recorded; and if nothing from outside
//! of the process can have written there, that is a conflict: the order is not the one of the recording.
//!
//! So the threads themselves always run as recorded, and their registers are compared as in any replay.
//!
//! - `notes`: what the engine tells of records, stores and changes of threads
//! - `pictures`: what each thread knows of memory, and has stored there; `pages`: where their pages are
//! - `origin`: who wrote what memory holds
//! - `system`: what system calls may have changed
//! - `requests`: what the kernel may have changed later, because it was asked to
//! - `robust`: what it changes when a thread ends
//! - `patches`: what was found, so that another replay need not compare

mod notes;
pub(crate) mod origin;
mod pages;
mod patches;
mod pictures;
mod requests;
mod robust;
pub(crate) mod system;

pub use origin::MAX_THREADS;
pub use patches::Patches;
pub use pictures::Shared;

use crate::accesses::Accesses;
use crate::code::Code;
use crate::context::Context;
use crate::instruction::{Instruction, PlainAccess, Registers};
use crate::memory::{Memory, MemoryError};
use crate::places::Places;
use bugnet_format::control::{CompareCounts, Comparison, Conflict, Explanation, MAX_CONFLICTS};
use bugnet_format::types::{Addr, Tid};
use origin::{Origin, Origins};
use pictures::{Pictures, pieces};
use requests::Buffer;
use system::System;

/// Longest range that one instruction is believed to touch.
const MAX_RANGE: u64 = 1 << 40;
/// Pages of which it is remembered that they can be read.
const RECENT: usize = 256;
/// What stands for none of them: no page begins there.
const NO_PAGE: u64 = u64::MAX;
/// Most bytes of a conflict that are reported.
const SHOWN: usize = 32;

/// Whether pieces of memory of the same length are the same; fast where they are as long as a register.
fn same(a: &[u8], b: &[u8]) -> bool {
    fn word<const LEN: usize>(a: &[u8], b: &[u8]) -> bool {
        <[u8; LEN]>::try_from(a).ok() == <[u8; LEN]>::try_from(b).ok()
    }
    match a.len() {
        8 => word::<8>(a, b),
        4 => word::<4>(a, b),
        1 => word::<1>(a, b),
        2 => word::<2>(a, b),
        16 => word::<16>(a, b),
        32 => word::<32>(a, b),
        _ => a == b,
    }
}

/// Copies as many bytes as both have; fast where they are as long as a register.
fn copy(to: &mut [u8], from: &[u8]) {
    fn word<const LEN: usize>(to: &mut [u8], from: &[u8]) {
        if let (Ok(to), Ok(from)) = (<&mut [u8; LEN]>::try_from(to), <&[u8; LEN]>::try_from(from)) {
            *to = *from;
        }
    }
    match from.len() {
        8 => word::<8>(to, from),
        4 => word::<4>(to, from),
        1 => word::<1>(to, from),
        2 => word::<2>(to, from),
        16 => word::<16>(to, from),
        32 => word::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// What is known of a thread beside its context.
struct Known {
    tid: Tid,
    /// From so many instructions on, it may have seen what the log does not hold.
    unknown_from: u64,
    /// The system call that is due, if it has begun: which memory it may have changed.
    call: Option<Vec<Buffer>>,
    /// Address of the head of its list of robust futexes; 0 if it has none.
    robust: u64,
}

/// The comparison.
pub struct Compare {
    threads: Vec<Known>,
    /// What each thread knows of memory.
    pub pictures: Pictures,
    /// Whether it finds out where bytes come from that memory does not have.
    explains: Explanation,
    /// Whether a part of what the threads did comes before all of this.
    begins_late: bool,
    origins: Origins,
    system: System,
    accesses: Accesses,
    /// What an instruction writes that accesses nothing else, in place of those: address and length.
    pending: Option<(u64, u64)>,
    /// Position of the instruction whose accesses these are.
    accessed_at: u64,
    /// Pages that can be read, by the lowest bits of their numbers.
    readable: [u64; RECENT],
    found: Comparison,
    /// What another replay needs to find the same.
    pub patches: patches::Found,
    /// What `LOAD`s of an instruction have brought that memory did not have, and the thread and position of the instruction.
    brought: Vec<Brought>,
    brought_at: (usize, u64),
    /// The thread and position of the instruction that was looked at last without being executed.
    looked_at: Option<(usize, u64)>,
}

/// A value that a record has brought: address, length, and where it comes from.
struct Brought {
    addr: u64,
    len: u64,
    worst: (Origin, u64),
}

impl Compare {
    /// At the start of these threads. `explains` says whether it finds out where bytes come from; `pictures` are those of the threads.
    pub fn new(contexts: &[Context], explains: Explanation, pictures: Pictures) -> Self {
        let known =
            |context: &Context| Known { tid: context.tid, unknown_from: context.unknown_from, call: None, robust: 0 };
        let mut origins = Origins::default();
        if explains == Explanation::Quick {
            origins.keep_no_stores();
        }
        Self {
            threads: contexts.iter().map(known).collect(),
            pictures,
            explains,
            begins_late: contexts.iter().any(|context| context.start > 0),
            origins,
            system: System::default(),
            accesses: Accesses::default(),
            pending: None,
            accessed_at: 0,
            readable: [NO_PAGE; RECENT],
            // The first segment has begun.
            found: Comparison {
                counts: CompareCounts { segments: 1, ..CompareCounts::default() },
                ..Comparison::default()
            },
            patches: patches::Found::default(),
            brought: Vec::new(),
            brought_at: (0, 0),
            looked_at: None,
        }
    }

    /// What was found so far.
    pub fn found(&mut self) -> &Comparison {
        self.settle_brought();
        &self.found
    }

    /// How the code cache finds the pictures, if it compares by itself.
    pub fn places(&self) -> Option<Places> {
        self.pictures.places()
    }

    /// Counts what [`Self::load`] was told of an instruction that the code cache has compared by itself.
    fn settle_brought(&mut self) {
        let worst = self.brought.drain(..).map(|brought| brought.worst).max_by_key(|(origin, _)| *origin);
        let (thread, at) = self.brought_at;
        self.count(worst, thread, at);
    }

    /// Counts a read that has found what comes from there.
    fn count(&mut self, worst: Option<(Origin, u64)>, thread: usize, at: u64) {
        let counts = &mut self.found.counts;
        match worst.map(|(origin, _)| origin) {
            None => {}
            Some(Origin::Unwritten) => counts.unwritten += 1,
            Some(Origin::System) => counts.system += 1,
            Some(Origin::Outside) => counts.outside += 1,
            Some(Origin::Thread { .. }) if at >= self.threads[thread].unknown_from => counts.unknown += 1,
            Some(Origin::Thread { .. }) => counts.conflicts += 1,
        }
    }

    /// Where other bytes than memory holds can come from, that a thread found at an address.
    fn origin(&mut self, addr: u64, thread: usize) -> Origin {
        if self.explains != Explanation::Quick {
            return self.origins.of(addr, thread);
        }
        self.take_changes();
        let origin = self.origins.by_stores(addr, self.pictures.stored(addr, thread));
        self.found.is_open |= origin.is_none();
        origin.unwrap_or(Origin::Outside)
    }

    /// What system calls may have changed, before threads store there again.
    pub fn take_changes(&mut self) {
        for (addr, len) in self.origins.take_changes() {
            self.pictures.system(addr, len);
        }
    }

    /// A thread stored there, after `at` instructions.
    fn note_store(&mut self, thread: usize, (addr, len): (u64, u64), at: u64) {
        match self.explains {
            Explanation::None => {}
            Explanation::Quick => self.pictures.store(thread, addr, len),
            Explanation::Full => self.origins.store(addr, len, thread, at),
        }
    }

    /// A segment begins.
    pub fn count_segment(&mut self) {
        self.found.counts.segments += 1;
    }

    /// Records put these bytes into a thread's picture.
    pub fn put(&mut self, code: &Code, thread: usize, addr: u64, bytes: &[u8]) {
        self.pictures.write(code, thread, addr, bytes);
    }

    /// A `LOAD` puts this value into a thread's picture, for its next instruction, behind `at` others. It is about to be put into
    /// memory.
    pub fn load(
        &mut self,
        memory: &mut Memory,
        code: &Code,
        (thread, at): (usize, u64),
        addr: u64,
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        self.pictures.write(code, thread, addr, bytes);
        memory.ensure_readable(addr, bytes.len() as u64)?;
        // SAFETY: the bytes are the recorded program's, were just made readable, and nobody writes meanwhile.
        let found = unsafe { std::slice::from_raw_parts(addr as *const u8, bytes.len()) };
        if same(bytes, found) {
            self.found.counts.explained += 1;
            return Ok(());
        }
        if self.brought_at != (thread, at) {
            self.settle_brought();
            self.brought_at = (thread, at);
        }
        if let Some(worst) = self.judge(memory, (thread, at), addr, bytes, found) {
            self.brought.push(Brought { addr, len: bytes.len() as u64, worst });
        }
        Ok(())
    }

    /// A version of a page of code is about to be put into memory. It was taken while other threads may have been writing there,
    /// and nothing orders it with what they wrote: where it changes what they have stored, it says nothing about what others
    /// are to find.
    pub fn code_comes(&mut self, memory: &mut Memory, page: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        memory.ensure_readable(page, Addr::PAGE)?;
        let before = memory.read(page, Addr::PAGE);
        let mut at = page;
        let pairs: Vec<bool> = before.iter().zip(bytes).map(|(old, new)| old != new).collect();
        for run in pairs.chunk_by(|one, other| one == other) {
            if run[0] {
                self.origins.system(at, run.len() as u64);
            }
            at += run.len() as u64;
        }
        Ok(())
    }

    /// As [`Self::access`], for an instruction that accesses one place. `false` if that is not certain to be as the thread knows it, and
    /// nothing was done.
    #[inline]
    pub fn plain(
        &mut self,
        memory: &mut Memory,
        code: &Code,
        plain: &PlainAccess,
        regs: &impl Registers,
        (thread, at): (usize, u64),
    ) -> bool {
        let (addr, len) = (plain.address(regs), plain.bytes);
        let (page, first) = (addr & !(Addr::PAGE - 1), (addr % Addr::PAGE) as usize);
        let range = first..first + len as usize;
        if range.end > Addr::PAGE as usize || !self.brought.is_empty() {
            return false;
        }
        if plain.reads {
            let readable = &mut self.readable[(page / Addr::PAGE) as usize % RECENT];
            if *readable != page {
                if memory.ensure_readable(addr, len).is_err() {
                    return false;
                }
                *readable = page;
            }
            let recorded = &self.pictures.page(code, thread, page)[range];
            // SAFETY: the bytes are the recorded program's, on a page that can be read, as all can that were once there; nobody writes
            // meanwhile.
            let found = unsafe { std::slice::from_raw_parts(addr as *const u8, recorded.len()) };
            if !same(recorded, found) {
                return false;
            }
        }
        if plain.writes {
            if memory.ensure_writable(addr, len).is_err() {
                return false;
            }
            self.pending = Some((addr, len));
        }
        self.accessed_at = at;
        true
    }

    /// An instruction of a thread is next, behind `at` others: compares what it reads, and takes note of what it is going to
    /// write. `bytes` are its bytes. The error says what is wrong with the instruction.
    pub fn access(
        &mut self,
        memory: &mut Memory,
        code: &Code,
        (instruction, bytes): (&Instruction, &[u8]),
        regs: &impl Registers,
        (thread, at): (usize, u64),
    ) -> Result<(), AccessError> {
        if self.brought_at != (thread, at) {
            self.settle_brought();
        }
        let mut picture = |addr, len| self.pictures.element(code, thread, addr, len);
        let makes_sense = self.accesses.find(instruction, bytes, regs, &mut picture);
        let Accesses { reads, writes } = &self.accesses;
        if !(makes_sense && reads.iter().chain(writes).all(|(_, len)| *len < MAX_RANGE)) {
            return Err(AccessError::Senseless);
        }
        self.accessed_at = at;
        for read in 0..self.accesses.reads.len() {
            let (addr, len) = self.accesses.reads[read];
            self.compare(memory, code, (thread, at), addr, len)?;
        }
        for &(addr, len) in &self.accesses.writes {
            memory.ensure_writable(addr, len)?;
        }
        self.brought.clear();
        Ok(())
    }

    /// As [`Self::access`], but the instruction is not going to be executed now.
    pub fn look(
        &mut self,
        memory: &mut Memory,
        code: &Code,
        instruction: (&Instruction, &[u8]),
        regs: &impl Registers,
        (thread, at): (usize, u64),
    ) -> Result<(), AccessError> {
        let looked = self.access(memory, code, instruction, regs, (thread, at));
        self.accesses = Accesses::default();
        self.looked_at = looked.is_ok().then_some((thread, at));
        looked
    }

    /// Compares memory with what the thread read there, and gives it that.
    fn compare(
        &mut self,
        memory: &mut Memory,
        code: &Code,
        (thread, at): (usize, u64),
        addr: u64,
        len: u64,
    ) -> Result<(), MemoryError> {
        let mut worst: Option<(Origin, u64)> = None;
        if !self.brought.is_empty() && self.brought_at == (thread, at) {
            let of_this = |brought: &&Brought| brought.addr < addr + len && addr < brought.addr + brought.len;
            worst = self.brought.iter().filter(of_this).map(|brought| brought.worst).max_by_key(|(origin, _)| *origin);
        }
        for (page, range) in pieces(addr, len) {
            let start = page + range.start as u64;
            memory.ensure_readable(start, range.len() as u64)?;
            let recorded = &self.pictures.page(code, thread, page)[range];
            // SAFETY: the bytes are the recorded program's, were just made readable, and nobody writes meanwhile.
            let found = unsafe { std::slice::from_raw_parts(start as *const u8, recorded.len()) };
            if same(recorded, found) {
                continue;
            }
            let (recorded, found) = (&recorded.to_vec(), &found.to_vec());
            let origin = self.judge(memory, (thread, at), start, recorded, found);
            worst = worst.into_iter().chain(origin).max_by_key(|(origin, _)| *origin);
            self.patches.apply(memory, (thread, at), start, found, recorded)?;
        }
        self.count(worst, thread, at);
        Ok(())
    }

    /// Where the bytes can come from that a thread has read and memory does not have: the origin that explains least, and an address.
    fn judge(
        &mut self,
        memory: &Memory,
        (thread, at): (usize, u64),
        start: u64,
        recorded: &[u8],
        found: &[u8],
    ) -> Option<(Origin, u64)> {
        if self.explains == Explanation::None {
            return None;
        }
        self.find_given_up(memory, start, recorded, found);
        let mut worst: Option<(Origin, u64)> = None;
        for (i, _) in recorded.iter().zip(found).enumerate().filter(|(_, (a, b))| a != b) {
            let origin = self.origin(start + i as u64, thread);
            if worst.is_none_or(|(other, _)| other < origin) {
                worst = Some((origin, start + i as u64));
            }
        }
        if let Some((Origin::Thread { writer, at: writer_at }, addr)) = worst
            && at < self.threads[thread].unknown_from
            && self.found.conflicts.len() < MAX_CONFLICTS
        {
            let from = (addr - start) as usize;
            let piece = |bytes: &[u8]| bytes[from..].iter().copied().take(SHOWN).collect();
            let (recorded, found) = (piece(recorded), piece(found));
            self.found.conflicts.push(Conflict {
                reader: thread,
                reader_at: at,
                addr,
                recorded,
                found,
                writer,
                writer_at,
            });
        }
        worst
    }

    /// Robust futexes among these bytes that the kernel has given up for a thread that ended.
    fn find_given_up(&mut self, memory: &Memory, at: u64, recorded: &[u8], found: &[u8]) {
        for (futex, owner) in robust::given_up(at, recorded, found) {
            // What a thread has in its list may stand there from before.
            let listed = |thread: &Known| robust::held(memory, thread.robust, owner).contains(&futex);
            let holds = |thread: &Known| thread.tid.id() == owner.id() && (self.begins_late || listed(thread));
            if self.threads.iter().any(holds) {
                self.origins.system(futex, robust::FUTEX_BYTES);
            }
        }
    }

    /// The instruction of the thread that was given to [`Self::access`] last is over, if there is one: its picture takes what is
    /// in memory now.
    pub fn stored(&mut self, code: &Code, thread: usize) {
        if let Some((addr, len)) = self.pending.take() {
            let (page, first) = (addr & !(Addr::PAGE - 1), (addr % Addr::PAGE) as usize);
            // SAFETY: as below.
            let now = unsafe { std::slice::from_raw_parts(addr as *const u8, len as usize) };
            copy(&mut self.pictures.page(code, thread, page)[first..first + len as usize], now);
            self.note_store(thread, (addr, len), self.accessed_at);
            return;
        }
        let mut writes = std::mem::take(&mut self.accesses.writes);
        for (addr, len) in writes.drain(..) {
            for (page, range) in pieces(addr, len) {
                let at = page + range.start as u64;
                // SAFETY: the bytes are the recorded program's, were made writable before the instruction, and nobody
                // writes meanwhile.
                let now = unsafe { std::slice::from_raw_parts(at as *const u8, range.len()) };
                self.pictures.page(code, thread, page)[range].copy_from_slice(now);
            }
            self.note_store(thread, (addr, len), self.accessed_at);
        }
        self.accesses.writes = writes;
        self.accesses.reads.clear();
    }

    /// As [`Self::stored`], but the instruction is not over if it is the one that is next behind `at` others.
    pub fn stored_before(&mut self, code: &Code, thread: usize, at: u64) {
        if self.accessed_at == at {
            self.pending = None;
            self.accesses.writes.clear();
        }
        self.stored(code, thread);
    }
}

/// Why an instruction's accesses cannot be compared.
pub enum AccessError {
    /// It goes over more memory than there can be.
    Senseless,
    /// There is no memory.
    Memory(MemoryError),
}

impl From<MemoryError> for AccessError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}
