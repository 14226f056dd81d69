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
use bugnet_format::trace::{BYTES, CAPACITY, LANES, MAX_INSTRUCTIONS, TracedSegment, WordPlace, untag};
use bugnet_format::types::Position;
use memmap2::MmapRaw;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use bugnet_format::trace::{OddAccess, TracedAccess, TracedBlock, Wanted};

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

    fn words(&self) -> &Words {
        // SAFETY: the mapping is that long, as its file stays, and begins at a page; whoever else writes there finds it made of words that may
        // change at any time.
        unsafe { &*self.map.as_ptr().cast::<Words>() }
    }
}

/// Words of the memory: a power of two, so that no place in it has to be compared with its end.
const WORDS: usize = BYTES / 8;
const _: () = assert!(WORDS.is_power_of_two());
type Words = [AtomicU64; WORDS];

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
    /// What is written down beside blocks and addresses.
    wanted: Arc<Wanted>,
}

impl Tracer {
    /// At the start of an interval; with the process that another one leaves behind, if it will do.
    ///
    /// # Errors
    /// The process cannot be started, or the machine does not let it write.
    pub fn start(tools: &Tools, log: &Log, id: IntervalId, interval: &Interval, before: Option<Self>) -> Result<Self> {
        Self::with(tools, log, id, interval, before, &Arc::default())
    }

    /// The same, of which chunks tell more: what is stored ([`Chunk::operand`]), and what functions are called with
    /// ([`Chunk::register`]).
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn with(
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
        before: Option<Self>,
        wanted: &Arc<Wanted>,
    ) -> Result<Self> {
        let (last, traced) = match before.filter(|before| before.wanted == *wanted) {
            Some(Self { session, buffer, blocks, counts, .. }) => (Some(session), Some((buffer, blocks, counts))),
            None => (None, None),
        };
        let process = last.as_ref().map(Session::number);
        let mut session = Session::start_behind(last, tools, log, id, interval)?;
        let (bases, wanted) = (bases(interval).into(), wanted.clone());
        if let Some((buffer, blocks, counts)) = traced.filter(|_| process == Some(session.number())) {
            return Ok(Self { session, buffer, blocks, counts, bases, runs: Vec::new(), wanted });
        }
        let buffer = Buffer::new().map_err(ReplayError::system("make memory for a trace"))?;
        session.process().trace(buffer.file.as_fd(), &wanted)?;
        let (buffer, blocks, counts) = (Arc::new(buffer), Vec::new(), Vec::new());
        Ok(Self { session, buffer, blocks, counts, bases, runs: Vec::new(), wanted })
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
        let (bases, wanted) = (self.bases.clone(), self.wanted.clone());
        Ok(Self { session: self.session.fork()?, buffer, blocks, counts, bases, runs: Vec::new(), wanted })
    }

    /// Goes on to `until`, if the interval does; what it executes is not looked at.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn skip(&mut self, until: Position) -> Result<()> {
        while self.session.position() < until {
            let before = self.session.position();
            if let Stop::Divergence { what, .. } = self.session.run_to(until)? {
                return Err(self.session.diverged(what));
            }
            if self.session.position() == before {
                break;
            }
        }
        Ok(())
    }

    /// Executes the next stretch, not beyond `until`; `None` where there is nothing more.
    ///
    /// # Errors
    /// The replay process is lost, goes another way than the recording, or writes what makes no sense.
    pub fn next(&mut self, until: Position) -> Result<Option<Chunk<'_>>> {
        let Some(executed) = self.execute(until)? else { return Ok(None) };
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        let mut all = self.runs(executed.words);
        runs.extend(&mut all);
        let is_whole = all.is_whole();
        self.runs = runs;
        if !is_whole {
            return Err(self.makes_no_sense());
        }
        Ok(Some(self.chunk(executed)))
    }

    /// The same, without [`Chunk::runs`]: whoever goes through [`Chunk::read_runs`] once needs no list of them.
    ///
    /// # Errors
    /// As [`Self::next`], but for blocks that do not follow each other.
    pub fn next_unread(&mut self, until: Position) -> Result<Option<Chunk<'_>>> {
        self.runs.clear();
        let executed = self.execute(until)?;
        Ok(executed.map(|executed| self.chunk(executed)))
    }

    /// The error that a trace is where [`Runs::is_whole`] says no.
    pub fn makes_no_sense(&mut self) -> ReplayError {
        self.session.process().makes_no_sense("a trace")
    }

    fn runs(&self, len: u32) -> Runs<'_> {
        Runs { words: self.buffer.words(), counts: &self.counts, len, word: 0 }
    }

    fn chunk(&self, executed: Executed) -> Chunk<'_> {
        let Executed { first, words, odd } = executed;
        // Those that are in force where the stretch begins, and what comes later.
        let from = self.bases.partition_point(|(position, _)| *position <= first).saturating_sub(1);
        let (blocks, runs, bases) = (&*self.blocks, &*self.runs, &self.bases[from..]);
        Chunk { first, len: words, blocks, runs, odd, words: self.buffer.words(), counts: &self.counts, bases }
    }

    fn execute(&mut self, until: Position) -> Result<Option<Executed>> {
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
            return Err(self.makes_no_sense());
        }
        Ok(Some(Executed { first, words, odd }))
    }
}

