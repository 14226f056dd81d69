//! Segments in parts: a segment ends where its thread calls the kernel, and what it has done that others come behind may have been done long before
//! that. Where accesses of but few lines are in no order by whole segments, these are executed again, and cut where others come behind them.

use super::first::{Lines, Touched};
use super::segments::{Segment, Spans};
use super::times::Times;
use bugnet_format::types::Position;
use bugnet_replay::cursor::Place;
use bugnet_replay::lines::Marker;
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::tools::Tools;
use bugnet_replay::{Result, pool};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// Where more than so many intervals would have to be executed again, no more than one of so many is.
const MOST_OF_FEW: usize = 4;
const MOST_OF: usize = 2;

/// A segment that is cut: its index, where it begins, where it is cut, and where it ends, if not with its interval.
struct Cut {
    segment: usize,
    start: Position,
    at: Vec<Position>,
    end: Option<Position>,
}

/// What the parts of a segment access.
type Parts = Option<Vec<(usize, Vec<(Position, Touched)>)>>;

/// Whether all accesses of lines turn out to be in an order, which whole segments do not say.
///
/// # Errors
/// An interval cannot be read or replayed.
pub fn orders(
    (tools, log, jobs): (&Tools, &Log, NonZeroUsize),
    (spans, segments): (&Spans, Vec<Segment>),
    times: &Times,
    lines: &Lines,
) -> Result<bool> {
    let Some(cuts) = spans.cuts(&segments, times, lines) else { return Ok(false) };
    let mut intervals: BTreeMap<IntervalId, Vec<Cut>> = BTreeMap::new();
    for (segment, counts) in cuts {
        let Place { tid, interval, position } = segments[segment].place;
        let Some((thread, start)) = times.count(segments[segment].place) else { continue };
        let next = segments.get(segment + 1).map(|next| next.place);
        let end = next.filter(|next| (next.tid, next.interval) == (tid, interval)).map(|next| next.position);
        let at = counts.iter().map(|count| Position(position.0 + (count - start))).collect();
        let id = IntervalId { thread: times.id(thread), interval };
        intervals.entry(id).or_default().push(Cut { segment, start: position, at, end });
    }
    let intervals: Vec<(IntervalId, Vec<Cut>)> = intervals.into_iter().collect();
    let all =
        segments.chunk_by(|one, next| (one.place.tid, one.place.interval) == (next.place.tid, next.place.interval));
    if intervals.len() > MOST_OF_FEW && intervals.len() > all.count() / MOST_OF {
        return Ok(false);
    }
    let (mut parts, mut is_known) = (BTreeMap::new(), true);
    pool::in_order(
        &intervals,
        jobs,
        |marker: &mut Option<Marker>, (id, cuts)| mark((tools, log), *id, cuts, marker),
        |_, marked| {
            match marked? {
                Some(marked) => parts.extend(marked),
                None => is_known = false,
            }
            Ok(())
        },
    )?;
    if !is_known {
        return Ok(false);
    }
    let part = |whole: &Segment, (position, touched): (Position, Touched)| {
        let (all, written) = (touched.all.common(&whole.all), touched.written.common(&whole.written));
        Segment { place: Place { position, ..whole.place }, whose: whole.whose, all, written }
    };
    let parts = parts.into_iter().map(|(segment, parts): (usize, Vec<_>)| {
        let whole = &segments[segment];
        (segment, parts.into_iter().map(|one| part(whole, one)).collect())
    });
    let parts = parts.collect();
    let (segments, spans) = spans.cut(segments, times, parts);
    Ok(spans.are_ordered(&segments, times, lines))
}

/// What is accessed by parts of an interval's segments; none where marks do not tell.
fn mark((tools, log): (&Tools, &Log), id: IntervalId, cuts: &[Cut], marker: &mut Option<Marker>) -> Result<Parts> {
    let interval = log.interval(id)?;
    let Some(mut new) = Marker::start(tools, log, id, &interval, marker.take())? else { return Ok(None) };
    let mut all = Vec::new();
    for Cut { segment, start, at, end } in cuts {
        if new.run_to(Some(*start))?.is_none() {
            return Ok(None);
        }
        let starts = std::iter::once(*start).chain(at.iter().copied());
        let ends = at.iter().copied().map(Some).chain([*end]);
        let mut parts = Vec::new();
        for (start, end) in starts.zip(ends) {
            let Some(marked) = new.run_to(end)? else { return Ok(None) };
            let mut touched = Touched::default();
            touched.mark(&marked);
            parts.push((start, touched));
        }
        all.push((*segment, parts));
    }
    *marker = Some(new);
    Ok(Some(all))
}
