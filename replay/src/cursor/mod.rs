//! A process at a moment of its recorded execution, movable to any other.
//!
//! Time is the number of instructions that all threads of the process have executed in the order in which they are replayed. The
//! log is divided into epochs, each of which begins with memory of which nothing is known; within one, copies of the replay
//! process are what a cursor goes back to.

mod alive;
mod back;
mod foreseen;
mod forked;
mod indexed;
mod interrupt;
mod known;
mod made;
mod mapped;
mod merging;
mod outline;
mod place;
mod reached;
mod scout;
mod snapshots;
mod steps;
mod writes;

pub use bugnet_format::control::{Conditions, Event, Leaving, WatchedRange};
pub use indexed::Indexed;
pub use interrupt::Interrupter;
pub use known::{Origin, Piece};
pub use place::{Place, Seek};
pub use writes::LastWrite;

use crate::error::{ReplayError, Result};
use crate::log::Log;
use crate::order::{OrderedThread, Window};
use crate::patches::Patches;
use crate::process::Process;
use crate::stretch::{Stretch, Tracked};
use crate::tools::Tools;
use bugnet_format::control::{ByteState, Hit, Hits, Request, Response, Stop, Target};
use bugnet_format::package::Segment;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{ProcessId, Tid};
use known::Elsewhere;
use mapped::Mapped;
pub(crate) use outline::Outline;
use scout::Grain;
use snapshots::Snapshots;
use std::collections::HashMap;

/// Which way to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As the program ran.
    Forward,
    /// Against it.
    Backward,
}

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It came to where it was sent.
    There,
    /// A condition holds.
    Condition(Event),
    /// The log begins here.
    Start,
    /// The log ends here.
    End,
    /// It was interrupted.
    Interrupted,
}

/// What a thread is doing.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Where it is.
    pub place: Place,
    /// Whether it has ended, or its log has.
    pub over: bool,
    /// Its registers.
    pub regs: RegisterFile,
}

/// The replay of the epoch in which the cursor is.
#[derive(Debug)]
struct Open {
    /// Index of the epoch.
    index: usize,
    /// The time at its start.
    begin: u64,
    threads: Vec<OrderedThread>,
    runs: Vec<Run>,
    tracked: Tracked,
    /// The process of which all others are copies, as soon as one has taken its place, and the time in the epoch at which it is.
    original: Option<(u64, Process)>,
    interrupter: Interrupter,
    snapshots: Snapshots,
    /// Where the process is: time in the epoch, the running thread by index, its instruction count and registers.
    time: u64,
    thread: usize,
    at: u64,
    regs: RegisterFile,
    /// The condition that the last run met.
    hit: Option<Hit>,
    /// Whether it is at the epoch's end.
    over: bool,
    /// With several threads, what is known of the patches.
    patches: Patches,
    /// A shorter way is compared again.
    far: u64,
    grain: Grain,
    /// The process that looks out for accesses, if one does.
    looking: u64,
    /// Nobody wants to go back.
    onward: bool,
}

/// A process at a moment. Cursors are independent of each other; several may look at one log.
#[derive(Debug)]
pub struct Cursor<'a> {
    tools: &'a Tools,
    log: &'a Log,
    pid: ProcessId,
    outline: Outline,
    interrupter: Interrupter,
    open: Open,
    ends: HashMap<Tid, alive::End>,
    /// The replay process of another epoch, which can be given the next one.
    spare: Option<Tracked>,
    elsewhere: Elsewhere<'a>,
    mapped: Mapped,
    /// What is known of the patches of epochs that are not open.
    known: merging::Known,
    grain: Grain,
    onward: bool,
}

/// The last time before a place that a condition held.
enum Last {
    /// Here.
    Hit(Hit),
    /// It did not in the epoch.
    None,
    /// The search was interrupted.
    Interrupted,
}

/// A piece of the order in which the threads run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Index of the thread.
    pub thread: usize,
    /// Its instruction counts at the start and at the end.
    pub from: u64,
    pub until: u64,
    /// The time in the epoch at the start.
    pub time: u64,
}

