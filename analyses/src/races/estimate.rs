//! Which lines are likely to be left to be looked at access by access, once the order of segments is known ([`super::segments`]), by what records alone
//! say: the search for that order goes through all that was executed, and is of use only where few lines are left.
//!
//! Whoever calls the kernel for a word of memory is taken to come behind those who did so before, and everybody behind threads that have ended. That is
//! more order than the program may want, as calls for locks count, and less, as not all waiting needs the kernel: nothing but what is done first
//! follows from it.

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
use bugnet_replay::order::{Threads, Window, schedule, stretches};
use bugnet_replay::{ReplayError, Result};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Who lets others go on says so in memory so many instructions before the call, or fewer, and those look there as many behind theirs.
const NEAR: u64 = 64;

/// A call that orders threads.
#[derive(Clone, Copy)]
enum Call {
    /// For a word of memory.
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
    let interval = log.interval(id)?;
    let placed = interval.records().flatten();
    Ok(placed.filter_map(|placed| Some((placed.position.0, of(placed.record)?))).collect())
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

    fn calls(&mut self, thread: usize, count: u64, call: Call) {
        if count < self.behind[thread].0 {
            // It was near.
            return;
        }
        self.executes(thread, count);
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

/// The lines that are likely to be left.
///
/// # Errors
/// The log cannot be read; its order contradicts itself.
pub fn left((log, pid): (&Log, ProcessId), births: Births, (times, segments): (&Times, &[Segment])) -> Result<Lines> {
    let window = Window::of(log, pid)?;
    let threads = Threads::read(log, pid, &window)?;
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    let mut known: HashMap<(Tid, IntervalNo), Vec<(u64, Call)>> = HashMap::new();
    let (spans, behind) = (Spans::new(times, segments), vec![(0, None); times.len()]);
    let mut estimate = Estimate { times, births, order: Order::default(), spans, behind, ended: Vec::new() };
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
            estimate.calls(thread, count, *call);
        }
        if let Some((_, until)) = times.count(place(stretch.to)) {
            estimate.executes(thread, until);
            if until + 1 >= times.end(thread) && !estimate.ended.contains(&thread) {
                estimate.ended.push(thread);
            }
        }
    }
    Ok(estimate.spans.unordered(segments, times))
}
