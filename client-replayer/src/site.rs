//! The places from which blocks call the client, and what the client knows of the code around them.

use crate::code::Code;
use crate::counter::Borrowed;
use crate::instruction::{Instruction, PlainAccess};
use bugnet_dr::ir::MemoryParts;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashMap;
use std::ops::Range;

const PAGE: usize = Addr::PAGE as usize;

/// A place in the code cache from which the client is called; blocks name it by its index in [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// A block would run past the next position at which something is due.
    Crossing(SpanId),
    /// The start of a split copy: here its address in the code cache is learnt.
    Entry(SplitId),
    /// In a split copy, where something is due.
    Due(SplitId),
    /// Before an instruction that accesses memory.
    Access(AccessId),
    /// Where a function of an allocator begins, at this address.
    Allocator(u64),
    /// Before the instruction with which the outermost one returns.
    Leaves,
    /// Before an instruction at a watched address.
    Address(AddressId),
    /// Instead of the instruction at this address, which replay does not execute or of which the log has no code.
    Instead(u64),
}

/// Index of a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(u32);

/// Index of a [`Split`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitId(u32);

/// Index of an [`Access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessId(u32);

/// Index of an instruction at a watched address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressId(u32);

/// An instruction that accesses memory, before which the client is called.
pub struct Access {
    /// Its address.
    pub pc: u64,
    /// What its position is ahead of what the counter says there.
    pub ahead: i64,
    /// The instruction.
    pub instruction: Instruction,
    /// Its only place in memory, where that is found fast.
    pub plain: Option<PlainAccess>,
    /// Its bytes, where a prefix matters that the decoder does not tell.
    pub bytes: Vec<u8>,
    /// The block in which it is: where it begins and ends.
    pub block: Range<u64>,
    /// Whether it accesses memory atomically, where that is asked: where lines are marked.
    pub is_atomic: bool,
}

/// A block with bytes on a page, or one that was built as it was because of code there.
struct OnPage {
    tag: u64,
    /// The block's bytes there; where it is about other code, all of the page.
    bytes: Range<usize>,
    /// The version of the page from which it was made; none if there was no code.
    made_of: Option<CodeSeq>,
}

impl OnPage {
    /// Whether the block would be another one with the code that is in force now.
    fn is_stale(&self, page: u64, code: &Code) -> bool {
        match (self.made_of, code.page_seq(page, code.seq())) {
            // It is not executed before the picture has the page again; then, it is asked once more.
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => {
                let bytes = |seq| code.page(page, seq).map(|page| &page[self.bytes.clone()]);
                old != new && bytes(old) != bytes(new)
            }
        }
    }
}

/// Instructions that follow each other, up to the end of a block.
pub struct Span {
    /// Address of the first.
    pub start: u64,
    /// How many are executed.
    pub count: u32,
    /// Whether another one follows in the block, instead of which the client is called.
    pub opaque: bool,
    /// Arithmetic flags, bits of [`bugnet_dr::ir::ARITHMETIC`], that may not be the program's at its start: counting
    /// changes them where they are overwritten before anything reads them.
    pub unknown_flags: u32,
    /// Where R11 is the program's.
    pub borrowed: Borrowed,
    /// Its split copies, by the number of instructions before the call.
    splits: Vec<(u32, SplitId)>,
}

/// A copy of a span in which the client is called before one of its instructions.
pub struct Split {
    /// What it is a copy of.
    pub span: SpanId,
    /// Instructions before the call.
    pub before: u32,
    /// DynamoRIO's name for the copy.
    pub tag: u64,
    /// Where the copy begins in the code cache, as long as it is there.
    pub entry: Option<u64>,
    /// What comes behind the call.
    pub rest: SpanId,
    /// The instruction before which the client is called.
    pub instruction: Option<Instruction>,
    /// Its [`Instruction::plain_read`].
    pub plain_read: Option<(MemoryParts, u64)>,
    /// Where R11 is the program's.
    pub borrowed: Borrowed,
}

/// What a block in the code cache is, for the block and the fault events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// The program's block.
    Plain(SpanId),
    /// A copy that calls the client.
    Split(SplitId),
}

/// All sites.
#[derive(Default)]
pub struct Sites {
    sites: Vec<Site>,
    spans: Vec<Span>,
    splits: Vec<Split>,
    accesses: Vec<Access>,
    /// Watched instructions: address, and what the position is ahead of what the counter says there.
    addresses: Vec<(u64, i64)>,
    /// By DynamoRIO's tag: the program's address, or that of a split copy.
    built: HashMap<u64, Built>,
    /// The plain blocks on a page, by the page's address. Some may be gone.
    on_page: HashMap<u64, Vec<OnPage>>,
}

impl Sites {
    /// Makes a site; its number, which fits an immediate operand.
    pub fn add(&mut self, site: Site) -> u32 {
        self.sites.push(site);
        (self.sites.len() - 1) as u32
    }

    /// The site with a number that [`Self::add`] gave.
    pub fn get(&self, number: u64) -> Site {
        self.sites[number as usize]
    }

    /// Makes a span.
    pub fn add_span(&mut self, start: u64, count: u32, opaque: bool) -> SpanId {
        let (unknown_flags, borrowed) = (0, Borrowed::default());
        self.spans.push(Span { start, count, opaque, unknown_flags, borrowed, splits: Vec::new() });
        SpanId((self.spans.len() - 1) as u32)
    }

