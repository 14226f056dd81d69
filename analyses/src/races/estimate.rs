//! Which lines are likely to be left to be looked at access by access, once the order of segments is known ([`super::segments`]), by what records alone
//! say: the search for that order goes through all that was executed, and is of use only where few lines are left.
//!
//! Whoever calls the kernel for a word of memory is taken to come behind those who did so before, and everybody behind threads that have ended. Not all
//! waiting needs the kernel: who comes behind another thread by memory in which words are accessed atomically, as a record says, comes behind that, too; and
//! with a call, behind all that records say, as those that follow from others are left out. That is more order than the program may want, as locks count, and
//! may be less: nothing but what is done first follows from it.

use super::births::Births;
use super::first::Lines;
use super::order::{Meaning, Object, Order};
use super::pieces::{CLONE, CLONE3, FUTEX};
use super::segments::{Segment, Spans};
use super::times::Times;
use bugnet_format::record::Record;
use bugnet_format::types::{IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::order::{Threads, Wait, Window, schedule, stretches};
use bugnet_replay::{ReplayError, Result};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Who lets others go on says so in memory so many instructions before the call, or fewer, and those look there as many behind theirs.
const NEAR: u64 = 64;
/// Bytes of a line.
const LINE: u64 = 64;

/// What orders threads.
#[derive(Clone, Copy)]
enum Call {
    /// A call for a word of memory.
    Futex(u64),
    /// A thread with this number of the operating system's is made.
    Makes(u32),
}

/// The calls of an interval, by their positions.
fn calls(log: &Log, id: IntervalId) -> Result<Vec<(u64, Call)>> {
    let of = |record: Record| match record {
        Record::Syscall { number: FUTEX, args, .. } => Some(Call::Futex(args[0])),
        Record::Syscall { number: CLONE | CLONE3, result: made @ 1.., .. } => Some(Call::Makes(made as u32)),
        _ => None,
    };
    let interval = log.events(id)?;
    let placed = interval.records().flatten();
    Ok(placed.filter_map(|placed| Some((placed.position.0, of(placed.record)?))).collect())
}

/// From a count of its instructions on, a thread comes behind so many of another one's.
#[derive(Clone, Copy)]
struct Met {
    count: u64,
    other: (usize, u64),
    /// Whether by a line in which words are accessed atomically.
    is_atomic: bool,
}

/// The threads, up to where one has come.
struct Estimate<'a> {
    times: &'a Times,
    births: Births,
    order: Order,
    spans: Spans,
    /// How many instructions each has executed up to its last call, and that call.
    behind: Vec<(u64, Option<Call>)>,
    /// Those that have ended.
    ended: Vec<usize>,
    /// Of each thread, what its records say.
    waits: Vec<VecDeque<Met>>,
    /// Of each thread, how much of each other one it has come behind by all of these.
    met: Vec<BTreeMap<usize, u64>>,
}

