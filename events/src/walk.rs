//! Backwards through all that the threads of a process executed, in their recorded order.

use crate::atoms::Atoms;
use crate::backward::Backward;
use crate::code::{Block, Known};
use crate::onward::Behind;
use crate::stretch::{Ran, Untold};
use bugnet_format::frame::Interval;
use bugnet_format::record::{DependencyKind, Record, RegisterUpdates, SignalStep, SpecialKind, register_number};
use bugnet_format::regs::RSP;
use bugnet_format::types::{Addr, Epoch, IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::looked::Suspect;
use bugnet_replay::order::{OrderedThread, Threads, Wait, Window, schedule};
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};

/// What one comes to on the way back.
pub enum Visit<'a> {
    /// Instructions that a thread executed one after the other, without another one in between.
    Ran {
        /// The first one of these.
        place: Place,
        /// The block of which they are.
        ran: &'a Ran<'a>,
        /// Which of it.
        instructions: Range<usize>,
    },
    /// An instruction that replay does not execute, and what a record says that it did.
    Skipped {
        /// Where.
        place: Place,
        /// The block of which it is the only instruction.
        ran: &'a Ran<'a>,
        /// What it did.
        did: &'a Did,
    },
    /// A signal's handler begins before the instruction here.
    Delivered {
        /// Where.
        place: Place,
        /// The signal's number.
        signal: u64,
        /// Where the kernel has put what the handler finds, and what was interrupted: the stack pointer where it begins.
        frame: u64,
    },
    /// The parent of a child of `vfork`, which had the thread (light logs), goes on before the instruction here, with the registers that it had.
    Resumed {
        /// Where.
        place: Place,
    },
}

impl Visit<'_> {
    /// Where it is.
    #[must_use]
    pub fn place(&self) -> Place {
        let (Self::Ran { place, .. }
        | Self::Skipped { place, .. }
        | Self::Delivered { place, .. }
        | Self::Resumed { place }) = self;
        *place
    }
}

/// What happens between two instructions of a thread.
#[derive(Clone, Copy)]
pub(crate) enum Between {
    /// A handler begins: the signal, and the stack pointer there.
    Delivered(u64, u64),
    /// A child of `vfork` has ended or executed a program.
    Resumed,
}

impl Between {
    /// What is visited of it.
    pub fn visit(self, place: Place) -> Visit<'static> {
        match self {
            Self::Delivered(signal, frame) => Visit::Delivered { place, signal, frame },
            Self::Resumed => Visit::Resumed { place },
        }
    }
}

/// What an instruction did that replay does not execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// A system call.
    Call {
        /// Its number.
        number: u64,
        /// Its arguments.
        args: [u64; 6],
        /// What it returned.
        result: i64,
        /// Registers that it changed.
        changed: Atoms,
    },
    /// An instruction whose results do not follow from what the program knows.
    Special {
        /// Which one.
        kind: SpecialKind,
        /// Registers that it set.
        changed: Atoms,
    },
    /// `rt_sigreturn`: the thread goes on where the signal interrupted it, with the registers that it had, or that the handler has set.
    Return,
}

/// Somebody who is told what was executed.
pub trait Visitor {
    /// Whether there is nothing to visit in a block that a thread has executed from its first to its last instruction, none of them skipped.
    /// Most that was executed is such blocks, so this should cost little; what it has to remember of the block, it does.
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool;

    /// What was executed next and not passed over.
    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()>;

    /// Whether it wants to be told no more; it is asked now and then, and may be told some more.
    #[inline]
    fn has_enough(&mut self) -> bool {
        false
    }

    /// A thread executes so many instructions, of which it is told next.
    fn executes(&mut self, _instructions: u64) {}

