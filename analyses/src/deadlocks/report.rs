//! What there is to say about who waits.

use super::cycles::Edge;
use super::watch::{For, Waits, Watch};
use super::words;
use crate::locks::{Kind, Lock, Mode};
use crate::runs::scene::Spot;
use bugnet_format::process::Origin;
use bugnet_format::record::Record;
use bugnet_format::types::{Addr, ProcessId, Tid};
use bugnet_replay::Result;
use bugnet_replay::backtrace::Frame;
use bugnet_replay::crash::{is_system, scopes_at};
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::at_the_end;
use bugnet_replay::tools::Tools;
use serde::Serialize;
use std::collections::BTreeSet;

/// Frames of a stack that are looked at.
const FRAMES: usize = 12;
/// The system call by which a thread ends alone.
const EXIT: u64 = 60;
/// Those that make processes.
const MAKES: [i64; 4] = [libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The process.
    pub pid: ProcessId,
    /// The threads that wait at the end.
    pub waits: Vec<Wait>,
    /// Circles of threads of which each waits for the next: indices of [`Self::waits`].
    pub deadlocks: Vec<Vec<usize>>,
    /// Locks that threads take in different orders, without a deadlock in this recording.
    pub cycles: Vec<Cycle>,
    /// Calls whose lock is not known.
    pub unknown: u64,
}

/// A place in the program, where a function of a lock was called.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Where the function begins.
    pub place: Place,
    /// Instructions that all threads had executed before.
    pub time: u64,
    /// The function and line that called it: the first one that is not the system's.
    pub spot: Option<Spot>,
    /// Who called it, innermost first.
    pub callers: Vec<String>,
    /// The functions and lines of the program's own among these; the first is [`Self::spot`].
    #[serde(skip)]
    pub own: Vec<Spot>,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waited {
    /// A lock.
    Lock(Kind),
    /// A condition.
    Condition,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// The end of a thread.
    Thread,
}

/// Who holds what somebody waits for.
#[derive(Clone, Debug, Serialize)]
pub struct Holder {
    /// The thread.
    pub thread: Tid,
    /// How it holds the lock, and since when; none for a thread whose end somebody waits for.
    pub since: Option<(Mode, Step)>,
    /// Whether that is inferred from how the thread changed the lock's word.
    pub is_inferred: bool,
    /// Why it never gives the lock back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<Gone>,
}

/// Why a thread that holds a lock never gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gone {
    /// It has ended.
    Ended,
    /// It is one of the process that forked this one, where it held the lock then; in this one, there is no such thread.
    LeftBehind {
        /// That process.
        by: ProcessId,
    },
}

/// A thread that waits.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// The thread.
    pub thread: Tid,
    /// What for.
    pub waited: Waited,
    /// Its address; none for a thread.
    pub address: Option<u64>,
    /// What that is called, as far as it is known.
    pub name: Option<String>,
    /// Since when.
    pub since: Step,
    /// Who holds it.
    pub holders: Vec<Holder>,
}

/// Threads that might wait for each other: each holds one lock, and wants that of the next.
#[derive(Clone, Debug, Serialize)]
pub struct Cycle {
    /// Each thread, with the lock that it holds and the one that it wants.
    pub steps: Vec<Taken>,
}

/// A thread takes a lock while it holds another one.
#[derive(Clone, Debug, Serialize)]
pub struct Taken {
    /// The thread.
    pub thread: Tid,
    /// What it holds: kind, address, name.
    pub held: (Kind, u64, Option<String>),
    /// Since when.
    pub since: Step,
    /// What it takes.
    pub wanted: (Kind, u64, Option<String>),
    /// When.
    pub at: Step,
}

struct Reporting<'a, 'b> {
    tools: &'a Tools,
    log: &'a Log,
    cursor: &'a mut Cursor<'b>,
    symbols: &'a mut Symbolizer,
}

/// Reports on what was seen.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub(super) fn report(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    watch: &Watch,
) -> Result<Report> {
    let pid = cursor.pid();
    let mut reporting = Reporting { tools, log, cursor, symbols };
    let (mut waits, mut locks) = (Vec::new(), Vec::new());
    for tid in (0..watch.times.len()).map(|thread| watch.times.id(thread).tid) {
        if let Some((wait, lock)) = reporting.wait(watch, tid)? {
            waits.push(wait);
            locks.push(lock);
        }
    }
    let deadlocks = circles(&waits);
    let closed: Vec<BTreeSet<Lock>> =
        deadlocks.iter().map(|circle| circle.iter().filter_map(|wait| locks[*wait]).collect()).collect();
    let mut cycles = Vec::new();
    for cycle in watch.graph.cycles() {
        let own: BTreeSet<Lock> = cycle.iter().map(|edge| edge.held.lock).collect();
        if !closed.contains(&own) {
            cycles.push(reporting.cycle(&cycle)?);
        }
    }
    Ok(Report { pid, waits, deadlocks, cycles, unknown: watch.locks.unknown })
}

