//! What an interval executes, block by block, with the addresses of its accesses: written down by the replay process in memory that is
//! shared with it ([`bugnet_format::trace`]), and read here, a stretch at a time.
//!
//! The process is a stranger: each number that it writes is checked before it is used, and a trace that makes no sense is an error.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::process::Process;
use crate::session::{Session, Stop};
use crate::tools::Tools;
use bugnet_format::control::{Request, Response};
use bugnet_format::frame::Interval;
use bugnet_format::record::{Record, RegisterUpdates, register_number};
use bugnet_format::regs::RegisterFile;
use bugnet_format::trace::{BYTES, CAPACITY, LANES, MAX_INSTRUCTIONS, TracedSegment, WordPlace, index, untag};
use bugnet_format::types::Position;
use memmap2::MmapRaw;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use bugnet_format::trace::{OddAccess, TracedAccess, TracedBlock};

/// Memory that is shared with a replay process and its copies, of which one writes at a time.
struct Buffer {
    file: File,
    map: MmapRaw,
}

impl Buffer {
    fn new() -> std::io::Result<Self> {
        let file = File::from(memfd_create("bugnet-trace", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
        file.set_len(BYTES as u64)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK))?;
        let map = MmapRaw::map_raw(&file)?;
        Ok(Self { file, map })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is that long, as its file stays, and begins at a page; whoever else writes there finds it made of words that may
        // change at any time.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), BYTES / 8) }
    }
}

/// Bases of FS and GS.
type Bases = [u64; 2];

/// Where an interval has other segment bases than before.
fn bases(interval: &Interval) -> Vec<(Position, Bases)> {
    let mut all: Vec<(Position, Bases)> = Vec::new();
    let mut now = [0; 2];
    let updated = |updates: &RegisterUpdates, now: Bases| {
        updates.values.iter().fold(now, |[fs, gs], (number, value)| match *number {
            register_number::FS_BASE => [*value, gs],
            register_number::GS_BASE => [fs, *value],
            _ => [fs, gs],
        })
    };
    for placed in interval.records().flatten() {
        // A call's and a special instruction's results are there behind it.
        let (next, behind) = match &placed.record {
            Record::Checkpoint { regs, .. } | Record::Signal { regs, .. } => ([regs.fs_base, regs.gs_base], 0),
            Record::Syscall { updates, .. } | Record::Special { updates, .. } => (updated(updates, now), 1),
            Record::Registers { updates, .. } => (updated(updates, now), 0),
            _ => continue,
        };
        if next != now || all.is_empty() {
            now = next;
            all.push((Position(placed.position.0 + behind), now));
        }
    }
    all
}

/// An interval in a replay process that writes down what it executes.
pub struct Tracer {
    session: Session,
    buffer: Arc<Buffer>,
    blocks: Vec<Arc<TracedBlock>>,
    /// How many instructions each has.
    counts: Vec<u16>,
    bases: Arc<[(Position, Bases)]>,
    /// Of the present stretch.
    runs: Vec<Run>,
    /// Whether the registers that are stored are written down.
    operands: bool,
}

impl Tracer {
    /// At the start of an interval; with the process that another one leaves behind, if it will do.
    ///
    /// # Errors
    /// The process cannot be started, or the machine does not let it write.
    pub fn start(tools: &Tools, log: &Log, id: IntervalId, interval: &Interval, before: Option<Self>) -> Result<Self> {
        Self::start_with(tools, log, id, interval, before, false)
    }

    /// The same, of which chunks tell what is stored, too ([`Chunk::operand`]).
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn with_operands(
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
        before: Option<Self>,
    ) -> Result<Self> {
        Self::start_with(tools, log, id, interval, before, true)
    }

