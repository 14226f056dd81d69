//! In which order the threads of a process wrote.

use super::{Piece, written};
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, ThreadId};
use crate::order::{OrderedThread, Threads, Window, schedule};
use bugnet_format::types::ProcessId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Puts pieces, which come interval by interval, into the order of the threads.
#[derive(Default)]
pub(super) struct Turns {
    /// Of each process in which several threads wrote: the system calls that did, in order, as thread and instructions
    /// executed before.
    calls: BTreeMap<ProcessId, VecDeque<(ThreadId, u64)>>,
    /// What waits for its turn.
    waiting: BTreeMap<ThreadId, VecDeque<Piece>>,
    /// The intervals that have not come yet.
    missing: BTreeMap<ThreadId, usize>,
}

impl Turns {
    /// For these intervals.
    ///
    /// # Errors
    /// The system does not let an interval be read, or the dependencies contradict each other.
    pub(super) fn new(log: &Log, selected: &[IntervalId]) -> Result<Self> {
        let mut turns = Self::default();
        let mut processes: BTreeMap<ProcessId, BTreeSet<ThreadId>> = BTreeMap::new();
        for id in selected {
            processes.entry(id.thread.pid).or_default().insert(id.thread);
            *turns.missing.entry(id.thread).or_default() += 1;
        }
        for (pid, _) in processes.into_iter().filter(|(_, threads)| threads.len() > 1) {
            match calls(log, pid, selected, &Window::ALL) {
                Ok(calls) => turns.calls.extend(calls.map(|calls| (pid, calls))),
                // Of a damaged log there is no order to be had; whoever reads the interval reports that.
                Err(ReplayError::Format(error)) if !error.is_refusal() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(turns)
    }

    /// An interval of `thread` has written these pieces. Those whose turn it is go to `sink`.
    pub(super) fn take(
        &mut self,
        thread: ThreadId,
        pieces: Vec<Piece>,
        sink: &mut impl FnMut(&Piece) -> Result<()>,
    ) -> Result<()> {
        let Some(calls) = self.calls.get_mut(&thread.pid) else { return pieces.iter().try_for_each(sink) };
        self.waiting.entry(thread).or_default().extend(pieces);
        if let Some(missing) = self.missing.get_mut(&thread) {
            *missing = missing.saturating_sub(1);
        }
        while let Some((thread, at)) = calls.front() {
            let waiting = self.waiting.entry(*thread).or_default();
            while let Some(piece) = waiting.pop_front_if(|piece| piece.at <= *at) {
                sink(&piece)?;
            }
            // Its pieces may be those of an interval that has not come yet; all of an interval come at once.
            let passed = waiting.front().is_some_and(|piece| piece.at > *at);
            if !passed && self.missing.get(thread).is_some_and(|missing| *missing > 0) {
                break;
            }
            calls.pop_front();
        }
        Ok(())
    }
}

/// Puts pieces of intervals, those of each thread in order and those of a process together, into the order of the threads.
///
/// # Errors
/// As for [`Turns::new`].
pub(super) fn in_order(log: &Log, pieces: Vec<(IntervalId, Piece)>) -> Result<Vec<Piece>> {
    let mut processes: Vec<Vec<(IntervalId, Piece)>> = Vec::new();
    for piece in pieces {
        match processes.last_mut().filter(|of_process| of_process[0].0.thread.pid == piece.0.thread.pid) {
            Some(of_process) => of_process.push(piece),
            None => processes.push(vec![piece]),
        }
    }
    for of_process in &mut processes {
        let intervals: BTreeSet<IntervalId> = of_process.iter().map(|(id, _)| *id).collect();
        let intervals: Vec<IntervalId> = intervals.into_iter().collect();
        let pid = intervals[0].thread.pid;
        if intervals.iter().all(|id| id.thread == intervals[0].thread) {
            continue;
        }
        let epochs = intervals.iter().map(|id| Ok(log.header(*id)?.epoch)).collect::<Result<BTreeSet<_>>>()?;
        let (Some(&first), Some(&last)) = (epochs.first(), epochs.last()) else { continue };
        match calls(log, pid, &intervals, &Window { first, last, ..Window::ALL }) {
            Ok(calls) => {
                let turns: BTreeMap<_, _> = calls.into_iter().flatten().zip(0..).collect();
                of_process.sort_by_key(|(id, piece)| turns.get(&(id.thread, piece.at)).copied().unwrap_or(usize::MAX));
            }
            // As for all output.
            Err(ReplayError::Format(error)) if !error.is_refusal() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(processes.into_iter().flatten().map(|(_, piece)| piece).collect())
}

/// The system calls by which the threads of a process wrote in the selected intervals, in order; `None` if only one
/// thread did.
fn calls(
    log: &Log,
    pid: ProcessId,
    selected: &[IntervalId],
    window: &Window,
) -> Result<Option<VecDeque<(ThreadId, u64)>>> {
    let mut writes: Vec<VecDeque<u64>> = Vec::new();
    let threads = Threads::read_with(log, pid, window, |thread, interval| {
        if writes.len() <= thread {
            writes.resize_with(thread + 1, VecDeque::new);
        }
        let header = &interval.header;
        let number = header.interval;
        if selected.iter().any(|id| id.thread.pid == pid && id.thread.tid == header.tid && id.interval == number) {
            let calls = interval.records().flatten().filter(|placed| written(&placed.record).is_some());
            let at = calls.map(|placed| header.instructions_before.saturating_add(placed.position.0));
            writes[thread].extend(at);
        }
    })?;
    if writes.iter().filter(|writes| !writes.is_empty()).count() < 2 {
        return Ok(None);
    }
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    let mut calls = VecDeque::new();
    let id = |thread: usize| threads.threads.get(thread).map(|thread: &OrderedThread| thread.id);
    for segment in order {
        let (Some(id), Some(writes)) = (id(segment.thread), writes.get_mut(segment.thread)) else { continue };
        while let Some(at) = writes.pop_front_if(|at| *at < segment.until) {
            calls.push_back((id, at));
        }
    }
    Ok(Some(calls))
}