    /// A thread executes instructions of blocks that an outline has not, behind what was visited before. It is told all of these that come between two
    /// visits, or parts of them.
    #[inline]
    fn runs_untold(&mut self, _place: Place, _untold: &Untold<'_>) {}

    /// The next instruction accesses what may be wrong ([`crate::looking`]). Nothing is known of its block but the instructions.
    fn suspects(&mut self, _place: Place, _suspect: &Suspect, _block: &Block) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// One who passes over nothing.
pub(crate) struct Each<F>(pub F);

impl<F: FnMut(Visit<'_>) -> ControlFlow<()>> Visitor for Each<F> {
    #[inline]
    fn passes(&mut self, _tid: Tid, _ran: &Ran<'_>) -> bool {
        false
    }

    #[inline]
    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        (self.0)(visit)
    }
}

/// What records say that happened in an interval.
#[derive(Default)]
pub(crate) struct Happened {
    pub did: HashMap<u64, Did>,
    /// What happened between two instructions, with the position of the second one.
    pub between: Vec<(u64, Between)>,
}

fn changed(updates: &RegisterUpdates) -> Atoms {
    let atoms = |(number, _): &(u8, u64)| match *number {
        register_number::RFLAGS => Atoms::ALL_FLAGS,
        register_number::FS_BASE => Atoms::FS_BASE,
        register_number::GS_BASE => Atoms::GS_BASE,
        number if number < register_number::RIP => Atoms::gpr(number.into()),
        _ => Atoms::NONE,
    };
    updates.values.iter().map(atoms).collect()
}

impl Happened {
    pub fn of(interval: &Interval) -> Self {
        let mut all = Self::default();
        for placed in interval.records().flatten() {
            let at = placed.position.0;
            let did = match placed.record {
                Record::Syscall { number, args, result, updates, .. } => {
                    // RAX is the result; RCX and R11 are as `syscall` leaves them.
                    let changed = Atoms::gpr(0) | Atoms::gpr(1) | Atoms::gpr(11) | changed(&updates);
                    Did::Call { number, args, result, changed }
                }
                Record::Special { kind, updates, .. } => Did::Special { kind, changed: changed(&updates) },
                Record::Signal { step: SignalStep::Return, .. } => Did::Return,
                Record::Signal { step: SignalStep::Delivery, number, regs, .. } => {
                    all.between.push((at, Between::Delivered(number, regs.gpr[RSP])));
                    continue;
                }
                Record::Signal { step: SignalStep::Resume, .. } => {
                    all.between.push((at, Between::Resumed));
                    continue;
                }
                _ => continue,
            };
            all.did.insert(at, did);
        }
        all
    }
}

/// A thread, and the interval of it in which one is.
struct Walked {
    id: ThreadId,
    present: Option<Present>,
}

struct Present {
    number: IntervalNo,
    /// Instructions of the thread before it.
    before: u64,
    backward: Backward,
    /// Blocks of the present stretch that one has not come to.
    left: usize,
    happened: Happened,
}

/// An interval through which one can go back.
struct Prepared {
    id: IntervalId,
    backward: Backward,
    happened: Happened,
}

/// What one walks through.
struct Walk<'a> {
    tools: &'a Tools,
    log: &'a Log,
    /// The interval before the present one of the only thread, which is got ready meanwhile.
    ahead: Cell<Option<Prepared>>,
    has_one_thread: bool,
    known: Known,
}

