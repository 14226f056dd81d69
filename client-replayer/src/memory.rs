//! The recorded program's memory, at its own addresses.
//!
//! The replay host has reserved every address outside its window without access. Pages appear on demand, zero-filled,
//! in chunks; pages of code are readable and executable only, so that DynamoRIO need not watch them for stores.
//!
//! Since `CODE` records state every change of code, DynamoRIO's own watch over code is not needed, and is kept out: it
//! is told of a code page once (readable, executable), and when the program stores to such a page, the page is made
//! writable without its knowledge.

use crate::code::Code;
use crate::fs_base;
use crate::marks::Marks;
use crate::places::{self, Places};
use crate::touched::Touched;
use crate::watch::Watch;
use bugnet_dr::space::{self, Protection};
use bugnet_dr::zeroing;
use bugnet_format::control::ByteState;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashMap;
use rustix::mm::{MprotectFlags, mprotect};
use std::ffi::c_void;
use std::fmt;
use std::ops::Range;

const PAGE: u64 = Addr::PAGE;
/// Pages that appear together.
const CHUNK_PAGES: u64 = 16;
const CHUNK: u64 = PAGE * CHUNK_PAGES;
const _: () = assert!(CHUNK == places::PIECE);
/// What stands for none in [`Memory::recent`]: no page begins there.
const NO_PAGE: u64 = u64::MAX;
/// Pages in [`Memory::recent`].
const RECENT: usize = 256;
/// Most bytes that stay in memory from one interval to the next.
const MOST_KEPT: usize = 128 << 20;
/// The host reserves from here on; the kernel gives nothing below it to unprivileged programs.
const USER_START: u64 = 0x1_0000;
/// End of the addresses of user mode.
const USER_END: u64 = (1 << 47) - PAGE;

/// A page of code that is put in place.
pub struct CodePage<'a> {
    /// Its address.
    pub addr: u64,
    /// Its version.
    pub seq: CodeSeq,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Why memory of the recorded program cannot be had.
#[derive(Debug)]
pub enum MemoryError {
    /// The replay process itself is there.
    Window(u64),
    /// No program can have memory there.
    Range(u64),
    /// The kernel refuses.
    System(u64, rustix::io::Errno),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(at) => write!(f, "the recorded address {at:#x} collides with the replay process's own memory"),
            Self::Range(at) => write!(f, "no program can have memory at {at:#x}"),
            Self::System(at, e) => write!(f, "cannot map memory at {at:#x}: {e}"),
        }
    }
}

/// What is known of the pages of a chunk; a bit a page.
#[derive(Clone, Copy, Default)]
struct Chunk {
    mapped: u16,
    writable: u16,
    code: u16,
}

/// The recorded program's memory. All its pages are readable once they are mapped.
pub struct Memory {
    chunks: HashMap<u64, Chunk>,
    /// What is watched, if anything.
    pub watch: Option<Watch>,
    /// Which bytes are known, if that is kept track of.
    pub touched: Option<Touched>,
    window: Range<u64>,
    /// Other parts of the address space that are the replay process's own.
    rooms: Vec<Range<u64>>,
    /// Pieces in which memory has come since somebody asked, if anybody wants to know.
    came: Option<Vec<u64>>,
    /// Writable pages that were written to lately, by the lowest bits of their numbers.
    recent: [u64; RECENT],
    /// Which version of each code page was put in place last.
    installed: HashMap<u64, CodeSeq>,
    /// How often [`Memory::reset`] was called.
    resets: u64,
    /// Whether it is decided whether the code cache marks accesses.
    decided: bool,
}

/// Bits of the pages `from..to` (addresses) that lie in the chunk at `chunk`.
fn bits(chunk: u64, from: u64, to: u64) -> u16 {
    let first = from.saturating_sub(chunk) / PAGE;
    let end = (to - chunk).div_ceil(PAGE).min(CHUNK_PAGES);
    (((1u32 << end) - 1) & !((1u32 << first) - 1)) as u16
}

