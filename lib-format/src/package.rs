//! What the replay process is handed: intervals of the threads of a process, their code, and the order in which they run;
//! decompressed and checked, in one piece of memory.
//!
//! The replay process has no access to files. It gets this as an inherited descriptor, and reads it where it lies. One
//! interval of one thread is a package with one segment.
//!
//! Layout, little-endian: the header of [`HEADER`] bytes; the code pages that are in the picture where the first interval
//! begins, or come later up to the last picture that an interval needs, ascending by sequence number, each as
//! [`crate::code`] encodes it; the threads ([`THREAD`] bytes each); the intervals of the first thread, then of the next
//! ([`INTERVAL`] bytes each); the segments ([`SEGMENT`] bytes each); the record streams, in the order of the intervals.

use crate::code::{CODE_PAGE_SIZE, CodePage, CodeStore, encode_page};
use crate::frame::Interval;
use crate::record::Records;
use crate::types::{Addr, CodeSeq, IntervalNo, Tid};
use std::io::Write;

/// First bytes of a package.
pub const PACKAGE_MAGIC: [u8; 8] = *b"BUGNETPK";
/// Bytes of its header: magic, version (`u32`), and how many code pages, threads, intervals (`u32` each) and segments
/// (`u64`) there are.
pub const HEADER: usize = 32;
/// Bytes of an interval's entry: its number, the code picture at its start, instructions before it, bytes of its
/// stream; all `u64`.
pub const INTERVAL: usize = 32;
/// Bytes of a segment: index of the thread, and the instruction count up to which it runs; both `u64`.
pub const SEGMENT: usize = 16;
/// Bytes of a thread's entry: its id and the number of its intervals (`u32` each), and from where on it may have seen what the
/// log does not hold (`u64`).
pub const THREAD: usize = 16;

/// A piece of one thread's execution, which nothing of another thread interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Segment {
    /// Index of the thread in the package.
    pub thread: usize,
    /// The thread runs until it has executed so many instructions since its recording began; `u64::MAX` for all.
    pub until: u64,
}

/// What a package says of a thread, but for its records.
#[derive(Clone, Debug)]
pub struct Outline {
    /// Its id.
    pub tid: Tid,
    /// From so many instructions of the thread on, since its recording began, it may have seen what another thread did of
    /// which the log, having been cut off, holds nothing; `u64::MAX` for never.
    pub unknown_from: u64,
    /// Its intervals, ascending.
    pub intervals: Vec<IntervalOutline>,
}

/// The same of an interval.
#[derive(Clone, Copy, Debug)]
pub struct IntervalOutline {
    interval: IntervalNo,
    code_seq: CodeSeq,
    last_code_seq: CodeSeq,
    before: u64,
    stream: u64,
}

impl IntervalOutline {
    /// Of this interval.
    #[must_use]
    pub fn of(interval: &Interval) -> Self {
        let header = &interval.header;
        Self {
            interval: header.interval,
            code_seq: header.code_seq,
            last_code_seq: interval.last_code_seq(),
            before: header.instructions_before,
            stream: interval.replayed().iter().map(|piece| piece.len() as u64).sum(),
        }
    }

    /// Bytes of what replay needs of its stream: [`Interval::replayed`].
    #[must_use]
    pub fn stream(&self) -> u64 {
        self.stream
    }
}

/// Writes a package up to the streams, which have to follow in the order of the intervals. Code pages up to the picture
/// `known` are left out, for a replay process that has them; each thread begins with its first interval.
///
/// That `code` has all the pages which the intervals name is the caller's to check, see [`CodeStore::covers`] and
/// [`Interval::last_code_seq`].
///
/// # Errors
/// Those of writing.
pub fn write_head(
    out: &mut impl Write,
    threads: &[Outline],
    code: &CodeStore,
    known: CodeSeq,
    segments: &[Segment],
) -> std::io::Result<()> {
    let intervals = || threads.iter().flat_map(|thread| &thread.intervals);
    let first = threads.iter().filter_map(|thread| thread.intervals.first()).map(|interval| interval.code_seq).min();
    let first = first.unwrap_or_default();
    let last = intervals().map(|interval| interval.last_code_seq).max().unwrap_or_default();
    let mut pages: Vec<&CodePage> = code.picture(first);
    pages.extend(code.pages.iter().filter(|page| page.seq > first && page.seq <= last));
    pages.retain(|page| page.seq > known);
    pages.sort_by_key(|page| page.seq);
    out.write_all(&PACKAGE_MAGIC)?;
    for count in [crate::FORMAT_VERSION, pages.len() as u32, threads.len() as u32, intervals().count() as u32] {
        out.write_all(&count.to_le_bytes())?;
    }
    out.write_all(&(segments.len() as u64).to_le_bytes())?;
    let mut encoded = Vec::with_capacity(CODE_PAGE_SIZE);
    for page in pages {
        encoded.clear();
        encode_page(page.seq, page.addr, &page.bytes, &mut encoded);
        out.write_all(&encoded)?;
    }
    for thread in threads {
        out.write_all(&thread.tid.0.to_le_bytes())?;
        out.write_all(&(thread.intervals.len() as u32).to_le_bytes())?;
        out.write_all(&thread.unknown_from.to_le_bytes())?;
    }
    for IntervalOutline { interval, code_seq, before, stream, .. } in intervals() {
        for number in [interval.0, code_seq.0, *before, *stream] {
            out.write_all(&number.to_le_bytes())?;
        }
    }
    for segment in segments {
        out.write_all(&(segment.thread as u64).to_le_bytes())?;
        out.write_all(&segment.until.to_le_bytes())?;
    }
    Ok(())
}

