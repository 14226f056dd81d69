//! Whether a log holds all that was recorded: what its parts say about other parts that are not there.
//!
//! Every file that is there can be sound although a process, a thread or the end of one is gone. Three things tell:
//! the list in `recording.json`, how each thread ends, and what records name: children, other threads.

use crate::error::Result;
use crate::folder::{Contents, Ending, META_FILE, Meta, PROCESS_FILE, Recording, ThreadFiles};
use crate::frame::{Interval, IntervalHeader};
use crate::process::{Origin, ProcessInfo};
use crate::record::{EndReason, Placed, Record};
use crate::signal;
use crate::types::{Epoch, IntervalNo, Pid, Position, ProcessId, Tid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

/// Numbers of the system calls that make a process, on x86-64. What `clone3` is to make stands in memory, not in its
/// record.
const CLONE: u64 = 56;
const FORK: u64 = 57;
/// Flags of `clone`: a thread, and a child that shares memory until it executes a program. Before that it is not recorded.
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_VM: u64 = 0x100;

const SIGKILL: i32 = 9;

/// A thread of a process.
type Thread = (ProcessId, Tid);

/// A place in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    interval: IntervalNo,
    position: Position,
}

/// A child that was forked.
#[derive(Clone, Copy, Debug)]
struct Fork {
    /// Its id, as its parent has seen it.
    child: Pid,
    by: Tid,
    at: Place,
}

/// A thread's last interval that other threads name, and one that does.
#[derive(Clone, Copy, Debug)]
struct Named {
    interval: IntervalNo,
    by: Tid,
    at: Place,
}

/// How a thread's records end.
#[derive(Clone, Debug)]
struct Last {
    place: Place,
    /// None where they were cut off.
    end: Option<EndReason>,
}

/// What the records of some intervals say about other parts of the log.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    /// Children that processes forked.
    forks: BTreeMap<ProcessId, Vec<Fork>>,
    /// Threads that records of other threads name.
    threads: BTreeMap<Thread, Named>,
    /// The last record of each thread.
    ends: BTreeMap<Thread, Last>,
    /// The first interval of each thread, and the epoch of the one before that.
    firsts: BTreeMap<Thread, (IntervalNo, Epoch)>,
    /// The last epoch of each process.
    epochs: BTreeMap<ProcessId, Epoch>,
}

impl Mentions {
    /// What the records of an interval say.
    #[must_use]
    pub fn of(pid: ProcessId, interval: &Interval) -> Self {
        let mut mentions = Self::default();
        let (tid, number) = (interval.header.tid, interval.header.interval);
        let (mut position, mut end) = (Position(0), None);
        for placed in interval.records().flatten() {
            mentions.take(pid, tid, number, &placed);
            position = placed.position;
            if let Record::End { reason, .. } = placed.record {
                end = Some(reason);
            }
        }
        mentions.end(pid, tid, number, position, end);
        mentions.begin(pid, &interval.header);
        mentions
    }

    /// Takes up what a record of a thread's interval says.
    pub fn take(&mut self, pid: ProcessId, tid: Tid, interval: IntervalNo, placed: &Placed<'_>) {
        let place = Place { interval, position: placed.position };
        match &placed.record {
            Record::Syscall { number, result, args, .. } if is_fork(*number, args) => {
                // The log has the result in 64 bits; an error is below zero.
                if let Some(child) = u32::try_from(*result).ok().filter(|child| *child > 0) {
                    self.forks.entry(pid).or_default().push(Fork { child: Pid(child), by: tid, at: place });
                }
            }
            Record::Dependency { other, other_interval, .. } => {
                self.name((pid, *other), Named { interval: *other_interval, by: tid, at: place });
            }
            _ => {}
        }
    }

    /// Takes up how a thread's interval ends: the position of its last record, and the reason of its `END` if it has one.
    pub fn end(&mut self, pid: ProcessId, tid: Tid, interval: IntervalNo, position: Position, end: Option<EndReason>) {
        let last = Last { place: Place { interval, position }, end };
        let known = self.ends.entry((pid, tid)).or_insert_with(|| last.clone());
        if interval > known.place.interval {
            *known = last;
        }
    }

    /// Takes up what the header of an interval of the process says.
    pub fn begin(&mut self, pid: ProcessId, header: &IntervalHeader) {
        self.first((pid, header.tid), (header.interval, header.epoch_before));
        self.epoch(pid, header.epoch);
    }

    fn first(&mut self, thread: Thread, first: (IntervalNo, Epoch)) {
        let known = self.firsts.entry(thread).or_insert(first);
        *known = (*known).min(first);
    }

