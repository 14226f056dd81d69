//! The threads that there are at a moment, also those that do nothing in its epoch.

use super::outline::Part;
use super::{Cursor, Place, Thread};
use crate::error::Result;
use crate::log::{IntervalId, ThreadId};
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, IntervalNo, Position, Tid};

/// How the log of a thread ends.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// Why; none if it was cut off.
    reason: Option<EndReason>,
    position: Position,
    /// Its registers, as far as the log has them.
    regs: RegisterFile,
}

impl End {
    /// Whether the thread ended by itself.
    fn has_exited(&self) -> bool {
        matches!(self.reason, Some(EndReason::Exit { .. }))
    }
}

impl Cursor<'_> {
    /// The signal that killed the process, and the thread that it struck; none if it ended otherwise.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn death(&mut self) -> Result<Option<(Tid, u32)>> {
        Ok(self.deadly_signal()?.map(|(tid, signo, ..)| (tid, signo)))
    }

    /// The same with the signal's `si_code` and, for faults, `si_addr`.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn deadly_signal(&mut self) -> Result<Option<(Tid, u32, i32, Addr)>> {
        let mut tids: Vec<Tid> = self.outline.threads().map(|(tid, _)| tid).collect();
        let here = self.place().tid;
        tids.sort_by_key(|tid| *tid != here);
        for tid in tids {
            if let Some(EndReason::Signal { signo, code, addr }) = self.end_of(tid)?.reason {
                return Ok(Some((tid, signo, code, addr)));
            }
        }
        Ok(None)
    }

    /// The thread that matters here: the one that executes the next instruction, and where all is over, the one that a signal killed.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn focus(&mut self) -> Result<Tid> {
        let dead = if self.time() == self.end() { self.death()? } else { None };
        Ok(dead.map_or_else(|| self.place().tid, |(dead, _)| dead))
    }

    /// The threads that have begun and not ended where the cursor is, the one first that executes the next instruction. Of a thread that
    /// does nothing in the present epoch, it is said where it goes on.
    ///
    /// # Errors
    /// The log cannot be read, or the replay process is lost.
    pub fn alive(&mut self) -> Result<Vec<Thread>> {
        let (here, epoch) = (self.place().tid, self.outline.epoch(self.open.index).map(|(epoch, _)| epoch));
        let mut alive = Vec::new();
        let mut present = Vec::new();
        for thread in self.threads()? {
            let Place { tid, interval, position } = thread.place;
            present.push(tid);
            let before = self.outline.of_interval(tid, interval).map_or(0, |(_, before)| before);
            let has_begun = position > Position(0) || before > 0;
            let has_ended = thread.over && self.is_last(tid, interval) && self.end_of(tid)?.has_exited();
            if tid == here {
                alive.insert(0, thread);
            } else if has_begun && !has_ended {
                alive.push(thread);
            }
        }
        let all: Vec<Tid> = self.outline.threads().map(|(tid, _)| tid).filter(|tid| !present.contains(tid)).collect();
        for tid in all {
            let parts = self.outline.parts(tid);
            let before = parts.iter().rev().find(|part| Some(part.epoch) < epoch).map(|part| part.number);
            let next = parts.iter().find(|part| Some(part.epoch) > epoch).map(|part| part.number);
            match (before, next) {
                (Some(_), Some(next)) => alive.push(self.at_start(tid, next)?),
                (Some(last), None) => {
                    let end = self.end_of(tid)?;
                    if !end.has_exited() {
                        let End { position, regs, .. } = end;
                        alive.push(Thread { place: Place { tid, interval: last, position }, over: true, regs });
                    }
                }
                (None, _) => {}
            }
        }
        Ok(alive)
    }

    fn is_last(&self, tid: Tid, interval: IntervalNo) -> bool {
        self.outline.parts(tid).last().is_some_and(|Part { number, .. }| *number <= interval)
    }

    fn interval(&self, tid: Tid, interval: IntervalNo) -> IntervalId {
        IntervalId { thread: ThreadId { pid: self.pid, tid }, interval }
    }

    /// A thread at the start of an interval.
    pub(super) fn at_start(&self, tid: Tid, interval: IntervalNo) -> Result<Thread> {
        let read = self.log.interval(self.interval(tid, interval))?;
        let regs = match read.records().flatten().next().map(|placed| placed.record) {
            Some(Record::Checkpoint { regs, .. }) => *regs,
            _ => RegisterFile::unknown(),
        };
        Ok(Thread { place: Place { tid, interval, position: Position(0) }, over: false, regs })
    }

    /// How a thread's log ends, which is looked up once.
    fn end_of(&mut self, tid: Tid) -> Result<End> {
        if let Some(end) = self.ends.get(&tid) {
            return Ok(end.clone());
        }
        let mut end = End { reason: None, position: Position(0), regs: RegisterFile::unknown() };
        if let Some(last) = self.outline.parts(tid).last() {
            let read = self.log.interval(self.interval(tid, last.number))?;
            if let Some(placed) = read.records().flatten().last() {
                end.position = placed.position;
                if let Record::End { reason, regs, .. } = placed.record {
                    (end.reason, end.regs) = (Some(reason), *regs);
                }
            }
        }
        self.ends.insert(tid, end.clone());
        Ok(end)
    }
}