/// The runs of set bits, as ranges of addresses.
fn runs(chunk: u64, mut bits: u16) -> impl Iterator<Item = Range<u64>> {
    std::iter::from_fn(move || {
        let first = bits.trailing_zeros();
        if first == 16 {
            return None;
        }
        let count = (bits >> first).trailing_ones();
        bits &= !((((1u32 << count) - 1) << first) as u16);
        let start = chunk + u64::from(first) * PAGE;
        Some(start..start + u64::from(count) * PAGE)
    })
}

impl Memory {
    /// The replay process's own part of the address space.
    pub fn window(&self) -> &Range<u64> {
        &self.window
    }

    /// Nothing is mapped; `window` is the replay process's own.
    pub fn new(window: Range<u64>) -> Self {
        Self {
            chunks: HashMap::new(),
            watch: None,
            window,
            rooms: Vec::new(),
            came: None,
            recent: [NO_PAGE; RECENT],
            installed: HashMap::new(),
            touched: None,
            resets: 0,
            decided: false,
        }
    }

    fn check(&self, addr: u64, len: u64) -> Result<Range<u64>, MemoryError> {
        let end = addr.checked_add(len).ok_or(MemoryError::Range(addr))?;
        if addr < USER_START || end > USER_END {
            return Err(MemoryError::Range(addr));
        }
        if addr < self.window.end && end > self.window.start {
            return Err(MemoryError::Window(addr.max(self.window.start)));
        }
        if let Some(room) = self.rooms.iter().find(|room| addr < room.end && end > room.start) {
            return Err(MemoryError::Window(addr.max(room.start)));
        }
        Ok(addr..end)
    }

    fn chunk(&self, chunk: u64) -> Chunk {
        self.chunks.get(&chunk).copied().unwrap_or_default()
    }

    fn make_writable(chunk: u64, bits: u16) -> Result<(), MemoryError> {
        for run in runs(chunk, bits) {
            // SAFETY: the range is the recorded program's, reserved by the host and outside of the window, so that no
            // Rust object and nothing of DynamoRIO's lies there.
            unsafe {
                mprotect(
                    run.start as *mut c_void,
                    (run.end - run.start) as usize,
                    MprotectFlags::READ | MprotectFlags::WRITE,
                )
            }
            .map_err(|e| MemoryError::System(run.start, e))?;
        }
        Ok(())
    }

    /// Whether the bytes are in one page that was written to lately: they can be read and written.
    #[inline]
    fn is_recent(&self, addr: u64, len: u64) -> bool {
        let page = addr & !(PAGE - 1);
        self.recent[(addr / PAGE) as usize % RECENT] == page && addr - page + len <= PAGE
    }

    /// Makes sure that the bytes can be written; whether anything had to be done.
    #[inline]
    pub fn ensure_writable(&mut self, addr: u64, len: u64) -> Result<bool, MemoryError> {
        if self.is_recent(addr, len) {
            return Ok(false);
        }
        let news = self.make_writable_pages(addr, len)?;
        self.recent[(addr / PAGE) as usize % RECENT] = addr & !(PAGE - 1);
        Ok(news)
    }

    fn make_writable_pages(&mut self, addr: u64, len: u64) -> Result<bool, MemoryError> {
        let range = self.check(addr, len.max(1))?;
        let mut news = false;
        let mut at = range.start - range.start % CHUNK;
        while at < range.end {
            let mut chunk = self.chunk(at);
            let wanted = bits(at, range.start, range.end);
            if wanted & !chunk.writable != 0 {
                // All of the chunk that is not there yet, and what is wanted of the rest.
                let room = bits(at, USER_START, USER_END);
                let new = (!chunk.mapped & room) | (wanted & !chunk.writable);
                Self::make_writable(at, new)?;
                if let Some(touched) = &mut self.touched {
                    touched.comes(at);
                }
                if let Some(came) = &mut self.came {
                    came.push(at);
                }
                chunk.mapped |= new;
                chunk.writable |= new;
                self.chunks.insert(at, chunk);
                news = true;
            }
            at += CHUNK;
        }
        Ok(news)
    }

