//! Which bytes of memory are known: those that threads have accessed in the package, or that a record has put there.
//!
//! Memory begins as zero, and a load of zero from memory that nobody has touched leaves no record: neither the records nor what is in
//! memory tell a zero that a thread has seen from a byte that it never looked at. Only the accesses do: the code cache marks them
//! ([`crate::marks`]), and the marks are taken from there when what they say is asked for, or is about to change. Where that cannot
//! be, instructions that access memory call the client, which is slow. Only a replay that is asked for it has to bear either.
//!
//! What a system call may have changed, or something else that nobody sees, is not known until it is read again; nor is, from then on,
//! what was there before the package began.

use crate::compare::Shared;
use crate::compare::origin::Origins;
use crate::compare::system::{self, Buffer, Made, System};
use crate::glance::Glance;
use crate::instruction::{Instruction, Registers, range};
use crate::lines::Lines;
use crate::marks::{LINE, Marks};
use crate::memory::Memory;
use crate::places::Places;
use crate::ranges::Ranges;
use bugnet_dr::access::{Action, StringKind};
use bugnet_dr::ir::Gpr;
use bugnet_format::control::{ByteState, LeftPage, MAX_LISTED, Unseen, WatchedRange};
use bugnet_format::types::Addr;
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeSet;

const PAGE: u64 = Addr::PAGE;
/// Longest range that an instruction is believed to access, in bytes; no string instruction goes over more that is looked at later.
const MAX_RANGE: u64 = 1 << 30;
/// Pages that are found fast.
const RECENT: usize = 256;

/// The bytes of a page, a bit each.
type Bits = [u64; PAGE as usize / 64];

/// A page that was accessed.
struct Page {
    known: Bits,
    /// What was written: by an instruction, or from outside after something else had been seen there.
    stored: Bits,
    /// What was there before, where that is not what is there now or soon will be.
    found: Option<Box<Found>>,
    /// The lines of which something was accessed, a bit each.
    accessed: u64,
    /// The lines of which something was written: by an instruction, or from outside after something else had been seen there.
    written: u64,
}

/// What a page was, as far as it is known.
struct Found {
    known: Bits,
    bytes: [u8; PAGE as usize],
}

impl Page {
    fn new() -> Self {
        let none = [0; PAGE as usize / 64];
        Self { known: none, stored: none, found: None, accessed: 0, written: 0 }
    }

    /// What was seen before it was written, and is not in `found` yet.
    fn seen(&self) -> Bits {
        std::array::from_fn(|word| {
            let found = self.found.as_ref().map_or(0, |found| found.known[word]);
            self.known[word] & !self.stored[word] & !found
        })
    }

    /// The same, without what may have been changed otherwise before it was seen; the page begins at `start`.
    fn seen_before(&self, start: u64, changed: &Ranges) -> Bits {
        let mut seen = self.seen();
        for (number, word) in seen.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left & left.wrapping_neg();
                if changed.contains(start + number as u64 * 64 + u64::from(bit.trailing_zeros())) {
                    *word &= !bit;
                }
                left &= !bit;
            }
        }
        seen
    }

    /// These bytes were there before.
    fn find(&mut self, bits: &Bits, byte: impl Fn(usize) -> u8) {
        if bits.iter().all(|word| *word == 0) {
            return;
        }
        let none = || Box::new(Found { known: [0; PAGE as usize / 64], bytes: [0; PAGE as usize] });
        let found = self.found.get_or_insert_with(none);
        for (number, word) in bits.iter().enumerate() {
            found.known[number] |= word;
            let mut left = *word;
            while left != 0 {
                let at = number * 64 + left.trailing_zeros() as usize;
                found.bytes[at] = byte(at);
                left &= left - 1;
            }
        }
    }
}

/// Pages that were accessed, by address.
struct Pages {
    all: Vec<Page>,
    numbers: HashMap<u64, u32>,
    /// Pages that were accessed lately and their numbers, by the lowest bits of their address.
    recent: [(u64, u32); RECENT],
}