/// Goes back from a place to where the log begins to have all of the process, or until `visit` ends it. The instruction at the place is not
/// visited: it is the next one to be executed.
///
/// # Errors
/// The log does not hold the place, or cannot be read, replayed or traced; its order contradicts itself.
pub fn walk_back(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    from: Place,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> Result<()> {
    walk_back_with(tools, log, pid, from, &mut Each(visit))
}

/// The same, for somebody who passes over most blocks.
///
/// # Errors
/// As [`walk_back`].
pub fn walk_back_with(tools: &Tools, log: &Log, pid: ProcessId, from: Place, visitor: &mut impl Visitor) -> Result<()> {
    let start = IntervalId { thread: ThreadId { pid, tid: from.tid }, interval: from.interval };
    let last = log.header(start)?.epoch;
    let has_one_thread = log.threads().filter(|thread| thread.pid == pid).count() == 1;
    let walk = Walk { tools, log, ahead: Cell::new(None), has_one_thread, known: Known::default() };
    for epoch in epochs_of(log, pid)?.into_iter().rev().filter(|epoch| *epoch <= last) {
        if walk.epoch(pid, epoch, (epoch == last).then_some(from), visitor)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// The threads of an epoch, and what they execute without another one in between, in an order that also agrees with what is said to be behind
/// what.
pub(crate) fn runs_of(log: &Log, pid: ProcessId, epoch: Epoch, behind: &[Behind]) -> Result<(Threads, Vec<Run>)> {
    let mut threads = Threads::read(log, pid, &Window::only(epoch))?;
    wait(&mut threads, behind);
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    let mut at: Vec<u64> = threads.threads.iter().map(OrderedThread::first).collect();
    let mut runs = Vec::new();
    for segment in order {
        let thread = segment.thread;
        let until = segment.until.min(threads.threads[thread].last()).max(at[thread]);
        runs.push(Run { thread, counts: at[thread]..until });
        at[thread] = until;
    }
    Ok((threads, runs))
}

/// Adds to what the threads of an epoch wait for. All of earlier epochs comes before.
fn wait(threads: &mut Threads, behind: &[Behind]) {
    if behind.is_empty() {
        return;
    }
    let indexes: HashMap<Tid, usize> =
        threads.threads.iter().zip(0..).map(|(thread, index)| (thread.id.tid, index)).collect();
    for one in behind {
        let (Some(own), Some(other)) = (indexes.get(&one.tid), indexes.get(&one.other)) else { continue };
        let [waiting, awaited] = [*own, *other].map(|index| &threads.threads[index]);
        let until = one.until.min(awaited.last());
        if (waiting.first()..waiting.last()).contains(&one.at) && until > awaited.first() {
            // The accesses of what kind it orders is nothing that the order depends on.
            let (kind, block) = (DependencyKind::Raw, Addr(0));
            let wait = Wait { at: one.at, other: *other, until, kind, block, cut_off: false };
            threads.threads[*own].waits.push(wait);
        }
    }
    threads.threads.iter_mut().for_each(|thread| thread.waits.sort_by_key(|wait| wait.at));
}

/// The epochs of a process of which the log has all, in order.
pub(crate) fn epochs_of(log: &Log, pid: ProcessId) -> Result<Vec<Epoch>> {
    let first = Window::of(log, pid)?.first;
    let mut epochs = BTreeSet::new();
    for thread in log.threads().filter(|thread| thread.pid == pid) {
        for &interval in log.intervals(thread)? {
            epochs.insert(log.header(IntervalId { thread, interval })?.epoch);
        }
    }
    Ok(epochs.into_iter().filter(|epoch| *epoch >= first).collect())
}

/// A run of a thread, by its index, between two counts of its instructions.
pub(crate) struct Run {
    pub thread: usize,
    pub counts: Range<u64>,
}

impl Walk<'_> {
    fn epoch(
        &self,
        pid: ProcessId,
        epoch: Epoch,
        from: Option<Place>,
        visitor: &mut impl Visitor,
    ) -> Result<ControlFlow<()>> {
        let (threads, mut runs) = runs_of(self.log, pid, epoch, &[])?;
        if let Some(from) = from {
            cut(&mut runs, &threads, from);
        }
        let mut walked: Vec<Walked> =
            threads.threads.iter().map(|thread| Walked { id: thread.id, present: None }).collect();
        for run in runs.iter().rev() {
            let (thread, walked) = (&threads.threads[run.thread], &mut walked[run.thread]);
            if self.run(thread, walked, run.counts.clone(), visitor)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Goes back through a run of a thread.
    fn run(
        &self,
        thread: &OrderedThread,
        walked: &mut Walked,
        counts: Range<u64>,
        visitor: &mut impl Visitor,
    ) -> Result<ControlFlow<()>> {
        let (mut at, tid) = (counts.end, thread.id.tid);
        while at > counts.start {
            let (number, position) = thread.place(at - 1);
            let Present { before, backward, left, happened, .. } =
                self.present(walked, number, position, at - 1 - position.0)?;
            let floor = counts.start.max(*before);
            let place = |count: u64| Place { tid, interval: number, position: Position(count - *before) };
            while at > floor {
                let Some((stretch, blocks)) = backward.stretch() else {
                    let what = format!("{} interval {number} has no instruction {position}", thread.id);
                    return Err(ReplayError::OutOfRange(what));
                };
                // Before this, no handler begins in the stretch.
                let quiet = happened.between.last().map_or(0, |(position, ..)| *before + position + 1);
                while at > floor && *left > 0 {
                    let ran = stretch.at(*left - 1, blocks);
                    let start = *before + ran.position.0;
                    let is_whole = start >= floor.max(quiet) && start + ran.block.instructions.len() as u64 == at;
                    if is_whole && !ran.block.is_skipped && visitor.passes(tid, &ran) {
                        *left -= 1;
                        at = start;
                        continue;
                    }
                    let low = start.max(floor);
                    if low == start {
                        *left -= 1;
                    }
                    if start >= at {
                        continue;
                    }
                    let instructions = (low - start) as usize..(at - start) as usize;
                    if visit_block(&ran, instructions, start, &place, happened, &mut |visit| visitor.visit(visit))
                        .is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                    at = low;
                }
                if at > floor {
                    backward.retreat()?;
                    *left = backward.stretch().map_or(0, |(stretch, _)| stretch.len());
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn prepare(&self, id: IntervalId, end: Position) -> Result<Prepared> {
        let interval = self.log.interval(id)?;
        let backward = Backward::knowing((self.tools, self.log), id, &interval, end, &self.known)?;
        Ok(Prepared { id, backward, happened: Happened::of(&self.log.events_of(id, &interval)) })
    }

    /// The interval with the instruction at a position, at its last stretch that is needed when one comes to it.
    fn present<'w>(
        &self,
        walked: &'w mut Walked,
        number: IntervalNo,
        position: Position,
        before: u64,
    ) -> Result<&'w mut Present> {
        if walked.present.as_ref().is_none_or(|present| present.number != number) {
            let id = IntervalId { thread: walked.id, interval: number };
            walked.present = None;
            let Prepared { mut backward, happened, .. } = match self.ahead.take().filter(|ahead| ahead.id == id) {
                Some(ahead) => ahead,
                None => self.prepare(id, Position(position.0 + 1))?,
            };
            backward.retreat()?;
            let left = backward.stretch().map_or(0, |(stretch, _)| stretch.len());
            walked.present = Some(Present { number, before, backward, left, happened });
            let intervals = self.log.intervals(walked.id)?;
            let at = intervals.iter().position(|interval| *interval == number).and_then(|at| at.checked_sub(1));
            if let Some(at) = at.filter(|_| self.has_one_thread) {
                let before = IntervalId { thread: walked.id, interval: intervals[at] };
                // If it cannot be, that is said when one comes to it.
                self.ahead.set(self.prepare(before, Position(u64::MAX)).ok());
            }
        }
        walked.present.as_mut().ok_or_else(|| ReplayError::OutOfRange(format!("{} has no interval", walked.id)))
    }
}

/// Visits instructions of a block; handlers that begin at one of them come between it and those before.
fn visit_block(
    ran: &Ran<'_>,
    instructions: Range<usize>,
    start: u64,
    place: &impl Fn(u64) -> Place,
    happened: &Happened,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let skipped = ran.block.is_skipped.then(|| happened.did.get(&ran.position.0)).flatten();
    let mut end = instructions.end;
    let between = &happened.between;
    if !between.is_empty() {
        let at = |index: usize| ran.position.0 + index as u64;
        let from = between.partition_point(|(position, ..)| *position < at(instructions.start));
        let until = between.partition_point(|(position, ..)| *position < at(instructions.end));
        for (position, what) in between[from..until].iter().rev() {
            let begin = (position - ran.position.0) as usize;
            let place = place(start + begin as u64);
            if begin < end {
                visit_part(ran, begin..end, place, skipped, visit)?;
            }
            end = begin;
            visit(what.visit(place))?;
        }
    }
    if instructions.start < end {
        visit_part(ran, instructions.start..end, place(start + instructions.start as u64), skipped, visit)?;
    }
    ControlFlow::Continue(())
}

fn visit_part(
    ran: &Ran<'_>,
    instructions: Range<usize>,
    place: Place,
    skipped: Option<&Did>,
    visit: &mut impl FnMut(Visit<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match skipped {
        Some(did) => visit(Visit::Skipped { place, ran, did }),
        None => visit(Visit::Ran { place, ran, instructions }),
    }
}

/// Leaves out what comes behind a place.
fn cut(runs: &mut Vec<Run>, threads: &Threads, from: Place) {
    let Some(thread) = threads.threads.iter().position(|thread| thread.id.tid == from.tid) else { return };
    let interval = threads.threads[thread].intervals.iter().find(|interval| interval.number == from.interval);
    let Some(at) = interval.map(|interval| interval.before.saturating_add(from.position.0)) else { return };
    let holds = |run: &Run| run.thread == thread && run.counts.start <= at && at <= run.counts.end;
    // At a boundary, the one that goes on there, as a cursor does.
    let goes_on = |run: &Run| holds(run) && at < run.counts.end;
    if let Some(last) = runs.iter().position(goes_on).or_else(|| runs.iter().rposition(holds)) {
        runs.truncate(last + 1);
        runs[last].counts.end = at;
    }
}
