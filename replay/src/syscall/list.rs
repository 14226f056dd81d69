//! All system calls of a process, as strace writes them.
//!
//! What a call takes is in memory where it is made. What it has written is not known there: only what the program reads later is. So what is
//! to be shown of it is watched for a while: a byte that is read before anything else is written there is what the call has left.

use super::shapes::{Context, Pointed};
use super::{kinds, name, pointed, result, unfinished, written_out};
use crate::crash::Seen;
use crate::cursor::{Conditions, Cursor, Direction, Event, Place, Seek, Stopped, WatchedRange};
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, ThreadId};
use crate::memory::{Memory, Snapshots};
use crate::symbols::Symbolizer;
use bugnet_debuginfo::memory::Memory as _;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::types::{Addr, IntervalNo, ProcessId, Tid};
use bugnet_system_calls::{Arg, Shape};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::ops::ControlFlow;
use syscalls::Sysno;

/// So many calls further on, nobody waits any more for what a thread may read of what a call has written.
const PATIENCE: u32 = 32;
/// Most ranges that are watched at a time.
const MAX_WATCHED: usize = 1000;
/// A range that nothing can access: without any, all blocks would have to be built anew wherever there is one or none.
const NOWHERE: WatchedRange = WatchedRange { addr: 0, len: 1, reads: true, writes: true, changes: false };

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Where it was made; none of a light log of which no log has been made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The thread, of a light log whose process had several, of which no log has been made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Tid>,
    /// Instructions that all threads had executed; none where records alone were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: [u64; 6],
    /// Name and arguments with what they point at. `?` stands for what is not known.
    pub call: String,
    /// What it returned; none if it never did.
    pub result: Option<i64>,
    /// The same as text.
    pub returned: String,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}  ")?;
        }
        if let Some(thread) = self.thread {
            write!(f, "{thread}  ")?;
        }
        write!(f, "{} = {}", self.call, self.returned)
    }
}

/// Which calls.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only those of this thread.
    pub thread: Option<Tid>,
    /// Only these, by number; all if there are none.
    pub numbers: Vec<u64>,
}

impl Wanted {
    /// The numbers of calls with these names.
    ///
    /// # Errors
    /// There is no call of a name.
    pub fn numbers(names: &[String]) -> Result<Vec<u64>> {
        let number = |name: &String| {
            let known = name.parse::<Sysno>().map(|number| number.id() as u64);
            known.map_err(|_| ReplayError::OutOfRange(format!("there is no system call {name}")))
        };
        names.iter().map(number).collect()
    }

    /// Whether a thread's call with this number is one.
    #[must_use]
    pub fn has(&self, tid: Tid, number: u64) -> bool {
        self.thread.is_none_or(|wanted| wanted == tid) && (self.numbers.is_empty() || self.numbers.contains(&number))
    }
}

/// Takes the calls, one after the other.
pub type Each<'a> = dyn FnMut(Listed) -> ControlFlow<()> + 'a;

/// What a record says of a call.
pub(super) struct Recorded {
    pub number: u64,
    pub args: [u64; 6],
    pub result: Option<i64>,
}

impl Recorded {
    pub(super) fn listed(&self, place: Option<Place>, time: Option<u64>, memory: &mut dyn Pointed) -> Listed {
        let call = written_out(self.number, &mut Context { args: &self.args, result: self.result, memory });
        let returned = self.result.map_or_else(|| "?".to_owned(), |value| result(self.number, value));
        Listed {
            place,
            thread: None,
            time,
            name: name(self.number),
            args: self.args,
            call,
            result: self.result,
            returned,
        }
    }
}

