//! Where the other threads of a process were when a signal killed one, and all with it.

use super::locks::{self, Waiting};
use super::{Limits, Stacks, replay_to_end};
use crate::backtrace::Frame;
use crate::error::Result;
use crate::log::{IntervalId, Log, ThreadId};
use crate::memory::Snapshots;
use crate::syscall::last_calls;
use crate::tools::Tools;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::types::{IntervalNo, Position};
use serde::Serialize;

/// A thread that another one's death ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherThread {
    /// The thread.
    #[serde(flatten)]
    pub thread: ThreadId,
    /// Its last interval.
    pub interval: IntervalNo,
    /// Instructions since the interval's start, as far as it is known to have come.
    pub position: Position,
    /// The system call in which it was, if it was in one.
    pub call: Option<String>,
    /// What it waits for, if that is known to be a lock or its like.
    pub waiting: Option<Waiting>,
    /// Its stack, innermost frame first.
    pub backtrace: Vec<Frame>,
}

/// The other threads of a process that had not ended, with the ends of their last intervals.
///
/// # Errors
/// The log cannot be read.
pub(super) fn ended_with(log: &Log, killed: ThreadId) -> Result<Vec<(ThreadId, IntervalNo, Position)>> {
    let mut found = Vec::new();
    for thread in log.threads().filter(|thread| thread.pid == killed.pid && *thread != killed) {
        if let Some((interval, position)) = ended_with_another(log, thread)? {
            found.push((thread, interval, position));
        }
    }
    Ok(found)
}

/// These threads, as many as the limits say. What could not be found out is added to `missing`.
///
/// # Errors
/// The log cannot be read.
pub(super) fn others(
    tools: &Tools,
    log: &Log,
    threads: &[(ThreadId, IntervalNo, Position)],
    limits: Limits,
    snapshots: &Snapshots,
    stacks: &mut Stacks,
    missing: &mut Vec<String>,
) -> Result<Vec<OtherThread>> {
    let most = limits.threads;
    let mut found = Vec::new();
    for &(thread, interval, position) in threads.iter().take(most) {
        let id = IntervalId { thread, interval };
        let replayed =
            replay_to_end(tools, log, id, position.0 <= limits.tracked, snapshots).and_then(|mut session| {
                let regs = session.regs().clone();
                stacks.look(thread, &regs, &mut session)
            });
        let backtrace = replayed.unwrap_or_else(|error| {
            missing.push(format!("the stack of thread {}: {error}", thread.tid));
            Vec::new()
        });
        let call = last_calls(log, thread, interval, 1)?.pop().filter(|call| call.result.is_none());
        let waiting = locks::waiting(&backtrace, thread, stacks);
        found.push(OtherThread { thread, interval, position, call: call.map(|call| call.call), waiting, backtrace });
    }
    let left_out = threads.len().saturating_sub(most);
    if left_out > 0 {
        missing.push(format!("the stacks of {left_out} more threads, since only {most} are looked at"));
    }
    Ok(found)
}

/// Where a thread's log ends, if another thread ended it.
fn ended_with_another(log: &Log, thread: ThreadId) -> Result<Option<(IntervalNo, Position)>> {
    let Some(&interval) = log.intervals(thread)?.last() else { return Ok(None) };
    let read = log.interval(IntervalId { thread, interval })?;
    let last = read.records().flatten().last();
    Ok(last.and_then(|placed| match placed.record {
        Record::End { reason: EndReason::Terminated, .. } => Some((interval, placed.position)),
        // A signal that somebody sent kills all together.
        Record::End { reason: EndReason::Signal { code, .. }, .. } if code <= 0 => Some((interval, placed.position)),
        _ => None,
    }))
}

/// Whether the same signal, sent by somebody, killed a thread of the process that comes before this one in the log.
///
/// # Errors
/// The log cannot be read.
pub(super) fn killed_before(log: &Log, thread: ThreadId, signal: i32) -> Result<bool> {
    for other in log.threads().take_while(|other| *other != thread).filter(|other| other.pid == thread.pid) {
        let Some(&interval) = log.intervals(other)?.last() else { continue };
        let read = log.interval(IntervalId { thread: other, interval })?;
        if let Some(Record::End { reason: EndReason::Signal { signo, code, .. }, .. }) =
            read.records().flatten().last().map(|placed| placed.record)
            && code <= 0
            && signo.cast_signed() == signal
        {
            return Ok(true);
        }
    }
    Ok(false)
}
