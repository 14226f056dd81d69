//! What the recorded dependencies alone say of when system calls were made: they are an order in time, whether the program wants it or not.

use bugnet_format::package::Segment;
use bugnet_format::record::Record;
use bugnet_format::types::ProcessId;
use bugnet_replay::log::Log;
use bugnet_replay::order::{Threads, Window, schedule};
use bugnet_replay::{ReplayError, Result, syscall};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How many instructions of each thread, by its index, had been executed for sure.
pub type Before = Rc<[u64]>;

/// When something was done.
#[derive(Clone, Debug)]
pub struct Moment {
    /// By which thread.
    pub thread: usize,
    /// Its instructions before.
    pub count: u64,
    /// What had been executed when it began.
    pub before: Before,
}

impl Moment {
    /// Whether it began when another one was over.
    pub fn is_behind(&self, other: &Self) -> bool {
        self.reached(other.thread) > other.count
    }

    /// Whether it began when another one had begun.
    pub fn began_behind(&self, other: &Self) -> bool {
        self.reached(other.thread) >= other.count
    }

    fn reached(&self, thread: usize) -> u64 {
        if thread == self.thread { self.count } else { self.before[thread] }
    }
}

/// A system call that was made.
#[derive(Clone, Debug)]
pub struct Call {
    /// When.
    pub moment: Moment,
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// What it returned; none if it has not come back.
    pub result: Option<i64>,
    /// The path that it was given, as its record has it.
    pub path: Option<Rc<str>>,
}

/// The calls of all threads of a process, in one order that agrees with what was recorded, and the threads.
///
/// # Errors
/// The log cannot be read, or contradicts itself.
pub fn calls(log: &Log, pid: ProcessId, is_wanted: impl Fn(u64) -> bool) -> Result<(Threads, Vec<Call>)> {
    let mut made: Vec<Vec<Call>> = Vec::new();
    let none: Before = Rc::from([]);
    let threads = Threads::read_events_with(log, pid, &Window::of(log, pid)?, |thread, interval| {
        made.resize_with(made.len().max(thread + 1), Vec::new);
        let mut path = None;
        for placed in interval.records().flatten() {
            match placed.record {
                Record::SyscallData { bytes, .. } => path = Some(Rc::from(String::from_utf8_lossy(bytes))),
                Record::Signal { .. } => path = None,
                Record::Syscall { number, args, result, .. } => {
                    let path = path.take();
                    if is_wanted(number) {
                        let count = interval.header.instructions_before.saturating_add(placed.position.0);
                        let moment = Moment { thread, count, before: none.clone() };
                        made[thread].push(Call { moment, number, args, result: Some(result), path });
                    }
                }
                _ => {}
            }
        }
    })?;
    for (thread, known) in threads.threads.iter().enumerate() {
        if let Some((number, args)) = syscall::at_the_end(log, known.id)?.filter(|(number, _)| is_wanted(*number)) {
            let moment = Moment { thread, count: known.last(), before: none.clone() };
            made[thread].push(Call { moment, number, args, result: None, path: None });
        }
    }
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    let calls = in_order(&threads, &order, made);
    Ok((threads, calls))
}

/// What happens in a thread, in the order in which it counts where it happens at the same place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Others have seen that it had come here.
    Seen,
    /// It comes behind others.
    Waits,
    /// It makes a call.
    Calls,
}

/// Calls in the order in which threads are put, each with what came before.
fn in_order(threads: &Threads, order: &[Segment], made: Vec<Vec<Call>>) -> Vec<Call> {
    let count = threads.threads.len();
    // Where others have seen each thread, and how many have.
    let mut seen: Vec<BTreeMap<u64, u32>> = vec![BTreeMap::new(); count];
    for wait in threads.threads.iter().flat_map(|thread| &thread.waits) {
        *seen[wait.other].entry(wait.until).or_default() += 1;
    }
    let mut made: Vec<_> = made.into_iter().map(|calls| calls.into_iter().peekable()).collect();
    let mut waits: Vec<_> = threads.threads.iter().map(|thread| thread.waits.iter().peekable()).collect();
    let mut now: Vec<Before> = vec![vec![0; count].into(); count];
    let mut kept: HashMap<(usize, u64), (Before, u32)> = HashMap::new();
    let mut calls = Vec::new();
    for &Segment { thread, until } in order {
        loop {
            let next_seen = seen[thread].first_key_value().map(|(at, _)| (*at, Step::Seen));
            let next_wait = waits[thread].peek().map(|wait| (wait.at, Step::Waits));
            let next_call = made[thread].peek().map(|call| (call.moment.count, Step::Calls));
            let next = [next_seen, next_wait, next_call].into_iter().flatten().min();
            let Some((_, step)) = next.filter(|(at, step)| *at < until || *at == until && *step == Step::Seen) else {
                break;
            };
            match step {
                Step::Seen => {
                    let Some((at, times)) = seen[thread].pop_first() else { break };
                    kept.insert((thread, at), (now[thread].clone(), times));
                }
                Step::Waits => {
                    let Some(wait) = waits[thread].next() else { break };
                    let mut before = now[thread].to_vec();
                    before[wait.other] = before[wait.other].max(wait.until);
                    if let Some((other, left)) = kept.get_mut(&(wait.other, wait.until)) {
                        before.iter_mut().zip(other.iter()).for_each(|(own, more)| *own = (*own).max(*more));
                        *left -= 1;
                        if *left == 0 {
                            kept.remove(&(wait.other, wait.until));
                        }
                    }
                    if *before != *now[thread] {
                        now[thread] = before.into();
                    }
                }
                Step::Calls => calls.extend(made[thread].next().map(|mut call| {
                    call.moment.before = now[thread].clone();
                    call
                })),
            }
        }
    }
    for (thread, left) in made.into_iter().enumerate() {
        calls.extend(left.map(|mut call| {
            call.moment.before = now[thread].clone();
            call
        }));
    }
    calls
}
