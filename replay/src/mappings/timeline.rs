//! When what was mapped, as the records of a process tell.

use super::calls::{Call, State};
use super::layout::{Region, page_up};
use crate::cursor::{Outline, Run, runs};
use crate::error::{ReplayError, Result};
use crate::log::Log;
use crate::order::{Threads, Window, schedule};
use crate::pool;
use crate::symbols::module_head;
use bugnet_debuginfo::image::mapped_segments;
use bugnet_format::folder::Module;
use bugnet_format::process::Origin;
use bugnet_format::record::Record;
use bugnet_format::types::{Addr, Epoch, ProcessId};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

const PAGE: u64 = Addr::PAGE;
/// After so many calls, the address space is kept, so that no position is far behind one.
const KEEP: usize = 4096;

/// A call and the time behind it.
#[derive(Debug)]
struct Event {
    time: u64,
    call: Call,
}

/// What was mapped in a process at any time.
#[derive(Debug)]
pub(crate) struct Timeline {
    modules: Vec<Module>,
    events: Vec<Event>,
    /// The address space before each so-many-th event; at least the first one.
    kept: Vec<State>,
    /// Whether the log does not have the beginning, and so not what was mapped then.
    pub is_cut: bool,
}

impl Timeline {
    /// Of a process, whose time an outline divides. `wanted` says of each epoch whether it can have such calls.
    ///
    /// # Errors
    /// The log cannot be read, or contradicts itself.
    pub fn read(log: &Log, pid: ProcessId, outline: &Outline, wanted: &[bool]) -> Result<Self> {
        Self::read_below(log, pid, outline, wanted, &mut BTreeSet::new())
    }

    /// The same where these processes are being read, who are descendants.
    fn read_below(
        log: &Log,
        pid: ProcessId,
        outline: &Outline,
        wanted: &[bool],
        below: &mut BTreeSet<ProcessId>,
    ) -> Result<Self> {
        let modules = log.modules(pid)?;
        let events = events(log, pid, outline, wanted)?;
        let is_whole = Window::of(log, pid)?.first == Epoch(0);
        let inherited = if is_whole && below.insert(pid) { inherited(log, pid, below)? } else { None };
        let mut mapped = BTreeSet::new();
        let mut state = State::default();
        events.iter().for_each(|event| {
            state.apply(&event.call, &modules, |module| {
                mapped.insert(module);
            })
        });
        let is_cut = !is_whole || inherited.as_ref().is_some_and(|(_, is_cut)| *is_cut);
        let mut state = match inherited {
            Some((state, _)) => state,
            None => {
                let mut state = State::default();
                // What no call has mapped was there: the kernel maps a program and its loader, or a call did of which the log has nothing.
                for (index, module) in modules.iter().enumerate().filter(|(index, _)| !mapped.contains(index)) {
                    map_module(log, index, module, &mut state);
                }
                state
            }
        };
        let mut kept = vec![state.clone()];
        for (number, event) in events.iter().enumerate() {
            if number > 0 && number % KEEP == 0 {
                kept.push(state.clone());
            }
            state.apply(&event.call, &modules, |_| {});
        }
        Ok(Self { modules, events, kept, is_cut })
    }

    /// The address space at a time.
    pub fn at(&self, time: u64) -> State {
        let count = self.events.partition_point(|event| event.time <= time);
        let from = (count / KEEP).min(self.kept.len() - 1);
        let mut state = self.kept[from].clone();
        self.events[from * KEEP..count].iter().for_each(|event| state.apply(&event.call, &self.modules, |_| {}));
        state
    }

    /// All ELF files of the process.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The time behind the call that has made a child; none if no call has, or several have made one with this number.
    fn birth(&self, child: ProcessId) -> Option<u64> {
        let mut births = self.events.iter().filter(|event| event.call.child() == Some(child.pid.0));
        let birth = births.next()?;
        births.next().is_none().then_some(birth.time)
    }
}

/// How a process was forked.
#[derive(Debug)]
pub(crate) struct Birth {
    /// By this one.
    pub from: ProcessId,
    /// At this time of that one's, before the call.
    pub time: u64,
    /// Start and end of what it shares with others from then on: they may write there at any time.
    pub shared: Vec<(u64, u64)>,
}

/// How a process was forked; none where it was not, or the log does not tell. `wanted`: of which epochs of the other one's the calls count.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn birth(
    log: &Log,
    pid: ProcessId,
    wanted: impl FnOnce(ProcessId, &Outline) -> Result<Vec<bool>>,
) -> Result<Option<Birth>> {
    let Some(from) = forked_by(log, pid)? else { return Ok(None) };
    let outline = Outline::of(log, from)?;
    let parent = Timeline::read(log, from, &outline, &wanted(from, &outline)?)?;
    let birth = |time: u64| Birth { from, time: time.saturating_sub(1), shared: parent.at(time).shared() };
    Ok(parent.birth(pid).map(birth))
}

