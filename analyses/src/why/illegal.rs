//! What a run did that no right program does, by line: memory errors and races.

use super::near::{self, Line};
use super::published;
use super::rank::{Given, Lock, Reason, Table};
use super::report::{Illegal, Report};
use super::stages::{Stages, left_out};
use super::{Options, Symptom, access, executed};
use crate::deadlocks::{Gone, Step, Wait, Waited, deadlocks, never};
use crate::go;
use crate::memcheck::{CallReport, ErrorReport, Kind, Options as Memory, Where, memcheck, of_frame, relation};
use crate::names::brief;
use crate::races::{Options as Search, Pattern, Race, Side, races};
use crate::runs::scene::Spot;
use bugnet_format::record::{Record, SignalStep};
use bugnet_format::types::ProcessId;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::tree::processes;
use indicatif::HumanCount;
use std::ops::Range;

/// Memory errors, races and atomicity violations that are looked at.
const ERRORS: usize = 3;
const RACES: usize = 8;
/// Instructions of a run of which undefined values are followed: some ten seconds.
const UNDEFINED: u64 = 100_000_000;

/// Finds what was illegal, and notes it with its lines: memory errors up to a place, if there is one.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn find(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (options, stages, until): (&Options<'_>, Stages, Option<Place>),
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    let most = match until {
        Some(place) => Some(before(cursor, place)?),
        None => None,
    };
    let undefined = options.thorough || most.map_or_else(|| instructions(log, cursor), Ok)? <= UNDEFINED;
    let what = "memory errors";
    stages.begin_whole(what, cursor)?;
    let most = most.unwrap_or(u64::MAX);
    let memory = memcheck(
        tools,
        log,
        cursor,
        &Memory { named: Vec::new(), leaks: false, undefined, variables: 1, most, follow: false },
    )?;
    report.unfollowed.clone_from(&memory.unfollowed);
    if let Some(over) = &memory.over {
        report.is_cut = true;
        let first = HumanCount(memory.counts.instructions);
        report.notes.push(format!("{} The first {first} instructions were looked at.", left_out(what, over)));
    }
    if !undefined {
        let what = "The run is long, so undefined values were not looked for: bugnet memcheck --undefined does.";
        report.notes.push(what.to_owned());
    }
    for (number, error) in memory.errors.iter().take(ERRORS).enumerate() {
        note_error(error, number, symbols, (report, table));
    }
    table.is_memory = !memory.errors.is_empty();
    if let Some(first) = memory.errors.first() {
        stages.begin("where the memory error comes from", cursor)?;
        access::follow((tools, log), cursor, symbols, first, table)?;
    }
    let pid = cursor.pid();
    stages.begin("deadlocks", cursor)?;
    // A thread may wait for itself, too, unless it is in an endless loop.
    if matches!(report.symptom, Symptom::Hang { .. })
        && until.is_none()
        && waits((tools, log), cursor, symbols, (report, table))?
    {
        report.notes.push("Races were not looked for, since the deadlock is why it hangs.".to_owned());
        return Ok(());
    }
    if !shares_memory(log, pid)? {
        return Ok(());
    }
    if go::is_there(log, pid)? {
        report.notes.push(
            "Races were not looked for, since goroutines go from thread to thread: build with -race for these."
                .to_owned(),
        );
        return Ok(());
    }
    if !options.races {
        report.notes.push("Races were not looked for.".to_owned());
        return Ok(());
    }
    stages.begin("races", cursor)?;
    let how = Search { top: RACES, jobs: options.jobs, follow: false, segments: false };
    let given_back = match memory.errors.first() {
        Some(error) => GivenBack::of(error, cursor)?,
        None => None,
    };
    let found = races((tools, log), cursor, how, |_, _| {})?;
    report.looked_for_races = found.over.is_none();
    if let Some(over) = &found.over {
        let first = HumanCount(found.looked.instructions);
        report.notes.push(format!("{} The first {first} instructions were looked at.", left_out("races", over)));
    }
    for race in found.races.iter().filter(|race| race.benign.is_empty()) {
        note_race(race, given_back.as_ref(), report, table);
    }
    for torn in &found.violations {
        let name = torn.variable.clone().unwrap_or_else(|| format!("{:#x}", torn.address));
        let text = format!(
            "another access of {name} came between two of one call ({}: {})",
            torn.pattern.name(),
            torn.pattern.meaning()
        );
        // The last one first: of a line that has several of them, it says most.
        for (number, side) in torn.accesses.iter().enumerate().rev() {
            // What follows is made of what was read before the other one came.
            let is_lost = torn.pattern == Pattern::Rww;
            note_side(
                side,
                Reason::Torn { text: text.clone(), is_last: number == 2, is_lost: is_lost && number != 1 },
                table,
            );
        }
        report.illegal.push(Illegal::new(text, torn.accesses[2].place, torn.accesses[2].spot.to_string()));
    }
    published::find((tools, log), cursor, symbols, (report, table))
}