/// Threads that wait in a circle, each circle once, from its lowest thread on.
fn circles(waits: &[Wait]) -> Vec<Vec<usize>> {
    let of = |tid: Tid| waits.iter().position(|wait| wait.thread == tid);
    let mut found: Vec<Vec<usize>> = Vec::new();
    for start in 0..waits.len() {
        let (mut way, mut at) = (vec![start], start);
        // Where several threads read, the first one that waits, too, stands for them.
        while let Some(next) = waits[at].holders.iter().find_map(|holder| of(holder.thread)) {
            if let Some(first) = way.iter().position(|other| *other == next) {
                if way[first..].iter().min() == Some(&start) && first == 0 {
                    found.push(way);
                }
                break;
            }
            way.push(next);
            at = next;
        }
    }
    found
}

/// Where a process made another one.
fn birth(log: &Log, parent: ProcessId, child: ProcessId) -> Result<Option<Place>> {
    for thread in log.threads().filter(|thread| thread.pid == parent) {
        for &interval in log.intervals(thread)? {
            for placed in log.interval(IntervalId { thread, interval })?.records().flatten() {
                let Record::Syscall { number, result, .. } = placed.record else { continue };
                if MAKES.contains(&number.cast_signed()) && result == i64::from(child.pid.0) {
                    return Ok(Some(Place { tid: thread.tid, interval, position: placed.position }));
                }
            }
        }
    }
    Ok(None)
}

impl Reporting<'_, '_> {
    fn step(&mut self, place: Place) -> Result<Step> {
        self.cursor.seek(Seek::Place(place))?;
        let time = self.cursor.time();
        let frames = scopes_at(self.log, self.cursor, self.symbols, FRAMES)?;
        let is_own = |path: &str| !is_system(path);
        // Behind the calls: the instruction before is the one that counts.
        let own = frames.iter().skip(1).filter(|frame| frame.place.module.as_ref().is_none_or(|m| is_own(&m.path)));
        let own: Vec<Spot> = own.map(|frame| Spot::of(self.symbols, frame.pc - 1)).collect();
        let callers = frames.iter().skip(1).filter_map(|frame| frame.place.brief()).collect();
        Ok(Step { place, time, spot: own.first().cloned(), callers, own })
    }

    /// A thread that waits for a lock of which only the word is known.
    fn word(&mut self, tid: Tid) -> Result<Option<Wait>> {
        self.cursor.seek(Seek::End)?;
        let Some(thread) = self.cursor.threads()?.into_iter().find(|thread| thread.place.tid == tid) else {
            return Ok(None);
        };
        let Some(waiting) = words::waiting(self.log, self.cursor, self.symbols, &thread)? else { return Ok(None) };
        self.cursor.seek(Seek::End)?;
        let since = self.step_with(waiting.place, self.cursor.time(), &waiting.frames);
        let holders = self.by_word(&waiting)?;
        let (waited, address, name) = (Waited::Lock(waiting.kind()), Some(waiting.addr), self.name(waiting.addr));
        Ok(Some(Wait { thread: tid, waited, address, name, since, holders }))
    }

    /// Who holds a lock, by what was made of its word: in this process, or in the one that forked it, before it did.
    fn by_word(&mut self, waiting: &words::Waiting) -> Result<Vec<Holder>> {
        self.cursor.seek(Seek::End)?;
        let mut holders = Vec::new();
        for words::Holds { place, mode } in words::holders(self.cursor, waiting)? {
            self.cursor.seek(Seek::Place(place))?;
            let frames = scopes_at(self.log, self.cursor, self.symbols, FRAMES)?;
            let taken = self.step_with(place, self.cursor.time(), &frames);
            let (thread, gone) = (place.tid, self.gone(place.tid)?);
            holders.push(Holder { thread, since: Some((mode, taken)), is_inferred: true, gone });
        }
        if holders.is_empty() {
            holders = self.left_behind(waiting)?;
        }
        Ok(holders)
    }