/// What comes before the stream in a package of one interval, see [`write_head`].
#[must_use]
pub fn encode_head(tid: Tid, interval: &Interval, code: &CodeStore, known: CodeSeq) -> Vec<u8> {
    let outline = Outline { tid, unknown_from: u64::MAX, intervals: vec![IntervalOutline::of(interval)] };
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = write_head(&mut out, &[outline], code, known, &[Segment { thread: 0, until: u64::MAX }]);
    out
}

/// A package of one interval.
#[must_use]
pub fn encode(tid: Tid, interval: &Interval, code: &CodeStore) -> Vec<u8> {
    let mut out = encode_head(tid, interval, code, CodeSeq(0));
    interval.replayed().iter().for_each(|piece| out.extend_from_slice(piece));
    out
}

/// A package, read where it lies.
#[derive(Clone, Debug)]
pub struct Package<'a> {
    /// The threads.
    pub threads: Vec<PackageThread<'a>>,
    pages: &'a [u8],
    segments: &'a [u8],
}

/// A thread in a [`Package`] package.
#[derive(Clone, Debug)]
pub struct PackageThread<'a> {
    /// Its id.
    pub tid: Tid,
    /// See [`Outline::unknown_from`].
    pub unknown_from: u64,
    /// Its intervals, ascending.
    pub intervals: Vec<PackageInterval<'a>>,
}

/// An interval in a [`Package`] package.
#[derive(Clone, Copy, Debug)]
pub struct PackageInterval<'a> {
    /// Its number.
    pub interval: IntervalNo,
    /// The code picture at its start.
    pub code_seq: CodeSeq,
    /// Instructions that the thread had executed before it.
    pub before: u64,
    stream: &'a [u8],
}

impl<'a> PackageInterval<'a> {
    /// Its records.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records::new(self.stream)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'a> Package<'a> {
    /// Reads a package; `None` if the bytes are not one: magic, version, counts or lengths do not fit, a page is
    /// out of order or not at a page's address, or a segment names a thread that there is not.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        if header[..8] != PACKAGE_MAGIC || small(header, 8)? != crate::FORMAT_VERSION {
            return None;
        }
        let count = |at| Some(small(header, at)? as usize);
        let segments = usize::try_from(number(header, 24)?).ok()?;
        let (pages, rest) = rest.split_at_checked(count(12)?.checked_mul(CODE_PAGE_SIZE)?)?;
        let (threads, rest) = rest.split_at_checked(count(16)?.checked_mul(THREAD)?)?;
        let (intervals, rest) = rest.split_at_checked(count(20)?.checked_mul(INTERVAL)?)?;
        let (segments, mut streams) = rest.split_at_checked(segments.checked_mul(SEGMENT)?)?;
        let mut intervals = intervals.chunks_exact(INTERVAL);
        let mut interval = || {
            let entry = intervals.next()?;
            let (stream, rest) = streams.split_at_checked(usize::try_from(number(entry, 24)?).ok()?)?;
            streams = rest;
            let interval = IntervalNo(number(entry, 0)?);
            Some(PackageInterval { interval, code_seq: CodeSeq(number(entry, 8)?), before: number(entry, 16)?, stream })
        };
        let mut thread = |entry: &[u8]| {
            let intervals: Option<Vec<_>> = (0..small(entry, 4)?).map(|_| interval()).collect();
            Some(PackageThread { tid: Tid(small(entry, 0)?), unknown_from: number(entry, 8)?, intervals: intervals? })
        };
        let threads: Vec<_> = threads.chunks_exact(THREAD).map(&mut thread).collect::<Option<_>>()?;
        let package = Self { threads, pages, segments };
        let pages =
            package.pages().is_sorted_by(|a, b| a.seq < b.seq) && package.pages().all(|p| p.addr == p.addr.page());
        (pages && package.segments().all(|segment| segment.thread < package.threads.len())).then_some(package)
    }

    /// The code pages, ascending by sequence number.
    pub fn pages(&self) -> impl Iterator<Item = PageRef<'a>> + use<'a> {
        self.pages.chunks_exact(CODE_PAGE_SIZE).map(PageRef::decode)
    }

    /// The order: runs of one thread each.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + use<'a> {
        self.segments.chunks_exact(SEGMENT).map(|entry| {
            let thread = number(entry, 0).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
            Segment { thread, until: number(entry, 8).unwrap_or_default() }
        })
    }
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
