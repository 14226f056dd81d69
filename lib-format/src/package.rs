//! What the replay process is handed: one interval and its code, decompressed and checked, in one piece of memory.
//!
//! The replay process has no access to files. It gets this as an inherited descriptor, and reads it where it lies.
//!
//! Layout, little-endian: magic (8 bytes), version (`u32`), number of code pages (`u32`), `code_seq` at the
//! interval's start (`u64`), bytes of the record stream (`u64`); then the code pages that are in the picture at the
//! start or that the interval's `CODE` records bring, ascending by sequence number, each as [`crate::code`] encodes
//! it; then the record stream.

use crate::code::{CODE_PAGE_SIZE, CodePage, CodeStore, encode_page};
use crate::frame::Interval;
use crate::record::Records;
use crate::types::{Addr, CodeSeq};

/// First bytes of a package.
pub const PACKAGE_MAGIC: [u8; 8] = *b"BUGNETPK";
const HEADER: usize = 32;

/// Builds the package for `interval`. That `code` has all the pages which the interval names is the caller's to check,
/// see [`CodeStore::covers`] and [`Interval::last_code_seq`].
#[must_use]
pub fn encode(interval: &Interval, code: &CodeStore) -> Vec<u8> {
    let mut out = encode_head(interval, code, CodeSeq(0));
    out.extend_from_slice(&interval.stream);
    out
}

/// What comes before the interval's stream in a package for a replay process that has the code picture `known` already,
/// which is not newer than the one at the interval's start: the pages up to there are left out.
#[must_use]
pub fn encode_head(interval: &Interval, code: &CodeStore, known: CodeSeq) -> Vec<u8> {
    let start = interval.header.code_seq;
    let last = interval.last_code_seq();
    let mut pages: Vec<&CodePage> = code.picture(start);
    pages.retain(|page| page.seq > known);
    pages.extend(code.pages.iter().filter(|page| page.seq > start && page.seq <= last));
    pages.sort_by_key(|page| page.seq);
    let mut out = Vec::with_capacity(HEADER + pages.len() * CODE_PAGE_SIZE);
    out.extend_from_slice(&PACKAGE_MAGIC);
    out.extend_from_slice(&crate::FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&(pages.len() as u32).to_le_bytes());
    out.extend_from_slice(&start.0.to_le_bytes());
    out.extend_from_slice(&(interval.stream.len() as u64).to_le_bytes());
    for page in pages {
        encode_page(page.seq, page.addr, &page.bytes, &mut out);
    }
    out
}

/// A package, read where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Package<'a> {
    /// The code picture at the interval's start.
    pub code_seq: CodeSeq,
    pages: &'a [u8],
    /// The interval's records, encoded.
    pub stream: &'a [u8],
}

/// A code page in a [`Package`].
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'a> {
    /// Its sequence number.
    pub seq: CodeSeq,
    /// Address of its first byte.
    pub addr: Addr,
    /// Its bytes: [`crate::code::PAGE`] of them.
    pub bytes: &'a [u8],
}

impl<'a> Package<'a> {
    /// Reads a package; `None` if the bytes are not one: magic, version or lengths do not fit, or a page is out of
    /// order or not at a page's address.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        if header[..8] != PACKAGE_MAGIC || header[8..12] != crate::FORMAT_VERSION.to_le_bytes() {
            return None;
        }
        let pages = u32::from_le_bytes(header[12..16].try_into().ok()?) as usize;
        let code_seq = CodeSeq(u64::from_le_bytes(header[16..24].try_into().ok()?));
        let stream = usize::try_from(u64::from_le_bytes(header[24..32].try_into().ok()?)).ok()?;
        let (pages, rest) = rest.split_at_checked(pages.checked_mul(CODE_PAGE_SIZE)?)?;
        let package = Self { code_seq, pages, stream: rest.get(..stream)? };
        let ascending = package.pages().is_sorted_by(|a, b| a.seq < b.seq);
        (ascending && package.pages().all(|page| page.addr == page.addr.page())).then_some(package)
    }

    /// The code pages, ascending by sequence number.
    pub fn pages(&self) -> impl Iterator<Item = PageRef<'a>> + use<'a> {
        self.pages.chunks_exact(CODE_PAGE_SIZE).map(PageRef::decode)
    }

    /// The records.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records::new(self.stream)
    }
}

impl<'a> PageRef<'a> {
    /// Reads an encoded page of [`CODE_PAGE_SIZE`] bytes.
    pub(crate) fn decode(page: &'a [u8]) -> Self {
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&page[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Self { seq: CodeSeq(number(0)), addr: Addr(number(8)), bytes: &page[16..] }
    }
}