    /// Who held a lock in the process that forked this one, when it did.
    fn left_behind(&mut self, waiting: &words::Waiting) -> Result<Vec<Holder>> {
        let (log, own) = (self.log, self.cursor.pid());
        let info = log.processes()?.into_iter().find(|(id, _)| *id == own).and_then(|(_, info)| info);
        let Some(Origin::Fork { from, .. }) = info.map(|info| info.origin) else { return Ok(Vec::new()) };
        let Some(forked) = birth(log, from, own)? else { return Ok(Vec::new()) };
        let mut parent = Cursor::open(self.tools, log, from)?;
        parent.seek(Seek::Place(forked))?;
        let mut symbols = Symbolizer::new(log, from)?;
        let mut holders = Vec::new();
        for words::Holds { place, mode } in words::holders(&mut parent, waiting)? {
            // The thread that forked is there in both.
            if place.tid == forked.tid {
                continue;
            }
            parent.seek(Seek::Place(place))?;
            let time = parent.time();
            let frames = scopes_at(log, &mut parent, &mut symbols, FRAMES)?;
            let taken = self.step_with(place, time, &frames);
            let gone = Some(Gone::LeftBehind { by: from });
            holders.push(Holder { thread: place.tid, since: Some((mode, taken)), is_inferred: true, gone });
        }
        Ok(holders)
    }

    /// Whether a thread has ended, and not with its process.
    fn gone(&self, tid: Tid) -> Result<Option<Gone>> {
        let thread = ThreadId { pid: self.cursor.pid(), tid };
        let ends = at_the_end(self.log, thread)?.is_some_and(|(number, _)| number == EXIT);
        Ok(ends.then_some(Gone::Ended))
    }

    /// A place in the middle of whatever takes a lock, perhaps inlined, with the frames there.
    fn step_with(&mut self, place: Place, time: u64, frames: &[Frame]) -> Step {
        let at = |(number, frame): (usize, &Frame)| frame.pc - u64::from(number > 0);
        let own = frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.place.module.as_ref().is_none_or(|m| !is_system(&m.path)));
        let own = own
            .map(|frame| Spot::outside(self.symbols, at(frame), words::is_locks_own))
            .filter(|spot| !spot.is_systems() && !spot.file.as_deref().is_some_and(words::is_locks_own));
        let own: Vec<Spot> = own.collect();
        let callers = frames.iter().filter_map(|frame| frame.place.brief()).collect();
        Step { place, time, spot: own.first().cloned(), callers, own }
    }

    fn name(&mut self, addr: u64) -> Option<String> {
        self.symbols.describe(Addr(addr))
    }

    fn wait(&mut self, watch: &Watch, tid: Tid) -> Result<Option<(Wait, Option<Lock>)>> {
        let waits = watch.waits(tid);
        if let Some(Waits::Lock(wanted)) = waits {
            let mut holders = Vec::new();
            for (thread, since, mode) in watch.holders(wanted.lock) {
                let (since, gone) = (self.step(since)?, self.gone(thread)?);
                holders.push(Holder { thread, since: Some((mode, since)), is_inferred: false, gone });
            }
            // No call has given it to anybody: the thread that has it was interrupted in the call, or is not of this process.
            if holders.is_empty() && wanted.kind == Kind::Mutex {
                holders = self.by_word(&words::of_mutex(wanted.lock.addr, wanted.call))?;
            }
            let (waited, address) = (Waited::Lock(wanted.kind), Some(wanted.lock.addr));
            let (name, since) = (self.name(wanted.lock.addr), self.step(wanted.call)?);
            return Ok(Some((Wait { thread: tid, waited, address, name, since, holders }, Some(wanted.lock))));
        }
        let Some(Waits::Other(what, call)) = waits else { return Ok(self.word(tid)?.map(|wait| (wait, None))) };
        let (waited, address) = match what {
            For::Condition => (Waited::Condition, call.args[0]),
            For::Semaphore => (Waited::Semaphore, call.args[0]),
            For::Barrier => (Waited::Barrier, call.args[0]),
            For::End => (Waited::Thread, None),
        };
        let ends = call.args[0].filter(|_| what == For::End).and_then(|own| watch.births.named(own));
        let holder =
            |thread: usize| Holder { thread: watch.times.id(thread).tid, since: None, is_inferred: false, gone: None };
        let holders = ends.map(holder).into_iter().collect();
        let name = address.and_then(|addr| self.name(addr));
        let since = self.step(call.place)?;
        Ok(Some((Wait { thread: tid, waited, address, name, since, holders }, None)))
    }

    fn cycle(&mut self, edges: &[Edge]) -> Result<Cycle> {
        let mut steps = Vec::new();
        for Edge { held, wanted, .. } in edges {
            steps.push(Taken {
                thread: wanted.place.tid,
                held: (held.kind, held.lock.addr, self.name(held.lock.addr)),
                since: self.step(held.since)?,
                wanted: (wanted.kind, wanted.lock.addr, self.name(wanted.lock.addr)),
                at: self.step(wanted.call)?,
            });
        }
        Ok(Cycle { steps })
    }
}
