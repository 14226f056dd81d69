//! What each thread's own replay would find in memory (zero, the code picture, its records and its stores), and what it has stored.
//!
//! Of threads that have ended, what they have stored is one plane: there may be thousands, and each question about a byte is one about all
//! threads.
//!
//! Both are planes of bytes, one for each byte of memory. Where the code cache compares by itself ([`crate::comparing`]), they lie at the
//! places that it finds ([`crate::places`]), in a region for each thread; else, or where the memory that there is cannot be told apart there,
//! they lie in pages of their own.

mod regions;

use super::pages::Pages;
use crate::code::Code;
use crate::places::{PIECE, Places, Plane};
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashSet;
use regions::Regions;
use std::ops::Range;

pub use regions::{ROOM, Rooms, Shared};

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

/// A byte of the plane of stores for two threads, of which neither is the one that is asked about.
fn of_both(one: u8, other: u8) -> u8 {
    match (one, other) {
        (STORED, _) | (_, STORED) => STORED,
        (STORED_BEFORE, _) | (_, STORED_BEFORE) => STORED_BEFORE,
        _ => one | other,
    }
}

/// What is kept of a thread.
struct Thread {
    /// The code picture that it has.
    seq: CodeSeq,
    /// How many of the pieces in its region have got their code.
    filled: usize,
    /// Whether it has run, and not ended.
    lives: bool,
    /// The planes, where they do not lie in a region. Pages appear when they are first touched.
    seen: Pages<Page>,
    stored: Pages<Page>,
}

/// The planes of all threads.
pub struct Pictures {
    /// The last one stands for all that have ended.
    threads: Vec<Thread>,
    /// Those of which there may be something: the ones that live, and the last one.
    some: Vec<usize>,
    regions: Shared,
    /// Whether there are some.
    has_regions: bool,
    planes: &'static [Plane],
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
    /// Of threads whose first intervals have these code pictures. Where there is room, they lie in regions, for the memory in these pieces;
    /// where `marks` says so, with marks of what is accessed.
    pub fn new(seqs: impl Iterator<Item = CodeSeq>, rooms: Rooms, pieces: &[u64], marks: bool) -> Self {
        let thread = |seq| Thread { seq, filled: 0, lives: false, seen: Pages::default(), stored: Pages::default() };
        let threads: Vec<Thread> = seqs.chain([CodeSeq(0)]).map(thread).collect();
        let some = vec![threads.len() - 1];
        let planes: &[Plane] =
            if marks { &[Plane::First, Plane::Written, Plane::Read] } else { &[Plane::First, Plane::Written] };
        let (regions, coded) = (Shared::default(), HashSet::new());
        let mut new = Self { threads, some, regions, has_regions: false, planes, rooms, coded, moved: false };
        new.make_regions(pieces);
        new
    }

    /// Makes regions for the memory in these pieces, if that can be; those that there were before.
    fn make_regions(&mut self, pieces: &[u64]) -> Option<Regions> {
        let Self { threads, planes, rooms, .. } = self;
        let new = Places::all().find_map(|places| Regions::new(places, planes, pieces, threads.len(), rooms));
        self.has_regions = new.is_some();
        self.regions.replace(new)
    }

    /// How the code cache finds them, if it does.
    pub fn places(&self) -> Option<Places> {
        self.regions.with(|regions| regions.places())
    }

    /// Whether it marks what is read.
    pub fn marks_reads(&self) -> bool {
        self.planes.contains(&Plane::Read)
    }

    /// What FS has to have for its base while a thread runs, if the code cache finds them.
    pub fn base(&self, thread: usize) -> Option<u64> {
        self.regions.with(|regions| regions.base(thread))
    }

    /// A thread is going to run.
    pub fn runs(&mut self, thread: usize) {
        self.lives(thread);
        self.regions.with(|regions| regions.runs(thread));
    }

    /// There may be something of a thread from here on.
    fn lives(&mut self, thread: usize) {
        if !std::mem::replace(&mut self.threads[thread].lives, true) {
            self.some.push(thread);
        }
    }

    /// The one that stands for all that have ended.
    fn ended(&self) -> usize {
        self.threads.len() - 1
    }