    fn epoch(&mut self, pid: ProcessId, epoch: Epoch) {
        let known = self.epochs.entry(pid).or_default();
        *known = (*known).max(epoch);
    }

    fn name(&mut self, thread: Thread, named: Named) {
        let known = self.threads.entry(thread).or_insert(named);
        if named.interval > known.interval {
            *known = named;
        }
    }

    /// Adds what other intervals say.
    pub fn add(&mut self, other: Self) {
        for (pid, forks) in other.forks {
            self.forks.entry(pid).or_default().extend(forks);
        }
        other.threads.into_iter().for_each(|(thread, named)| self.name(thread, named));
        for ((pid, tid), Last { place, end }) in other.ends {
            self.end(pid, tid, place.interval, place.position, end);
        }
        other.firsts.into_iter().for_each(|(thread, first)| self.first(thread, first));
        other.epochs.into_iter().for_each(|(pid, epoch)| self.epoch(pid, epoch));
    }
}

/// Whether a system call makes a process with a memory of its own.
fn is_fork(number: u64, args: &[u64; 6]) -> bool {
    number == FORK || number == CLONE && args[0] & (CLONE_THREAD | CLONE_VFORK | CLONE_VM) == 0
}

/// Something that a log does not hold, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The process that lacks it, or that is not there itself.
    #[serde(serialize_with = "as_text")]
    pub process: ProcessId,
    /// What is missing, and how that is known: a sentence.
    pub what: String,
    /// Whether the recording was to be so, or a kill explains it: the log is complete all the same.
    pub expected: bool,
}

fn as_text<S: serde::Serializer>(id: &ProcessId, s: S) -> std::result::Result<S::Ok, S::Error> {
    s.collect_str(id)
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.expected { "note: " } else { "missing: " })?;
        // Texts of the log are in it, which must not look like lines of their own.
        self.what
            .chars()
            .try_for_each(|c| if c.is_control() { write!(f, "{}", c.escape_default()) } else { f.write_char(c) })
    }
}

/// What a log lacks of the processes that are `wanted`, by what all their intervals mention.
///
/// # Errors
/// A folder of the log cannot be read.
pub fn gaps(recording: &Recording, mentions: &Mentions, wanted: impl Fn(ProcessId) -> bool) -> Result<Vec<Gap>> {
    let mut processes = BTreeMap::new();
    for id in recording.processes()? {
        // One that is damaged is another matter.
        processes.insert(id, recording.process(id).ok().flatten());
    }
    let mut threads = BTreeMap::new();
    for ThreadFiles { pid, tid, intervals, .. } in recording.thread_folders()? {
        threads.insert((pid, tid), intervals.first().copied().zip(intervals.last().copied()));
    }
    let last_of_first = recording.last_of_first_process().unwrap_or_default();
    let look = Look { meta: &recording.meta, mentions, processes, threads, last_of_first };
    let mut gaps = Found::default();
    look.origins(&mut gaps);
    look.named_threads(&mut gaps);
    if recording.meta.follow {
        look.children(&mut gaps);
        look.executed_programs(&mut gaps);
    } else {
        look.first_alone(&mut gaps);
    }
    look.list(&mut gaps);
    look.kept(&mut gaps);
    look.known_ending(&mut gaps);
    look.unrecorded(&mut gaps);
    let mut gaps = gaps.gaps;
    gaps.extend(early_ends(mentions));
    gaps.retain(|gap| wanted(gap.process));
    gaps.sort_by_key(|gap| (gap.expected, gap.process));
    Ok(gaps)
}

/// The threads of which recording ended before they did, as their records say.
#[must_use]
pub fn early_ends(mentions: &Mentions) -> Vec<Gap> {
    let early = mentions.ends.iter().filter_map(|(&(process, tid), Last { place, end })| {
        let Some(EndReason::Unsupported { why } | EndReason::LogStopped { why }) = end else { return None };
        let what = format!("what {} did after {place}, where recording ends: {why}", name(process, tid));
        Some(Gap { process, what, expected: false })
    });
    early.collect()
}

/// Gaps as text, a line each; of very many, the first.
#[derive(Clone, Copy, Debug)]
pub struct Gaps<'a>(pub &'a [Gap]);

impl Gaps<'_> {
    /// How many are shown.
    const MOST: usize = 100;
}

impl fmt::Display for Gaps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(Self::MOST).try_for_each(|gap| writeln!(f, "{gap}"))?;
        match self.0.len().saturating_sub(Self::MOST) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}

