//! `bugnet order`, and what `dump --order`, `info --threads` and `replay --merged` show: all threads of a process.

use crate::args::{DumpArgs, InfoArgs, LogArg, OrderArgs, ProcessArg, ReplayArgs};
use crate::failure::{EXIT_WRONG, Failure};
use crate::find_log::{find_log, tools};
use crate::processes::selected;
use crate::replay::exit_code;
use crate::terminal::output;
use bugnet_format::complete::{Gap, Gaps};
use bugnet_format::merged::Segment;
use bugnet_format::types::ProcessId;
use bugnet_replay::ReplayError;
use bugnet_replay::describe;
use bugnet_replay::log::{Log, Selection};
use bugnet_replay::merged::{MergedReport, chosen_process, replay_merged};
use bugnet_replay::order::{ThreadSummary, Threads, in_order, per_million, schedule, stretches, summaries};
use bugnet_replay::verify::{IntervalReport, survey};
use indicatif::HumanCount;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Opens a log. Of several processes that fit, the last is taken.
fn open(log: &LogArg, process: &ProcessArg) -> Result<(Log, ProcessId), Failure> {
    let log = Log::open(&find_log(log.log.as_deref())?)?;
    let nothing = || ReplayError::OutOfRange(format!("{} holds no thread", log.path().display()));
    let pid = match selected(&log, process)? {
        Some(selected) => selected.last().copied(),
        None => chosen_process(&log)?,
    };
    let pid = pid.ok_or_else(nothing)?;
    Ok((log, pid))
}

fn ordered(log: &Log, pid: ProcessId) -> Result<(Threads, Vec<Segment>), ReplayError> {
    let threads = Threads::read(log, pid)?;
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    Ok((threads, order))
}

/// Prints one order of all threads: a stretch of one thread a line.
pub fn order(args: &OrderArgs) -> Result<(), Failure> {
    let (log, pid) = open(&args.log, &args.process)?;
    let (threads, order) = ordered(&log, pid)?;
    let mut out = output(args.json);
    for stretch in stretches(&threads, &order) {
        if args.json {
            serde_json::to_writer(&mut out, &stretch).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            let (tid, interval, from, to) = (stretch.tid, stretch.interval, stretch.from, stretch.to);
            writeln!(out, "thread {tid} interval {interval}: instructions {from} to {to}")?;
        }
    }
    Ok(out.flush()?)
}

/// Prints all dependencies in the merged order, one a line.
pub fn dump(args: &DumpArgs) -> Result<(), Failure> {
    let (log, pid) = open(&args.log, &args.process)?;
    let (threads, order) = ordered(&log, pid)?;
    let mut out = output(args.json);
    for dependency in in_order(&threads, &order) {
        if args.json {
            serde_json::to_writer(&mut out, &dependency).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{dependency}")?;
        }
    }
    Ok(out.flush()?)
}

/// Prints each thread in numbers, and for whom it waited.
pub fn info(args: &InfoArgs) -> Result<(), Failure> {
    let (log, pid) = open(&args.log, &args.process)?;
    let summaries = summaries(&Threads::read(&log, pid)?);
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &summaries).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        summaries.iter().try_for_each(|thread| print_thread(&mut out, thread))?;
    }
    Ok(out.flush()?)
}

fn print_thread(out: &mut impl Write, thread: &ThreadSummary) -> std::io::Result<()> {
    let ThreadSummary { tid, intervals, instructions, dependencies, before_reduction, outside, .. } = thread;
    let end = describe::thread_end(thread.end.as_ref());
    let in_intervals = if *intervals == 1 { "1 interval".to_owned() } else { format!("{intervals} intervals") };
    writeln!(out, "thread {tid}: {} instructions in {in_intervals}; {end}", HumanCount(*instructions))?;
    let rate = |count: u64| per_million(count, *instructions);
    writeln!(
        out,
        "  {dependencies} dependencies ({:.1} per million instructions), of {before_reduction} ({:.1}) before reduction",
        rate(*dependencies),
        rate(*before_reduction)
    )?;
    if *outside > 0 {
        writeln!(out, "  {outside} of them on what the log does not hold")?;
    }
    thread.waited_for.iter().try_for_each(|waited| writeln!(out, "  waited for {waited}"))
}

/// What `replay --merged --json` prints.
#[derive(Serialize)]
struct Merged<'a> {
    #[serde(flatten)]
    report: &'a MergedReport,
    /// The intervals that were cut off or are damaged.
    unfinished: &'a [IntervalReport],
    /// What the log lacks of the process.
    gaps: &'a [Gap],
}

/// Replays all threads together; the exit status says whether the order explains all that they read.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let (log, pid) = open(&args.log, &args.process)?;
    let report = replay_merged(&tools(&args.time)?, &log, pid)?;
    let selection = Selection { processes: Some(vec![pid]), ..Selection::default() };
    let (unfinished, gaps) = survey(&log, &selection)?;
    let mut out = output(args.json);
    if args.json {
        let json = Merged { report: &report, unfinished: &unfinished, gaps: &gaps };
        serde_json::to_writer_pretty(&mut out, &json).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        unfinished.iter().try_for_each(|interval| write!(out, "{interval}"))?;
        writeln!(out, "{}{report}", Gaps(&gaps))?;
    }
    out.flush()?;
    if !report.is_exact() {
        return Ok(ExitCode::from(EXIT_WRONG));
    }
    Ok(ExitCode::from(exit_code(unfinished.iter().filter(|interval| !interval.outcome.is_exact()), &gaps)))
}
