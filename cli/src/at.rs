//! `bugnet at`: what there is to see at a moment.

use crate::args::{AtArgs, ProcessArg};
use crate::failure::Failure;
use crate::find_log::{find_log_from, tools};
use crate::index;
use crate::processes::meant;
use crate::terminal::output;
use bugnet_replay::crash::{Brief, Moment, moment_of};
use bugnet_replay::cursor::Cursor;
use bugnet_replay::location::{Arrival, Choice, Location, go};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use serde::Serialize;
use std::io::Write;

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    arrival: &'a Arrival,
    #[serde(flatten)]
    moment: &'a Moment,
}

/// Goes there and shows it.
pub fn at(args: &AtArgs) -> Result<(), Failure> {
    if args.first && matches!(args.location, Location::Position(_)) {
        return Err(Failure::Usage("--first is for code that may run more than once; a position is one moment".into()));
    }
    let log = Log::open_source(find_log_from(&args.log, &args.process, Some(&args.location))?)?;
    let tools = tools(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    let mut symbols = Symbolizer::new(&log, cursor.pid())?;
    let choice = Choice { thread: args.thread, is_first: args.first };
    let arrival = go(&mut cursor, &mut symbols, &args.location, choice)?;
    // Code is shown as the thread ran it; a position, as the thread sees it that matters there.
    let thread = match (args.thread, &args.location) {
        (None, Location::Position(_)) => cursor.focus()?,
        (None, _) => cursor.place().tid,
        (Some(thread), _) => thread,
    };
    let moment = moment_of(&log, &mut cursor, thread)?;
    let mut out = output(args.json);
    if args.json {
        let report = Report { arrival: &arrival, moment: &moment };
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        arrival.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
        show(&mut out, &moment, args.full)?;
    }
    out.flush()?;
    Ok(())
}

/// Shows a moment: all of it, or what fits a screen.
pub fn show(out: &mut impl Write, moment: &Moment, full: bool) -> std::io::Result<()> {
    if full { write!(out, "{moment}") } else { write!(out, "{}", Brief(moment)) }
}

/// A cursor on the process that is meant.
pub fn open<'a>(tools: &'a Tools, log: &'a Log, arg: &ProcessArg) -> Result<Cursor<'a>, Failure> {
    let mut cursor = Cursor::open(tools, log, meant(log, arg)?)?;
    index::use_where_needed(tools, log, &mut cursor)?;
    Ok(cursor)
}