/// When which thread runs.
pub(crate) fn runs(threads: &[OrderedThread], order: &[Segment]) -> Vec<Run> {
    let mut at: Vec<u64> = threads.iter().map(OrderedThread::first).collect();
    let mut time = 0;
    let run = |segment: &Segment| {
        let thread = segment.thread;
        let (from, until) = (at[thread], segment.until.min(threads[thread].last()).max(at[thread]));
        let run = Run { thread, from, until, time };
        at[thread] = until;
        time += until - from;
        run
    };
    order.iter().map(run).collect()
}

impl Open {
    fn new(
        tools: &Tools,
        log: &Log,
        pid: ProcessId,
        outline: &Outline,
        index: usize,
        interrupter: Interrupter,
        (spare, patches): (Option<Tracked>, Patches),
    ) -> Result<Self> {
        let Some((epoch, begin)) = outline.epoch(index) else {
            return Err(ReplayError::OutOfRange(format!("process {pid} has no epoch with index {index}")));
        };
        let stretch = Stretch::read(log, pid, &Window::only(epoch))?;
        let mut tracked = stretch.track(tools, log, spare)?;
        let mut snapshots = Snapshots::default();
        snapshots.add(0, tracked.process.fork()?, 0);
        interrupter.follow(&tracked.process)?;
        let mut open = Self {
            index,
            begin,
            runs: runs(&stretch.threads.threads, stretch.order()),
            threads: stretch.threads.threads,
            tracked,
            original: None,
            interrupter,
            snapshots,
            time: 0,
            thread: 0,
            at: 0,
            regs: RegisterFile::default(),
            hit: None,
            over: false,
            patches,
            far: merging::FAR,
            grain: Grain::default(),
            looking: u64::MAX,
            onward: false,
        };
        open.run(Target::Time(0), Hits::Ignore)?;
        Ok(open)
    }

    /// Where the running thread is.
    fn place(&self) -> Place {
        self.place_of(self.thread, self.at)
    }

    fn place_of(&self, thread: usize, at: u64) -> Place {
        let thread = &self.threads[thread];
        let (interval, position) = thread.place(at);
        Place { tid: thread.id.tid, interval, position }
    }

    /// Makes the process one that is at a time or before it, the nearest there is.
    fn go_back(&mut self, time: u64) -> Result<()> {
        let reach = self.patches.reach(Target::Time(time));
        let suits = |process: &Process| process.suits(reach);
        let here = (self.time <= time && suits(&self.tracked.process)).then_some(self.time);
        let Some((at, snapshot)) = self.snapshots.before(time, suits) else { return Err(Snapshots::lost()) };
        if here.is_some_and(|here| at <= here) {
            return Ok(());
        }
        if let Some((there, original)) =
            self.original.take_if(|(there, process)| (at..=time).contains(there) && suits(process))
        {
            return self.take_copy(there, original);
        }
        let copy = snapshot.fork()?;
        self.take_copy(at, copy)
    }

    /// Goes on from a copy, which is at this time.
    fn take_copy(&mut self, time: u64, copy: Process) -> Result<()> {
        let process = std::mem::replace(&mut self.tracked.process, copy);
        self.keep_original(self.time, process);
        (self.time, self.over) = (time, false);
        self.interrupter.follow(&self.tracked.process)
    }

    /// Keeps a process that is not needed where it is, if it is the original one: it has translated most of the code.
    fn keep_original(&mut self, time: u64, process: Process) {
        if process.is_original() {
            self.original = Some((time, process));
        }
    }

    /// Goes to a time of the epoch, and leaves copies on the way, if anybody may want to go back.
    fn go_to(&mut self, time: u64) -> Result<Stop> {
        self.go_back(time)?;
        self.set_conditions(&Conditions::default())?;
        let onward = self.onward;
        for stop in Snapshots::on_the_way(self.time, time).filter(|_| !onward) {
            if self.run(Target::Time(stop), Hits::Ignore)? != Stop::Reached {
                break;
            }
            self.snapshots.add(stop, self.tracked.process.fork()?, time);
        }
        self.run(Target::Time(time), Hits::Ignore)
    }

