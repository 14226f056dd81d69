//! What each thread's own replay would find in memory (zero, the code picture, its records and its stores), and what it has stored.
//!
//! Both are planes of bytes, one for each byte of memory. Where the code cache compares by itself ([`crate::comparing`]), they lie at the
//! places that it finds ([`crate::places`]), in a region for each thread; else, or where the memory that there is cannot be told apart there,
//! they lie in pages of their own.

mod regions;

use super::pages::Pages;
use crate::code::Code;
use crate::places::{PIECE, Places};
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashSet;
use regions::Regions;
use std::ops::Range;

pub use regions::{ROOM, Rooms};

const PAGE: usize = Addr::PAGE as usize;
/// Bytes in which a thread's store is looked for around another one's: see [`super::origin`].
const WORD: usize = 8;

/// A page of a plane.
type Page = [u8; PAGE];

/// In the plane of stores: the thread has stored the byte, and nothing from outside may have changed it since.
pub const STORED: u8 = 0xff;
/// The same, but something may have.
const STORED_BEFORE: u8 = 1;
/// The thread has not stored it, and something from outside may have changed it.
const CHANGED: u8 = 2;

/// Who has stored a byte, or bytes of the word in which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nobody has stored it.
    Nobody,
    /// What was stored in its word, something from outside may have changed since.
    System,
    /// The thread that is asked about, and no other one has ever stored in its word.
    Reader,
    /// Others have, too, or alone.
    Others,
}

/// What is kept of a thread.
struct Thread {
    /// The code picture that it has.
    seq: CodeSeq,
    /// How many of the pieces in its region have got their code.
    filled: usize,
    /// The planes, where they do not lie in a region. Pages appear when they are first touched.
    seen: Pages<Page>,
    stored: Pages<Page>,
}

/// The planes of all threads.
pub struct Pictures {
    threads: Vec<Thread>,
    regions: Option<Regions>,
    rooms: Rooms,
    /// Pages that have had code in a region.
    coded: HashSet<u64>,
    /// Whether the code cache does not find the planes any more where it looks for them.
    moved: bool,
}

/// The pieces of `addr..addr + len` that lie in one page each: address of the page and bytes in it.
pub fn pieces(addr: u64, len: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = addr.saturating_add(len);
    let mut at = addr;
    std::iter::from_fn(move || {
        let page = at & !(Addr::PAGE - 1);
        let start = (at - page) as usize;
        let stop = (end - page).min(Addr::PAGE) as usize;
        let more = at < end;
        at = page.saturating_add(Addr::PAGE);
        more.then_some((page, start..stop))
    })
}

impl Pictures {
    /// Of threads whose first intervals have these code pictures. Where there is room, they lie in regions, for the memory in these pieces.
    pub fn new(seqs: impl Iterator<Item = CodeSeq>, rooms: Rooms, pieces: Vec<u64>) -> Self {
        let thread = |seq| Thread { seq, filled: 0, seen: Pages::default(), stored: Pages::default() };
        let threads: Vec<Thread> = seqs.map(thread).collect();
        let mut rooms = rooms;
        let regions = Places::all().find_map(|places| Regions::new(places, &pieces, threads.len(), &mut rooms));
        Self { threads, regions, rooms, coded: HashSet::new(), moved: false }
    }

    /// How the code cache finds them, if it does.
    pub fn places(&self) -> Option<Places> {
        self.regions.as_ref().map(Regions::places)
    }

    /// What FS has to have for its base while a thread runs, if the code cache finds them.
    pub fn base(&self, thread: usize) -> Option<u64> {
        self.regions.as_ref().map(|regions| regions.base(thread))
    }

    /// Whether the code cache does not find them any more where it looked for them; it is not said again.
    pub fn have_moved(&self) -> bool {
        self.moved
    }

    /// The code cache is going to look for them where they are.
    pub fn settle(&mut self) {
        self.moved = false;
    }

