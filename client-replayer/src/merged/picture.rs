//! What one thread's own replay would find in memory: zero, the code picture, its records and its stores.

use super::pages::Pages;
use bugnet_format::package::PageRef;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashMap;
use std::ops::Range;
use std::rc::Rc;

const PAGE: usize = Addr::PAGE as usize;

/// The versions of each page of code.
#[derive(Default)]
pub struct CodePages {
    /// All, ascending by sequence number.
    pub pages: Vec<PageRef<'static>>,
    by_addr: HashMap<u64, Vec<(CodeSeq, &'static [u8])>>,
}

impl CodePages {
    /// The versions in `pages`, which ascend.
    pub fn new(pages: Vec<PageRef<'static>>) -> Self {
        let mut by_addr: HashMap<u64, Vec<_>> = HashMap::new();
        for page in &pages {
            by_addr.entry(page.addr.0).or_default().push((page.seq, page.bytes));
        }
        Self { pages, by_addr }
    }

    /// The pages numbered above `from`, up to `to`.
    pub fn between(&self, from: CodeSeq, to: CodeSeq) -> &[PageRef<'static>] {
        let start = self.pages.partition_point(|page| page.seq <= from);
        let end = self.pages.partition_point(|page| page.seq <= to);
        self.pages.get(start..end).unwrap_or_default()
    }

    fn newest(&self, addr: u64, seq: CodeSeq) -> Option<&'static [u8]> {
        self.by_addr.get(&addr)?.iter().rev().find(|(of, _)| *of <= seq).map(|(_, bytes)| *bytes)
    }
}

/// A thread's picture of memory. Pages appear when they are first touched.
pub struct Picture {
    pages: Pages<[u8; PAGE]>,
    code: Rc<CodePages>,
    seq: CodeSeq,
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

impl Picture {
    /// As an interval begins that has this code picture.
    pub fn new(code: Rc<CodePages>, seq: CodeSeq) -> Self {
        Self { pages: Pages::default(), code, seq }
    }

    /// The code picture that it has.
    pub fn seq(&self) -> CodeSeq {
        self.seq
    }

    /// Begins another interval.
    pub fn reset(&mut self, seq: CodeSeq) {
        self.pages.clear();
        self.seq = seq;
    }

    /// A page, by its address.
    pub fn page(&mut self, page: u64) -> &mut [u8; PAGE] {
        self.pages.get_or_insert(page, || {
            let mut bytes = Box::new([0; PAGE]);
            if let Some(code) = self.code.newest(page, self.seq) {
                bytes.copy_from_slice(code);
            }
            bytes
        })
    }

    /// Puts bytes into the picture.
    pub fn write(&mut self, addr: u64, mut bytes: &[u8]) {
        for (page, range) in pieces(addr, bytes.len() as u64) {
            let (now, rest) = bytes.split_at(range.len());
            self.page(page)[range].copy_from_slice(now);
            bytes = rest;
        }
    }

    /// An element of a string, of at most 8 bytes.
    pub fn element(&mut self, addr: u64, bytes: u32) -> u64 {
        let mut value = [0; 8];
        let mut done = 0;
        for (page, range) in pieces(addr, bytes.into()) {
            let len = range.len();
            value[done..done + len].copy_from_slice(&self.page(page)[range]);
            done += len;
        }
        u64::from_le_bytes(value)
    }

    /// The code picture becomes `seq`.
    pub fn change_code(&mut self, seq: CodeSeq) {
        let code = Rc::clone(&self.code);
        for page in code.between(self.seq, seq) {
            // A page that was not touched takes its bytes when it is.
            if let Some(bytes) = self.pages.get_mut(page.addr.0) {
                bytes.copy_from_slice(page.bytes);
            }
        }
        self.seq = self.seq.max(seq);
    }
}
