//! From a location to a moment.

use super::{Code, Location, Spot};
use crate::cursor::{Conditions, Cursor, Direction, Event, Seek, Stopped};
use crate::error::{ReplayError, Result};
use crate::symbols::Symbolizer;
use bugnet_format::types::{Addr, IntervalNo, Position, Tid};
use serde::Serialize;

/// Which of the times at which code ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Only as this thread ran it.
    pub thread: Option<Tid>,
    /// The first time, in place of the last.
    pub is_first: bool,
}

/// Where a cursor has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Arrival {
    /// The code that was asked for; none for a position.
    pub spot: Option<Spot>,
    /// What whoever asked should know: which of several places this is, and what is otherwise than was asked for.
    pub notes: Vec<String>,
}

/// Goes to a position, or to the last or first time that code ran.
///
/// # Errors
/// There is no such code, it never ran, the log does not hold the position, or the replay process is lost.
pub fn go(cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, to: &Location, choice: Choice) -> Result<Arrival> {
    check_thread(cursor, choice.thread)?;
    let name = match to {
        Location::Position(position) => {
            cursor.check(*position)?;
            cursor.seek(*position)?;
            return Ok(Arrival::default());
        }
        Location::Code(name) => name,
    };
    let code = Code::find(name, symbols)?;
    let Some(spot) = run_to(cursor, &code, choice)? else {
        let by = choice.thread.map_or(String::new(), |tid| format!("thread {tid} "));
        let places: Vec<&str> = code.spots.iter().take(3).map(|spot| spot.what.as_str()).collect();
        let note = code.note.map_or(String::new(), |note| format!(" ({note})"));
        return Err(ReplayError::OutOfRange(format!(
            "{by}never ran {name} while it was recorded{note}; it is at {}",
            places.join(", and at ")
        )));
    };
    let mut notes: Vec<String> = code.note.iter().cloned().collect();
    if code.spots.len() > 1 {
        let inlined = if spot.is_inlined { ", inlined" } else { "" };
        notes.push(format!(
            "{name} is at {} places: this is {} at {}{inlined}",
            code.spots.len(),
            spot.what,
            spot.address
        ));
    }
    if !finish_prologue(cursor, &spot)? {
        notes.push("its arguments are not yet where they are kept: those shown may be others".into());
    }
    Ok(Arrival { spot: Some(spot), notes })
}

/// Whether the process has the thread that was asked for.
///
/// # Errors
/// It has not; the error says which it has.
pub fn check_thread(cursor: &Cursor<'_>, thread: Option<Tid>) -> Result<()> {
    let Some(tid) = thread.filter(|tid| cursor.all_threads().all(|(other, _)| other != *tid)) else { return Ok(()) };
    let all: Vec<String> = cursor.all_threads().map(|(tid, _)| tid.to_string()).collect();
    let (pid, all) = (cursor.pid(), all.join(", "));
    Err(ReplayError::OutOfRange(format!("process {pid} has no thread {tid}; it has {all}")))
}

/// Runs to the last or first time that one of the addresses was executed; `None` if none ever was.
fn run_to(cursor: &mut Cursor<'_>, code: &Code, choice: Choice) -> Result<Option<Spot>> {
    let conditions = Conditions { addresses: code.addresses(), ..Conditions::default() };
    let (from, direction) =
        if choice.is_first { (Seek::Start, Direction::Forward) } else { (Seek::End, Direction::Backward) };
    cursor.seek(from)?;
    // A run begins behind the instruction at which it stands: that of a crash, or a program's first.
    let mut stands = Some(Addr(cursor.regs().rip));
    loop {
        let at = match stands.take() {
            Some(address) => address,
            None => match cursor.run(direction, &conditions)? {
                Stopped::Condition(Event::Address(address)) => Addr(address),
                Stopped::Condition(_) => continue,
                Stopped::Interrupted => return Err(ReplayError::OutOfRange("the search was interrupted".into())),
                _ => return Ok(None),
            },
        };
        let is_right_thread = choice.thread.is_none_or(|tid| cursor.place().tid == tid);
        if let Some(spot) = code.spot(at).filter(|_| is_right_thread) {
            return Ok(Some(spot.clone()));
        }
    }
}

/// From a function's entry to where its arguments are where they belong; `false` if the cursor stays, since the thread does not get
/// there at once.
pub(crate) fn finish_prologue(cursor: &mut Cursor<'_>, spot: &Spot) -> Result<bool> {
    if spot.ahead == 0 {
        return Ok(true);
    }
    let (time, mut place) = (cursor.time(), cursor.place());
    place.position = Position(place.position.0.saturating_add(spot.ahead));
    cursor.seek(Seek::Place(place))?;
    // A signal, or the end of the interval, may have come between.
    if cursor.regs().rip == spot.stop.0 && same_thread(cursor, place.tid, place.interval) {
        return Ok(true);
    }
    cursor.seek(Seek::Time(time))?;
    Ok(false)
}

fn same_thread(cursor: &Cursor<'_>, tid: Tid, interval: IntervalNo) -> bool {
    (cursor.place().tid, cursor.place().interval) == (tid, interval)
}