    /// Memory has come, in this piece.
    pub fn claim(&mut self, piece: u64) {
        if self.regions.as_mut().is_none_or(|regions| regions.claim(piece)) {
            return;
        }
        // Other memory is there. From somewhere else, or without regions, all is found.
        let Some(old) = self.regions.take() else { return };
        self.moved = true;
        let pieces: Vec<u64> = old.pieces().iter().copied().chain([piece]).collect();
        let count = self.threads.len();
        self.regions = Places::all().find_map(|places| Regions::new(places, &pieces, count, &mut self.rooms));
        match &mut self.regions {
            Some(new) => new.take_over(&old),
            None => self.take_out(&old),
        }
        old.give_back(&mut self.rooms);
    }

    /// Takes all that regions have into pages.
    fn take_out(&mut self, old: &Regions) {
        for (number, thread) in self.threads.iter_mut().enumerate() {
            // Into others, nothing has been put yet.
            let filled = &old.pieces()[..thread.filled];
            for page in filled.iter().flat_map(|piece| (*piece..piece + PIECE).step_by(PAGE)) {
                let (seen, stored) = (old.seen(number, page), old.stored(number, page));
                // What has no code is zero until it is changed.
                if *seen != [0; PAGE] || self.coded.contains(&page) {
                    *thread.seen.get_or_insert(page, || Box::new([0; PAGE])) = *seen;
                }
                if *stored != [0; PAGE] {
                    *thread.stored.get_or_insert(page, || Box::new([0; PAGE])) = *stored;
                }
            }
        }
    }

    /// Gives the code of a thread's picture to those pieces of its region that are new.
    pub fn fill(&mut self, code: &Code, thread: usize) {
        let Some(regions) = &mut self.regions else { return };
        let Thread { seq, filled, .. } = &mut self.threads[thread];
        let new = &regions.pieces()[*filled..];
        if new.is_empty() {
            return;
        }
        let pages: Vec<u64> = if *filled == 0 {
            code.all_pages().filter(|page| regions.has(*page)).collect()
        } else {
            new.iter().flat_map(|piece| (*piece..piece + PIECE).step_by(PAGE)).collect()
        };
        *filled += new.len();
        for page in pages {
            if let Some(bytes) = code.page(page, *seq) {
                regions.seen_mut(thread, page).copy_from_slice(bytes);
                self.coded.insert(page);
            }
        }
    }

    /// A page of what a thread would find, by its address.
    #[inline]
    pub fn page(&mut self, code: &Code, thread: usize, page: u64) -> &mut Page {
        if self.regions.as_ref().is_some_and(|regions| !regions.has(page)) {
            self.claim(page & !(PIECE - 1));
        }
        if self.regions.is_some() {
            self.fill(code, thread);
        }
        match &mut self.regions {
            Some(regions) => regions.seen_mut(thread, page),
            None => {
                let Thread { seen, seq, .. } = &mut self.threads[thread];
                seen.get_or_insert(page, || code.page(page, *seq).map_or(Box::new([0; PAGE]), |code| Box::new(*code)))
            }
        }
    }

    /// Puts bytes into a thread's picture.
    pub fn write(&mut self, code: &Code, thread: usize, addr: u64, mut bytes: &[u8]) {
        for (page, range) in pieces(addr, bytes.len() as u64) {
            let (now, rest) = bytes.split_at(range.len());
            self.page(code, thread, page)[range].copy_from_slice(now);
            bytes = rest;
        }
    }

    /// An element of a string, of at most 8 bytes.
    pub fn element(&mut self, code: &Code, thread: usize, addr: u64, bytes: u32) -> u64 {
        let mut value = [0; 8];
        let mut done = 0;
        for (page, range) in pieces(addr, bytes.into()) {
            let len = range.len();
            value[done..done + len].copy_from_slice(&self.page(code, thread, page)[range]);
            done += len;
        }
        u64::from_le_bytes(value)
    }

    /// A thread begins an interval that has this code picture.
    ///
    /// # Errors
    /// An address at which the kernel refuses to take its memory back.
    pub fn reset(&mut self, thread: usize, seq: CodeSeq) -> Result<(), u64> {
        let Thread { seq: own, filled, seen, .. } = &mut self.threads[thread];
        (*own, *filled) = (seq, 0);
        seen.clear();
        self.regions.as_mut().map_or(Ok(()), |regions| regions.reset(thread))
    }

