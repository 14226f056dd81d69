//! Which bytes of memory are known: those that threads have accessed in the package, or that a record has put there.
//!
//! Memory begins as zero, and a load of zero from memory that nobody has touched leaves no record: neither the records nor what is in
//! memory tell a zero that a thread has seen from a byte that it never looked at. Only the accesses do: the code cache marks them
//! ([`crate::marks`]), and the marks are taken from there when what they say is asked for, or is about to change. Where that cannot
//! be, instructions that access memory call the client, which is slow. Only a replay that is asked for it has to bear either.
//!
//! What a system call may have changed, or something else that nobody sees, is not known until it is read again; nor is, from then on,
//! what was there before the package began.

mod page;

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
use hashbrown::{HashMap, HashSet};
use page::{Found, PAGE, Page, Pages, lines, pieces};
use std::collections::BTreeSet;

/// Longest range that an instruction is believed to access, in bytes; no string instruction goes over more that is looked at later.
const MAX_RANGE: u64 = 1 << 30;
/// Bytes of a number that says how long a buffer is.
const COUNT: usize = 4;

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
    /// Whether it is kept what memory was in the beginning.
    finds: bool,
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
            for (line, mask) in lines(first, end) {
                page.known[line] |= mask;
                page.stored[line] |= if writes { mask } else { 0 };
                page.accessed |= 1 << line;
                page.written |= u64::from(writes) << line;
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
            let changed = self.finds.then_some(&self.changed);
            let [new, now] = [bytes, now].map(|bytes| move |at: usize| bytes[from + at - first]);
            lines(first, end).for_each(|line| page.put(start, line, changed, new, now));
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
        let (changed, finds) = (&self.changed, self.finds);
        let forget = |page: &mut Page, start: u64, first, end| {
            for (line, mask) in lines(first, end) {
                if finds {
                    let at = start + (line * LINE) as u64;
                    page.keep(start, line, mask, changed, || memory.read(at, LINE as u64));
                }
                page.known[line] &= !mask;
            }
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
        if !system::is_understood(memory, number, args, result) {
            changed.push((0, u64::MAX));
        }
        for (count, all) in system::counted(number, args) {
            // How long a buffer is says what nobody may have seen.
            if self.states(count, COUNT).iter().any(|state| *state != ByteState::Known) {
                changed.push(all);
            }
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
                Made::Zeros => self.zeros.add_these(at, len),
                Made::File => self.mapped.add_these(at, len),
            }
        }
    }

    /// From here on, it is as if nothing was known of memory, and it is kept what is found there.
    pub fn begin_anew(&mut self) {
        self.take_all();
        self.marked = !matches!(self.marks, Source::None);
        (self.pages, self.changed) = (Pages::default(), Ranges::default());
        (self.zeros, self.mapped, self.code) = (Ranges::default(), Ranges::default(), HashSet::new());
        self.finds = true;
    }

    /// What memory was where it began to be kept: the pages from an address on, and where the next ones begin.
    pub fn found(&mut self, memory: &Memory, from: u64, most: usize) -> (Vec<LeftPage>, Option<u64>) {
        self.take_all();
        let Self { pages, changed, .. } = self;
        let all: BTreeSet<u64> = pages.numbers.keys().copied().filter(|page| *page >= from).collect();
        let (mut all, mut found) = (all.into_iter(), Vec::new());
        for addr in all.by_ref() {
            let Some(page) = pages.get_mut(addr) else { continue };
            for (line, mask) in lines(0, PAGE as usize) {
                let at = addr + (line * LINE) as u64;
                page.keep(addr, line, mask, changed, || memory.read(at, LINE as u64));
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
                                for (line, mask) in lines(first, end) {
                                    page.stored[line] |= mask;
                                    page.accessed |= 1 << line;
                                    page.written |= 1 << line;
                                }
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