    /// Writes to the program's memory, mapping it if need be.
    #[inline]
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.ensure_writable(addr, bytes.len() as u64)?;
        if let Some(watch) = &mut self.watch {
            // SAFETY: the watch asks for bytes among those that are about to be written, see below.
            watch.put(addr, bytes, |at| unsafe { (at as *const u8).read() });
        }
        if let Some(touched) = &mut self.touched {
            // SAFETY: as below.
            touched.put(addr, bytes, unsafe { std::slice::from_raw_parts(addr as *const u8, bytes.len()) });
        }
        // SAFETY: the bytes are the recorded program's and writable, as was just made sure; the only thread that uses
        // them waits for this call.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, bytes.len()) };
        Ok(())
    }

    /// The same with bytes that say nothing of what the program has there.
    pub fn lend(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.ensure_writable(addr, bytes.len() as u64)?;
        let touched = self.touched.take();
        let written = self.write(addr, bytes);
        self.touched = touched;
        written
    }

    /// Whether the address is the replay process's own.
    pub fn is_own(&self, addr: u64) -> bool {
        self.window.contains(&addr)
    }

    /// How many of `len` bytes can be read from `addr` on.
    fn readable(&self, addr: u64, len: u64) -> u64 {
        if self.check(addr, 1).is_err() {
            return 0;
        }
        let limit = if addr < self.window.start { self.window.start } else { USER_END };
        let range = addr..addr.saturating_add(len).min(limit);
        let mut page = range.start & !(PAGE - 1);
        while page < range.end {
            let chunk = page - page % CHUNK;
            if self.chunk(chunk).mapped & bits(chunk, page, page + 1) == 0 {
                break;
            }
            page += PAGE;
        }
        page.min(range.end).saturating_sub(addr)
    }

    /// Up to `len` bytes of the program's memory: fewer where a page is missing.
    pub fn read(&self, addr: u64, len: u64) -> Vec<u8> {
        let len = self.readable(addr, len) as usize;
        let mut out = vec![0; len];
        // SAFETY: the bytes are the recorded program's and mapped; the only thread that writes them waits for this call.
        unsafe { std::ptr::copy_nonoverlapping(addr as *const u8, out.as_mut_ptr(), len) };
        out
    }

    /// The number in so many bytes, at most 8.
    pub fn element(&self, addr: u64, len: u32) -> u64 {
        let (mut bytes, len) = ([0; 8], len.min(8));
        let len = self.readable(addr, len.into()) as usize;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(addr as *const u8, bytes.as_mut_ptr(), len) };
        u64::from_le_bytes(bytes)
    }

    /// The same, as far as it is known what the program has there; if nothing keeps track of that, all is.
    pub fn known_element(&mut self, addr: u64, len: u32) -> Option<u64> {
        let bytes = self.read(addr, len.into());
        let states = self.touched.as_mut().map(|touched| touched.states(addr, len as usize));
        let byte = |number: usize| match states.as_ref().map_or(ByteState::Known, |states| states[number]) {
            ByteState::Known => bytes.get(number).copied(),
            ByteState::Zero => Some(0),
            _ => None,
        };
        (0..len as usize).rev().try_fold(0, |value, number| Some(value << 8 | u64::from(byte(number)?)))
    }

    /// Makes sure that the bytes can be read.
    pub fn ensure_readable(&mut self, addr: u64, len: u64) -> Result<(), MemoryError> {
        if !self.is_recent(addr, len) && self.readable(addr, len) < len {
            self.ensure_writable(addr, len)?;
        }
        Ok(())
    }

    /// Makes a page executable that will be code. Were it not when execution gets there, DynamoRIO would forge a fault,
    /// and lose x87 exception flags on the way; as it is, the block event finds that there is no code yet.
    pub fn anticipate_code(&mut self, page: u64) -> Result<(), MemoryError> {
        // With the next page, into which DynamoRIO may decode on, see `install_code`.
        self.ensure_readable(page, 1)?;
        let _ = self.ensure_readable(page + PAGE, 1);
        self.make_executable(page, PAGE)
    }

    /// Makes pages readable and executable only, with DynamoRIO's knowledge.
    fn make_executable(&mut self, start: u64, len: u64) -> Result<(), MemoryError> {
        let prot = Protection::READ | Protection::EXEC;
        // SAFETY: the range is the recorded program's, mapped by the callers.
        if !unsafe { space::protect(start, len as usize, prot) } {
            return Err(MemoryError::System(start, rustix::io::Errno::ACCESS));
        }
        self.recent = [NO_PAGE; RECENT];
        for at in (start..start + len).step_by(PAGE as usize) {
            let chunk = at - at % CHUNK;
            self.chunks.entry(chunk).or_default().writable &= !bits(chunk, at, at + 1);
        }
        Ok(())
    }

    /// Whether a page was code, or is.
    fn was_code(&self, page: u64) -> bool {
        let chunk = page - page % CHUNK;
        self.chunk(chunk).code & bits(chunk, page, page + 1) != 0
    }

    /// Puts pages of code in place, which ascend. Runs of pages that follow each other are mapped as one.
    pub fn install_code(&mut self, pages: &[CodePage<'_>]) -> Result<(), MemoryError> {
        for run in pages.chunk_by(|a, b| a.addr.checked_add(PAGE) == Some(b.addr)) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let start = first.addr;
            let known = run.iter().all(|page| self.was_code(page.addr));
            for page in run {
                self.write(page.addr, page.bytes)?;
                self.installed.insert(page.addr, page.seq);
            }
            if known {
                continue;
            }
            let len = last.addr - start + PAGE;
            // DynamoRIO decodes on into the next page before the block event can end the block: let it read zeros.
            let _ = self.ensure_readable(start + len, 1);
            self.make_executable(start, len)?;
            for page in run {
                let chunk = self.chunks.entry(page.addr - page.addr % CHUNK).or_default();
                chunk.code |= bits(page.addr - page.addr % CHUNK, page.addr, page.addr + 1);
            }
        }
        Ok(())
    }

    /// From here on, which bytes are known is kept track of; only at a package's start.
    pub fn track(&mut self) {
        self.touched = Some(Touched::new(self.installed.keys().copied()));
    }

    /// From here on, it is kept track of which lines of memory instructions access, and of nothing else; only at a package's start.
    pub fn track_lines(&mut self) {
        self.touched = Some(Touched::only_lines());
    }

    /// The same in another package, `before` being what was kept track of in the one before.
    pub fn track_again(&mut self, before: Touched) -> Result<(), MemoryError> {
        let refused = |at| MemoryError::System(at, rustix::io::Errno::INVAL);
        let mut touched = Touched::after(before, self.installed.keys().copied()).map_err(refused)?;
        self.mapped_chunks().for_each(|chunk| touched.comes(chunk));
        self.touched = Some(touched);
        Ok(())
    }

    fn mapped_chunks(&self) -> impl Iterator<Item = u64> {
        self.chunks.iter().filter(|(_, chunk)| chunk.mapped != 0).map(|(at, _)| *at)
    }

    /// These parts of the address space are the replay process's own, too, as far as nothing of the program's is there; which those are.
    pub fn take_rooms(&mut self, starts: &[u64], bytes: u64) -> Vec<u64> {
        let is_free = |start: &&u64| {
            let room = **start..start.saturating_add(bytes);
            let apart = |other: &Range<u64>| other.end <= room.start || room.end <= other.start;
            room.start >= bytes
                && room.end <= USER_END - bytes
                && start.is_multiple_of(bytes)
                && apart(&self.window)
                && self.mapped_chunks().all(|chunk| apart(&(chunk..chunk + CHUNK)))
        };
        let mut free: Vec<u64> = starts.iter().filter(is_free).copied().collect();
        free.sort_unstable();
        free.dedup();
        self.rooms = free.iter().map(|start| *start..start + bytes).collect();
        free
    }

    /// From here on, [`Self::take_came`] tells in which pieces memory comes; those in which it has.
    pub fn announce(&mut self) -> Vec<u64> {
        self.came = Some(Vec::new());
        self.mapped_chunks().collect()
    }

    /// Nobody wants to know any more, nor has anything in parts of the address space that are no window.
    pub fn end_announcing(&mut self) {
        (self.came, self.decided) = (None, false);
        self.rooms.clear();
    }

    /// The pieces in which memory has come since this was last asked.
    pub fn take_came(&mut self) -> Vec<u64> {
        self.came.as_mut().map_or(Vec::new(), std::mem::take)
    }

    /// Something is about to be executed. Where it is kept track of which bytes are known, the code cache marks accesses if it can and
    /// `may`; that is decided once.
    pub fn runs(&mut self, may: bool) {
        if self.touched.is_none() {
            return;
        }
        if may && !std::mem::replace(&mut self.decided, true) {
            self.mark_otherwise();
        }
        if let Some(touched) = &mut self.touched {
            touched.runs();
        }
    }

    /// How the code cache marks accesses, if it does.
    pub fn marks(&self) -> Option<Places> {
        self.touched.as_ref().and_then(Touched::marks)
    }

    /// Whether it must not any more; see [`Touched::has_conflict`].
    pub fn has_conflict(&self) -> bool {
        self.touched.as_ref().is_some_and(Touched::has_conflict)
    }

    /// From here on, it marks in a way that tells apart what there is, or not at all, nor do blocks that are there.
    pub fn mark_otherwise(&mut self) {
        let mut all = Places::all().filter_map(|places| Marks::new(&self.window, places, self.mapped_chunks()));
        let marks = all.next();
        drop(all);
        match &marks {
            // SAFETY: there are marks only where the base can be set; the client runs.
            Some(marks) => unsafe { fs_base::begin(marks.base()) },
            None => fs_base::end(),
        }
        if let Some(touched) = &mut self.touched {
            touched.mark(marks);
        }
    }

    /// Makes memory what it is at a package's start: the picture `seq` of the code, zeros elsewhere.
    pub fn reset(&mut self, code: &Code, seq: CodeSeq) -> Result<(), MemoryError> {
        let mut chunks: Vec<_> = self.chunks.iter().map(|(at, chunk)| (*at, *chunk)).collect();
        chunks.sort_unstable_by_key(|(at, _)| *at);
        let mut pages: Vec<Range<u64>> = Vec::new();
        for (at, chunk) in chunks {
            for run in runs(at, chunk.mapped & !chunk.code) {
                match pages.last_mut() {
                    Some(last) if last.end == run.start => last.end = run.end,
                    _ => pages.push(run),
                }
            }
        }
        self.resets += 1;
        // SAFETY: the pages are the recorded program's, mapped by this type, private and without a file; no reference to them
        // is held, and the only thread that uses them waits.
        let zeroed = unsafe { zeroing::zero_again(pages, self.resets, MOST_KEPT) };
        zeroed.map_err(|at| MemoryError::System(at, rustix::io::Errno::INVAL))?;
        self.show_picture(code, seq)
    }

    /// Puts the picture `seq` in place, as far as it is not there.
    pub fn show_picture(&mut self, code: &Code, seq: CodeSeq) -> Result<(), MemoryError> {
        let is_written = |memory: &Self, page: u64| {
            let chunk = page - page % CHUNK;
            let Chunk { writable, code, .. } = memory.chunk(chunk);
            writable & code & bits(chunk, page, page + 1) != 0
        };
        let mut pages: Vec<u64> = code.all_pages().collect();
        pages.sort_unstable();
        let mut new = Vec::new();
        for addr in pages {
            let (wanted, found) = (code.page_seq(addr, seq), self.installed.get(&addr).copied());
            match code.page(addr, seq).zip(wanted) {
                Some((bytes, seq)) if wanted != found || is_written(self, addr) => {
                    new.push(CodePage { addr, seq, bytes });
                }
                None if found.is_some() => {
                    // It becomes code later again.
                    self.write(addr, &[0; PAGE as usize])?;
                    self.installed.remove(&addr);
                }
                _ => {}
            }
        }
        self.install_code(&new)
    }
}
