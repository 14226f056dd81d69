//! Where the other threads of a process were when a signal killed one, and all with it.

use super::replay_to_end;
use crate::backtrace::{Frame, backtrace};
use crate::error::Result;
use crate::log::{IntervalId, Log, ThreadId};
use crate::symbols::Symbolizer;
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
    /// Its stack, innermost frame first.
    pub backtrace: Vec<Frame>,
}

/// The other threads of a process that had not ended, at most `most` of them. What could not be found out is added to `missing`.
///
/// # Errors
/// The log cannot be read.
pub(super) fn others(
    tools: &Tools,
    log: &Log,
    killed: ThreadId,
    most: usize,
    missing: &mut Vec<String>,
) -> Result<Vec<OtherThread>> {
    let mut found = Vec::new();
    let mut left_out = 0;
    for thread in log.threads().filter(|thread| thread.pid == killed.pid && *thread != killed) {
        let Some((interval, position)) = ended_with_another(log, thread)? else { continue };
        if found.len() == most {
            left_out += 1;
            continue;
        }
        let id = IntervalId { thread, interval };
        let code = log.code(thread.pid)?;
        let replayed = replay_to_end(tools, log, id).and_then(|mut session| {
            let regs = session.regs().clone();
            backtrace(&regs, &mut session, &mut Symbolizer::new(log, thread.pid)?, &code)
        });
        let backtrace = replayed.unwrap_or_else(|error| {
            missing.push(format!("the stack of thread {}: {error}", thread.tid));
            Vec::new()
        });
        let call = last_calls(log, thread, interval, 1)?.pop().filter(|call| call.result.is_none());
        found.push(OtherThread { thread, interval, position, call: call.map(|call| call.call), backtrace });
    }
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
        _ => None,
    }))
}
