//! What system calls answer in a run that is not the recorded one: what they answered in that, as far as they are the same ones.

use crate::loads::Found;
use bugnet_format::record::Record;
use bugnet_replay::Result;
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use std::collections::{HashMap, VecDeque};

/// Calls that answer the same when they are made again.
const STEADY: [libc::c_long; 14] = [
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_ioctl,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_getrusage,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
];

/// What a recorded call answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub args: [u64; 6],
    pub result: i64,
    /// What it wrote, as far as the program has looked at it.
    pub written: Vec<(u64, Vec<u8>)>,
}

/// The calls of a thread from a place on, by number and first argument.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    all: HashMap<(u64, u64), VecDeque<Answer>>,
    last: HashMap<(u64, u64), Answer>,
    count: u64,
}

/// The first argument, where it says what the call is about.
fn subject(number: u64, args: &[u64; 6]) -> u64 {
    let is_of_memory = [libc::SYS_mmap, libc::SYS_brk, libc::SYS_mremap].contains(&number.cast_signed());
    if is_of_memory { 0 } else { args[0] }
}

impl Answers {
    /// Of the only thread of a process, from a place on, with what it found where they had written.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn of(log: &Log, thread: ThreadId, from: Place, found: &[Found]) -> Result<Self> {
        let mut answers = Vec::new();
        for &interval in log.intervals(thread)?.iter().filter(|interval| **interval >= from.interval) {
            for placed in log.interval(IntervalId { thread, interval })?.records().flatten() {
                if let Record::Syscall { number, args, result, .. } = placed.record
                    && (interval, placed.position) >= (from.interval, from.position)
                {
                    answers.push((number, Answer { args, result, written: Vec::new() }));
                }
            }
        }
        for Found { addr, bytes, by } in found {
            if let Some((_, answer)) = by.and_then(|by| answers.get_mut(by)) {
                answer.written.push((*addr, bytes.clone()));
            }
        }
        let mut all = Self { count: answers.len() as u64, ..Self::default() };
        for (number, answer) in answers {
            all.all.entry((number, subject(number, &answer.args))).or_default().push_back(answer);
        }
        Ok(all)
    }

    /// How many calls there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What the next such call answers; none if there was none like it.
    pub fn next(&mut self, number: u64, args: &[u64; 6]) -> Option<Answer> {
        let key = (number, subject(number, args));
        if let Some(answer) = self.all.get_mut(&key).and_then(VecDeque::pop_front) {
            self.last.insert(key, answer.clone());
            return Some(moved(answer, args));
        }
        let last = self.last.get(&key)?;
        // At the end of a file, there is nothing more.
        let is_end = number.cast_signed() == libc::SYS_read && last.result == 0;
        (is_end || STEADY.contains(&number.cast_signed())).then(|| moved(last.clone(), args))
    }

    /// Where the next call that maps so many bytes anywhere gets them.
    pub fn next_map(&mut self, len: u64) -> Option<u64> {
        let maps = self.all.get_mut(&(libc::SYS_mmap.cast_unsigned(), 0))?;
        let at = maps.iter().position(|answer| answer.args[1] == len)?;
        maps.drain(..=at).next_back().map(|answer| answer.result.cast_unsigned())
    }

    /// Where the program's break is, if the next call about it tells.
    pub fn first_break(&self) -> Option<u64> {
        let first = self.all.get(&(libc::SYS_brk.cast_unsigned(), 0))?.front()?;
        (first.args[0] == 0).then_some(first.result.cast_unsigned())
    }
}

/// What was written lies where the arguments say now.
fn moved(mut answer: Answer, args: &[u64; 6]) -> Answer {
    let Answer { args: was, written, .. } = &mut answer;
    for (addr, _) in written {
        let base = (0..was.len()).filter(|at| was[*at] != 0 && was[*at] <= *addr).max_by_key(|at| was[*at]);
        if let Some(base) = base.filter(|base| *addr - was[*base] < 1 << 20) {
            *addr = args[base].wrapping_add(*addr - was[base]);
        }
    }
    answer
}
