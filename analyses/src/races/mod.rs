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
mod cuts;
mod display;
mod estimate;
mod first;
mod found;
pub(crate) mod heap;
pub(crate) mod joins;
pub(crate) mod open;
mod operations;
pub(crate) mod order;
pub(crate) mod paged;
mod pieces;
pub(crate) mod place;
mod report;
mod segments;
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

use crate::go;
use crate::locks::{self, Locks};
use births::Births;
use bugnet_events::onward::walk_behind;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use bugnet_replay::work::Over;
use bugnet_replay::{ReplayError, Result};
use channels::Channels;
use first::{Lines, Shared};
use heap::Heap;
use joins::Joins;
use place::{Code, Modules};
use segments::{Segment, Spans};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use times::Times;
use watch::Watch;

/// Of so many lines or more, and after so many accesses, it may take less to look for the order of segments first, if of so many of the lines no more than
/// one is likely to be left.
const MANY_LINES: u64 = 1 << 8;
const MANY_ACCESSES: u64 = 1 << 18;
const FEW: u64 = 2;
/// And if of so many no more than one is, that is looked for at once.
const VERY_FEW: u64 = 16;
/// So many lines are looked at, too, because they lie in a page with others, or for what threads do last.
const MOST_NEAR: u64 = 1 << 8;
const PAGE: u64 = 4096;

/// How to look.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Look at so many of each kind more closely.
    pub top: usize,
    /// Replay so many intervals at a time at first.
    pub jobs: NonZeroUsize,
    /// Do not let replay processes look at accesses by themselves: it takes longer, and what is found is the same.
    pub follow: bool,
    /// Look for the order of segments first, whatever it takes; what is found is the same.
    pub segments: bool,
}

/// Finds the races and atomicity violations of the process that a cursor is on. `progress` is called with how many intervals are done at first, and how
/// many there are. Where the work is over before its end, what is known by then is told.
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
    let times = Times::new(log, pid)?;
    let mut intervals = Vec::new();
    for thread in (0..times.len()).map(|thread| times.id(thread)) {
        intervals.extend(log.intervals(thread)?.iter().map(|&interval| IntervalId { thread, interval }));
    }
    let all = intervals.len();
    let how = (options.jobs, options.follow);
    let threads = times.len();
    let shared = first::look((tools, log), &intervals, &Modules::new(log, pid)?, how, |done| progress(done, all));
    let search = Search { tools, log, told: !options.follow, jobs: options.jobs };
    let (watch, over) = match shared.and_then(|shared| search.find(cursor, times, shared, options.segments)) {
        // What was found up to there is of no use.
        Err(ReplayError::NotTraced { .. }) if !options.follow => {
            return races((tools, log), cursor, Options { follow: true, ..options }, progress);
        }
        Err(ReplayError::Over(over)) => {
            tools.work.resume();
            cursor.begin_anew()?;
            return Ok(Report::nothing(pid, threads, over));
        }
        found => found?,
    };
    if over.is_some() {
        tools.work.resume();
        cursor.begin_anew()?;
    }
    tools.work.tell();
    let mut symbols = Symbolizer::new(log, pid)?;
    let mut report = report::report(log, cursor, &mut symbols, &watch, options.top)?;
    report.over = over;
    if go::is_there(log, pid)? {
        let is_own = |side: &Side| !go::is_runtimes(side.spot.function.as_deref());
        report.races.retain(|race| is_own(&race.first) && is_own(&race.second));
        report.violations.retain(|violation| violation.accesses.iter().all(is_own));
        report.unfollowed.push(go::UNFOLLOWED.to_owned());
    }
    Ok(report)
}

/// Where one looks, and how.
#[derive(Clone, Copy)]
struct Search<'a> {
    tools: &'a Tools,
    log: &'a Log,
    /// Whether replay processes tell of accesses by themselves.
    told: bool,
    /// Replay so many intervals at a time, where they need not come one after the other.
    jobs: NonZeroUsize,
}

/// What records tell of the threads, however often one goes through what they did.
struct Recorded {
    times: Times,
    births: Births,
    channels: Channels,
}