    fn start_with(
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
        before: Option<Self>,
        operands: bool,
    ) -> Result<Self> {
        let (last, traced) = match before.filter(|before| before.operands == operands) {
            Some(Self { session, buffer, blocks, counts, .. }) => (Some(session), Some((buffer, blocks, counts))),
            None => (None, None),
        };
        let process = last.as_ref().map(Session::number);
        let mut session = Session::start_behind(last, tools, log, id, interval)?;
        let bases = bases(interval).into();
        if let Some((buffer, blocks, counts)) = traced.filter(|_| process == Some(session.number())) {
            return Ok(Self { session, buffer, blocks, counts, bases, runs: Vec::new(), operands });
        }
        let buffer = Buffer::new().map_err(ReplayError::system("make memory for a trace"))?;
        session.process().trace(buffer.file.as_fd(), operands)?;
        let (buffer, blocks, counts) = (Arc::new(buffer), Vec::new(), Vec::new());
        Ok(Self { session, buffer, blocks, counts, bases, runs: Vec::new(), operands })
    }

    /// Where it is.
    #[must_use]
    pub fn position(&self) -> Position {
        self.session.position()
    }

    /// The registers there.
    #[must_use]
    pub fn regs(&self) -> &RegisterFile {
        self.session.regs()
    }

    /// Which interval it is.
    #[must_use]
    pub fn id(&self) -> IntervalId {
        self.session.id()
    }

    /// A copy that is where this one is. Of the two, one may go on at a time: a [`Chunk`] of the other one is overwritten.
    ///
    /// # Errors
    /// The replay process is lost, or cannot be copied.
    pub fn fork(&mut self) -> Result<Self> {
        let (buffer, blocks, counts) = (self.buffer.clone(), self.blocks.clone(), self.counts.clone());
        let (bases, operands) = (self.bases.clone(), self.operands);
        Ok(Self { session: self.session.fork()?, buffer, blocks, counts, bases, runs: Vec::new(), operands })
    }

    /// Executes the next stretch, not beyond `until`; `None` where there is nothing more.
    ///
    /// # Errors
    /// The replay process is lost, goes another way than the recording, or writes what makes no sense.
    pub fn next(&mut self, until: Position) -> Result<Option<Chunk<'_>>> {
        let first = self.session.position();
        let stop = self.session.run_to(until)?;
        if let Stop::Divergence { what, .. } = stop {
            return Err(self.session.diverged(what));
        }
        let executed = self.session.position().0.saturating_sub(first.0);
        if executed == 0 {
            return Ok(None);
        }
        let mut odd = Vec::new();
        let words = loop {
            let (blocks, known) = (self.blocks.len() as u32, odd.len() as u32);
            let process = self.session.process();
            process.send(&Request::Traced { blocks, odd: known })?;
            let (words, new, more) = match process.receive()? {
                Response::Traced { words, blocks, odd } => (words, blocks, odd),
                other => return Err(process.unexpected(&other)),
            };
            if u64::from(words) != executed || words as usize > CAPACITY || !new.iter().all(is_sound) {
                return Err(process.makes_no_sense("a trace"));
            }
            if new.is_empty() && more.is_empty() {
                break words;
            }
            self.counts.extend(new.iter().map(|block| block.count));
            self.blocks.extend(new.into_iter().map(Arc::new));
            odd.extend(more);
        };
        if !odd.is_sorted_by_key(|odd| odd.word) || odd.last().is_some_and(|odd| odd.word >= words) {
            return Err(self.session.process().makes_no_sense("a trace"));
        }
        // Those that are in force where the stretch begins, and what comes later.
        let from = self.bases.partition_point(|(position, _)| *position <= first).saturating_sub(1);
        let Some(()) = find_runs(self.buffer.words(), &self.counts, words, &mut self.runs) else {
            return Err(self.session.process().makes_no_sense("a trace"));
        };
        let (blocks, runs, words, bases) = (&*self.blocks, &*self.runs, self.buffer.words(), &self.bases[from..]);
        Ok(Some(Chunk { first, len: executed as u32, blocks, runs, odd, words, bases }))
    }
}