impl Default for Pages {
    fn default() -> Self {
        // No page begins there.
        Self { all: Vec::new(), numbers: HashMap::new(), recent: [(u64::MAX, 0); RECENT] }
    }
}

impl Pages {
    fn get(&self, page: u64) -> Option<&Page> {
        self.numbers.get(&page).map(|number| &self.all[*number as usize])
    }

    fn get_mut(&mut self, page: u64) -> Option<&mut Page> {
        self.numbers.get(&page).map(|number| &mut self.all[*number as usize])
    }

    /// The page, new if there is none.
    #[inline]
    fn make(&mut self, page: u64) -> &mut Page {
        let slot = (page / PAGE) as usize % RECENT;
        if self.recent[slot].0 != page {
            let number = *self.numbers.entry(page).or_insert_with(|| {
                self.all.push(Page::new());
                (self.all.len() - 1) as u32
            });
            self.recent[slot] = (page, number);
        }
        &mut self.all[self.recent[slot].1 as usize]
    }
}

/// Where the marks are.
#[derive(Default)]
enum Source {
    /// Nowhere.
    #[default]
    None,
    /// In a region of their own.
    Own(Marks),
    /// In those of the threads' pictures.
    Pictures(Shared),
}

/// The known bytes.
#[derive(Default)]
pub struct Touched {
    pages: Pages,
    /// Pages of the code picture at the package's start.
    code: HashSet<u64>,
    /// What may have been changed by something that nobody sees.
    changed: Ranges,
    /// How often that was said.
    changes: u64,
    /// Of that, what the kernel has made, as zeros or of a file, and nothing but instructions can have changed since.
    zeros: Ranges,
    mapped: Ranges,
    /// Whether that goes for all memory at all times, since the kernel, or another process, has been told where memory is.
    unsteady: bool,
    origins: Origins,
    system: System,
    /// System calls that a thread, by its index, may be in while others go on, and what they may change.
    calls: HashMap<usize, Vec<Buffer>>,
    /// Numbers of the calls that were made.
    numbers: BTreeSet<u64>,
    signals: bool,
    marks: Source,
    /// Whether memory has come that the marks cannot tell from other memory.
    conflict: bool,
    /// Whether there may be marks that were not taken.
    marked: bool,
    /// What is looked at, if anything.
    pub glance: Option<Glance>,
    /// In place of all else: which lines instructions access.
    lines: Option<Lines>,
}

impl Touched {
    /// At a package's start, where this code is in place.
    pub fn new(code: impl Iterator<Item = u64>) -> Self {
        Self { code: code.collect(), ..Self::default() }
    }

    /// At a package's start, of nothing but which lines instructions access.
    pub fn only_lines() -> Self {
        Self { lines: Some(Lines::default()), ..Self::default() }
    }

    /// Which lines instructions have accessed, where it is kept track of nothing else.
    pub fn lines(&mut self) -> Option<&mut Lines> {
        self.lines.as_mut()
    }

    /// Whether it is kept track of nothing but lines.
    pub fn has_only_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Hands over which lines were accessed since this was asked for last.
    pub fn take_lines(&mut self) {
        self.take_all();
        self.marked = !matches!(self.marks, Source::None);
        if let Some(lines) = &mut self.lines {
            lines.hand_over();
        }
    }

    /// The same with the marks of another package's, if it had any.
    ///
    /// # Errors
    /// An address at which the kernel refuses to clear them.
    pub fn after(mut before: Self, code: impl Iterator<Item = u64>) -> Result<Self, u64> {
        let mut marks = std::mem::take(&mut before.marks);
        match &mut marks {
            Source::None => {}
            Source::Own(marks) => marks.clear()?,
            Source::Pictures(_) => marks = Source::None,
        }
        let lines = before.lines.is_some().then(Lines::default);
        Ok(Self { marks, lines, ..Self::new(code) })
    }

