//! Deadlocks: who waits at the end of the recording for what, held by whom; and locks that threads take in different orders, so that they
//! might wait for each other another time.
//!
//! Locks are those of the C library, by the functions that take them ([`crate::locks`]); at the end of the recording, also words that threads
//! wait for (`words`).

mod cycles;
mod display;
mod report;
mod watch;
mod words;

pub use display::{Shown, never};
pub use report::{Cycle, Gone, Holder, Report, Step, Wait, Waited};

use crate::locks::{self, Locks};
use crate::races::births::Births;
use crate::races::joins::{self, Joins};
use crate::races::times::Times;
use bugnet_events::onward::walk_with;
use bugnet_format::record::{EndReason, Record};
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use std::collections::BTreeSet;
use std::sync::Arc;
use watch::{WAITS, Watch};

/// Finds out about the process that a cursor is on.
///
/// # Errors
/// The log cannot be read, replayed or traced; its order contradicts itself.
pub fn deadlocks((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>) -> Result<Report> {
    let pid = cursor.pid();
    let mut symbols = Symbolizer::new(log, pid)?;
    let times = Times::new(log, pid)?;
    let births = Births::new(log, &times, cursor)?;
    let locks = Locks::new(symbols.functions(&locks::names()));
    let joins = Joins::new(symbols.functions(&joins::NAMES).into_keys());
    let waits = symbols.functions(&WAITS.map(|(name, _)| name));
    let functions = locks.functions().chain(joins.functions()).chain(waits.keys().copied());
    let functions = functions.collect::<BTreeSet<u64>>().into_iter().collect();
    let wanted = Arc::new(Wanted { functions, ..Wanted::default() });
    let may_wait = times.len() > 1 || !goes_on_to_its_end(log, times.id(0))?;
    let mut watch = Watch::new(times, births, locks, joins, waits);
    if may_wait {
        cursor.seek(Seek::Start)?;
        walk_with(tools, log, pid, cursor.place(), &wanted, &mut watch)?;
    }
    report::report((tools, log), cursor, &mut symbols, &watch)
}

/// Whether a thread ends by itself, or by another program. One that is alone waits for nobody then, and nobody for it.
fn goes_on_to_its_end(log: &Log, thread: ThreadId) -> Result<bool> {
    let Some(&interval) = log.intervals(thread)?.last() else { return Ok(false) };
    let last = log.interval(IntervalId { thread, interval })?;
    let ends = last.records().flatten().last().map(|placed| match placed.record {
        Record::End { reason, .. } => matches!(reason, EndReason::Exit { .. } | EndReason::Exec),
        _ => false,
    });
    Ok(ends.unwrap_or(false))
}
