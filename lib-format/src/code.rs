//! The code store of a process: every page of code that it ran, in each version (FORMAT.md, "Code store").
//!
//! A code picture is the newest version of each page with a sequence number not above a [`CodeSeq`].

use crate::error::{FormatError, Result};
use crate::frame::{check_magic, read_frames};
use crate::types::{Addr, CodeSeq};
use crate::wire::{Reader, WireError};
use hashbrown::HashMap;
use std::path::Path;
use std::sync::Arc;

/// First bytes of a code store.
pub const CODE_MAGIC: [u8; 8] = *b"BUGNETCD";
/// Bytes of the header of a code store: magic, version, 4 zero bytes.
pub const CODE_HEADER_SIZE: usize = 16;
/// Bytes of a page.
pub const PAGE: usize = Addr::PAGE as usize;
/// Bytes of one encoded [`CodePage`].
pub const CODE_PAGE_SIZE: usize = 16 + PAGE;

/// One version of one page of code.
#[derive(Clone, PartialEq, Eq)]
pub struct CodePage {
    /// Its number: from 1, or behind the pages of the process that this one was forked from; ascending, and by one unless
    /// only the last intervals are kept.
    pub seq: CodeSeq,
    /// Address of its first byte; a multiple of [`PAGE`].
    pub addr: Addr,
    /// Its bytes; shared between the stores of processes that were forked.
    pub bytes: Arc<[u8; PAGE]>,
}

impl std::fmt::Debug for CodePage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CodePage {{ seq: {}, addr: {} }}", self.seq, self.addr)
    }
}

/// The header's bytes.
#[must_use]
pub fn encode_header() -> [u8; CODE_HEADER_SIZE] {
    let mut out = [0; CODE_HEADER_SIZE];
    out[..8].copy_from_slice(&CODE_MAGIC);
    out[8..12].copy_from_slice(&crate::FORMAT_VERSION.to_le_bytes());
    out
}

/// Appends a page; the store's file holds pages in frames, see [`crate::frame::encode_frame`].
pub fn encode_page(seq: CodeSeq, addr: Addr, bytes: &[u8; PAGE], out: &mut Vec<u8>) {
    out.extend_from_slice(&seq.0.to_le_bytes());
    out.extend_from_slice(&addr.0.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The code store of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeStore {
    /// All pages, ascending by sequence number.
    pub pages: Vec<CodePage>,
    /// What is wrong behind the last usable page, if anything is.
    pub broken: Option<(u64, String)>,
}

impl CodeStore {
    /// Reads the bytes of a code store's file, up to where it was cut off if it was. `inherited` are the pages before
    /// its own: those of the process that this one was forked from. Whether pages may be missing is for
    /// [`crate::check`] to say.
    ///
    /// # Errors
    /// Not a code store, another version, or a page that breaks a rule.
    pub fn decode(file: &[u8], inherited: Vec<CodePage>, path: &Path) -> Result<Self> {
        let mut pages = inherited;
        if file.len() < CODE_HEADER_SIZE && encode_header().starts_with(file) {
            let broken = Some((0, "ends within its header".to_owned()));
            return Ok(Self { pages, broken });
        }
        check_magic(file, &CODE_MAGIC, path, "code store")?;
        let frames = read_frames(file, CODE_HEADER_SIZE);
        match decode_pages(&frames.stream, pages.last().map_or(CodeSeq(0), |page| page.seq)) {
            (own, None) => {
                pages.extend(own);
                Ok(Self { pages, broken: frames.broken })
            }
            (_, Some((at, why))) => Err(FormatError::damaged(path, at, why)),
        }
    }

    /// The number of the last page; 0 if there is none.
    #[must_use]
    pub fn last(&self) -> CodeSeq {
        self.pages.last().map_or(CodeSeq(0), |page| page.seq)
    }

    /// The pages with numbers up to `seq`, ascending.
    #[must_use]
    pub fn up_to(&self, seq: CodeSeq) -> &[CodePage] {
        &self.pages[..self.pages.partition_point(|page| page.seq <= seq)]
    }

    /// Whether the store reaches to the code picture at `seq`.
    #[must_use]
    pub fn covers(&self, seq: CodeSeq) -> bool {
        seq <= self.last()
    }

    /// The code picture at `seq`: for each page address, its newest version up to `seq`, ascending by address.
    #[must_use]
    pub fn picture(&self, seq: CodeSeq) -> Vec<&CodePage> {
        let newest: HashMap<Addr, &CodePage> = self.up_to(seq).iter().map(|p| (p.addr, p)).collect();
        let mut pages: Vec<_> = newest.into_values().collect();
        pages.sort_by_key(|page| page.addr);
        pages
    }
}

/// The pages of a store's stream, behind the page `inherited`, up to the first that breaks a rule: where in the stream,
/// and which rule.
pub(crate) fn decode_pages(stream: &[u8], inherited: CodeSeq) -> (Vec<CodePage>, Option<(u64, &'static str)>) {
    let mut pages: Vec<CodePage> = Vec::new();
    for (i, bytes) in stream.chunks(CODE_PAGE_SIZE).enumerate() {
        match decode_page(bytes, pages.last().map_or(inherited, |page| page.seq)) {
            Ok(page) => pages.push(page),
            Err(e) => return (pages, Some(((i * CODE_PAGE_SIZE) as u64, e.0))),
        }
    }
    (pages, None)
}

fn decode_page(bytes: &[u8], before: CodeSeq) -> std::result::Result<CodePage, WireError> {
    let mut r = Reader::new(bytes, 0);
    let seq = CodeSeq(r.u64()?);
    let addr = Addr(r.u64()?);
    if seq <= before {
        return Err(WireError("a page of code is out of order"));
    }
    if addr != addr.page() || addr.0 >= Addr::USER_END {
        return Err(WireError("not a page's address"));
    }
    Ok(CodePage { seq, addr, bytes: Arc::new(r.array()?) })
}
