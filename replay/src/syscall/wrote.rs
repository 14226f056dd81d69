//! Which system call wrote some bytes. Nothing in a log says that: it is inferred from where calls write.

use super::list::{Changed, calls_of, text_of};
use crate::crash::Seen;
use crate::cursor::{Cursor, Place, Seek};
use crate::error::Result;
use crate::log::{Log, ThreadId};
use crate::symbols::Symbolizer;
use bugnet_format::types::{Epoch, Tid};
use serde::Serialize;
use std::collections::HashMap;

/// A system call that may have written some bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inferred {
    /// Where it was made.
    pub place: Place,
    /// Name, arguments and result.
    pub call: String,
}

/// Bytes that were found, and between which moments something wrote them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traces<'a> {
    /// The first.
    pub addr: u64,
    /// What was found.
    pub bytes: &'a [Option<u8>],
    /// Where something else was there last; none if that is not known.
    pub since: Option<Place>,
}

/// The last system call of any thread, before where the cursor is, that writes to one of these bytes. The cursor stays there.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub(crate) fn who_wrote(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    traces: Traces<'_>,
) -> Result<Option<Inferred>> {
    let now = cursor.time();
    let pid = cursor.pid();
    let place = cursor.place();
    let epoch_of = |tid: Tid, interval| {
        log.header(crate::log::IntervalId { thread: ThreadId { pid, tid }, interval }).map(|header| header.epoch)
    };
    let here: HashMap<Tid, Place> = cursor.threads()?.into_iter().map(|one| (one.place.tid, one.place)).collect();
    let epoch = epoch_of(place.tid, place.interval)?;
    let since = match traces.since {
        Some(since) => {
            cursor.seek(Seek::Place(since))?;
            Some((cursor.time(), epoch_of(since.tid, since.interval)?))
        }
        None => None,
    };
    let mut last: Option<(u64, Inferred)> = None;
    for thread in log.threads().filter(|thread| thread.pid == pid) {
        let found = last_of_thread(
            log,
            cursor,
            symbols,
            thread,
            traces,
            |interval| {
                let of = epoch_of(thread.tid, interval)?;
                Ok(of <= epoch && since.is_none_or(|(_, first): (u64, Epoch)| of >= first))
            },
            here.get(&thread.tid).copied(),
        )?;
        let Some(found) = found else { continue };
        cursor.seek(Seek::Place(found.place))?;
        let time = cursor.time();
        let is_between = time < now && since.is_none_or(|(since, _)| time >= since);
        if is_between && last.as_ref().is_none_or(|(other, _)| time > *other) {
            last = Some((time, found));
        }
    }
    cursor.seek(Seek::Time(now))?;
    Ok(last.map(|(_, found)| found))
}

/// The last such call of a thread in these intervals, before a place.
fn last_of_thread(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    thread: ThreadId,
    traces: Traces<'_>,
    is_wanted: impl Fn(bugnet_format::types::IntervalNo) -> Result<bool>,
    before: Option<Place>,
) -> Result<Option<Inferred>> {
    for &interval in log.intervals(thread)?.iter().rev() {
        if !is_wanted(interval)? {
            continue;
        }
        for (place, call, data) in calls_of(log, thread, interval)?.into_iter().rev() {
            if before.is_some_and(|before| (place.interval, place.position) >= (before.interval, before.position)) {
                continue;
            }
            if call.writes_where_memory_says() {
                cursor.seek(Seek::Place(place))?;
            }
            let mut seen = Seen { memory: &mut *cursor, symbols };
            let Changed::Ranges(ranges) = call.changed(&mut seen) else { continue };
            let covers = |&(addr, len): &(u64, u64)| {
                addr < traces.addr.saturating_add(traces.bytes.len() as u64) && traces.addr < addr.saturating_add(len)
            };
            let is_zero = traces.bytes.iter().all(|byte| byte.is_none_or(|byte| byte == 0));
            if ranges.iter().any(covers) && (is_zero || !call.clears()) {
                return Ok(Some(Inferred { place, call: text_of(&call, &data, symbols) }));
            }
        }
    }
    Ok(None)
}
