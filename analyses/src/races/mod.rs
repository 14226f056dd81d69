//! Data races and atomicity violations: accesses of the same memory by several threads that nothing orders, and pairs of accesses that another
//! thread has torn apart.
//!
//! Threads are ordered by what they did in the recording ("happens before"), with the clocks of FastTrack (Flanagan and Freund, 2009): by
//! atomic instructions, and other accesses of the words that these access; by making threads and finding out that they have ended; by
//! system calls that wake, signal and count. The locks, conditions, barriers and semaphores of the C library are made of these.

pub(crate) mod atomicity;
pub(crate) mod births;
pub(crate) mod channels;
pub(crate) mod clock;
mod display;
mod first;
mod found;
pub(crate) mod heap;
pub(crate) mod joins;
pub(crate) mod open;
mod operations;
pub(crate) mod order;
pub(crate) mod paged;
pub(crate) mod place;
mod report;
pub(crate) mod shadow;
mod side;
mod tenure;
pub(crate) mod times;
mod watch;

pub use atomicity::{Passed, Pattern};
pub use display::Shown;
pub use found::Looked;
pub use report::{Benign, Race, Report, Violation};
pub use side::Side;

use crate::locks::{self, Locks};
use births::Births;
use bugnet_events::onward::walk_behind;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use bugnet_replay::{ReplayError, Result};
use channels::Channels;
use heap::Heap;
use joins::Joins;
use place::{Code, Modules};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use times::Times;
use watch::Watch;

/// How to look.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Look at so many of each kind more closely.
    pub top: usize,
    /// Replay so many intervals at a time at first.
    pub jobs: NonZeroUsize,
    /// Do not let replay processes look at accesses by themselves: it takes longer, and what is found is the same.
    pub follow: bool,
}

/// Finds the races and atomicity violations of the process that a cursor is on. `progress` is called with how many intervals are done at first, and how
/// many there are.
///
/// # Errors
/// The log cannot be read, replayed or traced; its order contradicts itself.
pub fn races(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    options: Options,
    mut progress: impl FnMut(usize, usize),
) -> Result<Report> {
    let pid = cursor.pid();
    let mut symbols = Symbolizer::new(log, pid)?;
    let (times, modules) = (Times::new(log, pid)?, Modules::new(log, pid)?);
    let mut intervals = Vec::new();
    for thread in (0..times.len()).map(|thread| times.id(thread)) {
        intervals.extend(log.intervals(thread)?.iter().map(|&interval| IntervalId { thread, interval }));
    }
    let all = intervals.len();
    let how = (options.jobs, options.follow);
    let shared = first::look((tools, log), &intervals, &modules, how, |done| progress(done, all))?;
    let is_shared = !shared.lines.is_empty();
    let births = Births::new(log, &times, cursor)?;
    let channels = if is_shared { Channels::new(log, &times, cursor)? } else { Channels::default() };
    let behind = channels.behind(&times);
    let heap = Heap::new(symbols.functions(&heap::names()));
    let locks = Locks::new(symbols.functions(&locks::names()));
    let joins = Joins::new(symbols.functions(&joins::NAMES).into_keys());
    let functions: BTreeSet<u64> = heap.functions().chain(locks.functions()).chain(joins.functions()).collect();
    let mut wanted = Wanted { functions: functions.into_iter().collect(), ..Wanted::default() };
    let all_blocks = modules.libraries().collect();
    let code = Code::new(modules, Symbolizer::new(log, pid)?);
    let told = is_shared && !options.follow;
    let mut watch = Watch::new((times, told), shared, (births, channels), code, (heap, locks, joins));
    if told {
        (wanted.outline, wanted.shaded, wanted.all_blocks) = (true, watch.shaded(), all_blocks);
    }
    if is_shared {
        cursor.seek(Seek::Start)?;
        let walked = walk_behind(tools, log, pid, (cursor.place(), &behind), &Arc::new(wanted), &mut watch);
        match walked {
            // What was found up to there is of no use.
            Err(ReplayError::NotTraced { .. }) if told => {
                return races((tools, log), cursor, Options { follow: true, ..options }, progress);
            }
            walked => walked?,
        }
    }
    report::report(log, cursor, &mut symbols, &watch, options.top)
}
