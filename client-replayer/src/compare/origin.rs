//! Who wrote what memory holds: for each word of 8 bytes, the thread that stored there last, and when.

use super::pages::Pages;
use super::pictures::{Stored, pieces};
use bugnet_format::types::Addr;
use hashbrown::HashSet;
use std::ops::Range;

const WORD: u64 = 8;
const WORDS: usize = (Addr::PAGE / WORD) as usize;

/// In what is known of a word's writer: a bit that says that more than one thread has stored there.
const SEVERAL: u32 = 1 << 31;
/// The other bits: the thread's index and one, or one of the following two.
const THREAD: u32 = SEVERAL - 1;
/// No thread has written here.
const NOBODY: u32 = 0;
/// Memory was changed by a system call since a thread wrote here.
const SYSTEM: u32 = THREAD;
/// Most threads that are told apart.
pub const MAX_THREADS: usize = SYSTEM as usize - 1;

/// Where bytes can come from that a read found in its recording, but not in the memory of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// No thread has written there: they were there before.
    Unwritten,
    /// A system call, or another process.
    System,
    /// Only the reading thread itself has written there: a writer outside of the process that is not known by name.
    Outside,
    /// Only another thread.
    Thread {
        /// Index of the one that memory says wrote last.
        writer: usize,
        /// Instructions that it had executed before.
        at: u64,
    },
}

/// A page.
type Page = [Word; WORDS];

/// A word.
#[derive(Clone, Copy)]
struct Word {
    /// How many instructions the thread had executed that stored there last.
    at: u64,
    /// Which one that is.
    writer: u32,
    /// A bit for each of its bytes that a thread has stored.
    stored: u8,
    /// How many children had given memory back by then: see [`Origins::children`].
    children: u16,
}

impl Word {
    /// As memory begins.
    const NEW: Self = Self { at: 0, writer: NOBODY, stored: 0, children: 0 };

    /// Bytes of it are stored; `thread` is the thread's index and one, `children` as in [`Origins::children`].
    fn store(&mut self, bytes: u8, thread: u32, at: u64, children: u16) {
        let old = self.writer & THREAD;
        let other = old != NOBODY && old != SYSTEM && old != thread;
        self.writer = thread | self.writer & SEVERAL | if other { SEVERAL } else { 0 };
        self.at = at;
        self.stored |= bytes;
        self.children = children;
    }
}

/// The origins of all memory.
#[derive(Default)]
pub struct Origins {
    pages: Pages<Page>,
    /// Memory that other processes may share.
    shared: Vec<Range<u64>>,
    /// Whether all memory is such, since a process was made in it.
    all_shared: bool,
    /// Words that the kernel writes at a time of its own.
    kernel_words: HashSet<u64>,
    /// How many children of `vfork` had the process's memory, and have given it back; at most [`MANY`]. What they stored is in no log:
    /// it may be anything that no thread has stored since.
    children: u16,
    /// How many have it now.
    living_children: usize,
    /// What [`Self::system`] was told and nobody has taken, where the threads' stores are kept elsewhere; `None` where they are kept here.
    elsewhere: Option<Vec<(u64, u64)>>,
}

/// So many children are not told from more.
const MANY: u16 = u16::MAX;

/// The words in which bytes of a page lie, each with a bit for each of the bytes.
fn words(range: Range<usize>) -> impl Iterator<Item = (usize, u8)> {
    const BYTES: usize = WORD as usize;
    (range.start / BYTES..range.end.div_ceil(BYTES)).map(move |word| {
        let from = range.start.saturating_sub(word * BYTES);
        let to = (range.end - word * BYTES).min(BYTES);
        (word, (u8::MAX >> (BYTES - to)) & (u8::MAX << from))
    })
}

impl Origins {
    /// A thread stored there, after `at` instructions.
    #[inline]
    pub fn store(&mut self, addr: u64, len: u64, thread: usize, at: u64) {
        let new = thread as u32 + 1;
        let first = addr % WORD;
        if first + len <= WORD && len > 0 {
            let page = self.pages.get_or_insert(addr & !(Addr::PAGE - 1), || Box::new([Word::NEW; WORDS]));
            let bytes = (u8::MAX >> (WORD - len)) << first;
            page[(addr % Addr::PAGE / WORD) as usize].store(bytes, new, at, self.children);
            return;
        }
        let children = self.children;
        for (page, range) in pieces(addr, len) {
            let page = self.pages.get_or_insert(page, || Box::new([Word::NEW; WORDS]));
            words(range).for_each(|(word, bytes)| page[word].store(bytes, new, at, children));
        }
    }

    /// From here on, what threads store is kept elsewhere.
    pub fn keep_no_stores(&mut self) {
        self.elsewhere = Some(Vec::new());
    }