/// Instructions of the process from the beginning of the log to a place.
fn before(cursor: &mut Cursor<'_>, place: Place) -> Result<u64> {
    cursor.seek(Seek::Start)?;
    let start = cursor.time();
    cursor.seek(Seek::Place(place))?;
    Ok(cursor.time() - start)
}

/// Instructions of all threads.
fn instructions(log: &Log, cursor: &Cursor<'_>) -> Result<u64> {
    let process = processes(log)?.into_iter().find(|process| process.id == cursor.pid());
    Ok(process.map_or(0, |process| process.instructions))
}

/// The first line of the program's own, among callers, the innermost first: of what is inlined there, too.
pub(super) fn own(places: &[Where], symbols: &mut Symbolizer) -> Option<(Line, Option<String>)> {
    let mut of_frames = places.iter().enumerate().filter(|(number, _)| *number == 0 || !places[number - 1].is_inlined);
    of_frames.find_map(|(number, place)| {
        // All but the first are where a call returns to; the first one is, if it is a call of a library's function.
        let mut spot = Spot::of(symbols, place.address.0);
        if number > 0 || symbols.lookup(place.address).source.first().and_then(|source| source.line) != place.line {
            spot = Spot::of(symbols, place.address.0.wrapping_sub(1));
        }
        Some((Line::of(&spot)?, spot.function))
    })
}

fn note_error(
    error: &ErrorReport,
    number: usize,
    symbols: &mut Symbolizer,
    (report, table): (&mut Report, &mut Table),
) {
    let at = own(&error.stack, symbols);
    let what = in_words(error, symbols);
    let shown = at.as_ref().map_or("a library".to_owned(), |(line, function)| {
        format!("{} at {}:{}", function.as_deref().unwrap_or("?"), line.file, line.line)
    });
    report.illegal.push(Illegal::new(what.clone(), error.place, shown));
    if let Some((line, function)) = at {
        table.illegal(line, function, error.place, Reason::Memory { text: what, number });
    }
    let freed: Option<&CallReport> = error.block.as_ref().and_then(|block| block.freed.as_ref());
    let Some(freed) = freed else { return };
    let common = common(&error.stack, &freed.callers, symbols);
    if let Some((line, function)) = own(&freed.callers, symbols) {
        let is_direct = common.as_ref().is_some_and(|(common, _)| *common == line);
        let how = match error.kind {
            _ if freed.function.contains("realloc") => Given::Moved,
            Kind::DoubleFree => Given::Early,
            _ if is_direct => Given::Early,
            _ => Given::Apart,
        };
        let text = format!("it gave the block back that was used afterwards: {}", error.what);
        table.illegal(line, function, freed.place, Reason::Freed { text, number, how });
    }
    if let Some((line, function)) = common {
        let text = format!("in a function that used the block afterwards, it called what gave it back: {}", error.what);
        table.illegal(line, function, freed.place, Reason::Freed { text, number, how: Given::Apart });
    }
}

/// The call by which a function came to give a block back that it used afterwards, directly or by another call: the innermost function of both
/// stacks. None if the stacks do not have one, or the program's own has no line there.
fn common(access: &[Where], freed: &[Where], symbols: &mut Symbolizer) -> Option<(Line, Option<String>)> {
    let frames = |stack: &[Where]| stack.iter().filter(|place| !place.is_inlined).cloned().collect::<Vec<_>>();
    let (access, freed) = (frames(access), frames(freed));
    let same = access.iter().rev().zip(freed.iter().rev()).take_while(|(one, other)| one.address == other.address);
    let same = same.count();
    let [one, other] = [&access, &freed].map(|frames| frames.len().checked_sub(same + 1).map(|number| &frames[number]));
    let call = other.filter(|other| same > 0 && one.is_some_and(|one| one.function == other.function))?;
    let spot = Spot::of(symbols, call.address.0.wrapping_sub(1));
    Some((Line::of(&spot)?, spot.function))
}

