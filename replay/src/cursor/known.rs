//! What memory was, and how that is known.
//!
//! Of the present epoch, a replay process knows what its instructions and records have said. What it does not know is as an earlier epoch
//! left it, if nothing can have changed it since without being noticed; or as it came to be ([`super::made`]); or as the rest of this epoch
//! ([`super::foreseen`]) or a later one finds it, or the log's snapshot has it, if nothing can have changed it on the way; or as a file has it
//! that nobody can write to. All but the last take an index.

use super::Cursor;
use super::foreseen::{Bits, Foreseen};
use super::forked::Parent;
use super::indexed::MakeIndex;
use super::made::Born;
use crate::error::Result;
use crate::index::Index;
use crate::memory::{Memory, Snapshots};
use crate::symbols::ReadOnly;
use bugnet_format::control::{ByteState, MAX_READ};
use bugnet_format::index::Content;
use bugnet_format::types::{Addr, Epoch, ProcessId};
use serde::Serialize;

const PAGE: u64 = Addr::PAGE;

/// Where it is known from what a byte of memory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Origin {
    /// A thread has accessed it in the present epoch.
    Present,
    /// The code picture with which the epoch begins has it. Only without an index, which tells more.
    Code,
    /// This earlier epoch left it, and nothing can have changed it since.
    Earlier {
        /// Its number.
        epoch: Epoch,
    },
    /// This epoch, the present or a later one, finds it, and nothing can have changed it on the way.
    Later {
        /// Its number.
        epoch: Epoch,
    },
    /// The kernel has made the memory, as zeros, and nothing has changed it since.
    Zeros,
    /// It is in a part of this ELF file that nobody can write to, or nothing has since it was mapped.
    File {
        /// The file's build id, lower-case hexadecimal.
        build_id: String,
    },
    /// The process that forked this one had it in that moment, and nothing can have changed it since.
    Parent {
        /// That one.
        process: ProcessId,
    },
    /// The log has memory as it was at the end, and nothing can have changed it on the way.
    Snapshot,
    /// Nobody knows.
    Unknown,
}

/// Bytes that follow each other and come from the same place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Address of the first.
    pub addr: u64,
    /// How many.
    pub len: u64,
    /// Where they come from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The bytes; empty if they are not known.
    pub bytes: Vec<u8>,
}

/// [`Origin`], with indices of epochs and modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Present,
    Code,
    Earlier(usize),
    Later(usize),
    Zeros,
    File(usize),
    Parent,
    Snapshot,
    Unknown,
}

/// A byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    byte: u8,
    source: Source,
}

impl Slot {
    /// Nobody knows it.
    pub fn forget(&mut self) {
        self.source = Source::Unknown;
    }
}

/// What is looked at where the present epoch knows nothing; each is read when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Elsewhere<'a> {
    pub index: Option<Index>,
    /// Makes one where it is needed.
    pub make_index: MakeIndex<'a>,
    /// Whether it was asked.
    pub wanted_index: bool,
    pub parent: Parent<'a>,
    pub foreseen: Option<Foreseen>,
    /// Nobody looks at what a run from here on finds: who goes on anyway, comes to it.
    pub is_blind: bool,
    /// Whether the log has the process from where it executed its program.
    pub begins: Option<bool>,
    files: Option<ReadOnly>,
    /// Memory at the end, as the log has it.
    pub end: Option<Snapshots>,
}

/// Bytes of a page that are looked for.
pub(super) struct Search<'a> {
    pub page: u64,
    /// Offset in the page of the first one.
    first: usize,
    slots: &'a mut [Slot],
}

