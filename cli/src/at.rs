//! `bugnet at`: what there is to see at a position.

use crate::args::{AtArgs, ProcessArg};
use crate::failure::Failure;
use crate::find_log::{find_log, tools};
use crate::processes::selected;
use crate::terminal::output;
use bugnet_format::types::ProcessId;
use bugnet_replay::ReplayError;
use bugnet_replay::crash::{crashes, moment};
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use std::io::Write;

/// Goes there and shows it.
pub fn at(args: &AtArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log(&args.log)?)?;
    let tools = tools(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    cursor.seek(args.position)?;
    let moment = moment(&log, &mut cursor)?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &moment).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{moment}")?;
    }
    out.flush()?;
    Ok(())
}

/// A cursor on the [`chosen`] process.
pub fn open<'a>(tools: &'a Tools, log: &'a Log, process: &ProcessArg) -> Result<Cursor<'a>, Failure> {
    Ok(Cursor::open(tools, log, chosen(log, process)?)?)
}

/// The process to look at: of several that fit, the last; without a choice, the one that crashed.
pub fn chosen(log: &Log, process: &ProcessArg) -> Result<ProcessId, Failure> {
    let chosen = selected(log, process)?.and_then(|selected| selected.last().copied());
    let crashed = || crashes(log).map(|crashed| crashed.last().map(|thread| thread.pid));
    let last = || log.threads().map(|thread| thread.pid).last();
    let pid = match chosen {
        Some(pid) => Some(pid),
        None => crashed()?.or_else(last),
    };
    let what = || ReplayError::OutOfRange(format!("{} holds no process", log.path().display()));
    Ok(pid.ok_or_else(what)?)
}

/// A position, if none is given the end.
pub fn position(given: Option<Seek>) -> Seek {
    given.unwrap_or(Seek::End)
}
