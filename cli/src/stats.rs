//! `bugnet stats`: how much was executed, loaded and stored, and where.

use crate::args::{SliceKind, StatsArgs, ValueArgs};
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log_of, tools_that_tell};
use crate::new_file::{check_page, make};
use crate::processes::selected;
use crate::slice::asked;
use crate::terminal::{output, progress};
use bugnet_analyses::slice::{Options, slice};
use bugnet_analyses::stats::{Report, Stats, html, stats as count};
use bugnet_replay::ReplayError;
use bugnet_replay::log::{Log, Selection};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::work::Over;
use std::io::Write;
use std::num::NonZeroUsize;

/// Counts, and prints what was counted.
pub fn stats(args: &StatsArgs) -> Result<(), Failure> {
    let ValueArgs { at, reg, mem, var, output: byte } = &args.value;
    if args.slice.is_none() && (at.is_some() || reg.is_some() || mem.is_some() || var.is_some() || byte.is_some()) {
        return Err(Failure::Usage("a value is one to slice: say --slice, too".into()));
    }
    args.html.as_deref().map_or(Ok(()), check_page)?;
    let log = Log::open_source(find_log_of(&args.log, &args.process)?)?;
    let tools = tools_that_tell(&args.time)?;
    let processes = selected(&log, &args.process)?;
    let selection = Selection { processes, tid: args.thread, intervals: args.intervals.clone() };
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let bar = progress("intervals");
    let stats = count(&tools, &log, &selection, jobs, |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let mut stats = stats?;
    let notes = match (args.slice, stats.cut) {
        (Some(_), Some(cut)) => vec![not_sliced(cut.over)],
        (Some(kind), None) => match add_slice(args, kind, &tools, &log, &mut stats) {
            Err(Failure::Replay(ReplayError::Over(over))) => vec![not_sliced(over)],
            notes => notes?,
        },
        (None, _) => Vec::new(),
    };
    if let Some(path) = &args.html {
        let page =
            html(&stats, &std::path::absolute(log.path())?.display().to_string()).map_err(std::io::Error::from)?;
        make(path, |to| Ok(to.write_all(page.as_bytes())?))?;
    }
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &stats).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
        write!(out, "{}", Report { stats: &stats, each: args.each, top: args.top })?;
        args.html.iter().try_for_each(|path| writeln!(out, "{} draws it over time", path.display()))?;
    }
    Ok(out.flush()?)
}

/// Nobody knows what the value follows from.
fn not_sliced(over: Over) -> String {
    format!("{over}, before it was looked for what the value follows from")
}

/// Says how much of each interval a value follows from; returns what whoever asked should know.
fn add_slice(
    args: &StatsArgs,
    kind: SliceKind,
    tools: &Tools,
    log: &Log,
    stats: &mut Stats,
) -> Result<Vec<String>, Failure> {
    let mut cursor = open(tools, log, &args.process)?;
    let mut symbols = Symbolizer::new(log, cursor.pid())?;
    let (asked, notes) = asked(&args.value, args.thread, (tools, log), &mut cursor, &mut symbols)?;
    let is_full = kind == SliceKind::Full;
    let options =
        Options { addresses: is_full, control: is_full, given: true, keep: 0, shares: true, ..Options::default() };
    let found = slice(tools, log, cursor.pid(), &asked.criterion, &options)?;
    stats.add_slice(cursor.pid(), &found, &asked.what, is_full);
    Ok(notes)
}