    /// From here on, the code cache marks accesses by these, or not at all.
    pub fn mark(&mut self, marks: Option<Marks>) {
        self.take_all();
        (self.marked, self.conflict) = (marks.is_some(), false);
        self.marks = marks.map_or(Source::None, Source::Own);
    }

    /// From here on, it marks them where the threads' pictures are.
    pub fn mark_by(&mut self, regions: Shared) {
        self.mark(None);
        self.marks = Source::Pictures(regions);
    }

    /// Marks are going to be made elsewhere than up to here.
    pub fn settle(&mut self) {
        if let Source::Pictures(regions) = &self.marks {
            let regions = regions.clone();
            self.take_all();
            self.marked = true;
            regions.are_taken();
        }
    }

    /// How the code cache marks accesses, if it does nothing else about them.
    pub fn marks(&self) -> Option<Places> {
        match &self.marks {
            Source::Own(marks) => Some(marks.places()),
            Source::None | Source::Pictures(_) => None,
        }
    }

    /// Memory comes: a piece as [`Marks`] share it out.
    pub fn comes(&mut self, piece: u64) {
        if let Source::Own(marks) = &mut self.marks {
            self.conflict |= !marks.claim(piece);
        }
    }

    /// Whether memory has come that the marks cannot tell from other memory; nothing may be executed before there are none any more.
    pub fn has_conflict(&self) -> bool {
        self.conflict
    }

    /// Memory has come by an access that was marked before, and marks cannot tell it from other memory: of that, the access may have been
    /// known already, or not, so it counts as accessed and written from here on, but not as known.
    pub fn doubt(&mut self, at: u64, len: u64) {
        let Source::Own(marks) = &mut self.marks else { return };
        let others = marks.doubt(at, len);
        if let Some(lines) = &mut self.lines {
            // The mark of this access is gone, too.
            lines.doubtful = true;
            return;
        }
        for other in others {
            let page = self.pages.make(other & !(PAGE - 1));
            let line = other % PAGE / LINE as u64;
            page.accessed |= 1 << line;
            page.written |= 1 << line;
            page.stored[line as usize] = u64::MAX;
            self.not_as_made(other & !(LINE as u64 - 1), LINE as u64);
            if let Some(glance) = &mut self.glance {
                [false, true].into_iter().for_each(|writes| glance.accessed(other, 1, writes));
            }
        }
    }

    /// Something is executed.
    pub fn runs(&mut self) {
        self.marked = !matches!(self.marks, Source::None);
    }

    /// Takes all marks.
    fn take_all(&mut self) {
        if std::mem::take(&mut self.marked) {
            self.take_marks(0, u64::MAX);
        }
    }

    /// Takes the marks of a range.
    fn take_marks(&mut self, at: u64, len: u64) {
        let mut source = std::mem::take(&mut self.marks);
        let line = LINE as u64;
        let (start, end) = (at & !(line - 1), at.saturating_add(len));
        match &mut source {
            Source::None => {}
            Source::Pictures(regions) => {
                regions.take(start, end, |at, known, written| self.marked_line(at, known, written))
            }
            Source::Own(marks) if end - start <= PAGE => (start..end).step_by(LINE).for_each(|at| {
                if marks.has(at) {
                    self.take_line(marks, at);
                }
            }),
            Source::Own(marks) => {
                for page in marks.marked_pages(start, end) {
                    (page.max(start)..end.min(page + PAGE)).step_by(LINE).for_each(|at| self.take_line(marks, at));
                }
            }
        }
        self.marks = source;
    }

    #[inline]
    fn take_line(&mut self, marks: &mut Marks, at: u64) {
        let (known, written) = marks.take(at);
        self.marked_line(at, known, written);
    }

