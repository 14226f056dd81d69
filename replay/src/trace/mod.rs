//! What an interval executes, block by block, with the addresses of its accesses: written down by the replay process in memory that is
//! shared with it ([`bugnet_format::trace`]), and read here, a stretch at a time.
//!
//! The process is a stranger: each number that it writes is checked before it is used, and a trace that makes no sense is an error.

mod chunk;

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::looked::{Suspect, SuspectBlock, found};
use crate::process::Process;
use crate::session::{Session, Stop};
use crate::tools::Tools;
use bugnet_format::control::{Request, Response};
use bugnet_format::frame::Interval;
use bugnet_format::record::{Record, RegisterUpdates, register_number};
use bugnet_format::regs::RegisterFile;
use bugnet_format::trace::{BYTES, CAPACITY, Entry};
use bugnet_format::types::Position;
use memmap2::MmapRaw;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use chunk::is_sound;
pub use chunk::{Chunk, Met, Run, Runs, Sum, ToldAccess};

pub use bugnet_format::trace::{OddAccess, TracedAccess, TracedBlock, Turn, Wanted};

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
    /// How many instructions each has, and what it is in an outline.
    counts: Vec<u16>,
    entries: Vec<Option<Entry>>,
    bases: Arc<[(Position, Bases)]>,
    /// Of the present stretch.
    runs: Vec<Run>,
    /// What is written down beside blocks and addresses.
    wanted: Arc<Wanted>,
    /// Where it looks at accesses: those of the present stretch that may be wrong, and their blocks.
    suspects: Vec<Suspect>,
    suspect_blocks: Vec<SuspectBlock>,
    /// Whether each access of shaded memory is told by the end of the last turns that were told.
    tells_each: bool,
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
            Some(Self { session, buffer, blocks, counts, entries, suspect_blocks, tells_each, .. }) => {
                (Some(session), Some((buffer, blocks, counts, entries, suspect_blocks, tells_each)))
            }
            None => (None, None),
        };
        let process = last.as_ref().map(Session::number);
        let mut session = Session::start_behind(last, tools, log, id, interval)?;
        let (bases, wanted) = (bases(&log.events_of(id, interval)).into(), wanted.clone());
        let (runs, suspects) = (Vec::new(), Vec::new());
        let known = traced.filter(|_| process == Some(session.number()));
        if let Some((buffer, blocks, counts, entries, suspect_blocks, tells_each)) = known {
            return Ok(Self {
                session,
                buffer,
                blocks,
                counts,
                entries,
                bases,
                runs,
                wanted,
                suspects,
                suspect_blocks,
                tells_each,
            });
        }
        if process.is_some() && wanted.heap.is_some() {
            let why = "another process does not know the heap that one has kept".into();
            return Err(ReplayError::NotTraced { interval: id, why });
        }
        let buffer = Buffer::new().map_err(ReplayError::system("make memory for a trace"))?;
        session.process().trace(buffer.file.as_fd(), &wanted)?;
        let (buffer, blocks, counts, entries) = (Arc::new(buffer), Vec::new(), Vec::new(), Vec::new());
        let (suspect_blocks, tells_each) = (Vec::new(), true);
        Ok(Self { session, buffer, blocks, counts, entries, bases, runs, wanted, suspects, suspect_blocks, tells_each })
    }

    /// Where turns of the thread begin in the next stretch, as positions, in ascending order, and whether each access of shaded memory is told in them
    /// ([`Turn`]).
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn take_turns(&mut self, turns: Vec<Turn>) -> Result<()> {
        let tells_each = turns.iter().all(|turn| turn.each);
        if std::mem::replace(&mut self.tells_each, tells_each) && tells_each {
            return Ok(());
        }
        self.session.process().send(&Request::Turns(turns))
    }

    /// Accesses of the stretch that was executed last which may be wrong, to be taken, and the blocks by their numbers, where it looks at accesses
    /// ([`Wanted::heap`]).
    pub fn suspects(&mut self) -> (&mut Vec<Suspect>, &[SuspectBlock]) {
        (&mut self.suspects, &self.suspect_blocks)
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
        let (entries, bases, wanted) = (self.entries.clone(), self.bases.clone(), self.wanted.clone());
        let (runs, suspects, suspect_blocks) = (Vec::new(), self.suspects.clone(), self.suspect_blocks.clone());
        let tells_each = self.tells_each;
        let session = self.session.fork()?;
        Ok(Self { session, buffer, blocks, counts, entries, bases, runs, wanted, suspects, suspect_blocks, tells_each })
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
        let mut all = self.runs(executed.words, (executed.used, executed.start));
        runs.extend(&mut all);
        let is_whole = all.is_whole();
        self.runs = runs;
        if !is_whole {
            return Err(self.makes_no_sense());
        }
        Ok(Some(self.chunk(executed)))
    }

    /// The blocks that it knows.
    #[must_use]
    pub fn blocks(&self) -> &[Arc<TracedBlock>] {
        &self.blocks
    }

    /// Takes the blocks that there are since it was asked for them last, so that copies which are made from here on need not ask again; all of
    /// them.
    ///
    /// # Errors
    /// The replay process is lost, or makes no sense.
    pub fn fetch(&mut self) -> Result<&[Arc<TracedBlock>]> {
        while self.take_blocks(u32::MAX)?.0 > 0 {}
        Ok(&self.blocks)
    }

    /// Asks for blocks, and for odd accesses behind so many: how many new blocks there were, and these accesses.
    fn take_blocks(&mut self, odd: u32) -> Result<(usize, Vec<OddAccess>)> {
        let blocks = self.blocks.len() as u32;
        let process = self.session.process();
        process.send(&Request::Traced { blocks, odd })?;
        let (new, odd) = match process.receive()? {
            Response::Traced { blocks, odd } => (blocks, odd),
            other => return Err(process.unexpected(&other)),
        };
        let is_outline = self.wanted.outline;
        if !new.iter().all(|block| is_sound(block) && block.entry.is_some() == is_outline) {
            return Err(process.makes_no_sense("a trace"));
        }
        let count = new.len();
        self.counts.extend(new.iter().map(|block| block.count));
        self.entries.extend(new.iter().map(|block| block.entry));
        self.blocks.extend(new.into_iter().map(Arc::new));
        Ok((count, odd))
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

    fn runs(&self, len: u32, (used, start): (Option<u32>, u64)) -> Runs<'_> {
        chunk::runs(self.buffer.words(), &self.counts, len, (&self.entries, used, start), Met::default())
    }

    fn chunk(&self, executed: Executed) -> Chunk<'_> {
        let Executed { first, words, used, start, odd } = executed;
        // Those that are in force where the stretch begins, and what comes later.
        let from = self.bases.partition_point(|(position, _)| *position <= first).saturating_sub(1);
        let (blocks, runs, bases) = (&*self.blocks, &*self.runs, &self.bases[from..]);
        Chunk {
            first,
            len: words,
            blocks,
            runs,
            odd,
            words: self.buffer.words(),
            counts: &self.counts,
            entries: &self.entries,
            used,
            start,
            bases,
        }
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
        self.session.process().work().did(executed);
        let Some(written) = self.session.written() else { return Err(self.makes_no_sense()) };
        let (words, start) = (written.words, written.start);
        let used = Some(written.used).filter(|_| self.wanted.outline);
        let fits = used.map_or(words as usize <= CAPACITY, |used| used as usize <= WORDS);
        if u64::from(words) != executed || !fits {
            return Err(self.makes_no_sense());
        }
        let mut odd = Vec::new();
        while self.blocks.len() < written.blocks as usize || odd.len() < written.odd as usize {
            let (new, more) = self.take_blocks(odd.len() as u32)?;
            if new == 0 && more.is_empty() {
                return Err(self.makes_no_sense());
            }
            odd.extend(more);
        }
        if !odd.is_sorted_by_key(|odd| odd.word) || odd.last().is_some_and(|odd| odd.word >= words) {
            return Err(self.makes_no_sense());
        }
        if self.wanted.heap.is_some() {
            let between = first.0..=self.session.position().0;
            let process = self.session.process();
            let found = found(process, &mut self.suspect_blocks, between)?;
            self.suspects = found.map_err(|why| ReplayError::NotTraced { interval: process.interval(), why })?;
        }
        Ok(Some(Executed { first, words, used, start, odd }))
    }
}

/// What a replay process has executed, and says of it.
struct Executed {
    first: Position,
    words: u32,
    /// Words that were used, of an outline, and where it began.
    used: Option<u32>,
    start: u64,
    odd: Vec<OddAccess>,
}

impl Process {
    /// Lets it write down what it executes.
    fn trace(&mut self, memory: std::os::fd::BorrowedFd<'_>, wanted: &Wanted) -> Result<()> {
        self.send(&Request::Trace(wanted.clone()))?;
        self.hand(memory)?;
        match self.receive_any()? {
            Response::Ready => Ok(()),
            Response::Refused(why) => Err(ReplayError::NotTraced { interval: self.interval(), why }),
            other => Err(self.unexpected(&other)),
        }
    }
}
