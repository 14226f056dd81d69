//! Makes an index: replays each epoch alone, several at a time, and writes down what each has found.

use crate::cursor::Outline;
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::order::Window;
use crate::patches;
use crate::pool;
use crate::process::Process;
use crate::ranges::add;
use crate::stretch::{Stretch, Tracked};
use crate::tools::Tools;
use crate::verify::Verified;
use bugnet_format::complete::Mentions;
use bugnet_format::control::{Hits, LeftPage, Request, Response, Stop, Target, Unseen};
use bugnet_format::frame::Interval;
use bugnet_format::index::{Block, EpochTable, IndexWriter, Packed, PageEntry};
use bugnet_format::record::EndReason;
use bugnet_format::types::{Position, ProcessId};
use std::collections::HashMap;
use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_128;

/// How far the making of an index has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Epochs done.
    pub epochs: usize,
    /// Epochs to do in all.
    pub of_epochs: usize,
}

/// What is known of a page.
struct Kept {
    addr: u64,
    hash: u128,
}

/// What was found in pages, by its hash: most of it is the same in one epoch after the other.
#[derive(Default)]
struct Contents(Mutex<HashMap<u128, Content>>);

/// What was found in a page.
enum Content {
    /// It is to be written.
    Packed(Packed),
    /// It was.
    Written(Block),
}

impl Contents {
    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Content>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what is known of a page, `bytes` being those that are known and 0 elsewhere; its hash.
    fn add(&self, known: &[u8], bytes: &[u8]) -> std::io::Result<u128> {
        let hash = xxh3_128(known) ^ xxh3_128(bytes).rotate_left(1);
        let is_new = !self.lock().contains_key(&hash);
        if is_new {
            let packed = Packed::page(known, bytes)?;
            self.lock().entry(hash).or_insert(Content::Packed(packed));
        }
        Ok(hash)
    }

    /// The same of the page at an address, of which other bytes may be given as well; none if nothing is known of it.
    fn keep(&self, addr: u64, known: &[u8], mut bytes: Vec<u8>) -> std::io::Result<Option<Kept>> {
        if known.is_empty() {
            return Ok(None);
        }
        for (bytes, known) in bytes.chunks_mut(8).zip(known).filter(|(_, known)| **known != u8::MAX) {
            // Of what is not known, nothing is kept.
            bytes.iter_mut().enumerate().for_each(|(number, byte)| *byte *= known >> number & 1);
        }
        Ok(Some(Kept { addr, hash: self.add(known, &bytes)? }))
    }

    /// Where it is in the index, in which it is written if it is not there yet.
    fn block(&self, hash: u128, writer: &mut IndexWriter) -> std::io::Result<Block> {
        let mut contents = self.lock();
        let missing = || std::io::Error::other("the contents of a page are missing");
        let content = contents.get_mut(&hash).ok_or_else(missing)?;
        let block = match content {
            Content::Written(block) => *block,
            Content::Packed(packed) => writer.block(packed)?,
        };
        *content = Content::Written(block);
        Ok(block)
    }
}

/// What was found in an epoch.
struct Found {
    /// Without what it left and found.
    table: EpochTable,
    left: Vec<Kept>,
    /// What it found.
    found: Vec<Kept>,
    heap: Option<(u64, u64)>,
    /// With several threads, where memory is not what it was for one of them.
    patches: Option<Packed>,
    /// The intervals that have reached their recorded ends.
    verified: Verified,
}

impl Found {
    /// Of an epoch that cannot be replayed: anything.
    fn nothing() -> Self {
        let table = EpochTable { changed: vec![(0, u64::MAX)], is_unknown: true, ..EpochTable::default() };
        Self { table, left: Vec::new(), found: Vec::new(), heap: None, patches: None, verified: Verified::default() }
    }
}

fn failed() -> impl FnOnce(std::io::Error) -> ReplayError {
    ReplayError::system("write an index of the log")
}

/// Writes the index of a process into a file.
pub(super) fn make(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    jobs: NonZeroUsize,
    (identity, file): (u128, File),
    verified: &mut Verified,
    mut progress: impl FnMut(Progress),
) -> Result<File> {
    let outline = Outline::of(log, pid)?;
    let epochs: Vec<usize> = (0..outline.epochs()).collect();
    let mut done = Progress { epochs: 0, of_epochs: epochs.len() };
    progress(done);
    let contents = Contents::default();
    let mut merging = Merging::new(IndexWriter::new(file).map_err(failed())?, &contents);
    pool::in_order(
        &epochs,
        jobs,
        |process: &mut Option<Tracked>, epoch| replay(tools, log, pid, (&outline, *epoch), &contents, process),
        |_, found| {
            let mut found = match found {
                Ok(found) => found,
                Err(fault @ (ReplayError::ToolMissing { .. } | ReplayError::System { .. })) => return Err(fault),
                Err(_) => Found::nothing(),
            };
            verified.append(std::mem::take(&mut found.verified));
            merging.add(found).map_err(failed())?;
            done.epochs += 1;
            progress(done);
            Ok(())
        },
    )?;
    merging.writer.finish(identity).map_err(failed())
}