/// The blocks that were executed, which follow each other without a gap; `None` if they do not.
fn find_runs(words: &[AtomicU64], counts: &[u16], len: u32, runs: &mut Vec<Run>) -> Option<()> {
    let lane = &words[..CAPACITY];
    runs.clear();
    let mut word = 0;
    while word < len {
        let (block, count) = untag(lane[index(0, word as usize)].load(Ordering::Relaxed));
        if counts.get(block as usize).is_none_or(|known| u32::from(*known) != count) {
            return None;
        }
        runs.push(Run { word, block });
        word += count;
    }
    (word == len).then_some(())
}

fn is_sound(block: &TracedBlock) -> bool {
    let count = block.count;
    let place = |place: WordPlace| usize::from(place.lane) < LANES && place.at < count;
    (1..=MAX_INSTRUCTIONS).contains(&usize::from(count))
        && block.code.len() <= usize::from(count) * 15
        && block.accesses.is_sorted_by_key(|access| access.instruction)
        && block.accesses.iter().all(|access| {
            access.instruction < count
                && access.base.is_none_or(place)
                && access.index.is_none_or(|(index, scale)| place(index) && matches!(scale, 1 | 2 | 4 | 8))
                && access.operand.is_none_or(|operand| place(operand.place) && (1..=8).contains(&operand.bytes))
        })
}

/// What was executed in a stretch.
pub struct Chunk<'a> {
    /// The first instruction's position.
    pub first: Position,
    /// Instructions, at least one and at most [`CAPACITY`].
    pub len: u32,
    /// The blocks that were executed, in their order.
    pub runs: &'a [Run],
    /// The blocks that there are, those of earlier stretches first; their numbers stay.
    pub blocks: &'a [Arc<TracedBlock>],
    /// Accesses that the blocks do not tell, in their order.
    pub odd: Vec<OddAccess>,
    words: &'a [AtomicU64],
    /// Segment bases from their positions on.
    bases: &'a [(Position, Bases)],
}

/// A block that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first instruction, counted from the stretch's.
    pub word: u32,
    /// Its number.
    pub block: u32,
}

impl Chunk<'_> {
    /// What stands in a word among those of a block that was executed.
    #[inline]
    fn value(&self, run: Run, place: WordPlace) -> u64 {
        // As `index`, whose checks cost more than the rest: blocks are sound, and runs lie in the buffer.
        let lane = usize::from(place.lane) * CAPACITY + CAPACITY - 1;
        let at = lane.wrapping_sub(run.word as usize + usize::from(place.at));
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Where an access of a block was that was executed.
    #[must_use]
    #[inline]
    pub fn address(&self, run: Run, access: &TracedAccess) -> u64 {
        let base = access.base.map_or(0, |place| self.value(run, place));
        let index = access.index.map_or(0, |(place, scale)| self.value(run, place).wrapping_mul(scale.into()));
        let segment = access.segment.map_or(0, |segment| self.base(run.word + u32::from(access.instruction), segment));
        base.wrapping_add(index).wrapping_add(access.disp).wrapping_add(segment)
    }

    /// What a register had that an access of a block stored, or with which it changed memory; none where no single register tells, or
    /// nobody asked for it. Of vectors, the lowest 8 bytes.
    #[must_use]
    #[inline]
    pub fn operand(&self, run: Run, access: &TracedAccess) -> Option<u64> {
        let operand = access.operand?;
        let value = self.value(run, operand.place).wrapping_add(operand.more);
        Some(value & (u64::MAX >> (64 - 8 * u32::from(operand.bytes))))
    }

    /// The base of a segment where an instruction is executed.
    fn base(&self, word: u32, segment: TracedSegment) -> u64 {
        let at = self.first.0 + u64::from(word);
        let behind = self.bases.partition_point(|(position, _)| position.0 <= at);
        let [fs, gs] = behind.checked_sub(1).map_or([0; 2], |last| self.bases[last].1);
        match segment {
            TracedSegment::Fs => fs,
            TracedSegment::Gs => gs,
        }
    }
}

impl Process {
    /// Lets it write down what it executes.
    fn trace(&mut self, memory: std::os::fd::BorrowedFd<'_>, operands: bool) -> Result<()> {
        self.send(&Request::Trace { operands })?;
        self.hand(memory)?;
        match self.receive()? {
            Response::Ready => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }
}
