//! What one thread's own replay would find in memory: zero, the code picture, its records and its stores.

use super::pages::Pages;
use crate::code::Code;
use bugnet_format::types::{Addr, CodeSeq};
use std::ops::Range;

const PAGE: usize = Addr::PAGE as usize;

/// A thread's picture of memory. Pages appear when they are first touched.
pub struct Picture {
    pages: Pages<[u8; PAGE]>,
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
    pub fn new(seq: CodeSeq) -> Self {
        Self { pages: Pages::default(), seq }
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
    pub fn page(&mut self, code: &Code, page: u64) -> &mut [u8; PAGE] {
        self.pages.get_or_insert(page, || code.page(page, self.seq).map_or(Box::new([0; PAGE]), |code| Box::new(*code)))
    }

    /// Puts bytes into the picture.
    pub fn write(&mut self, code: &Code, addr: u64, mut bytes: &[u8]) {
        for (page, range) in pieces(addr, bytes.len() as u64) {
            let (now, rest) = bytes.split_at(range.len());
            self.page(code, page)[range].copy_from_slice(now);
            bytes = rest;
        }
    }

    /// An element of a string, of at most 8 bytes.
    pub fn element(&mut self, code: &Code, addr: u64, bytes: u32) -> u64 {
        let mut value = [0; 8];
        let mut done = 0;
        for (page, range) in pieces(addr, bytes.into()) {
            let len = range.len();
            value[done..done + len].copy_from_slice(&self.page(code, page)[range]);
            done += len;
        }
        u64::from_le_bytes(value)
    }

    /// The code picture becomes `seq`.
    pub fn change_code(&mut self, code: &Code, seq: CodeSeq) {
        for page in code.between(self.seq, seq) {
            // A page that was not touched takes its bytes when it is.
            if let (Some(bytes), Some(new)) = (self.pages.get_mut(page), code.page(page, seq)) {
                bytes.copy_from_slice(new);
            }
        }
        self.seq = self.seq.max(seq);
    }
}