impl Estimate<'_> {
    /// A thread executes what comes up to a call, or up to where another thread goes on.
    fn executes(&mut self, thread: usize, until: u64) {
        let (from, call) = self.behind[thread];
        if until <= from + NEAR {
            // It may not have come to what it waits for.
            return;
        }
        match call {
            Some(Call::Futex(word)) => self.order.take(thread, Object::Futex(word), Meaning::Program),
            None if from == 0 => self.order.take(thread, Object::Birth(thread), Meaning::Program),
            Some(Call::Makes(_)) | None => {}
        }
        for ended in self.ended.iter().filter(|ended| **ended != thread) {
            self.order.outlive(thread, *ended, self.times.end(*ended));
        }
        self.spans.executes(thread, (from, until), self.order.thread(thread), 0);
        self.behind[thread].1 = None;
    }

    /// A thread comes up to a count: behind other ones, on the way there.
    fn goes_on(&mut self, thread: usize, until: u64) {
        while let Some(Met { count, other, is_atomic }) = self.waits[thread].pop_front_if(|met| met.count <= until) {
            let met = self.met[thread].entry(other.0).or_default();
            *met = (*met).max(other.1);
            if is_atomic {
                if count > self.behind[thread].0 + NEAR {
                    self.executes(thread, count);
                    self.behind[thread] = (count, None);
                }
                self.order.receive(thread, other);
            }
        }
    }

    fn calls(&mut self, thread: usize, count: u64, call: Call) {
        if count < self.behind[thread].0 {
            // It was near.
            return;
        }
        self.executes(thread, count);
        for (other, met) in &self.met[thread] {
            self.order.receive(thread, (*other, *met));
        }
        match call {
            Call::Futex(word) => {
                let word = Object::Futex(word);
                self.order.take(thread, word, Meaning::Program);
                self.order.give(thread, count + 1, word, Meaning::Program);
            }
            Call::Makes(id) => {
                if let Some(child) = self.births.made(id, self.times) {
                    self.order.give(thread, count + 1, Object::Birth(child), Meaning::Program);
                }
            }
        }
        self.behind[thread] = (count + 1, Some(call));
    }
}

/// Lines that are likely to be left.
pub struct Left {
    /// By all that records say.
    pub likely: Lines,
    /// Of what threads do last, those that are left if nothing comes behind that.
    pub by_ends: Lines,
}

/// The lines that are likely to be left.
///
/// # Errors
/// The log cannot be read; its order contradicts itself.
pub fn left(
    (log, pid): (&Log, ProcessId),
    births: Births,
    (times, segments): (&Times, &[Segment]),
    mut atomic: Lines,
) -> Result<Left> {
    let window = Window::of(log, pid)?;
    let threads = Threads::read(log, pid, &window)?;
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    let mut known: HashMap<(Tid, IntervalNo), Vec<(u64, Call)>> = HashMap::new();
    let (spans, behind) = (Spans::new(times, segments), vec![(0, None); times.len()]);
    let (waits, met) = (vec![VecDeque::new(); times.len()], vec![BTreeMap::new(); times.len()]);
    let (none, ended) = (Order::default(), Vec::new());
    let mut estimate = Estimate { times, births, order: none, spans, behind, ended, waits, met };
    for known in &threads.threads {
        let Some(thread) = times.number(known.id.tid) else { continue };
        let mut of = |wait: &Wait| {
            let other = times.number(threads.threads[wait.other].id.tid)?;
            let is_atomic = atomic.has(wait.block.0, LINE);
            Some(Met { count: wait.at, other: (other, wait.until), is_atomic })
        };
        estimate.waits[thread].extend(known.waits.iter().filter_map(&mut of));
    }
    for stretch in stretches(&threads, &order) {
        let Some(thread) = times.number(stretch.tid) else { continue };
        let calls = match known.entry((stretch.tid, stretch.interval)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(calls(log, IntervalId { thread: times.id(thread), interval: stretch.interval })?)
            }
        };
        let first = calls.partition_point(|(position, _)| *position < stretch.from.0);
        let place = |position| Place { tid: stretch.tid, interval: stretch.interval, position };
        for (position, call) in calls[first..].iter().take_while(|(position, _)| *position < stretch.to.0 + NEAR) {
            let Some((_, count)) = times.count(place(Position(*position))) else { continue };
            estimate.goes_on(thread, count);
            estimate.calls(thread, count, *call);
        }
        if let Some((_, until)) = times.count(place(stretch.to)) {
            estimate.goes_on(thread, until.saturating_sub(1));
            estimate.executes(thread, until);
            if until + 1 >= times.end(thread) && !estimate.ended.contains(&thread) {
                estimate.ended.push(thread);
            }
        }
    }
    let likely = estimate.spans.unordered(segments, times);
    Ok(Left { likely, by_ends: estimate.spans.by_ends(segments, times) })
}