/// What happened, to which block, and who got and gave that.
fn in_words(error: &ErrorReport, symbols: &mut Symbolizer) -> String {
    if let Some(frame) = &error.frame {
        return format!("{}, {}", error.what, of_frame(frame));
    }
    let Some(block) = &error.block else { return error.what.clone() };
    let mut by = |what: &str, call: Option<&CallReport>| {
        let (line, function) = own(&call?.callers, symbols)?;
        let file = line.file.rsplit('/').next().unwrap_or(&line.file);
        Some(format!("{what} by {} at {file}:{}", function.as_deref().map_or("?".to_owned(), brief), line.line))
    };
    let allocated = by("allocated", block.allocated.as_ref());
    let freed = by("given back", block.freed.as_ref());
    [Some(error.what.clone()), Some(relation(block)), allocated, freed]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// A block that was given back before the first memory error used it.
struct GivenBack {
    bytes: Range<u64>,
    /// Between which instructions of all threads it was there.
    lived: Range<u64>,
}

impl GivenBack {
    fn of(error: &ErrorReport, cursor: &mut Cursor<'_>) -> Result<Option<Self>> {
        let Some(block) = &error.block else { return Ok(None) };
        let (Some(size), Some(freed)) = (block.size, &block.freed) else { return Ok(None) };
        let mut time = |place: Place| -> Result<u64> {
            cursor.seek(Seek::Place(place))?;
            Ok(cursor.time())
        };
        let since = block.allocated.as_ref().map_or(Ok(0), |call| time(call.place))?;
        let bytes = block.start.0..block.start.0.saturating_add(size);
        Ok(Some(Self { bytes, lived: since..time(freed.place)? }))
    }

    /// Whether two threads wrote to the same of it while it was there, so that what one of them wrote may be lost.
    fn was_written_by_two(&self, race: &Race) -> bool {
        let sides = [&race.first, &race.second];
        self.bytes.contains(&race.address) && sides.iter().all(|side| side.writes && self.lived.contains(&side.time))
    }
}

fn note_race(race: &Race, given_back: Option<&GivenBack>, report: &mut Report, table: &mut Table) {
    let name = race.variable.clone().unwrap_or_else(|| format!("{:#x}", race.address));
    let nothing = if race.channels.is_empty() { "nothing" } else { "nothing that is certain" };
    let text = format!("{nothing} orders two accesses of {name} by two threads ({})", race.kind);
    for side in [&race.first, &race.second] {
        note_side(side, Reason::Race { text: text.clone() }, table);
        if given_back.is_some_and(|block| block.was_written_by_two(race)) {
            let text = format!(
                "two threads wrote {name} without an order, before the block was given back that was used then"
            );
            note_side(side, Reason::Raced { text }, table);
        }
    }
    report.illegal.push(Illegal::new(text, race.second.place, race.second.spot.to_string()));
}

fn note_side(side: &Side, reason: Reason, table: &mut Table) {
    if let Some(line) = Line::of(&side.spot) {
        table.illegal(line, side.spot.function.clone(), side.place, reason);
    }
}

/// Whether there are several threads, or handlers, that may access the same memory.
pub(super) fn shares_memory(log: &Log, pid: ProcessId) -> Result<bool> {
    let threads: Vec<ThreadId> = log.threads().filter(|thread| thread.pid == pid).collect();
    Ok(threads.len() > 1 || has_handlers(log, &threads)?)
}

/// Whether a signal's handler ran, which may come between two accesses of one thread.
fn has_handlers(log: &Log, threads: &[ThreadId]) -> Result<bool> {
    for thread in threads {
        for interval in log.intervals(*thread)? {
            let interval = log.interval(IntervalId { thread: *thread, interval: *interval })?;
            let is_handled = |record: &Record| matches!(record, Record::Signal { step: SignalStep::Delivery, .. });
            if interval.records().flatten().any(|placed| is_handled(&placed.record)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Who waits for whom, where somebody had to end the process; whether that is a deadlock.
fn waits(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (report, table): (&mut Report, &mut Table),
) -> Result<bool> {
    let found = deadlocks((tools, log), cursor)?;
    for circle in &found.deadlocks {
        let text = match circle.len() {
            1 => "a thread waits for itself: a deadlock".to_owned(),
            count => format!("{count} threads wait for each other: a deadlock"),
        };
        for wait in circle.iter().filter_map(|number| found.waits.get(*number)) {
            let name = wait.name.clone().unwrap_or_else(|| "a lock".to_owned());
            let wanted = format!("{text}; here, thread {} waits for {name}", wait.thread);
            note_lock(&wait.since, (wanted, Lock::Waits), report, table);
            for holder in &wait.holders {
                let Some((_, since)) = &holder.since else { continue };
                let held = format!("{text}; here, thread {} took {name}, which it holds", holder.thread);
                note_lock(since, (held, Lock::Takes), report, table);
                if holder.thread == wait.thread {
                    note_calls(
                        &wait.since,
                        since,
                        &format!("{text}; it holds {name}, and calls what takes it again"),
                        table,
                    );
                }
            }
        }
    }
    if found.deadlocks.is_empty() {
        for wait in &found.waits {
            come_to_wait((tools, log), cursor, symbols, wait, (report, table))?;
        }
    }
    Ok(!found.deadlocks.is_empty())
}

/// The calls on the way from where a thread took a lock to where it waits for the same one.
fn note_calls(wait: &Step, since: &Step, text: &str, table: &mut Table) {
    let holds = since.spot.as_ref().and_then(|spot| spot.function.as_ref());
    // A function that takes it may be called again.
    let mut outer = wait.own.iter().skip(1);
    let until = outer.position(|spot| spot.function.as_ref() == holds).map_or(0, |position| position + 1);
    for (number, spot) in wait.own.iter().enumerate().skip(1).take(until) {
        if let Some(line) = Line::of(spot) {
            // The last one is in the function that took the lock, which might have given it back before.
            let by = if number == until { Lock::Holder } else { Lock::Waits };
            let reason = Reason::Deadlock { text: text.to_owned(), by };
            table.illegal(line, spot.function.clone(), wait.place, reason);
        }
    }
}

/// A thread waits for what nobody holds: for others to tell it something. Notes why it came there.
fn come_to_wait(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    wait: &Wait,
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    let what = match wait.waited {
        Waited::Lock(_) => {
            never_given_back(wait, (report, table));
            return Ok(());
        }
        Waited::Condition => "condition",
        Waited::Semaphore => "semaphore",
        Waited::Barrier => "barrier",
        _ => return Ok(()),
    };
    let name = wait.name.clone().unwrap_or_else(|| format!("a {what}"));
    let text = format!(
        "thread {} waits here for {name}, a {what}, to the end: nobody tells it, or it was told before",
        wait.thread
    );
    let Some(spot) = &wait.since.spot else { return Ok(()) };
    report.illegal.push(Illegal::new(text.clone(), wait.since.place, spot.to_string()));
    if let Some(line) = Line::of(spot) {
        table.illegal(line, spot.function.clone(), wait.since.place, Reason::Waits { text });
    }
    let full = executed((tools, log), cursor, wait.since.place)?;
    near::lines(&full.graph, symbols, &mut |line, near| {
        let known = &mut table.clues(line).full;
        if known.as_ref().is_none_or(|known| known.steps > near.steps) {
            *known = Some(near);
        }
    });
    Ok(())
}

/// A thread waits for a lock of which the holder never gives it back. Notes where it was taken, and where it is waited for.
fn never_given_back(wait: &Wait, (report, table): (&mut Report, &mut Table)) {
    let name = wait.name.clone().unwrap_or_else(|| "a lock".to_owned());
    for holder in &wait.holders {
        let (Some(gone), Some((_, since))) = (holder.gone, &holder.since) else { continue };
        let text = format!(
            "thread {} waits for {name} to the end, which thread {} took: {}",
            wait.thread,
            holder.thread,
            never(gone)
        );
        note_lock(&wait.since, (text.clone(), Lock::Waits), report, table);
        // Another process's places are not of this recording's process.
        if gone == Gone::Ended {
            note_lock(since, (text, Lock::Takes), report, table);
        } else if let Some(spot) = &since.spot {
            report.illegal.push(Illegal::new(text, since.place, format!("{spot}, in the process that forked")));
        }
    }
}

/// Where a lock was taken, or is waited for.
fn note_lock(step: &Step, (text, by): (String, Lock), report: &mut Report, table: &mut Table) {
    let Some(spot) = &step.spot else { return };
    report.illegal.push(Illegal::new(text.clone(), step.place, spot.to_string()));
    if let Some(line) = Line::of(spot) {
        table.illegal(line, spot.function.clone(), step.place, Reason::Deadlock { text, by });
    }
}