impl Search<'_> {
    /// A bit for each byte for which `wanted` says yes.
    fn bits(&self, wanted: impl Fn(usize) -> bool) -> Bits {
        let mut bits = [0; PAGE as usize / 64];
        (0..self.slots.len()).filter(|number| wanted(*number)).for_each(|number| set(&mut bits, self.first + number));
        bits
    }

    /// The bytes of these that nobody knows yet.
    fn open(&self) -> Bits {
        self.bits(|number| self.slots[number].source == Source::Unknown)
    }

    /// Takes those of `wanted` that the content has, and out of `wanted`.
    fn take(&mut self, wanted: &mut Bits, content: &Content, source: Source) {
        for (line, (wanted, known)) in wanted.iter_mut().zip(&content.known).enumerate() {
            let mut found = *wanted & known;
            *wanted &= !known;
            while found != 0 {
                let at = line * 64 + found.trailing_zeros() as usize;
                found &= found - 1;
                self.slots[at - self.first] = Slot { byte: content.bytes[at], source };
            }
        }
    }

    /// Takes out of `bits` what lies in one of the ranges.
    fn without(&self, bits: &mut Bits, ranges: &[(u64, u64)]) {
        let (start, end) = (self.page + self.first as u64, self.page + (self.first + self.slots.len()) as u64);
        let from = ranges.partition_point(|(at, len)| at + len <= start);
        for (at, len) in ranges[from..].iter().take_while(|(at, _)| *at < end) {
            (start.max(*at)..end.min(at + len)).for_each(|at| clear(bits, (at - self.page) as usize));
        }
    }

    /// Offset in the page of the first byte.
    pub fn first(&self) -> usize {
        self.first
    }

    /// And behind the last one.
    pub fn end(&self) -> usize {
        self.first + self.slots.len()
    }

    /// Those of `bits` that are not known, and lie in a part of the page.
    pub fn among(&self, bits: &Bits, from: usize, until: usize) -> Bits {
        self.bits(|number| {
            let at = self.first + number;
            (from..until).contains(&at) && is_set(bits, at) && self.slots[number].source == Source::Unknown
        })
    }

    /// Puts those of `wanted`, which are known from elsewhere: `byte` has what is at an offset in the page, if it has that.
    pub fn put(&mut self, wanted: &Bits, source: Source, byte: impl Fn(usize) -> Option<u8>) {
        for (at, slot) in (self.first..).zip(&mut *self.slots) {
            if let Some(byte) = byte(at).filter(|_| is_set(wanted, at)) {
                *slot = Slot { byte, source };
            }
        }
    }

    /// Those of `bits` that lie in one of the ranges.
    fn within(&self, bits: &Bits, ranges: &[(u64, u64)]) -> Bits {
        let mut others = *bits;
        self.without(&mut others, ranges);
        std::array::from_fn(|word| bits[word] & !others[word])
    }

    /// What earlier epochs left of `wanted`, and what is as it came to be. `unwritten` loses the lines that one of them has written to.
    fn earlier(&mut self, index: &mut Index, epoch: usize, mut wanted: Bits, unwritten: &mut Bits) -> Result<Born> {
        let none = [0; PAGE as usize / 64];
        let mut born = Born { by_call: none, with_process: none };
        for number in (0..epoch).rev() {
            if is_empty(&wanted) && is_empty(unwritten) {
                break;
            }
            let table = index.table(number)?;
            if let Some(entry) = table.page(self.page) {
                if !is_empty(&wanted)
                    && let Some(content) = index.content(entry.left)?
                {
                    self.take(&mut wanted, &content, Source::Earlier(number));
                }
                without_lines(unwritten, entry.written);
            }
            self.put(&self.within(&wanted, &table.zeros), Source::Zeros, |_| Some(0));
            let mapped = self.within(&wanted, &table.mapped);
            born.by_call.iter_mut().zip(&mapped).for_each(|(born, mapped)| *born |= mapped);
            // What was made has also been changed thereby.
            self.without(&mut wanted, &table.changed);
            if table.is_unknown {
                *unwritten = [0; PAGE as usize / 64];
            }
        }
        born.with_process = wanted;
        Ok(born)
    }

    /// What the rest of an epoch finds of `wanted`; what is left then at its end.
    fn in_rest(&mut self, seen: &Foreseen, epoch: usize, mut wanted: Bits) -> Bits {
        self.without(&mut wanted, &seen.unsteady);
        if let Some(content) = seen.found.get(&self.page) {
            self.take(&mut wanted, content, Source::Later(epoch));
        }
        if let Some(accessed) = seen.accessed.get(&self.page) {
            wanted.iter_mut().zip(accessed).for_each(|(wanted, accessed)| *wanted &= !accessed);
        }
        self.without(&mut wanted, &seen.changed);
        wanted
    }

    /// What this epoch, from its start on, and later ones find of `wanted`, as long as nothing may have changed it; what is left then at the
    /// end.
    fn later(&mut self, index: &mut Index, epoch: usize, mut wanted: Bits) -> Result<Bits> {
        for number in epoch..index.epochs() {
            if is_empty(&wanted) {
                break;
            }
            let table = index.table(number)?;
            self.without(&mut wanted, &table.unsteady);
            if let Some(entry) = table.page(self.page) {
                if let Some(content) = index.content(entry.found)? {
                    self.take(&mut wanted, &content, Source::Later(number));
                }
                if let Some(content) = index.content(entry.left)? {
                    wanted.iter_mut().zip(&content.known).for_each(|(wanted, known)| *wanted &= !known);
                }
            }
            self.without(&mut wanted, &table.changed);
        }
        Ok(wanted)
    }

    /// What there is of `wanted`: `read` has bytes from an address on, so many or fewer, and `next` is the first address behind one that has
    /// nothing where there may be something.
    fn read<T>(
        &mut self,
        wanted: &Bits,
        source: Source,
        from: &mut T,
        read: impl Fn(&mut T, u64, usize) -> Vec<u8>,
        next: impl Fn(&mut T, u64) -> Option<u64>,
    ) {
        let mut at = self.first;
        let end = self.first + self.slots.len();
        while at < end {
            let run = (at..end).find(|at| !is_set(wanted, *at)).unwrap_or(end);
            while at < run {
                let found = read(from, self.page + at as u64, run - at);
                for (slot, byte) in self.slots[at - self.first..].iter_mut().zip(found.iter().take(run - at)) {
                    *slot = Slot { byte: *byte, source };
                }
                at += match found.len() {
                    0 => next(from, self.page + at as u64)
                        .map_or(run - at, |next| next.saturating_sub(self.page + at as u64).max(1) as usize),
                    found => found,
                };
            }
            at = at.max(run + 1);
        }
    }
}