/// Hands over the calls as records alone tell them, thread by thread: of what arguments point at, paths at most.
///
/// # Errors
/// The log cannot be read.
pub fn list_recorded(log: &Log, pid: ProcessId, wanted: &Wanted, each: &mut Each<'_>) -> Result<()> {
    let mut symbols = Symbolizer::new(log, pid)?;
    let mut nothing = Snapshots::default();
    let mut constants = Seen { memory: &mut nothing, symbols: &mut symbols };
    for thread in log.threads().filter(|thread| thread.pid == pid) {
        for &interval in log.intervals(thread)? {
            for (place, call, data) in calls_of(log, thread, interval)? {
                if !wanted.has(thread.tid, call.number) {
                    continue;
                }
                let data: Vec<(u8, &[u8])> = data.iter().map(|(arg, bytes)| (*arg, bytes.as_slice())).collect();
                let mut memory = WithConstants { data: super::Recorded(&data), constants: &mut constants };
                if each(call.listed(Some(place), None, &mut memory)).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// What records say, and what lies in memory that nobody can write to.
struct WithConstants<'a, 'm> {
    data: super::Recorded<'a>,
    constants: &'a mut Seen<'m>,
}

impl Pointed for WithConstants<'_, '_> {
    fn before(&mut self, arg: usize, addr: u64, len: u64) -> Vec<Option<u8>> {
        let found = self.data.before(arg, addr, len);
        if found.is_empty() { self.constants.read(addr, len as usize) } else { found }
    }

    fn after(&mut self, _: usize, _: u64, _: u64) -> Vec<Option<u8>> {
        Vec::new()
    }
}

/// What the records of an argument hold.
pub(super) type Data = Vec<(u8, Vec<u8>)>;

/// The calls of an interval, with those that never returned.
pub(super) fn calls_of(log: &Log, thread: ThreadId, interval: IntervalNo) -> Result<Vec<(Place, Recorded, Data)>> {
    let read = log.interval(IntervalId { thread, interval })?;
    let code = log.code(thread.pid)?;
    let mut seq = read.header.code_seq;
    let (mut calls, mut data) = (Vec::new(), Vec::new());
    for placed in read.records().flatten() {
        let place = Place { tid: thread.tid, interval, position: placed.position };
        match placed.record {
            Record::SyscallData { arg, bytes } => data.push((arg, bytes.to_vec())),
            Record::Signal { .. } => data.clear(),
            Record::Code { seq: newer, .. } => seq = newer,
            Record::Syscall { number, args, result, .. } => {
                calls.push((place, Recorded { number, args, result: Some(result) }, std::mem::take(&mut data)));
            }
            Record::End { reason: EndReason::Full, .. } => {}
            Record::End { regs, .. } => {
                if let Some((number, args)) = unfinished(&regs, &code, seq) {
                    calls.push((place, Recorded { number, args, result: None }, std::mem::take(&mut data)));
                }
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Hands over all calls in the order in which they were made, with what is known of the memory that they took and wrote.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub fn list(log: &Log, cursor: &mut Cursor<'_>, wanted: &Wanted, each: &mut Each<'_>) -> Result<()> {
    crate::location::check_thread(cursor, wanted.thread)?;
    let symbols = Symbolizer::new(log, cursor.pid())?;
    // It comes to what a run would find.
    cursor.foresee(false);
    let mut run = Run { log, cursor, symbols, wanted, intervals: HashMap::new(), pending: VecDeque::new() };
    let listed = run.all(each);
    run.cursor.foresee(true);
    listed
}

/// What is known of the memory of a call: what was captured.
#[derive(Default)]
struct Captured {
    before: Vec<(u64, Vec<Option<u8>>)>,
    after: Vec<After>,
}

/// Memory that a call has written, as far as it was read since.
struct After {
    addr: u64,
    bytes: Vec<Option<u8>>,
    /// Something else was written there since, before it was read.
    lost: Vec<bool>,
}

impl After {
    /// Whether a byte is still to be found out.
    fn is_open(&self, number: usize) -> bool {
        self.bytes[number].is_none() && !self.lost[number]
    }

    /// The first and the last byte that is.
    fn open(&self) -> Option<(usize, usize)> {
        let mut open = (0..self.bytes.len()).filter(|number| self.is_open(*number));
        let first = open.next()?;
        Some((first, open.next_back().unwrap_or(first)))
    }

    /// Such bytes that lie next to each other, as watched ranges: a program may use those between them, which nobody asks about any more, all the time.
    fn watched(&self) -> impl Iterator<Item = WatchedRange> {
        let numbers: Vec<usize> = (0..self.bytes.len()).collect();
        let parts: Vec<(usize, usize)> = numbers
            .chunk_by(|a, b| self.is_open(*a) == self.is_open(*b))
            .filter_map(|part| part.first().filter(|first| self.is_open(**first)).map(|first| (*first, part.len())))
            .collect();
        parts.into_iter().map(|(first, len)| WatchedRange {
            addr: self.addr + first as u64,
            len: len as u64,
            reads: true,
            writes: true,
            changes: false,
        })
    }
}

impl Pointed for Captured {
    fn before(&mut self, _: usize, addr: u64, len: u64) -> Vec<Option<u8>> {
        let found = self.before.iter().find(|(at, bytes)| *at == addr && bytes.len() as u64 == len);
        found.map_or_else(Vec::new, |(_, bytes)| bytes.clone())
    }

    fn after(&mut self, _: usize, addr: u64, len: u64) -> Vec<Option<u8>> {
        let found = self.after.iter().find(|after| after.addr == addr && after.bytes.len() as u64 == len);
        found.map_or_else(Vec::new, |after| after.bytes.clone())
    }
}

/// Reads what a call takes, and takes note of what will be shown of what it writes.
struct Capturing<'a, 'm> {
    seen: &'a mut Seen<'m>,
    captured: Captured,
}

impl Pointed for Capturing<'_, '_> {
    fn before(&mut self, _: usize, addr: u64, len: u64) -> Vec<Option<u8>> {
        let bytes = self.seen.read(addr, len as usize);
        self.captured.before.push((addr, bytes.clone()));
        bytes
    }

    fn after(&mut self, _: usize, addr: u64, len: u64) -> Vec<Option<u8>> {
        let len = len as usize;
        self.captured.after.push(After { addr, bytes: vec![None; len], lost: vec![false; len] });
        // So that all parts are asked for.
        vec![Some(0); len]
    }
}

/// A call that is not handed over yet.
struct Pending {
    place: Place,
    time: u64,
    call: Recorded,
    captured: Captured,
    /// Calls that the thread has made since.
    later: u32,
    /// Nothing more will be found out.
    is_over: bool,
}

impl Pending {
    fn is_known(&self) -> bool {
        self.is_over || self.captured.after.iter().all(|after| after.open().is_none())
    }
}

struct Run<'a, 'c> {
    log: &'a Log,
    cursor: &'a mut Cursor<'c>,
    symbols: Symbolizer,
    wanted: &'a Wanted,
    /// The calls of the interval in which each thread is.
    intervals: HashMap<Tid, (IntervalNo, BTreeMap<u64, Recorded>)>,
    pending: VecDeque<Pending>,
}

impl Run<'_, '_> {
    fn all(&mut self, each: &mut Each<'_>) -> Result<()> {
        let mut ends = self.ends()?;
        self.cursor.seek(Seek::Start)?;
        loop {
            let conditions = Conditions { all_calls: true, ranges: self.watched(), ..Conditions::default() };
            let stopped = self.cursor.run(Direction::Forward, &conditions)?;
            let time = self.cursor.time();
            let is_over = match stopped {
                Stopped::Condition(Event::Call(number)) => {
                    self.called(number)?;
                    false
                }
                Stopped::Condition(Event::Access { addr, len, write, .. }) => {
                    if write {
                        self.lose(addr, len);
                        // What the same instruction has read, nobody says.
                        self.learn(0, u64::MAX)?;
                    } else {
                        self.learn(addr, len)?;
                    }
                    false
                }
                Stopped::Condition(Event::Outside { addr, len, .. }) => {
                    self.learn(addr, len)?;
                    false
                }
                Stopped::Condition(_) => false,
                Stopped::Interrupted => return Err(ReplayError::OutOfRange("it was interrupted".into())),
                Stopped::There | Stopped::Start | Stopped::End => true,
            };
            while ends.front().is_some_and(|end| is_over || end.time < time) {
                self.pending.extend(ends.pop_front());
            }
            while self.pending.front().is_some_and(|first| is_over || first.is_known()) {
                let Some(mut next) = self.pending.pop_front() else { break };
                if each(next.call.listed(Some(next.place), Some(next.time), &mut next.captured)).is_break() {
                    return Ok(());
                }
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// The calls that never returned, by the time at which they were made.
    fn ends(&mut self) -> Result<VecDeque<Pending>> {
        let pid = self.cursor.pid();
        let mut ends = Vec::new();
        for thread in self.log.threads().filter(|thread| thread.pid == pid) {
            let Some(&last) = self.log.intervals(thread)?.last() else { continue };
            let calls = calls_of(self.log, thread, last)?;
            let Some((place, call, data)) = calls.into_iter().next_back() else { continue };
            if call.result.is_some() || !self.wanted.has(thread.tid, call.number) {
                continue;
            }
            let mut captured = Captured::default();
            for (arg, bytes) in data {
                let mut bytes: Vec<Option<u8>> = bytes.into_iter().map(Some).collect();
                bytes.resize(super::MAX_PATH as usize, Some(0));
                captured.before.push((call.args[usize::from(arg)], bytes));
            }
            self.cursor.seek(Seek::Place(place))?;
            ends.push(Pending { place, time: self.cursor.time(), call, captured, later: 0, is_over: true });
        }
        ends.sort_by_key(|end| end.time);
        Ok(ends.into())
    }

    fn watched(&self) -> Vec<WatchedRange> {
        let open = self.pending.iter().filter(|one| !one.is_over).flat_map(|one| &one.captured.after);
        [NOWHERE].into_iter().chain(open.flat_map(After::watched)).take(MAX_WATCHED).collect()
    }

    /// A call is about to be made.
    fn called(&mut self, number: u64) -> Result<()> {
        let (place, time) = (self.cursor.place(), self.cursor.time());
        for one in self.pending.iter_mut().filter(|one| one.place.tid == place.tid) {
            one.later += 1;
            one.is_over |= one.later >= PATIENCE;
        }
        let Some(call) = self.recorded(place)? else { return Ok(()) };
        let mut seen = Seen { memory: &mut *self.cursor, symbols: &mut self.symbols };
        let changed = call.changed(&mut seen);
        let mut memory = Capturing { seen: &mut seen, captured: Captured::default() };
        let is_wanted = self.wanted.has(place.tid, number);
        if is_wanted {
            written_out(call.number, &mut Context { args: &call.args, result: call.result, memory: &mut memory });
        }
        let captured = memory.captured;
        // What other calls have left there was read by now, or is gone.
        match changed {
            Changed::Ranges(ranges) => ranges.into_iter().for_each(|(addr, len)| self.lose(addr, len)),
            Changed::Unknown => self.pending.iter_mut().for_each(|one| one.is_over = true),
        }
        if !is_wanted {
            return Ok(());
        }
        if !captured.after.is_empty() {
            // Behind the call, what it may have written is not known any more.
            self.cursor.pass()?;
        }
        let written: Vec<(u64, u64)> =
            captured.after.iter().map(|after| (after.addr, after.bytes.len() as u64)).collect();
        self.pending.push_back(Pending { place, time, call, captured, later: 0, is_over: false });
        written.into_iter().try_for_each(|(addr, len)| self.learn(addr, len))
    }

    fn recorded(&mut self, place: Place) -> Result<Option<Recorded>> {
        let is_here = self.intervals.get(&place.tid).is_some_and(|(interval, _)| *interval == place.interval);
        if !is_here {
            let thread = ThreadId { pid: self.cursor.pid(), tid: place.tid };
            let calls = calls_of(self.log, thread, place.interval)?.into_iter();
            let calls = calls.map(|(place, call, _)| (place.position.0, call)).collect();
            self.intervals.insert(place.tid, (place.interval, calls));
        }
        Ok(self.intervals.get_mut(&place.tid).and_then(|(_, calls)| calls.remove(&place.position.0)))
    }

    /// Something else was written to these bytes.
    fn lose(&mut self, addr: u64, len: u64) {
        for after in self.pending.iter_mut().flat_map(|one| &mut one.captured.after) {
            for (number, lost) in after.lost.iter_mut().enumerate() {
                *lost |= (after.addr + number as u64).wrapping_sub(addr) < len;
            }
        }
    }

    /// These bytes were read, or brought: what is known of them is what calls have left there.
    fn learn(&mut self, addr: u64, len: u64) -> Result<()> {
        let Self { cursor, pending, .. } = self;
        let end = addr.saturating_add(len);
        for after in pending.iter_mut().filter(|one| !one.is_over).flat_map(|one| &mut one.captured.after) {
            let Some((first, last)) = after.open() else { continue };
            let (start, last) = ((after.addr + first as u64).max(addr), (after.addr + last as u64 + 1).min(end));
            if start >= last {
                continue;
            }
            for (at, byte) in (start..).zip(cursor.read_known(Addr(start), last - start)?) {
                let number = (at - after.addr) as usize;
                if after.bytes[number].is_none() && !after.lost[number] {
                    after.bytes[number] = byte;
                }
            }
        }
        Ok(())
    }
}

/// The memory that a call has changed.
pub(super) enum Changed {
    /// These pieces: addresses and bytes.
    Ranges(Vec<(u64, u64)>),
    /// Nobody knows which.
    Unknown,
}

impl Recorded {
    /// Whether it has removed what was there, or made it zero.
    pub fn clears(&self) -> bool {
        match i64::try_from(self.number) {
            Ok(libc::SYS_mmap) => self.args[3] & libc::MAP_ANONYMOUS as u64 != 0,
            Ok(libc::SYS_munmap | libc::SYS_madvise) => true,
            _ => false,
        }
    }

    /// Whether memory, as it is when the call is made, says where it writes.
    pub fn writes_where_memory_says(&self) -> bool {
        let kinds = kinds(self.number).unwrap_or_default();
        let in_memory = |shape: &Shape| matches!(shape, Shape::Iovecs(_) | Shape::SocketAddress(_));
        kinds.iter().any(|kind| matches!(kind, Arg::Out(shape) | Arg::InOut(shape) if in_memory(shape)))
            || pointed::needs_memory(self.number.cast_signed())
    }

    /// The memory that it has changed.
    pub fn changed(&self, seen: &mut Seen<'_>) -> Changed {
        self.written(seen).map_or(Changed::Unknown, Changed::Ranges)
    }

    fn written(&self, seen: &mut Seen<'_>) -> Option<Vec<(u64, u64)>> {
        let (number, args) = (i64::try_from(self.number).ok()?, &self.args);
        match number {
            libc::SYS_mmap => return Some(vec![(self.result?.cast_unsigned(), args[1])]),
            libc::SYS_munmap | libc::SYS_madvise => return Some(vec![(args[0], args[1])]),
            // Where these write is behind further pointers, or anywhere.
            libc::SYS_recvmsg | libc::SYS_ioctl | libc::SYS_mremap | libc::SYS_prctl | libc::SYS_clone3
                if self.result? < 0 =>
            {
                return Some(Vec::new());
            }
            libc::SYS_ioctl => return pointed::ioctl(args),
            libc::SYS_prctl => return pointed::prctl(args),
            libc::SYS_clone3 => return pointed::clone3(args, seen.memory),
            libc::SYS_recvmsg => return pointed::recvmsg(args, self.result?.cast_unsigned(), seen.memory),
            libc::SYS_mremap => return None,
            _ => {}
        }
        let kinds = kinds(self.number)?;
        let mut memory = Capturing { seen, captured: Captured::default() };
        let mut context = Context { args, result: self.result, memory: &mut memory };
        let mut ranges = Vec::new();
        for (arg, kind) in kinds.iter().enumerate() {
            if let Arg::Out(shape) | Arg::InOut(shape) = kind {
                ranges.extend(context.written(arg, *shape));
            }
        }
        Some(ranges)
    }
}

/// A call with its result, as records and memory that nobody can write to tell it.
pub(super) fn text_of(call: &Recorded, data: &Data, symbols: &mut Symbolizer) -> String {
    let mut nothing = Snapshots::default();
    let mut constants = Seen { memory: &mut nothing, symbols };
    let data: Vec<(u8, &[u8])> = data.iter().map(|(arg, bytes)| (*arg, bytes.as_slice())).collect();
    let mut memory = WithConstants { data: super::Recorded(&data), constants: &mut constants };
    let text = written_out(call.number, &mut Context { args: &call.args, result: call.result, memory: &mut memory });
    format!("{text} = {}", call.result.map_or_else(|| "?".to_owned(), |value| result(call.number, value)))
}