    /// Takes what [`Self::system`] was told, if stores are kept elsewhere.
    pub fn take_changes(&mut self) -> Vec<(u64, u64)> {
        self.elsewhere.as_mut().map_or(Vec::new(), std::mem::take)
    }

    /// A system call may have changed this memory, or something else that no thread has stored.
    pub fn system(&mut self, addr: u64, len: u64) {
        if let Some(changes) = &mut self.elsewhere {
            changes.push((addr, len));
            return;
        }
        let change = |page: &mut Page, range: Range<usize>| {
            for (word, bytes) in words(range) {
                page[word].stored &= !bytes;
                if page[word].stored == 0 {
                    page[word].writer = SYSTEM;
                }
            }
        };
        // A large range is mostly memory that nobody has touched.
        if len / Addr::PAGE > self.pages.len() as u64 {
            let end = addr.saturating_add(len);
            for (at, page) in self.pages.iter_mut() {
                let (from, to) = (addr.max(at), end.min(at + Addr::PAGE));
                if from < to {
                    change(page, (from - at) as usize..(to - at) as usize);
                }
            }
            return;
        }
        for (page, range) in pieces(addr, len) {
            if let Some(page) = self.pages.get_mut(page) {
                change(page, range);
            }
        }
    }

    /// Other processes may share this memory.
    pub fn share(&mut self, range: Range<u64>) {
        self.shared.push(range);
    }

    /// A process was made in the program's memory, and is neither a thread nor a child of `vfork`.
    pub fn share_all(&mut self) {
        self.all_shared = true;
    }

    /// Other processes have nothing to do with this memory any more.
    pub fn unshare(&mut self, range: &Range<u64>) {
        let rest = |old: &Range<u64>| [old.start..old.end.min(range.start), old.start.max(range.end)..old.end];
        self.shared = self.shared.iter().flat_map(rest).filter(|rest| rest.start < rest.end).collect();
    }

    /// The kernel will write this word when it likes.
    pub fn kernel_word(&mut self, addr: u64) {
        self.kernel_words.insert(addr / WORD);
    }

    /// A child of `vfork` begins: it has all memory, and what it does there is not recorded.
    pub fn child_begins(&mut self) {
        self.living_children += 1;
    }

    /// It has given memory back. `began` says whether [`Self::child_begins`] was told of it.
    pub fn child_ends(&mut self, began: bool) {
        self.living_children = self.living_children.saturating_sub(usize::from(began));
        self.children = self.children.saturating_add(1);
    }

    /// Whether a child of `vfork` may have changed a word since a thread stored there.
    fn of_child(&self, word: &Word) -> bool {
        self.living_children > 0 || word.children < self.children || word.children == MANY
    }

    /// Memory into which others may write at any time: start and length of each range.
    pub fn unsteady(&self) -> impl Iterator<Item = (u64, u64)> {
        let words = self.kernel_words.iter().map(|word| (word * WORD, WORD));
        let words = words.chain(self.all_shared.then_some((0, u64::MAX)));
        self.shared.iter().map(|range| (range.start, range.end - range.start)).chain(words)
    }

    /// Whether something from outside writes at an address when it likes.
    pub fn is_unsteady(&self, addr: u64) -> bool {
        self.all_shared
            || self.kernel_words.contains(&(addr / WORD))
            || self.shared.iter().any(|range| range.contains(&addr))
    }

    /// As [`Self::of`], where the threads' stores are kept elsewhere, and are these; `None` where that does not tell.
    pub fn by_stores(&self, addr: u64, stored: Stored) -> Option<Origin> {
        match stored {
            _ if self.is_unsteady(addr) => Some(Origin::System),
            Stored::System => Some(Origin::System),
            Stored::Nobody => Some(Origin::Unwritten),
            Stored::Reader => Some(Origin::Outside),
            Stored::Others => None,
        }
    }

    /// Where other bytes than memory holds can come from, that `reader` found at `addr`.
    pub fn of(&self, addr: u64, reader: usize) -> Origin {
        let (word, byte) = ((addr % Addr::PAGE / WORD) as usize, addr % WORD);
        let page = self.pages.get(addr & !(Addr::PAGE - 1));
        let word = page.map_or(Word::NEW, |page| page[word]);
        let Word { writer: entry, at, stored, .. } = word;
        let stored = stored >> byte & 1 == 1;
        let thread = entry & THREAD;
        if thread == SYSTEM || self.is_unsteady(addr) {
            Origin::System
        } else if thread == NOBODY || !stored {
            Origin::Unwritten
        } else if thread == reader as u32 + 1 && entry & SEVERAL == 0 {
            Origin::Outside
        } else if self.of_child(&word) {
            Origin::System
        } else {
            Origin::Thread { writer: thread as usize - 1, at }
        }
    }
}