    /// Bytes of a line were accessed, and written.
    #[inline]
    fn marked_line(&mut self, at: u64, known: u64, written: u64) {
        if known != 0
            && let Some(lines) = &mut self.lines
        {
            lines.line(at, known, written);
        } else if known != 0 {
            let line = at % PAGE / LINE as u64;
            let page = self.pages.make(at & !(PAGE - 1));
            page.known[line as usize] |= known;
            page.stored[line as usize] |= written;
            page.accessed |= 1 << line;
            page.written |= u64::from(written != 0) << line;
            if let Some(glance) = &mut self.glance {
                glance.marked(at, known, written);
            }
        }
    }

    /// Looks at these ranges from here on; whether there was anything to be seen of those before.
    pub fn glance_at(&mut self, ranges: Vec<WatchedRange>) -> bool {
        let before = self.glance.as_ref().map_or(Vec::new(), |glance| glance.ranges().to_vec());
        before.iter().for_each(|range| self.take_marks(range.addr, range.len));
        let noticed = self.glance.as_ref().is_some_and(Glance::has_noticed);
        // What was marked up to here is not seen from here on.
        ranges.iter().filter(|range| !before.contains(range)).for_each(|range| self.take_marks(range.addr, range.len));
        self.glance = Some(Glance::new(ranges)).filter(|glance| !glance.ranges().is_empty());
        noticed
    }

    /// The bytes are known from here on.
    #[inline]
    pub fn know(&mut self, at: u64, len: u64, writes: bool) {
        if self.lines.is_some() {
            return;
        }
        let line = at % PAGE / LINE as u64;
        if at % LINE as u64 + len <= LINE as u64 && len > 0 {
            let page = self.pages.make(at & !(PAGE - 1));
            let bytes = (u64::MAX >> (64 - len)) << (at % LINE as u64);
            page.known[line as usize] |= bytes;
            page.stored[line as usize] |= if writes { bytes } else { 0 };
            page.accessed |= 1 << line;
            page.written |= u64::from(writes) << line;
        } else {
            self.know_range(at, len, writes);
        }
    }

    fn know_range(&mut self, at: u64, len: u64, writes: bool) {
        for (page, first, end) in pieces(at, len.min(MAX_RANGE)) {
            let page = self.pages.make(page);
            words(&mut page.known, first, end).for_each(|(word, mask)| *word |= mask);
            let lines = lines(first, end);
            page.accessed |= lines;
            if writes {
                words(&mut page.stored, first, end).for_each(|(word, mask)| *word |= mask);
                page.written |= lines;
            }
        }
    }

    /// A record is about to put bytes into memory, where these are now.
    pub fn put(&mut self, at: u64, bytes: &[u8], now: &[u8]) {
        if self.lines.is_some() {
            return;
        }
        self.take_marks(at, bytes.len() as u64);
        for (page, first, end) in pieces(at, bytes.len() as u64) {
            let (start, from) = (page, (page + first as u64 - at) as usize);
            let page = self.pages.make(page);
            let (mut unseen, mut changed) = ([0; PAGE as usize / 64], [0; PAGE as usize / 64]);
            for (at, byte) in (first..end).zip(from..) {
                let (word, bit) = (at / 64, 1_u64 << (at % 64));
                if page.known[word] & bit == 0 {
                    let is_open = page.stored[word] & bit == 0 && !self.changed.contains(start + at as u64);
                    unseen[word] |= if is_open { bit } else { 0 };
                } else if bytes[byte] != now[byte] {
                    // What was seen there before was something else.
                    changed[word] |= bit;
                }
            }
            page.find(&unseen, |at| bytes[from + at - first]);
            let seen = page.seen_before(start, &self.changed);
            let seen = std::array::from_fn(|word| seen[word] & changed[word]);
            page.find(&seen, |at| now[from + at - first]);
            for (line, changed) in changed.iter().enumerate() {
                page.stored[line] |= changed;
                page.written |= u64::from(*changed != 0) << line;
            }
            words(&mut page.known, first, end).for_each(|(word, mask)| *word |= mask);
            page.accessed |= lines(first, end);
        }
    }