/// The process that forked this one, if the log has it.
fn forked_by(log: &Log, pid: ProcessId) -> Result<Option<ProcessId>> {
    let info = log.processes()?.into_iter().find(|(id, _)| *id == pid).and_then(|(_, info)| info);
    let Some(Origin::Fork { from, .. }) = info.map(|info| info.origin) else { return Ok(None) };
    Ok(log.threads().any(|thread| thread.pid == from).then_some(from))
}

/// What a process has of the one that forked it, and whether that is all.
fn inherited(log: &Log, pid: ProcessId, below: &mut BTreeSet<ProcessId>) -> Result<Option<(State, bool)>> {
    let Some(from) = forked_by(log, pid)?.filter(|from| !below.contains(from)) else { return Ok(None) };
    let outline = Outline::of(log, from)?;
    let parent = Timeline::read_below(log, from, &outline, &vec![true; outline.epochs()], below)?;
    Ok(parent.birth(pid).map(|time| (parent.at(time), parent.is_cut)))
}

/// Maps an ELF file as the kernel does.
fn map_module(log: &Log, index: usize, module: &Module, state: &mut State) {
    let end = |len: u64| page_up(module.base.saturating_add(len));
    let name = || module.path.as_str().into();
    let of_file = |end, prot: i32, offset| Region {
        offset,
        name: name(),
        module: Some(index),
        ..Region::anonymous(end, prot as u64)
    };
    let segments = module_head(log.source(), module).map(|head| mapped_segments(&head)).unwrap_or_default();
    let Some(first) = segments.first() else {
        // How, only the file could tell.
        state.layout.map(module.base, of_file(end(module.size), libc::PROT_READ, 0));
        return;
    };
    let bias = module.base.wrapping_sub(first.address.wrapping_sub(first.offset) & !(PAGE - 1));
    for segment in &segments {
        let start = segment.address.wrapping_add(bias);
        let prot = libc::PROT_READ
            | if segment.is_writable { libc::PROT_WRITE } else { 0 }
            | if segment.is_executable { libc::PROT_EXEC } else { 0 };
        let (file_end, end) = (start.saturating_add(segment.file_size), start.saturating_add(segment.size));
        let page = start & !(PAGE - 1);
        state.layout.map(page, of_file(page_up(file_end), prot, segment.offset & !(PAGE - 1)));
        // What begins with zeros is in no file.
        state.layout.map(page_up(file_end), Region::anonymous(page_up(end), prot as u64));
    }
}

/// The calls of all epochs, in order.
fn events(log: &Log, pid: ProcessId, outline: &Outline, wanted: &[bool]) -> Result<Vec<Event>> {
    let wanted = wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
    let epochs: Vec<(Epoch, u64)> = wanted.filter_map(|(index, _)| outline.epoch(index)).collect();
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut events = Vec::new();
    if epochs.is_empty() {
        return Ok(events);
    }
    pool::in_order(
        &epochs,
        jobs,
        |(): &mut (), (epoch, begin)| events_of(log, pid, *epoch, *begin),
        |_, found| {
            events.extend(found?);
            Ok(())
        },
    )?;
    Ok(events)
}

/// Those of an epoch, which begins at a time.
fn events_of(log: &Log, pid: ProcessId, epoch: Epoch, begin: u64) -> Result<Vec<Event>> {
    // Of each thread, with the instructions that it had executed before.
    let mut calls: Vec<(usize, u64, Call)> = Vec::new();
    let threads = Threads::read_events_with(log, pid, &Window::only(epoch), |thread, interval| {
        let mut data: Vec<(u8, &[u8])> = Vec::new();
        for placed in interval.records().flatten() {
            match placed.record {
                Record::SyscallData { arg, bytes } => data.push((arg, bytes)),
                Record::Signal { .. } => data.clear(),
                Record::Syscall { .. } => {
                    let at = interval.header.instructions_before.saturating_add(placed.position.0);
                    calls.extend(Call::of(&placed.record, &data).map(|call| (thread, at, call)));
                    data.clear();
                }
                _ => {}
            }
        }
    })?;
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    let mut of_thread: Vec<Vec<Run>> = vec![Vec::new(); threads.threads.len()];
    runs(&threads.threads, &order).into_iter().for_each(|run| of_thread[run.thread].push(run));
    let time = |thread: usize, at: u64| {
        let runs = &of_thread[thread];
        let run = runs.get(runs.partition_point(|run| run.until <= at))?;
        Some(begin.saturating_add(run.time + at.saturating_sub(run.from) + 1))
    };
    let mut events: Vec<Event> =
        calls.into_iter().filter_map(|(thread, at, call)| Some(Event { time: time(thread, at)?, call })).collect();
    events.sort_by_key(|event| event.time);
    Ok(events)
}