    /// The regions, for whoever takes their marks.
    pub fn regions(&self) -> Shared {
        self.regions.clone()
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
        if self.regions.with(|regions| regions.claim(piece)).unwrap_or(true) {
            return;
        }
        // Other memory is there. From somewhere else, or without regions, all is found.
        self.moved = true;
        let mut pieces = self.regions.with(|old| old.pieces().to_vec()).unwrap_or_default();
        pieces.push(piece);
        let Some(old) = self.make_regions(&pieces) else { return };
        if self.regions.with(|new| new.take_over(&old, &self.some)).is_some() {
            old.give_back(&mut self.rooms);
            return;
        }
        self.take_out(&old);
        if self.marks_reads() {
            self.regions.set_aside(old);
        }
    }

    /// Takes all that regions have into pages.
    fn take_out(&mut self, old: &Regions) {
        for number in &self.some {
            let thread = &mut self.threads[*number];
            // Into others, nothing has been put yet.
            let filled = &old.pieces()[..thread.filled];
            for page in filled.iter().flat_map(|piece| (*piece..piece + PIECE).step_by(PAGE)) {
                // SAFETY: a page of regions that nobody else uses.
                let seen = unsafe { &*old.at(*number, page, Plane::First) };
                // What has no code is zero until it is changed.
                if *seen != [0; PAGE] || self.coded.contains(&page) {
                    *thread.seen.get_or_insert(page, || Box::new([0; PAGE])) = *seen;
                }
            }
            for page in old.used(*number, Plane::Written) {
                // SAFETY: as above.
                let stored = unsafe { &*old.at(*number, page, Plane::Written) };
                *thread.stored.get_or_insert(page, || Box::new([0; PAGE])) = *stored;
            }
        }
    }

    /// A page of a thread's plane in its region, if there is one, and the page has a place there.
    #[inline]
    fn place(&self, thread: usize, page: u64, plane: Plane) -> Option<*mut Page> {
        self.regions.with(|regions| regions.has(page).then(|| regions.at(thread, page, plane)))?
    }

    /// The same, to be changed.
    #[inline]
    fn in_region(&mut self, thread: usize, page: u64, plane: Plane) -> Option<&mut Page> {
        // SAFETY: the regions stay as they are as long as this is borrowed, and the code cache does not run.
        self.place(thread, page, plane).map(|at| unsafe { &mut *at })
    }

    /// Gives the code of a thread's picture to those pieces of its region that are new.
    pub fn fill(&mut self, code: &Code, thread: usize) {
        let filled = self.threads[thread].filled;
        let new = self.regions.with(|regions| regions.pieces()[filled..].to_vec()).unwrap_or_default();
        if new.is_empty() {
            return;
        }
        let pages: Vec<u64> = if filled == 0 {
            code.all_pages().collect()
        } else {
            new.iter().flat_map(|piece| (*piece..piece + PIECE).step_by(PAGE)).collect()
        };
        self.threads[thread].filled += new.len();
        for page in pages {
            let seq = self.threads[thread].seq;
            if let (Some(bytes), Some(seen)) = (code.page(page, seq), self.in_region(thread, page, Plane::First)) {
                seen.copy_from_slice(bytes);
                self.coded.insert(page);
            }
        }
    }

    /// A page of what a thread would find, by its address.
    #[inline]
    pub fn page(&mut self, code: &Code, thread: usize, page: u64) -> &mut Page {
        if self.has_regions {
            if self.place(thread, page, Plane::First).is_none() {
                self.claim(page & !(PIECE - 1));
            }
            self.fill(code, thread);
            if let Some(at) = self.place(thread, page, Plane::First) {
                // SAFETY: as in `in_region`.
                return unsafe { &mut *at };
            }
        }
        let Thread { seen, seq, .. } = &mut self.threads[thread];
        seen.get_or_insert(page, || code.page(page, *seq).map_or(Box::new([0; PAGE]), |code| Box::new(*code)))
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
        self.regions.with(|regions| regions.reset(thread)).unwrap_or(Ok(()))
    }

    /// A thread is at its end: what it would find is not needed any more, and what it has stored is one with what others have that have ended.
    ///
    /// # Errors
    /// As for [`Self::reset`].
    pub fn end(&mut self, thread: usize) -> Result<(), u64> {
        self.reset(thread, self.threads[thread].seq)?;
        let ended = self.ended();
        self.regions.with(|regions| regions.join(thread, ended, of_both)).unwrap_or(Ok(()))?;
        let mut stored = std::mem::take(&mut self.threads[thread].stored);
        for (page, from) in stored.iter_mut() {
            let to = self.threads[ended].stored.get_or_insert(page, || Box::new([0; PAGE]));
            to.iter_mut().zip(from).for_each(|(to, from)| *to = of_both(*to, *from));
        }
        self.some.retain(|one| *one != thread);
        self.threads[thread].lives = false;
        Ok(())
    }

