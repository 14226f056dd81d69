//! `bugnet slice`: what has made a value what it is.

use crate::args::{Full, SliceArgs, ValueArgs};
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log_of_one, tools_that_show};
use crate::new_file::{check_page, make};
use crate::next::quoted;
use crate::terminal::output;
use bugnet_analyses::slice::{
    Asked, Detail, Ended, Options, PAGE_LINES, Question, Shown, ask, forward, html, report, slice as find,
};
use bugnet_format::types::Tid;
use bugnet_replay::ReplayError;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::location::{Choice, Location, go};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use std::io::Write;

/// Finds it out, and shows it.
pub fn slice(args: &SliceArgs) -> Result<(), Failure> {
    args.html.as_deref().map_or(Ok(()), check_page)?;
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let tools = tools_that_show(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    let mut symbols = Symbolizer::new(&log, cursor.pid())?;
    let (asked, notes) = asked(&args.value, args.thread, (&tools, &log), &mut cursor, &mut symbols)?;
    let options = Options {
        addresses: args.full.is_some(),
        control: args.full.is_some(),
        given: args.full != Some(Full::All),
        tables: true,
        depth: args.depth,
        until: args.until,
        thread: args.thread,
        keep: 0,
        shares: false,
        touched: args.touched,
        most: None,
    };
    let find = if args.forward { forward } else { find };
    tools.work.begin("following the value", 0, None);
    let found = find(&tools, &log, cursor.pid(), &asked.criterion, &options)?;
    // Whether no instruction made it is not known then.
    if let (0, Ended::Over(over)) = (found.graph.count, found.ended) {
        return Err(ReplayError::Over(over).into());
    }
    let page = if args.html.is_some() { PAGE_LINES } else { 0 };
    let (values, folds) = (args.lines.max(page), !args.instructions);
    let detail = Detail { is_full: args.full.is_some(), is_forward: args.forward, values, folds };
    tools.work.end();
    let report = report(&log, &mut cursor, &mut symbols, &asked, &found, detail)?;
    if let Some(path) = &args.html {
        // The page may be looked at from anywhere.
        let at = std::path::absolute(log.path())?;
        let log = format!("-p {} {}", cursor.pid(), quoted(&at.display().to_string()));
        let page = html(&report, &symbols, &log).map_err(std::io::Error::from)?;
        make(path, |to| Ok(to.write_all(page.as_bytes())?))?;
    }
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
        write!(out, "{}", Shown { report: &report, lines: args.lines, instructions: args.instructions })?;
        args.html.iter().try_for_each(|path| writeln!(out, "{} shows it as a page", path.display()))?;
    }
    Ok(out.flush()?)
}

/// What is asked about, and what whoever asked should know.
pub fn asked(
    args: &ValueArgs,
    thread: Option<Tid>,
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
) -> Result<(Asked, Vec<String>), Failure> {
    let subject = args.mem.as_ref().or(args.var.as_ref());
    let question = match (args.reg, subject, args.output) {
        (Some(register), ..) => Question::Register(register),
        (None, Some(subject), _) => Question::Memory(subject.clone()),
        (None, None, Some(byte)) => Question::Output(byte),
        (None, None, None) if args.at.is_some() => Question::Operands,
        (None, None, None) => Question::Failure,
    };
    let at = args.at.clone().unwrap_or(Location::Position(Seek::End));
    let choice = Choice { thread, is_first: false };
    let arrival = go(cursor, symbols, &at, choice)?;
    if let Some(thread) = thread {
        go_to_thread(cursor, thread)?;
    }
    Ok((ask((tools, log), cursor, symbols, &question)?, arrival.notes))
}

/// Goes to where a thread is at this moment.
fn go_to_thread(cursor: &mut Cursor<'_>, thread: Tid) -> Result<(), Failure> {
    if cursor.place().tid == thread {
        return Ok(());
    }
    let threads = cursor.threads()?;
    let found = threads.iter().find(|other| other.place.tid == thread).map(|other| other.place);
    let what = || ReplayError::OutOfRange(format!("thread {thread} does nothing around there"));
    cursor.seek(Seek::Place(found.ok_or_else(what)?))?;
    Ok(())
}
