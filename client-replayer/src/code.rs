//! The recorded program's code, in all versions that the package has.
//!
//! Code pictures are numbered for all threads of a process, but nothing orders a thread that still executes the code of
//! one with another thread that changes it, or stores where code is. So what a thread executes may be older than what
//! memory has: instructions are decoded from the picture of the thread that runs, never from memory.

use bugnet_dr::decode::MAX_LEN;
use bugnet_format::package::PageRef;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashMap;

const PAGE: usize = Addr::PAGE as usize;

/// A version of a page.
struct Version {
    seq: CodeSeq,
    bytes: Box<[u8; PAGE]>,
}

/// All code, and which picture of it is in force for the thread that runs.
#[derive(Default)]
pub struct Code {
    /// The versions of each page, ascending, by its address.
    pages: HashMap<u64, Vec<Version>>,
    /// All versions, ascending, with the addresses of their pages.
    order: Vec<(CodeSeq, u64)>,
    /// The picture of the thread that runs.
    seq: CodeSeq,
}

impl Code {
    /// Adds pages, which ascend; those that are known already change nothing.
    pub fn add<'a>(&mut self, pages: impl Iterator<Item = PageRef<'a>>) {
        for page in pages {
            let Ok(bytes) = <[u8; PAGE]>::try_from(page.bytes) else { continue };
            let versions = self.pages.entry(page.addr.0).or_default();
            let at = versions.partition_point(|version| version.seq < page.seq);
            if versions.get(at).is_none_or(|version| version.seq != page.seq) {
                versions.insert(at, Version { seq: page.seq, bytes: Box::new(bytes) });
                let at = self.order.partition_point(|(seq, _)| *seq < page.seq);
                self.order.insert(at, (page.seq, page.addr.0));
            }
        }
    }

    /// The picture of the thread that runs.
    pub fn seq(&self) -> CodeSeq {
        self.seq
    }

    /// Another picture is in force; the one before.
    pub fn set_seq(&mut self, seq: CodeSeq) -> CodeSeq {
        std::mem::replace(&mut self.seq, seq)
    }

    /// The newest version of a page in a picture.
    pub fn page(&self, page: u64, seq: CodeSeq) -> Option<&[u8; PAGE]> {
        self.version(page, seq).map(|version| &*version.bytes)
    }

    /// The number of the version of a page that is in a picture.
    pub fn page_seq(&self, page: u64, seq: CodeSeq) -> Option<CodeSeq> {
        self.version(page, seq).map(|version| version.seq)
    }

    fn version(&self, page: u64, seq: CodeSeq) -> Option<&Version> {
        let versions = self.pages.get(&page)?;
        // Nearly always the last, or the only one.
        versions.iter().rev().find(|version| version.seq <= seq)
    }

    /// Addresses of the pages with versions numbered above `from`, up to `to`, in the order of the versions.
    pub fn between(&self, from: CodeSeq, to: CodeSeq) -> impl Iterator<Item = u64> {
        let start = self.order.partition_point(|(seq, _)| *seq <= from);
        let end = self.order.partition_point(|(seq, _)| *seq <= to);
        self.order.get(start..end).unwrap_or_default().iter().map(|(_, page)| *page)
    }

    /// Addresses of all pages that are code in some picture.
    pub fn all_pages(&self) -> impl Iterator<Item = u64> {
        self.pages.keys().copied()
    }

    /// Whether the picture in force has all of these bytes (of one instruction, so at most two pages).
    pub fn has(&self, addr: u64, len: u64) -> bool {
        let page = Addr(addr).page().0;
        let last = Addr(addr.wrapping_add(len.saturating_sub(1))).page().0;
        self.version(page, self.seq).is_some() && (last == page || self.version(last, self.seq).is_some())
    }

    /// `len` bytes of the picture in force; zeros where it has none.
    pub fn read(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = addr.wrapping_add(bytes.len() as u64);
            let start = (at % Addr::PAGE) as usize;
            let end = PAGE.min(start + len - bytes.len());
            match self.page(Addr(at).page().0, self.seq) {
                Some(page) => bytes.extend_from_slice(&page[start..end]),
                None => bytes.resize(bytes.len() + end - start, 0),
            }
        }
        bytes
    }

    /// Bytes that hold the instruction at `pc`, if there is one.
    pub fn instruction(&self, pc: u64) -> Vec<u8> {
        self.read(pc, MAX_LEN)
    }
}