    /// A thread is at its end: what it would find is not needed any more.
    ///
    /// # Errors
    /// As for [`Self::reset`].
    pub fn end(&mut self, thread: usize) -> Result<(), u64> {
        self.reset(thread, self.threads[thread].seq)
    }

    /// A thread's code picture becomes `seq`.
    pub fn change_code(&mut self, code: &Code, thread: usize, seq: CodeSeq) {
        self.fill(code, thread);
        let Thread { seq: own, seen, .. } = &mut self.threads[thread];
        for page in code.between(*own, seq) {
            let Some(new) = code.page(page, seq) else { continue };
            // A page that was not touched takes its bytes when it is.
            match &mut self.regions {
                Some(regions) if regions.has(page) => {
                    regions.seen_mut(thread, page).copy_from_slice(new);
                    self.coded.insert(page);
                }
                None => {
                    if let Some(bytes) = seen.get_mut(page) {
                        bytes.copy_from_slice(new);
                    }
                }
                Some(_) => {}
            }
        }
        *own = seq.max(*own);
    }

    /// A thread has stored there.
    pub fn store(&mut self, thread: usize, addr: u64, len: u64) {
        for (page, range) in pieces(addr, len) {
            if self.regions.as_ref().is_some_and(|regions| !regions.has(page)) {
                self.claim(page & !(PIECE - 1));
            }
            let stored = match &mut self.regions {
                Some(regions) => regions.stored_mut(thread, page),
                None => self.threads[thread].stored.get_or_insert(page, || Box::new([0; PAGE])),
            };
            stored[range].fill(STORED);
        }
    }

    /// Something from outside may have changed these bytes. On pages where no thread has stored anything, that is not put down.
    pub fn system(&mut self, addr: u64, len: u64) {
        let end = addr.saturating_add(len);
        let inside = |page: u64| (addr.max(page) - page) as usize..(end.min(page + Addr::PAGE) - page) as usize;
        let change = |stored: &mut Page, range: Range<usize>| {
            if *stored != [0; PAGE] {
                for byte in &mut stored[range] {
                    *byte = if *byte & STORED_BEFORE == 0 { CHANGED } else { STORED_BEFORE };
                }
            }
        };
        for (number, thread) in self.threads.iter_mut().enumerate() {
            match &mut self.regions {
                Some(regions) => {
                    for page in regions.pages(addr, end).collect::<Vec<_>>() {
                        change(regions.stored_mut(number, page), inside(page));
                    }
                }
                None => {
                    let overlaps = |page: u64| page < end && addr < page + Addr::PAGE;
                    for (page, stored) in thread.stored.iter_mut().filter(|(page, _)| overlaps(*page)) {
                        change(stored, inside(page));
                    }
                }
            }
        }
    }

    /// Who has stored the byte at this address, seen from a thread that finds something else there.
    pub fn stored(&self, addr: u64, reader: usize) -> Stored {
        let (page, at) = (addr & !(Addr::PAGE - 1), (addr % Addr::PAGE) as usize);
        let word = at & !(WORD - 1)..(at & !(WORD - 1)) + WORD;
        let (mut byte, mut others, mut now, mut before) = (false, false, false, false);
        for number in 0..self.threads.len() {
            let stored = match &self.regions {
                Some(regions) => regions.has(page).then(|| regions.stored(number, page)),
                None => self.threads[number].stored.get(page),
            };
            let Some(stored) = stored else { continue };
            byte |= stored[at] == STORED;
            now |= stored[word.clone()].contains(&STORED);
            before |= stored[word.clone()].iter().any(|byte| matches!(*byte, STORED_BEFORE | CHANGED));
            others |= number != reader && stored[word.clone()].iter().any(|byte| *byte & STORED_BEFORE != 0);
        }
        match (byte, others) {
            (true, true) => Stored::Others,
            (true, false) => Stored::Reader,
            (false, _) if !now && before => Stored::System,
            (false, _) => Stored::Nobody,
        }
    }
}