    /// Whoever has come to a time may go back a step next: what that begins with is a copy, which is made meanwhile.
    fn expect_step_back(&mut self, time: u64) -> Result<()> {
        if self.onward {
            return Ok(());
        }
        let reach = self.patches.reach(Target::Time(time));
        match time.checked_sub(1).and_then(|before| self.snapshots.before(before, |process| process.suits(reach))) {
            Some((_, snapshot)) => snapshot.fork_ahead(),
            None => Ok(()),
        }
    }

    /// Goes to where a condition was met: before a signal is delivered, although no time passes by that.
    fn go_before(&mut self, hit: Hit) -> Result<()> {
        let Event::Signal(_) = hit.what else { return self.go_to(hit.time).map(drop) };
        self.go_to(hit.time.saturating_sub(1))?;
        self.set_conditions(&Conditions { signals: true, ..Conditions::default() })?;
        self.run(Target::Time(hit.time), Hits::Stop).map(drop)
    }

    /// What the process has in memory, and what is known of it.
    fn states(&mut self, addr: u64, len: u64) -> Result<Vec<(u8, ByteState)>> {
        self.tracked.process.read_states(addr, len)
    }

    /// Memory as far as it is known in the epoch.
    fn read(&mut self, addr: u64, len: u64) -> Result<Vec<Option<u8>>> {
        let states = self.states(addr, len)?;
        Ok(states
            .into_iter()
            .map(|(byte, state)| matches!(state, ByteState::Known | ByteState::Zero).then_some(byte))
            .collect())
    }

    fn set_conditions(&mut self, conditions: &Conditions) -> Result<()> {
        let all_code_is_new = !conditions.ranges.is_empty() || conditions.leaving.is_some();
        if all_code_is_new && self.tracked.process.is_original() {
            let (copy, over) = (self.tracked.process.fork()?, self.over);
            self.take_copy(self.time, copy)?;
            self.over = over;
        }
        self.tracked.process.watch_for(conditions)
    }

    /// The time in the epoch at which a thread executes its instruction number `at`, or comes to its end.
    fn time_of(&self, thread: usize, at: u64) -> u64 {
        let runs = || self.runs.iter().filter(|run| run.thread == thread);
        let run = runs().find(|run| (run.from..run.until).contains(&at)).or_else(|| runs().next_back());
        run.map_or(0, |run| run.time + at.clamp(run.from, run.until) - run.from)
    }
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of a process, or where the log begins to have all of it.
    ///
    /// # Errors
    /// The log does not hold the process, or the replay process cannot be started.
    pub fn open(tools: &'a Tools, log: &'a Log, pid: ProcessId) -> Result<Self> {
        let outline = Outline::of(log, pid)?;
        let interrupter = Interrupter::default();
        let open = Open::new(tools, log, pid, &outline, 0, interrupter.clone(), (None, Patches::default()))?;
        Ok(Self {
            tools,
            log,
            pid,
            outline,
            interrupter,
            open,
            ends: HashMap::new(),
            spare: None,
            elsewhere: Elsewhere::default(),
            mapped: Mapped::default(),
            known: merging::Known::default(),
            grain: Grain::default(),
            onward: false,
        })
    }