/// Replays an epoch. `last` is the process of the one before and becomes that of this one.
fn replay(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    (outline, index): (&Outline, usize),
    contents: &Contents,
    last: &mut Option<Tracked>,
) -> Result<Found> {
    let Some((epoch, _)) = outline.epoch(index) else {
        return Err(ReplayError::OutOfRange(format!("process {pid} has no epoch with index {index}")));
    };
    let mut intervals = Vec::new();
    let look = |interval: &Interval| intervals.push((interval.end(), Mentions::of(pid, interval)));
    let stretch = Stretch::read_with(log, pid, &Window::only(epoch), look)?;
    let mut tracked = stretch.compare(tools, log, last.take())?;
    let process = &mut tracked.process;
    process.foresee()?;
    process.begin();
    process.send(&Request::RunTo { target: Target::End, hits: Hits::Ignore, output: false })?;
    match process.receive()? {
        Response::Stopped { stop: Stop::End | Stop::CutOff, .. } => {}
        Response::Stopped { .. } => return Ok(Found::nothing()),
        other => return Err(process.unexpected(&other)),
    }
    let mut found = unseen(process)?;
    found.verified = verified(log, &stretch, intervals, process)?;
    found.patches = patches::all(process)?.map(|all| Packed::patches(&all)).transpose().map_err(failed())?;
    let failed = |done: std::io::Result<()>| done.map_err(ReplayError::system("compress memory"));
    process.each_page(|from| Request::Left { from }, |page| failed(found.add_left(page, contents)))?;
    process.each_page(|from| Request::Found { from }, |page| failed(found.add_found(page, contents)))?;
    *last = Some(tracked);
    Ok(found)
}

/// The intervals of a stretch that were replayed as if alone, each from its own start, and have reached their ends. `intervals`: where each
/// ends, and what it mentions.
fn verified(
    log: &Log,
    stretch: &Stretch,
    intervals: Vec<(Option<(Position, EndReason)>, Mentions)>,
    process: &mut Process,
) -> Result<Verified> {
    let (mut verified, threads) = (Verified::default(), &stretch.threads.threads);
    if threads.iter().any(|thread| thread.intervals.len() != 1) {
        return Ok(verified);
    }
    for (index, (thread, (end, said))) in threads.iter().zip(intervals).enumerate() {
        let id = IntervalId { thread: thread.id, interval: thread.intervals[0].number };
        let Some((end, reason)) = end else { continue };
        process.send(&Request::Registers { thread: index as u32 })?;
        let counts = match process.receive()? {
            Response::Registers { over: true, counts, .. } => counts,
            Response::Registers { .. } => continue,
            other => return Err(process.unexpected(&other)),
        };
        // Behind a full interval another one follows, or the log was cut off: who verifies has to say how.
        if counts.instructions == end.0 && (reason != EndReason::Full || !log.is_last(id)?) {
            verified.add(id, reason, counts, said);
        }
    }
    Ok(verified)
}

/// What nobody saw in an epoch that was replayed.
fn unseen(process: &mut Process) -> Result<Found> {
    let Unseen { changed, unsteady, zeros, mapped, heap, mut calls, signals } = process.unseen()?;
    calls.sort_unstable();
    calls.dedup();
    let table = EpochTable { changed, unsteady, zeros, mapped, calls, signals, ..EpochTable::default() };
    Ok(Found { table, left: Vec::new(), found: Vec::new(), heap, patches: None, verified: Verified::default() })
}

impl Found {
    fn add_left(&mut self, page: LeftPage, contents: &Contents) -> std::io::Result<()> {
        let LeftPage { addr, accessed, written, executed, known, bytes } = page;
        self.table.pages.push(PageEntry { addr, accessed, written, executed, left: None, found: None });
        self.left.extend(contents.keep(addr, &known, bytes)?);
        Ok(())
    }

    fn add_found(&mut self, page: LeftPage, contents: &Contents) -> std::io::Result<()> {
        self.found.extend(contents.keep(page.addr, &page.known, page.bytes)?);
        Ok(())
    }
}

/// The epochs, one after the other.
struct Merging<'a> {
    writer: IndexWriter,
    contents: &'a Contents,
    /// What others may change at any time by then.
    unsteady: Vec<(u64, u64)>,
    /// The end of the heap by then.
    heap: Option<u64>,
}

impl<'a> Merging<'a> {
    fn new(writer: IndexWriter, contents: &'a Contents) -> Self {
        Self { writer, contents, unsteady: Vec::new(), heap: None }
    }

    fn add(&mut self, mut found: Found) -> std::io::Result<()> {
        let (mut left, mut seen) = (found.left.into_iter().peekable(), found.found.into_iter().peekable());
        for page in &mut found.table.pages {
            let mut block = |kept: Option<Kept>| kept.map(|kept| self.contents.block(kept.hash, &mut self.writer));
            page.left = block(left.next_if(|left| left.addr == page.addr)).transpose()?;
            page.found = block(seen.next_if(|seen| seen.addr == page.addr)).transpose()?;
        }
        found.table.unsteady.iter().for_each(|(start, len)| add(&mut self.unsteady, *start, *len));
        found.table.unsteady.clone_from(&self.unsteady);
        if let Some((first, last)) = found.heap {
            // Whoever replays an epoch alone does not know where the heap ended before.
            let before = self.heap.replace(last).unwrap_or(first);
            add(&mut found.table.changed, before.min(first), before.abs_diff(first));
        }
        found.table.patches = found.patches.map(|packed| self.writer.block(&packed)).transpose()?;
        self.writer.epoch(&found.table)
    }
}