/// What a replay process has executed, and says of it.
struct Executed {
    first: Position,
    words: u32,
    odd: Vec<OddAccess>,
}

/// The blocks that were executed, as they are read: each is checked before it comes, and they end where one makes no sense.
pub struct Runs<'a> {
    words: &'a Words,
    counts: &'a [u16],
    len: u32,
    word: u32,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        if self.word >= self.len {
            return None;
        }
        let word = self.word;
        let (block, count) =
            untag(self.words[(CAPACITY - 1).wrapping_sub(word as usize) % WORDS].load(Ordering::Relaxed));
        if self.counts.get(block as usize).is_none_or(|known| u32::from(*known) != count) {
            // None comes behind it, and this is not the end.
            self.word = u32::MAX;
            return None;
        }
        self.word = word + count;
        Some(Run { word, block })
    }
}

impl Runs<'_> {
    /// Of those that have come to an end: whether they follow each other without a gap, up to the stretch's last instruction.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.word == self.len
    }
}

fn is_sound(block: &TracedBlock) -> bool {
    let count = block.count;
    let place = |place: WordPlace| usize::from(place.lane) < LANES && place.at < count;
    (1..=MAX_INSTRUCTIONS).contains(&usize::from(count))
        && block.code.len() <= usize::from(count) * 15
        && block.registers.iter().all(|(number, at)| *number < 16 && place(*at))
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
    words: &'a Words,
    counts: &'a [u16],
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

/// How an address, or a register's value, is computed from the words of a block that was executed: what a block says of it, in a form that
/// takes little room and no decisions, since that is done for each access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// What is added to the words.
    disp: u64,
    /// Words of the buffer, where a block begins in the stretch's first word; one that does not count is any.
    base: u32,
    index: u32,
    /// The instruction, whose segment base is added.
    instruction: u16,
    /// What counts of the first word: all bits, or none where there is no base.
    mask: u64,
    /// What the other one is multiplied by; zero, where there is none.
    scale: u8,
    segment: Option<TracedSegment>,
}

fn word_of(place: WordPlace) -> u32 {
    (usize::from(place.lane) * CAPACITY + CAPACITY - 1 - usize::from(place.at)) as u32
}

impl Sum {
    /// Of nothing: it costs as much as any other one, and is zero.
    pub const NOTHING: Self = Self {
        disp: 0,
        base: CAPACITY as u32 - 1,
        index: CAPACITY as u32 - 1,
        instruction: 0,
        mask: 0,
        scale: 0,
        segment: None,
    };

    /// The address of an access.
    #[must_use]
    pub fn of_access(access: &TracedAccess) -> Self {
        let none = WordPlace { lane: 0, at: 0 };
        let (index, scale) = access.index.unwrap_or((none, 0));
        Self {
            disp: access.disp,
            base: word_of(access.base.unwrap_or(none)),
            index: word_of(index),
            instruction: access.instruction,
            mask: if access.base.is_some() { u64::MAX } else { 0 },
            scale,
            segment: access.segment,
        }
    }

    /// The value of a register at a block's start.
    #[must_use]
    pub fn of_register((_, place): (u8, WordPlace)) -> Self {
        let (base, index) = (word_of(place), word_of(place));
        Self { disp: 0, base, index, instruction: 0, mask: u64::MAX, scale: 0, segment: None }
    }
}

impl Chunk<'_> {
    /// The sum for a block that was executed.
    #[must_use]
    #[inline]
    pub fn sum(&self, run: Run, sum: &Sum) -> u64 {
        let word = |at: u32| self.word(at.wrapping_sub(run.word) as usize);
        let index = word(sum.index).wrapping_mul(sum.scale.into());
        let sums = (word(sum.base) & sum.mask).wrapping_add(index).wrapping_add(sum.disp);
        match sum.segment {
            None => sums,
            Some(segment) => sums.wrapping_add(self.base(run.word + u32::from(sum.instruction), segment)),
        }
    }

    /// The blocks that were executed, in their order.
    #[must_use]
    pub fn read_runs(&self) -> Runs<'_> {
        Runs { words: self.words, counts: self.counts, len: self.len, word: 0 }
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.words[at % WORDS].load(Ordering::Relaxed)
    }

    /// What stands in a word among those of a block that was executed.
    #[inline]
    fn value(&self, run: Run, place: WordPlace) -> u64 {
        // As `index`, whose checks cost more than the rest: blocks are sound, and runs lie in the buffer.
        let lane = usize::from(place.lane) * CAPACITY + CAPACITY - 1;
        self.word(lane.wrapping_sub(run.word as usize + usize::from(place.at)))
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

    /// The value of a register at the start of a block that was executed: one of those of which the block says where it is.
    #[must_use]
    #[inline]
    pub fn register(&self, run: Run, (_, place): (u8, WordPlace)) -> u64 {
        self.value(run, place)
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
    fn trace(&mut self, memory: std::os::fd::BorrowedFd<'_>, wanted: &Wanted) -> Result<()> {
        self.send(&Request::Trace(wanted.clone()))?;
        self.hand(memory)?;
        match self.receive()? {
            Response::Ready => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }
}