    /// What was made is not any more what it was made as.
    fn not_as_made(&mut self, at: u64, len: u64) {
        self.changes += 1;
        self.changed.add(at, len);
        self.zeros.remove(at, len);
        self.mapped.remove(at, len);
    }

    /// The bytes are not known any more, nor is what was there before.
    pub fn forget(&mut self, memory: &Memory, at: u64, len: u64) {
        if len == 0 || self.lines.is_some() {
            return;
        }
        self.take_marks(at, len);
        let changed = &self.changed;
        let forget = |page: &mut Page, start: u64, first, end| {
            // What was only read was there before.
            let mut seen = [0; PAGE as usize / 64];
            words(&mut seen, first, end).for_each(|(word, mask)| *word = mask);
            let before = page.seen_before(start, changed);
            seen.iter_mut().zip(&before).for_each(|(seen, before)| *seen &= before);
            if seen.iter().any(|word| *word != 0) {
                let bytes = memory.read(start, PAGE);
                page.find(&seen, |at| bytes.get(at).copied().unwrap_or_default());
            }
            words(&mut page.known, first, end).for_each(|(word, mask)| *word &= !mask);
        };
        if len / PAGE > self.pages.all.len() as u64 {
            // A large range is mostly memory that nobody has touched.
            let end = at.saturating_add(len);
            for (start, number) in &self.pages.numbers {
                let (from, to) = (at.max(*start), end.min(start + PAGE));
                if from < to {
                    let page = &mut self.pages.all[*number as usize];
                    forget(page, *start, (from - start) as usize, (to - start) as usize);
                }
            }
        } else {
            for (start, first, end) in pieces(at, len) {
                if let Some(page) = self.pages.get_mut(start) {
                    forget(page, start, first, end);
                }
            }
        }
        self.not_as_made(at, len);
    }

    /// A signal's handler begins, with a frame that the kernel has pushed there.
    pub fn handler_begins(&mut self, memory: &Memory, at: u64, len: u64) {
        self.signals = true;
        self.forget(memory, at, len);
    }

    /// What an instruction stores that replay does not execute: what it leaves there is not known before records say it.
    pub fn stored_by_records(&mut self, memory: &Memory, at: u64, len: u64) {
        self.forget(memory, at, len);
        self.know(at, len, true);
        self.forget(memory, at, len);
    }

    /// What is known of each of `len` bytes from `at` on.
    pub fn states(&mut self, at: u64, len: usize) -> Vec<ByteState> {
        self.take_marks(at, len as u64);
        // What the kernel writes at its own times, as the id of a thread that it makes, is not what the memory was made as.
        let is_steady = |at: u64| !self.unsteady && !self.origins.is_unsteady(at);
        let state = |at: u64| {
            let bit = at % PAGE;
            let page = at - bit;
            if self.pages.get(page).is_some_and(|page| page.known[bit as usize / 64] >> (bit % 64) & 1 == 1) {
                ByteState::Known
            } else if self.zeros.contains(at) && is_steady(at) {
                ByteState::Zero
            } else if self.mapped.contains(at) && is_steady(at) {
                ByteState::Mapped
            } else if self.unsteady || self.changed.contains(at) {
                ByteState::Changed
            } else if self.code.contains(&page) {
                ByteState::Code
            } else {
                ByteState::Untouched
            }
        };
        (0..len as u64).map(|number| state(at.wrapping_add(number))).collect()
    }

    /// What a system call may change.
    fn changed_by(&mut self, memory: &Memory, number: u64, args: &[u64; 6], result: i64) -> Vec<Buffer> {
        let mut changed = self.system.changed(memory, &mut self.origins, number, args, result);
        self.unsteady |= system::makes_unsteady(memory, number, args, result);
        if !system::is_understood(memory, number, args) {
            changed.push((0, u64::MAX));
        }
        changed
    }