    /// Begins anew at the start, behind an error that may have left it anywhere.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn begin_anew(&mut self) -> Result<()> {
        self.spare = None;
        let patches = self.patches_of(0)?;
        self.open_epoch(0, patches).map(drop)
    }

    /// What it takes for replay.
    #[must_use]
    pub fn tools(&self) -> &'a Tools {
        self.tools
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> ProcessId {
        self.pid
    }

    /// Instructions that all threads have executed.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.open.begin.saturating_add(self.open.time)
    }

    /// The time at the end.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.outline.end
    }

    /// How many epochs the log of the process has.
    #[must_use]
    pub fn epochs(&self) -> usize {
        self.outline.epochs()
    }

    /// Where the thread is that executes the next instruction.
    #[must_use]
    pub fn place(&self) -> Place {
        self.open.place()
    }

    /// Its registers.
    #[must_use]
    pub fn regs(&self) -> &RegisterFile {
        &self.open.regs
    }

    /// The threads that do something in the present epoch, as they are now.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn threads(&mut self) -> Result<Vec<Thread>> {
        let mut threads = Vec::new();
        for index in 0..self.open.threads.len() {
            self.open.tracked.process.send(&Request::Registers { thread: index as u32 })?;
            match self.open.tracked.process.receive()? {
                Response::Registers { at, over, regs, .. } => {
                    threads.push(Thread { place: self.open.place_of(index, at), over, regs: *regs });
                }
                other => return Err(self.open.tracked.process.unexpected(&other)),
            }
        }
        Ok(threads)
    }

    /// The pages of which something is known from the present epoch, ascending.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn known_pages(&mut self) -> Result<Vec<u64>> {
        self.open.tracked.process.known_pages()
    }

    /// All threads that the log has, with their intervals.
    pub fn all_threads(&self) -> impl Iterator<Item = (Tid, std::ops::RangeInclusive<u64>)> {
        self.outline.threads()
    }

    /// By which runs of this cursor can be interrupted.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    fn enter(&mut self, index: usize) -> Result<()> {
        if index != self.open.index {
            let patches = self.patches_of(index)?;
            let Open { mut tracked, original, patches, index, .. } = self.open_epoch(index, patches)?;
            if let Some((_, original)) = original {
                tracked.process = original;
            }
            self.known.keep(index, patches);
            self.spare = Some(tracked);
        }
        Ok(())
    }

    /// Opens an epoch; the one that was open.
    fn open_epoch(&mut self, index: usize, patches: Patches) -> Result<Open> {
        let (interrupter, spare) = (self.interrupter.clone(), self.spare.take());
        let opened = Open::new(self.tools, self.log, self.pid, &self.outline, index, interrupter, (spare, patches))?;
        let before = std::mem::replace(&mut self.open, opened);
        self.open.far = self.known.far.unwrap_or(merging::FAR);
        self.open.grain = self.grain;
        self.open.onward = self.onward;
        Ok(before)
    }

    /// Goes somewhere. A time or a position behind the end of all means the end.
    ///
    /// # Errors
    /// The log does not hold the place, or the replay process is lost.
    pub fn seek(&mut self, to: Seek) -> Result<Stopped> {
        match to {
            Seek::Start => self.go_to_time(0),
            Seek::End => self.go_to_time(self.outline.end),
            Seek::Time(time) => self.go_to_time(time),
            Seek::Place(place) => self.go_to_place(place),
        }
    }

    fn go_to_time(&mut self, time: u64) -> Result<Stopped> {
        let time = time.min(self.outline.end);
        self.enter(self.outline.at(time))?;
        let time_there = time - self.open.begin.min(time);
        self.open.go_to(time_there)?;
        self.open.expect_step_back(time_there)?;
        Ok(if time == self.outline.end { Stopped::End } else { Stopped::There })
    }

    /// Whether somewhere is not beyond the end of what was recorded.
    ///
    /// # Errors
    /// It is; the error says where the end is.
    pub fn check(&self, to: Seek) -> Result<()> {
        match to {
            Seek::Time(time) if time > self.outline.end => {
                Err(ReplayError::OutOfRange(format!("@{time} is beyond the end, which is @{}", self.outline.end)))
            }
            _ => Ok(()),
        }
    }

    fn go_to_place(&mut self, place: Place) -> Result<Stopped> {
        let time = self.time_of(place)?;
        self.go_to_time(time)
    }

    /// The time of a place.
    ///
    /// # Errors
    /// The log does not hold it; the replay process is lost.
    pub fn time_of(&mut self, place: Place) -> Result<u64> {
        let Some((index, before)) = self.outline.of_interval(place.tid, place.interval) else {
            let holds: Vec<_> = self
                .outline
                .threads()
                .map(|(tid, parts)| format!("{tid}/{}..{}", parts.start(), parts.end()))
                .collect();
            let holds = holds.join(", ");
            let known = self.outline.threads().any(|(tid, _)| tid == place.tid);
            // Whoever pastes a position pastes it from somewhere.
            let other = if known { "" } else { "that is a position of another process or recording: " };
            return Err(ReplayError::OutOfRange(format!("{other}the log does not hold {place}; it holds {holds}")));
        };
        self.enter(index)?;
        let Some(thread) = self.open.threads.iter().position(|thread| thread.id.tid == place.tid) else {
            return Err(ReplayError::OutOfRange(format!("the log does not hold {place}")));
        };
        let time = self.open.time_of(thread, before.saturating_add(place.position.0));
        Ok(self.open.begin.saturating_add(time))
    }

    /// Executes one instruction, or goes back by one.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn step(&mut self, direction: Direction) -> Result<Stopped> {
        let now = self.time();
        match direction {
            Direction::Forward if now >= self.outline.end => Ok(Stopped::End),
            Direction::Forward => self.go_to_time(now + 1),
            Direction::Backward if now == 0 => Ok(Stopped::Start),
            Direction::Backward => self.go_to_time(now - 1),
        }
    }

    /// Goes to places in the order of time: nothing is done for going back, which takes as long as to come to a place from its epoch's start.
    ///
    /// # Errors
    /// None but those of `go`.
    pub fn onward<T>(&mut self, go: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.onward;
        (self.onward, self.open.onward) = (true, true);
        let gone = go(self);
        (self.onward, self.open.onward) = (before, before);
        gone
    }

    /// Whether what memory is, is also taken from what a run from there on finds: that is a run to the epoch's end for each system call behind which
    /// somebody reads what it has changed.
    pub(crate) fn foresee(&mut self, foresees: bool) {
        self.elsewhere.is_blind = !foresees;
    }

    /// Executes one instruction, of which nobody will want to go back.
    ///
    /// # Errors
    /// The replay process is lost.
    pub(crate) fn pass(&mut self) -> Result<()> {
        self.onward(|cursor| cursor.step(Direction::Forward)).map(drop)
    }

    /// Runs until a condition holds. Forwards, it stops before the instruction, but behind one that accesses watched memory;
    /// backwards, always before it.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn run(&mut self, direction: Direction, conditions: &Conditions) -> Result<Stopped> {
        self.run_until(direction, conditions, None)
    }

    /// As [`Self::run`], but not beyond a time.
    fn run_until(&mut self, direction: Direction, conditions: &Conditions, limit: Option<u64>) -> Result<Stopped> {
        // What was asked for before this run is none of its business.
        self.interrupter.take();
        match direction {
            Direction::Forward => self.run_forward(conditions, limit),
            Direction::Backward => self.run_backward(conditions, limit),
        }
    }

    fn run_forward(&mut self, conditions: &Conditions, limit: Option<u64>) -> Result<Stopped> {
        loop {
            let end = self.outline.epoch(self.open.index + 1).map_or(self.outline.end, |(_, begin)| begin);
            let limit_here = limit.filter(|limit| *limit <= end);
            let target = limit_here.map_or(Target::End, |limit| Target::Time(limit.saturating_sub(self.open.begin)));
            let time = limit_here.unwrap_or(end).saturating_sub(self.open.begin);
            let stop = self.open.run_to_hit(conditions, target, time)?;
            if let Some(hit) = self.open.hit {
                return Ok(Stopped::Condition(hit.what));
            }
            match stop {
                Stop::Interrupted => return Ok(Stopped::Interrupted),
                _ if self.interrupter.take() => return Ok(Stopped::Interrupted),
                _ if limit_here.is_some() => return Ok(Stopped::There),
                _ if self.outline.epoch(self.open.index + 1).is_none() => return Ok(Stopped::End),
                _ => {
                    self.enter(self.open.index + 1)?;
                    // A run begins behind its first instruction's conditions.
                    if conditions.addresses.contains(&self.open.regs.rip) {
                        return Ok(Stopped::Condition(Event::Address(self.open.regs.rip)));
                    }
                }
            }
        }
    }
}