/// The gaps so far.
#[derive(Default)]
struct Found {
    gaps: Vec<Gap>,
    /// Processes and threads of which it was said that they are missing.
    said: BTreeSet<(ProcessId, Option<Tid>)>,
}

impl Found {
    fn missing(&mut self, process: ProcessId, what: String) {
        self.gaps.push(Gap { process, what, expected: false });
    }

    /// A gap that a kill explains, or the recording's options, if it is `expected`.
    fn add(&mut self, process: ProcessId, what: String, expected: bool) {
        self.gaps.push(Gap { process, what, expected });
    }

    /// Whether this has not been said before.
    fn is_new(&mut self, process: ProcessId, tid: Option<Tid>) -> bool {
        self.said.insert((process, tid))
    }
}

/// What there is to look at.
struct Look<'a> {
    meta: &'a Meta,
    mentions: &'a Mentions,
    /// Those for which there is a folder.
    processes: BTreeMap<ProcessId, Option<ProcessInfo>>,
    /// Those for which there is a folder, with the first and last interval.
    threads: BTreeMap<Thread, Option<(IntervalNo, IntervalNo)>>,
    last_of_first: Option<ProcessId>,
}

impl Look<'_> {
    /// Whether all that ran may have been killed at once, at any moment.
    fn killed(&self) -> bool {
        matches!(self.meta.ending, Ending::Unknown | Ending::Killed { signal: SIGKILL })
    }

    /// Whether threads of a process that have ended may be gone: not all epochs are kept.
    fn may_be_gone(&self, pid: ProcessId) -> bool {
        let last = self.mentions.epochs.get(&pid);
        self.meta.kept_epochs() > 0 && last.is_some_and(|last| last.0 >= self.meta.kept_epochs())
    }

    /// Whether the thread's records have an end behind which nothing comes.
    fn has_end(&self, thread: Thread) -> bool {
        let end = self.mentions.ends.get(&thread).and_then(|last| last.end.as_ref());
        end.is_some_and(|end| *end != EndReason::Full)
    }

    /// Whether the thread's last interval ends as it executes another program.
    fn executes(&self, thread: Thread) -> bool {
        self.mentions.ends.get(&thread).is_some_and(|last| last.end == Some(EndReason::Exec))
    }

    /// Whether such a process was there when the first one had ended; none if that is not known.
    fn was_there(&self, which: impl Fn(ProcessId) -> bool) -> Option<bool> {
        let Contents(processes) = self.meta.contents.as_ref()?;
        Some(processes.keys().filter_map(|id| id.parse().ok()).any(which))
    }

    /// The first process, and those from which others came.
    fn origins(&self, gaps: &mut Found) {
        let mut begun = self.processes.iter().map(|(id, info)| (id, info.as_ref().map(|info| info.origin)));
        if let Some(pid) = self.meta.pid.map(Pid)
            && !begun.any(|(id, origin)| id.pid == pid && origin.is_none_or(|origin| origin == Origin::Start))
            // Of those that share memory, nothing is made of who has done nothing in what is kept.
            && (self.processes.is_empty() || !self.meta.drops_processes())
            && gaps.is_new(pid.into(), None)
        {
            let nothing = self.killed() && self.processes.is_empty();
            let so_far = if nothing { ": nothing of it was written yet" } else { "" };
            gaps.add(pid.into(), format!("process {pid}, the first one{so_far}"), nothing);
        }
        for (&id, info) in &self.processes {
            // It is there before the first thread is.
            if info.is_none() && self.threads.keys().any(|(pid, _)| *pid == id) {
                gaps.missing(id, format!("{PROCESS_FILE} of process {id}, or it is damaged"));
            }
            let from = info.as_ref().and_then(|info| info.origin.from());
            if let Some(from) = from.filter(|from| !self.processes.contains_key(from))
                && gaps.is_new(from, None)
                && !self.meta.drops_processes()
            {
                gaps.missing(from, format!("process {from}, from which process {id} came"));
            }
        }
    }

    /// Children that were forked. In a pid namespace of its own, a child has another id than its parent has seen: those
    /// that nobody has seen under their ids stand for as many others.
    fn children(&self, gaps: &mut Found) {
        let mut children: BTreeMap<ProcessId, Vec<Pid>> = BTreeMap::new();
        for (id, info) in &self.processes {
            if let Some(Origin::Fork { from, .. }) = info.as_ref().map(|info| info.origin) {
                children.entry(from).or_default().push(id.pid);
            }
        }
        // Killed before it could say where it came from.
        let nameless = |child: Pid| self.processes.iter().any(|(id, info)| id.pid == child && info.is_none());
        for (&pid, forks) in &self.mentions.forks {
            let mut others = children.remove(&pid).unwrap_or_default();
            let mut unseen = Vec::new();
            for fork in forks {
                match others.iter().position(|id| *id == fork.child) {
                    Some(found) => drop(others.remove(found)),
                    None if nameless(fork.child) => {}
                    None => unseen.push(fork),
                }
            }
            for fork in unseen.into_iter().skip(others.len()) {
                self.unseen_child(pid, fork, gaps);
            }
        }
    }

    fn unseen_child(&self, pid: ProcessId, fork: &Fork, gaps: &mut Found) {
        let Fork { child, by, at } = fork;
        gaps.is_new((*child).into(), None);
        if self.meta.drops_processes() {
            return;
        }
        let forked = format!("process {child}, which {} forked at {at}", name(pid, *by));
        let (why, expected) = match self.was_there(|id| id.pid == *child) {
            Some(true) => ("its folder is gone", false),
            Some(false) => ("it was killed before its recording began, or could not be recorded", true),
            None if self.killed() && !self.has_end((pid, *by)) => {
                ("it was killed before its recording began, or its folder is gone", true)
            }
            None => ("it could not be recorded, or its folder is gone", false),
        };
        gaps.add(pid, format!("{forked}: {why}"), expected);
    }

    /// Threads and intervals that the dependencies of other threads name.
    fn named_threads(&self, gaps: &mut Found) {
        for (&(pid, tid), &Named { interval, by, at }) in &self.mentions.threads {
            let what = match self.threads.get(&(pid, tid)) {
                None if self.may_be_gone(pid) => continue,
                None => name(pid, tid),
                // What it touched on its way into another program, it touched behind its last interval.
                Some(Some((_, last))) if last.0.checked_add(1) == Some(interval.0) && self.executes((pid, tid)) => {
                    continue;
                }
                // Where it was cut off, its end says so.
                Some(Some((_, last))) if *last < interval && self.has_end((pid, tid)) => {
                    format!("interval {interval} of {}", name(pid, tid))
                }
                Some(_) => continue,
            };
            if gaps.is_new(pid, Some(tid)) {
                gaps.missing(pid, format!("{what}, which thread {by} names at {at}"));
            }
        }
    }

    /// Programs that processes executed.
    fn executed_programs(&self, gaps: &mut Found) {
        for (&(pid, tid), Last { place, end }) in &self.mentions.ends {
            if *end != Some(EndReason::Exec) || self.executed(pid) || self.meta.drops_processes() {
                continue;
            }
            gaps.is_new(ProcessId { program: pid.program.saturating_add(1), ..pid }, None);
            let what = format!("the program that {} executed after {place}", name(pid, tid));
            let (why, expected) = match self.was_there(|id| id.pid == pid.pid && id.program > pid.program) {
                Some(true) => ("its folder is gone", false),
                Some(false) => ("the process was killed in that moment, or it could not be recorded", true),
                None if self.killed() => ("the process was killed in that moment, or its folder is gone", true),
                None => ("it could not be recorded, or its folder is gone", false),
            };
            gaps.add(pid, format!("{what}: {why}"), expected);
        }
    }

    /// What the first process has started, where only that one was to be recorded.
    fn first_alone(&self, gaps: &mut Found) {
        let Some(pid) = self.meta.pid.map(|pid| ProcessId::from(Pid(pid))) else { return };
        let forks = self.mentions.forks.values().flatten().count();
        let executed = self.mentions.ends.values().any(|last| last.end == Some(EndReason::Exec));
        let what = match (forks, executed) {
            (0, false) => return,
            (0, true) => "the program that it executed last".to_owned(),
            (_, false) => format!("the processes that it forked ({forks})"),
            (_, true) => format!("the processes that it forked ({forks}) and the program that it executed last"),
        };
        gaps.add(pid, format!("process {pid} was to be recorded alone, without {what}"), true);
    }

    /// Whether there is the program that a process has executed.
    fn executed(&self, pid: ProcessId) -> bool {
        let next = |(id, info): (&ProcessId, &Option<ProcessInfo>)| match info {
            Some(info) => info.origin == Origin::Exec { from: pid },
            // Killed before it could say where it came from.
            None => id.pid == pid.pid && id.program > pid.program,
        };
        self.processes.iter().any(next)
    }

    /// What `recording.json` lists.
    fn list(&self, gaps: &mut Found) {
        let Some(Contents(processes)) = &self.meta.contents else { return };
        for (listed, threads) in processes {
            let Ok(pid) = listed.parse::<ProcessId>() else { continue };
            if !self.processes.contains_key(&pid) {
                if gaps.is_new(pid, None) {
                    gaps.missing(pid, format!("process {pid}, which {META_FILE} lists"));
                }
                continue;
            }
            for (&tid, &intervals) in threads {
                let there = self.threads.get(&(pid, tid));
                let next = there.copied().flatten().map_or(0, |(_, last)| last.0.saturating_add(1));
                let what = match there {
                    None if self.may_be_gone(pid) => continue,
                    None => name(pid, tid),
                    Some(_) if next < intervals => format!("{} of {}", numbers(next, intervals - 1), name(pid, tid)),
                    Some(_) => continue,
                };
                if gaps.is_new(pid, Some(tid)) {
                    gaps.missing(pid, format!("{what}, which {META_FILE} lists"));
                }
            }
        }
    }

    /// The first intervals: all of them, or those of the last epochs of the process.
    fn kept(&self, gaps: &mut Found) {
        let keep = self.meta.kept_epochs();
        if self.meta.keep > 0 && keep == 0 {
            return;
        }
        for (&(pid, tid), intervals) in &self.threads {
            let Some((IntervalNo(first @ 1..), _)) = *intervals else { continue };
            if keep == 0 {
                let what = format!("{} of {}", numbers(0, first - 1), name(pid, tid));
                gaps.missing(pid, format!("{what}, of which all were kept"));
                continue;
            }
            let (last, before) = (self.mentions.epochs.get(&pid), self.mentions.firsts.get(&(pid, tid)));
            if let (Some(last), Some((_, before))) = (last, before)
                && before.0.saturating_add(keep) > last.0
            {
                let what = format!("{} of {}, of epoch {before}", numbers(first - 1, first - 1), name(pid, tid));
                gaps.missing(pid, format!("{what}; the last {keep} epochs, up to {last}, were kept"));
            }
        }
    }

    /// The end of the first process, where `recording.json` knows it.
    fn known_ending(&self, gaps: &mut Found) {
        if let Ending::Killed { signal } = self.meta.ending
            && let Some(pid) = self.last_of_first
            && self.never_began(pid)
        {
            let what =
                format!("process {pid}, which was killed by {} before its first instruction", signal::name(signal));
            gaps.add(pid, what, true);
            return;
        }
        let ended = match self.meta.ending {
            Ending::Unknown | Ending::Killed { signal: SIGKILL } => return,
            Ending::Exited { status } => format!("exited with status {status}"),
            Ending::Killed { signal } => format!("was killed by {}", signal::name(signal)),
        };
        let Some(pid) = self.last_of_first else { return };
        if self.processes.get(&pid).and_then(Option::as_ref).is_some_and(|info| info.unrecorded.is_some()) {
            return;
        }
        let mut cut = Vec::new();
        for (&(_, tid), last) in self.mentions.ends.iter().filter(|((of, _), _)| *of == pid) {
            match last.end {
                None | Some(EndReason::Full) => cut.push(format!("thread {tid} at {}", last.place)),
                // Another thread's end was its end, too.
                Some(EndReason::Terminated) => {}
                Some(_) => return,
            }
        }
        let cut = if cut.is_empty() {
            "the log of it has none".to_owned()
        } else {
            format!("its log ends before, {}", cut.join(", "))
        };
        gaps.missing(pid, format!("the end of process {pid}, which {ended}: {cut}"));
    }

    /// Whether it had no thread when it had ended: a thread makes its folder before its first instruction.
    fn never_began(&self, pid: ProcessId) -> bool {
        let listed = self.meta.contents.as_ref().and_then(|Contents(processes)| processes.get(&pid.to_string()));
        listed.is_some_and(BTreeMap::is_empty)
    }

    /// Processes that are there only to say that they were not recorded. Where that is all there is, it is not as it should be.
    fn unrecorded(&self, gaps: &mut Found) {
        let beside_others = !self.mentions.ends.is_empty();
        for (&id, info) in &self.processes {
            if let Some(why) = info.as_ref().and_then(|info| info.unrecorded.as_ref()) {
                gaps.add(id, format!("process {id}, which was not recorded: {why}"), beside_others);
            }
        }
    }
}

/// A thread, with its process where its id does not name it.
fn name(pid: ProcessId, tid: Tid) -> String {
    if pid == ProcessId::from(Pid(tid.0)) { format!("thread {tid}") } else { format!("thread {tid} of process {pid}") }
}

/// Intervals, in words.
fn numbers(first: u64, last: u64) -> String {
    if first == last { format!("interval {first}") } else { format!("intervals {first} to {last}") }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {} of interval {}", self.position, self.interval)
    }
}