    /// A thread has to wait for others, and may be in a system call.
    pub fn call_begins(&mut self, memory: &Memory, thread: usize, number: u64, args: &[u64; 6], result: i64) {
        if self.lines.is_some() {
            return;
        }
        let changed = self.changed_by(memory, number, args, result);
        changed.iter().for_each(|(at, len)| self.forget(memory, *at, *len));
        self.calls.insert(thread, changed);
    }

    /// The pages from an address on of which a byte is known, ascending.
    pub fn pages_from(&mut self, from: u64) -> Vec<u64> {
        self.take_all();
        let is_known = |number: u32| self.pages.all[number as usize].known.iter().any(|word| *word != 0);
        let known = self.pages.numbers.iter().filter(|(page, number)| **page >= from && is_known(**number));
        let mut pages: Vec<u64> = known.map(|(page, _)| *page).collect();
        pages.sort_unstable();
        pages.truncate(MAX_LISTED);
        pages
    }

    /// A system call has returned.
    pub fn called(&mut self, memory: &Memory, thread: usize, number: u64, args: &[u64; 6], result: i64) {
        if self.lines.is_some() {
            return;
        }
        self.numbers.insert(number);
        let (begun, heap) = (self.calls.remove(&thread), self.system.heap.map(|(_, last)| last));
        let is_begun = begun.is_some();
        let changed = begun.unwrap_or_else(|| self.changed_by(memory, number, args, result));
        changed.into_iter().for_each(|(at, len)| self.forget(memory, at, len));
        // Others may have been there before a call was over that had begun earlier.
        if !is_begun && let Some(((at, len), made)) = system::made(number, args, result, heap) {
            match made {
                Made::Zeros => self.zeros.add(at, len),
                Made::File => self.mapped.add(at, len),
            }
        }
    }

    /// From here on, it is as if nothing was known of memory.
    pub fn begin_anew(&mut self) {
        self.take_all();
        self.marked = !matches!(self.marks, Source::None);
        (self.pages, self.changed) = (Pages::default(), Ranges::default());
        (self.zeros, self.mapped, self.code) = (Ranges::default(), Ranges::default(), HashSet::new());
    }

    /// What was found out of memory as it was in the beginning: the pages from an address on, and where the next ones begin.
    pub fn found(&mut self, memory: &Memory, from: u64, most: usize) -> (Vec<LeftPage>, Option<u64>) {
        self.take_all();
        let Self { pages, changed, .. } = self;
        let all: BTreeSet<u64> = pages.numbers.keys().copied().filter(|page| *page >= from).collect();
        let mut all = all.into_iter();
        let mut found = Vec::new();
        for addr in all.by_ref() {
            let Some(page) = pages.get_mut(addr) else { continue };
            let seen = page.seen_before(addr, changed);
            if seen.iter().any(|word| *word != 0) {
                let bytes = memory.read(addr, PAGE);
                page.find(&seen, |at| bytes.get(at).copied().unwrap_or_default());
            }
            let Some(Found { known, bytes }) = page.found.as_deref() else { continue };
            let known = known.iter().flat_map(|word| word.to_le_bytes()).collect();
            found.push(LeftPage { addr, known, bytes: bytes.to_vec(), ..LeftPage::default() });
            if found.len() == most {
                break;
            }
        }
        (found, all.next())
    }

    /// How often something may have been changed that nobody saw.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The pages of which something was accessed, or executed as `executed` says; some of them, from the one at `from` on, and where
    /// the next ones begin.
    pub fn left(
        &mut self,
        memory: &Memory,
        executed: &HashMap<u64, u64>,
        from: u64,
        most: usize,
    ) -> (Vec<LeftPage>, Option<u64>) {
        self.take_all();
        let all: BTreeSet<u64> =
            self.pages.numbers.keys().chain(executed.keys()).copied().filter(|page| *page >= from).collect();
        let mut all = all.into_iter();
        let left = |addr: u64| {
            let executed = executed.get(&addr).copied().unwrap_or(0);
            let mut left = LeftPage { addr, executed, ..LeftPage::default() };
            if let Some(page) = self.pages.get(addr) {
                (left.accessed, left.written) = (page.accessed, page.written);
                let bytes = memory.read(addr, PAGE);
                if page.known.iter().any(|word| *word != 0) && bytes.len() as u64 == PAGE {
                    left.known = page.known.iter().flat_map(|word| word.to_le_bytes()).collect();
                    left.bytes = bytes;
                }
            }
            left
        };
        let pages = all.by_ref().take(most).map(left).collect();
        (pages, all.next())
    }