    /// The span that a plain block consists of, as it is built. `last` is the address of its last byte.
    pub fn add_block(&mut self, tag: u64, last: u64, count: u32, opaque: bool, code: &Code) -> SpanId {
        let span = self.add_span(tag, count, opaque);
        self.built.insert(tag, Built::Plain(span));
        let (first, behind) = (Addr(tag).page().0, Addr(last).page().0);
        let (start, end) = ((tag - first) as usize, (last - behind) as usize + 1);
        if first == behind {
            self.add_on_page(first, tag, start..end, code);
        } else {
            self.add_on_page(first, tag, start..PAGE, code);
            self.add_on_page(behind, tag, 0..end, code);
        }
        span
    }

    fn add_on_page(&mut self, page: u64, tag: u64, bytes: Range<usize>, code: &Code) {
        let made_of = code.page_seq(page, code.seq());
        self.on_page.entry(page).or_default().push(OnPage { tag, bytes, made_of });
    }

    /// Takes note of pages on which there is code that says how the block of a span was built.
    pub fn depends_on(&mut self, span: SpanId, pages: &[u64], code: &Code) {
        let tag = self.span(span).start;
        for page in pages {
            let last = self.on_page.get(page).and_then(|blocks| blocks.last());
            if last.is_none_or(|last| last.tag != tag || last.bytes != (0..PAGE)) {
                self.add_on_page(*page, tag, 0..PAGE, code);
            }
        }
    }

    /// Whether no block of the program has been built.
    pub fn is_empty(&self) -> bool {
        self.built.is_empty()
    }

    /// Takes those plain blocks off a page's list whose bytes there are among these: their tags.
    pub fn take_blocks(&mut self, page: u64, bytes: Range<usize>) -> Vec<u64> {
        self.take_if(page, |block| block.bytes.start < bytes.end && bytes.start < block.bytes.end)
    }

    /// The same for those that would be others with the code that is in force now.
    pub fn take_stale(&mut self, page: u64, code: &Code) -> Vec<u64> {
        self.take_if(page, |block| block.is_stale(page, code))
    }

    fn take_if(&mut self, page: u64, goes: impl Fn(&OnPage) -> bool) -> Vec<u64> {
        let Some(blocks) = self.on_page.get_mut(&page) else { return Vec::new() };
        blocks.extract_if(.., |block| goes(block)).map(|block| block.tag).collect()
    }

    /// Takes note of a watched instruction.
    pub fn add_address(&mut self, pc: u64, ahead: i64) -> AddressId {
        self.addresses.push((pc, ahead));
        AddressId((self.addresses.len() - 1) as u32)
    }

    /// What [`Self::add_address`] was told.
    pub fn address(&self, id: AddressId) -> (u64, i64) {
        self.addresses[id.0 as usize]
    }

    /// Makes a description of an access.
    pub fn add_access(&mut self, access: Access) -> AccessId {
        self.accesses.push(access);
        AccessId((self.accesses.len() - 1) as u32)
    }

    /// The access with this number.
    pub fn access(&self, id: AccessId) -> &Access {
        &self.accesses[id.0 as usize]
    }

    /// Takes all plain blocks off the lists of their pages: their tags.
    pub fn take_all_blocks(&mut self) -> Vec<u64> {
        self.on_page.clear();
        self.built.iter().filter(|(_, built)| matches!(built, Built::Plain(_))).map(|(tag, _)| *tag).collect()
    }

    /// The span with this number, to be changed.
    pub fn span_mut(&mut self, id: SpanId) -> &mut Span {
        &mut self.spans[id.0 as usize]
    }

    /// The span with this number.
    pub fn span(&self, id: SpanId) -> &Span {
        &self.spans[id.0 as usize]
    }

    /// The copy of a span that calls the client behind `before` instructions, if there is one.
    pub fn find_split(&self, span: SpanId, before: u32) -> Option<SplitId> {
        self.span(span).splits.iter().find(|(n, _)| *n == before).map(|(_, split)| *split)
    }

    /// Makes such a copy's description: `rest_start` is the address of the instruction before which the client is called.
    pub fn add_split(&mut self, span: SpanId, before: u32, tag: u64, rest_start: u64) -> SplitId {
        let Span { count, opaque, unknown_flags, .. } = *self.span(span);
        let rest = self.add_span(rest_start, count - before, opaque);
        // As long as it is not known which of them are overwritten on the way.
        self.span_mut(rest).unknown_flags = unknown_flags;
        let borrowed = Borrowed::default();
        self.splits.push(Split { span, before, tag, entry: None, rest, instruction: None, plain_read: None, borrowed });
        let id = SplitId((self.splits.len() - 1) as u32);
        self.spans[span.0 as usize].splits.push((before, id));
        self.built.insert(tag, Built::Split(id));
        id
    }

    /// The split with this number.
    pub fn split(&mut self, id: SplitId) -> &mut Split {
        &mut self.splits[id.0 as usize]
    }

    /// What DynamoRIO's block with this tag is; `None` for one of the replay process's own.
    pub fn built(&self, tag: u64) -> Option<Built> {
        self.built.get(&tag).copied()
    }

    /// Forgets where split copies lie in the code cache.
    pub fn forget_entries(&mut self) {
        self.splits.iter_mut().for_each(|split| split.entry = None);
    }
}
