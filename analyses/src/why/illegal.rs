//! What a run did that no right program does, by line: memory errors and races.

use super::near::Line;
use super::rank::{Reason, Table};
use super::report::{Illegal, Report};
use super::{Options, Symptom};
use crate::deadlocks::{Step, deadlocks};
use crate::memcheck::{CallReport, ErrorReport, Options as Memory, Where, memcheck, relation};
use crate::names::brief;
use crate::races::{Race, Side, races};
use crate::runs::scene::Spot;
use bugnet_format::record::{Record, SignalStep};
use bugnet_replay::Result;
use bugnet_replay::cursor::Cursor;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;

/// Memory errors, races and atomicity violations that are looked at.
const ERRORS: usize = 3;
const RACES: usize = 8;

/// Finds what was illegal, and notes it with its lines.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn find(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    options: &Options<'_>,
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    let memory =
        memcheck(tools, log, cursor, &Memory { named: Vec::new(), leaks: false, undefined: false, variables: 1 })?;
    for (number, error) in memory.errors.iter().take(ERRORS).enumerate() {
        note_error(error, number, symbols, (report, table));
    }
    let pid = cursor.pid();
    // A thread may wait for itself, too.
    if matches!(report.symptom, Symptom::Hang { .. }) && waits((tools, log), cursor, report, table)? {
        report.notes.push("Races were not looked for, since the deadlock is why it hangs.".to_owned());
        return Ok(());
    }
    let threads: Vec<ThreadId> = log.threads().filter(|thread| thread.pid == pid).collect();
    if threads.len() < 2 && !has_handlers(log, &threads)? {
        return Ok(());
    }
    if !options.races {
        report.notes.push("Races were not looked for.".to_owned());
        return Ok(());
    }
    report.looked_for_races = true;
    let found = races((tools, log), cursor, RACES, options.jobs, |_, _| {})?;
    for race in found.races.iter().filter(|race| race.benign.is_empty()) {
        note_race(race, report, table);
    }
    for torn in &found.violations {
        let name = torn.variable.clone().unwrap_or_else(|| format!("{:#x}", torn.address));
        let text = format!(
            "another access of {name} came between two of one call ({})",
            format!("{:?}", torn.pattern).to_uppercase()
        );
        for (number, side) in torn.accesses.iter().enumerate() {
            // What follows is made of what was read before the other one came.
            note_side(side, Reason::Torn { text: text.clone(), is_last: number == 2 }, table);
        }
        report.illegal.push(Illegal::new(text, torn.accesses[2].place, torn.accesses[2].spot.to_string()));
    }
    Ok(())
}

/// The first line of the program's own, among callers, the innermost first: of what is inlined there, too.
fn own(places: &[Where], symbols: &mut Symbolizer) -> Option<(Line, Option<String>)> {
    places.iter().enumerate().find_map(|(number, place)| {
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
    if let Some((freed, (line, function))) = freed.and_then(|freed| Some((freed, own(&freed.callers, symbols)?))) {
        let text = format!("it gave the block back that was used afterwards: {}", error.what);
        table.illegal(line, function, freed.place, Reason::Freed { text, number });
    }
}

/// What happened, to which block, and who got and gave that.
fn in_words(error: &ErrorReport, symbols: &mut Symbolizer) -> String {
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

fn note_race(race: &Race, report: &mut Report, table: &mut Table) {
    let name = race.variable.clone().unwrap_or_else(|| format!("{:#x}", race.address));
    let text = format!("nothing orders two accesses of {name} by two threads ({})", race.kind);
    for side in [&race.first, &race.second] {
        note_side(side, Reason::Race { text: text.clone() }, table);
    }
    report.illegal.push(Illegal::new(text, race.second.place, race.second.spot.to_string()));
}

fn note_side(side: &Side, reason: Reason, table: &mut Table) {
    if let Some(line) = Line::of(&side.spot) {
        table.illegal(line, side.spot.function.clone(), side.place, reason);
    }
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
    report: &mut Report,
    table: &mut Table,
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
            note_lock(&wait.since, (wanted, false), report, table);
            for holder in &wait.holders {
                let Some((_, since)) = &holder.since else { continue };
                let held = format!("{text}; here, thread {} took {name}, which it holds", holder.thread);
                note_lock(since, (held, true), report, table);
            }
        }
    }
    Ok(!found.deadlocks.is_empty())
}

/// Where a lock was taken, or is waited for.
fn note_lock(step: &Step, (text, is_held): (String, bool), report: &mut Report, table: &mut Table) {
    let Some(spot) = &step.spot else { return };
    report.illegal.push(Illegal::new(text.clone(), step.place, spot.to_string()));
    if let Some(line) = Line::of(spot) {
        table.illegal(line, spot.function.clone(), step.place, Reason::Deadlock { text, is_held });
    }
}