impl Search<'_> {
    /// Goes through what all threads did: once, with each access of what they share; or, if these are many, for the order of segments first. Says why the
    /// work was over before its end, if it was.
    fn find(
        self,
        cursor: &mut Cursor<'_>,
        times: Times,
        shared: Shared,
        segments_first: bool,
    ) -> Result<(Watch, Option<Over>)> {
        let (log, pid) = (self.log, cursor.pid());
        let births = Births::new(log, &times, cursor)?;
        let is_shared = !shared.lines.is_empty();
        let channels = if is_shared { Channels::new(log, &times, cursor)? } else { Channels::default() };
        let recorded = Recorded { times, births, channels };
        let lines = shared.lines.count();
        let mut likely = Lines::default();
        let (mut may_be_few, mut segments_first) = (false, segments_first && is_shared);
        if segments_first || lines >= MANY_LINES {
            let atomic = shared.words.lines(&shared.lines);
            let segments = (&recorded.times, &shared.segments[..]);
            let left = estimate::left((log, pid), recorded.births.clone(), segments, atomic)?;
            let count = left.likely.count();
            may_be_few = count * FEW <= lines;
            segments_first |= count * VERY_FEW <= lines;
            likely = left.likely;
            let by_ends = left.by_ends.without(&likely);
            if by_ends.count() <= MOST_NEAR {
                likely.add(&by_ends);
            }
        }
        if !segments_first {
            let (mut watch, wanted) = self.watch(cursor, &recorded, shared.of(shared.lines.clone()))?;
            if may_be_few {
                watch.try_for(MANY_ACCESSES);
            }
            let over = if is_shared { self.walk(cursor, &wanted, &mut watch)? } else { None };
            if over.is_some() || !(may_be_few && watch.has_given_up()) {
                return Ok((watch, over));
            }
        }
        self.find_by_segments(cursor, &recorded, shared, &likely)
    }

    /// Goes through what all threads did for the order of segments, and looks at accesses of lines that segments access without one. What is likely to be
    /// of these is looked at at once, so that, mostly, nothing is left for which one has to go through all of it again.
    fn find_by_segments(
        self,
        cursor: &mut Cursor<'_>,
        recorded: &Recorded,
        mut shared: Shared,
        likely: &Lines,
    ) -> Result<(Watch, Option<Over>)> {
        let segments = std::mem::take(&mut shared.segments);
        // What orders threads is accessed atomically.
        let mut followed = shared.words.lines(&shared.lines);
        followed.add(likely);
        let near = in_pages_of(&followed).common(&shared.lines);
        if near.count() <= followed.count() + MOST_NEAR {
            followed.add(&near);
        }
        let (mut watch, wanted) = self.watch(cursor, recorded, shared.of(followed.clone()))?;
        watch.look_for_order(Spans::new(&watch.times, &segments), shared.lines.without(&followed));
        if let Some(over) = self.walk(cursor, &wanted, &mut watch)? {
            return Ok((watch, Some(over)));
        }
        let left = match self.left(&mut watch, segments) {
            Err(ReplayError::Over(over)) => return Ok((watch, Some(over))),
            left => left?,
        };
        if !left.is_empty() {
            followed.add(&left);
            let (mut again, wanted) = self.watch(cursor, recorded, shared.of(followed.clone()))?;
            // What was gone through to its end tells more.
            if let Some(over) = self.walk(cursor, &wanted, &mut again)? {
                return Ok((watch, Some(over)));
            }
            watch = again;
        }
        watch.found.looked.ordered_lines = shared.lines.without(&followed).count();
        Ok((watch, None))
    }

    /// The lines that were not looked at of which accesses may be in no order.
    fn left(self, watch: &mut Watch, segments: Vec<Segment>) -> Result<Lines> {
        let Some(spans) = watch.take_order() else { return Ok(Lines::default()) };
        let left = spans.unordered(&segments, &watch.times).without(watch.lines());
        let how = (self.tools, self.log, self.jobs);
        let is_ordered = left.is_empty() || cuts::orders(how, (&spans, segments), &watch.times, &left)?;
        Ok(if is_ordered { Lines::default() } else { left })
    }

    /// Looks at accesses of lines; and what has to be traced for that.
    fn watch(self, cursor: &mut Cursor<'_>, recorded: &Recorded, shared: Shared) -> Result<(Watch, Wanted)> {
        let (log, pid) = (self.log, cursor.pid());
        let mut symbols = Symbolizer::new(log, pid)?;
        let modules = Modules::new(log, pid)?;
        let told = self.told && !shared.lines.is_empty();
        let heap = Heap::new(symbols.functions(&heap::names()));
        let locks = Locks::new(symbols.functions(&locks::names()));
        let joins = Joins::new(symbols.functions(&joins::NAMES).into_keys());
        let functions: BTreeSet<u64> = heap.functions().chain(locks.functions()).chain(joins.functions()).collect();
        let mut wanted = Wanted { functions: functions.into_iter().collect(), ..Wanted::default() };
        let libraries = modules.libraries().collect();
        let code = Code::new(modules, symbols);
        let Recorded { times, births, channels } = recorded;
        let (times, handed) = ((times.clone(), told), (births.clone(), channels.clone()));
        let watch = Watch::new(times, shared, handed, code, (heap, locks, joins));
        if told {
            (wanted.outline, wanted.shaded, wanted.libraries) = (true, watch.shaded(), libraries);
        }
        Ok((watch, wanted))
    }

    /// Goes through what all threads did, up to the end, or to where the work is over.
    fn walk(self, cursor: &mut Cursor<'_>, wanted: &Wanted, watch: &mut Watch) -> Result<Option<Over>> {
        let (pid, behind) = (cursor.pid(), watch.channels.behind(&watch.times));
        cursor.seek(Seek::Start)?;
        let wanted = Arc::new(wanted.clone());
        match walk_behind(self.tools, self.log, pid, (cursor.place(), &behind), &wanted, watch) {
            Err(ReplayError::Over(over)) => Ok(Some(over)),
            walked => walked.map(|()| None),
        }
    }
}

/// All lines of the pages in which some lie.
fn in_pages_of(lines: &Lines) -> Lines {
    let mut all = Lines::default();
    for (addr, len) in lines.ranges() {
        let start = addr / PAGE * PAGE;
        all.touch(start, (addr + len).next_multiple_of(PAGE) - start);
    }
    all
}
