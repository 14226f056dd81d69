//! `bugnet last-write`: what wrote a variable or some bytes last.

use crate::args::LastWriteArgs;
use crate::at::{open, show};
use crate::failure::Failure;
use crate::find_log::{find_log_of_one, tools};
use crate::index;
use crate::terminal::output;
use bugnet_replay::crash::{Moment, moment};
use bugnet_replay::cursor::{LastWrite, Seek};
use bugnet_replay::location::{Choice, Location, go};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::Inferred;
use bugnet_replay::written::{Asked, Written, last_write as find};
use serde::Serialize;
use std::io::Write;

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    asked: &'a Asked,
    #[serde(flatten)]
    write: &'a LastWrite,
    inferred: Option<&'a Inferred>,
    values: Option<&'a bugnet_replay::written::Values>,
    moment: Option<&'a Moment>,
}

/// Looks for it and shows it.
pub fn last_write(args: &LastWriteArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let tools = tools(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    index::make_if_needed(&tools, &log, &mut cursor)?;
    let mut symbols = Symbolizer::new(&log, cursor.pid())?;
    let before = args.before.clone().unwrap_or(Location::Position(Seek::End));
    let choice = Choice { thread: args.thread, is_first: false };
    let arrival = go(&mut cursor, &mut symbols, &before, choice)?;
    let written = find(&log, &mut cursor, &mut symbols, &args.subject)?;
    let moment = match written.write {
        LastWrite::Unknown | LastWrite::Interrupted => None,
        _ => Some(moment(&log, &mut cursor)?),
    };
    let mut out = output(args.json);
    if args.json {
        let Written { subject: asked, write, inferred, values } = &written;
        let report =
            Report { asked, write, inferred: inferred.as_ref(), values: values.as_ref(), moment: moment.as_ref() };
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    arrival.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    write!(out, "{written}")?;
    if let Some(moment) = moment {
        show(&mut out, &moment, args.full)?;
    }
    Ok(out.flush()?)
}