    /// A thread's code picture becomes `seq`.
    pub fn change_code(&mut self, code: &Code, thread: usize, seq: CodeSeq) {
        self.fill(code, thread);
        for page in code.between(self.threads[thread].seq, seq) {
            let Some(new) = code.page(page, seq) else { continue };
            // A page that was not touched takes its bytes when it is.
            if let Some(bytes) = self.in_region(thread, page, Plane::First) {
                bytes.copy_from_slice(new);
                self.coded.insert(page);
            } else if let Some(bytes) = self.threads[thread].seen.get_mut(page) {
                bytes.copy_from_slice(new);
            }
        }
        let own = &mut self.threads[thread].seq;
        *own = seq.max(*own);
    }

    /// A thread has stored there.
    pub fn store(&mut self, thread: usize, addr: u64, len: u64) {
        self.lives(thread);
        for (page, range) in pieces(addr, len) {
            if self.has_regions && self.place(thread, page, Plane::Written).is_none() {
                self.claim(page & !(PIECE - 1));
            }
            match self.in_region(thread, page, Plane::Written) {
                Some(stored) => stored[range].fill(STORED),
                None => self.threads[thread].stored.get_or_insert(page, || Box::new([0; PAGE]))[range].fill(STORED),
            }
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
        let pages: Vec<u64> = self.regions.with(|regions| regions.pages(addr, end).collect()).unwrap_or_default();
        for number in self.some.clone() {
            for page in &pages {
                if let Some(stored) = self.in_region(number, *page, Plane::Written) {
                    change(stored, inside(*page));
                }
            }
            let overlaps = |page: u64| page < end && addr < page + Addr::PAGE;
            let stored = self.threads[number].stored.iter_mut();
            stored.filter(|(page, _)| overlaps(*page)).for_each(|(page, stored)| change(stored, inside(page)));
        }
    }

    /// Who has stored the byte at this address, seen from a thread that finds something else there.
    pub fn stored(&self, addr: u64, reader: usize) -> Stored {
        let (page, at) = (addr & !(Addr::PAGE - 1), (addr % Addr::PAGE) as usize);
        let word = at & !(WORD - 1)..(at & !(WORD - 1)) + WORD;
        let (mut byte, mut others, mut now, mut before) = (false, false, false, false);
        for &number in &self.some {
            let stored = match self.place(number, page, Plane::Written) {
                // SAFETY: as in `in_region`; nobody changes it meanwhile.
                Some(stored) => unsafe { &*stored },
                None => match self.threads[number].stored.get(page) {
                    Some(stored) => stored,
                    None => continue,
                },
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_have_ended_are_as_one() {
        const THREADS: usize = 1000;
        let seqs = (0..=THREADS).map(|_| CodeSeq(0));
        let mut pictures = Pictures::new(seqs, Rooms::default(), &[], false);
        let word = |thread: usize| 0x1000 + 8 * thread as u64;
        let living = THREADS;
        pictures.runs(living);
        for thread in 0..THREADS {
            pictures.runs(thread);
            pictures.store(thread, word(thread) + 2, 4);
            assert_eq!(pictures.stored(word(thread) + 2, thread), Stored::Reader);
            assert_eq!(pictures.stored(word(thread) + 2, living), Stored::Others);
            pictures.end(thread).unwrap();
            // The living one, and the one for the others.
            assert_eq!(pictures.some.len(), 2);
        }
        for thread in 0..THREADS {
            assert_eq!(pictures.stored(word(thread) + 2, living), Stored::Others);
            assert_eq!(pictures.stored(word(thread), living), Stored::Nobody);
        }
        pictures.system(word(7), 8);
        assert_eq!(pictures.stored(word(7) + 2, living), Stored::System);
        pictures.store(living, word(8), 8);
        assert_eq!(pictures.stored(word(8), living), Stored::Others);
        pictures.store(living, word(THREADS), 8);
        assert_eq!(pictures.stored(word(THREADS), living), Stored::Reader);
    }

    #[test]
    fn two_that_have_ended_count_as_both_did() {
        for (one, other, both) in [
            (STORED, CHANGED, STORED),
            (0, STORED, STORED),
            (CHANGED, STORED_BEFORE, STORED_BEFORE),
            (CHANGED, 0, CHANGED),
            (0, 0, 0),
        ] {
            assert_eq!((of_both(one, other), of_both(other, one)), (both, both));
        }
    }
}