fn set(bits: &mut Bits, at: usize) {
    bits[at / 64] |= 1 << (at % 64);
}

fn clear(bits: &mut Bits, at: usize) {
    bits[at / 64] &= !(1 << (at % 64));
}

fn is_set(bits: &Bits, at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

fn is_empty(bits: &Bits) -> bool {
    bits.iter().all(|word| *word == 0)
}

/// Takes whole lines out.
fn without_lines(bits: &mut Bits, lines: u64) {
    bits.iter_mut().enumerate().filter(|(line, _)| lines >> line & 1 == 1).for_each(|(_, word)| *word = 0);
}

impl Cursor<'_> {
    /// `len` bytes of memory from `addr` on, with what tells what they are.
    ///
    /// # Errors
    /// The replay process is lost, or the index is damaged, which is gone then.
    pub fn read_with_origin(&mut self, addr: Addr, len: u64) -> Result<Vec<Piece>> {
        let (slots, mut pieces): (_, Vec<Piece>) = (self.slots(addr, len)?, Vec::new());
        let mut last = None;
        for (addr, slot) in (addr.0..).zip(slots) {
            match pieces.last_mut().filter(|_| last == Some(slot.source)) {
                Some(piece) => piece.len += 1,
                None => pieces.push(Piece { addr, len: 1, origin: self.origin(slot.source), bytes: Vec::new() }),
            }
            if let (Some(piece), true) = (pieces.last_mut(), slot.source != Source::Unknown) {
                piece.bytes.push(slot.byte);
            }
            last = Some(slot.source);
        }
        Ok(pieces)
    }

    /// What the replay process has there, even where something that nobody saw may have changed it since: what the program finds there next, unless a
    /// record of the log says what else. None where it has nothing, or zero that is not known.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn read_held(&mut self, addr: Addr, len: u64) -> Result<Vec<Option<u8>>> {
        let mut held = Vec::new();
        let end = addr.0.saturating_add(len);
        while addr.0 + (held.len() as u64) < end {
            let at = addr.0 + held.len() as u64;
            let states = self.open.states(at, (end - at).min(MAX_READ))?;
            let is_held = |byte: u8, state| match state {
                ByteState::Known | ByteState::Code | ByteState::Zero => true,
                ByteState::Changed | ByteState::Mapped => byte != 0,
                ByteState::Untouched => false,
            };
            held.extend(states.into_iter().map(|(byte, state)| is_held(byte, state).then_some(byte)));
        }
        Ok(held)
    }

    fn origin(&self, source: Source) -> Origin {
        let epoch = |index| self.outline.epoch(index).map_or_else(Epoch::default, |(epoch, _)| epoch);
        match source {
            Source::Present => Origin::Present,
            Source::Code => Origin::Code,
            Source::Earlier(index) => Origin::Earlier { epoch: epoch(index) },
            Source::Later(index) => Origin::Later { epoch: epoch(index) },
            Source::Zeros => Origin::Zeros,
            Source::File(module) => {
                let build_id = self.elsewhere.files.as_ref().map_or("", |files| files.build_id(module));
                Origin::File { build_id: build_id.to_owned() }
            }
            Source::Parent => Origin::Parent { process: self.parent_id().unwrap_or(self.pid) },
            Source::Snapshot => Origin::Snapshot,
            Source::Unknown => Origin::Unknown,
        }
    }

    fn slots(&mut self, addr: Addr, len: u64) -> Result<Vec<Slot>> {
        let mut slots = Vec::new();
        let mut at = addr.0;
        let end = addr.0.saturating_add(len);
        while at < end {
            let to = end.min((at & !(PAGE - 1)).saturating_add(MAX_READ));
            let states = self.open.states(at, to - at)?;
            let mut done = 0;
            while at < to {
                let piece = (PAGE - at % PAGE).min(to - at) as usize;
                slots.extend(self.page(at, &states[done..done + piece])?);
                (at, done) = (at + piece as u64, done + piece);
            }
        }
        Ok(slots)
    }

    pub(super) fn files(&mut self) -> Result<&mut ReadOnly> {
        match &mut self.elsewhere.files {
            Some(files) => Ok(files),
            none => Ok(none.insert(ReadOnly::new(self.log, self.pid)?)),
        }
    }

    /// The bytes of a page from `at` on, of which the replay process says this.
    fn page(&mut self, at: u64, states: &[(u8, ByteState)]) -> Result<Vec<Slot>> {
        let mut slots = self.page_as_known(at, states)?;
        if !self.has_index() && slots.iter().any(|slot| slot.source == Source::Unknown) {
            self.want_index()?;
            if self.has_index() {
                slots = self.page_as_known(at, states)?;
            }
        }
        self.forget_shared(at, &mut slots)?;
        Ok(slots)
    }

    /// The same by what there is already.
    fn page_as_known(&mut self, at: u64, states: &[(u8, ByteState)]) -> Result<Vec<Slot>> {
        let has_index = self.elsewhere.index.is_some();
        let slot = |(byte, state): &(u8, ByteState)| {
            let source = match state {
                ByteState::Known => Source::Present,
                ByteState::Zero => Source::Zeros,
                ByteState::Code if !has_index => Source::Code,
                _ => Source::Unknown,
            };
            Slot { byte: *byte, source }
        };
        let mut slots: Vec<Slot> = states.iter().map(slot).collect();
        if slots.iter().all(|slot| slot.source != Source::Unknown) {
            return Ok(slots);
        }
        let page = at & !(PAGE - 1);
        let mut search = Search { page, first: (at - page) as usize, slots: &mut slots };
        let (epoch, is_end) = (self.open.index, self.time() >= self.outline.end);
        let mut in_file = search.open();
        let mut with_process = [0; PAGE as usize / 64];
        let mut at_end = if is_end { search.open() } else { [0; PAGE as usize / 64] };
        if let Some(index) = &mut self.elsewhere.index {
            let table = index.table(epoch)?;
            let in_state = |search: &Search<'_>, wanted: fn(ByteState) -> bool| {
                let mut bits = search.bits(|number| wanted(states[number].1));
                search.without(&mut bits, &table.unsteady);
                bits
            };
            let untouched = in_state(&search, |state| matches!(state, ByteState::Untouched | ByteState::Code));
            let changed = in_state(&search, |state| matches!(state, ByteState::Changed | ByteState::Mapped));
            let mut born = search.earlier(index, epoch, untouched, &mut in_file)?;
            let mapped = in_state(&search, |state| state == ByteState::Mapped);
            born.by_call.iter_mut().zip(&mapped).for_each(|(born, mapped)| *born |= mapped);
            self.take_born(&mut search, &born)?;
            with_process = born.with_process;
            let mut left = search.among(&changed, search.first(), search.end());
            if !is_empty(&left) && self.elsewhere.is_blind {
                left = [0; PAGE as usize / 64];
            } else if !is_empty(&left) && !is_end {
                left = match self.foreseen()? {
                    Some(seen) => search.in_rest(seen, epoch, left),
                    None => [0; PAGE as usize / 64],
                };
            }
            let open = search.among(&untouched, search.first(), search.end());
            if let Some(index) = &mut self.elsewhere.index {
                let mut left = search.later(index, epoch + 1, left)?;
                let open = search.later(index, epoch, open)?;
                left.iter_mut().zip(&open).for_each(|(left, open)| *left |= open);
                at_end.iter_mut().zip(&left).for_each(|(at_end, left)| *at_end |= left);
            }
        }
        let open = search.open();
        if is_empty(&open) {
            return Ok(slots);
        }
        at_end.iter_mut().zip(&open).for_each(|(at_end, open)| *at_end &= open);
        if !is_empty(&at_end) {
            let snapshots = &mut self.at_end()?;
            search.read(
                &at_end,
                Source::Snapshot,
                snapshots,
                |snapshots, at, len| snapshots.at(at, len as u64).into_owned(),
                |snapshots, at| snapshots.next_after(at),
            );
        }
        let open = search.open();
        in_file.iter_mut().zip(&open).for_each(|(in_file, open)| *in_file &= open);
        if !is_empty(&in_file) {
            let (at, len) = (page + search.first as u64, search.slots.len() as u64);
            let module = self.files()?.module_of(at, len);
            if let Some(module) = module.filter(|module| self.may_be_mapped(*module)) {
                let files = self.files()?;
                search.read(
                    &in_file,
                    Source::File(module),
                    files,
                    |files, at, len| files.read(module, at, len),
                    |files, at| files.next_after(module, at),
                );
            }
        }
        // Last, since it takes another replay process.
        self.take_parents(&mut search, &with_process)?;
        Ok(slots)
    }
}

impl Memory for Cursor<'_> {
    fn read_known(&mut self, addr: Addr, len: u64) -> Result<Vec<Option<u8>>> {
        let known = |slot: Slot| (slot.source != Source::Unknown).then_some(slot.byte);
        Ok(self.slots(addr, len)?.into_iter().map(known).collect())
    }

    /// Up to the first byte that is not known.
    fn read_memory(&mut self, addr: Addr, len: u64) -> Result<Vec<u8>> {
        Ok(self.read_known(addr, len)?.into_iter().map_while(|byte| byte).collect())
    }
}