    /// What happened in the package that nobody saw.
    pub fn unseen(&self) -> Unseen {
        let unsteady = self.unsteady.then_some((0, u64::MAX));
        Unseen {
            changed: self.changed.iter().collect(),
            unsteady: unsteady.into_iter().chain(self.origins.unsteady()).collect(),
            zeros: self.zeros.iter().collect(),
            mapped: self.mapped.iter().collect(),
            heap: self.system.heap,
            calls: self.numbers.iter().copied().collect(),
            signals: self.signals,
        }
    }

    /// An instruction is about to access memory.
    pub fn accessed(&mut self, instruction: &Instruction, regs: &impl Registers) {
        if self.lines.is_some() {
            return;
        }
        match instruction.action() {
            Action::Execute { reads, writes } => {
                let accesses = reads.iter().map(|read| (read, false)).chain(writes.iter().map(|write| (write, true)));
                for (access, writes) in accesses {
                    let Some(at) = access.address(regs) else { continue };
                    match (access.masked, writes) {
                        (false, _) => self.know(at, access.bytes.into(), writes),
                        // Which bytes a mask lets through is not looked at: those that are known stay so.
                        (true, true) => {
                            self.not_as_made(at, access.bytes.into());
                            for (page, first, end) in pieces(at, access.bytes.into()) {
                                let page = self.pages.make(page);
                                words(&mut page.stored, first, end).for_each(|(word, mask)| *word |= mask);
                                page.accessed |= lines(first, end);
                                page.written |= lines(first, end);
                            }
                        }
                        (true, false) => {}
                    }
                }
            }
            Action::Repeat(op) => {
                let count = match op.kind {
                    // How far these get depends on what they find: one element is certain.
                    StringKind::Compare | StringKind::Scan => regs.gpr(Gpr::RCX).min(1),
                    _ => regs.gpr(Gpr::RCX),
                };
                let reads = op.kind.reads().iter().map(|pointer| (*pointer, false));
                for (pointer, writes) in reads.chain(op.kind.writes().then_some((Gpr::RDI, true))) {
                    if let Some((at, len)) = range(*op, pointer, count, regs) {
                        self.know(at, len, writes);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The pages of a range, each with the first of its bytes that are in it and the first one behind.
fn pieces(at: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at.saturating_add(len);
    let mut from = at;
    std::iter::from_fn(move || {
        let page = from - from % PAGE;
        let to = end.min(page.saturating_add(PAGE));
        let piece = (page, (from - page) as usize, (to.max(page) - page) as usize);
        let any = from < to;
        from = to;
        any.then_some(piece)
    })
}

/// The lines of a page in which bytes `first..end` lie, a bit each.
fn lines(first: usize, end: usize) -> u64 {
    let (first, last) = (first / LINE, (end - 1) / LINE);
    u64::MAX >> (63 - (last - first)) << first
}

/// The words of a page in which bits `first..end` lie, each with a mask of these.
fn words(bits: &mut Bits, first: usize, end: usize) -> impl Iterator<Item = (&mut u64, u64)> {
    let touched = bits.iter_mut().enumerate().take(end.div_ceil(64)).skip(first / 64);
    touched.map(move |(number, word)| {
        let low = first.saturating_sub(64 * number);
        let high = (end - 64 * number).min(64);
        (word, (u64::MAX >> (64 - (high - low))) << low)
    })
}
