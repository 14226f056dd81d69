//! `bugnet replay`: replays a log and verifies it, or prints what the program wrote.

use crate::args::{ReplayArgs, Streams};
use crate::failure::{EXIT_BAD_LOG, EXIT_IMPOSSIBLE, EXIT_INCOMPLETE, EXIT_WRONG, Failure, complain};
use crate::find_log::{find_light, find_log_of, some, tools};
use crate::index;
use crate::order;
use crate::processes::selected;
use crate::terminal::output;
use bugnet_format::complete::{Gap, Gaps};
use bugnet_format::record::OutputStream;
use bugnet_format::types::ProcessId;
use bugnet_replay::log::{Log, Selection};
use bugnet_replay::output::write_output;
use bugnet_replay::tools::Tools;
use bugnet_replay::verify::{IntervalReport, Outcome, Verified, verify};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::io::{Write, stderr, stdout};
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// Replays; the exit status says whether all of it was exact.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    // Which thread wrote what in which interval, only the log itself knows.
    if let (Some(streams), None, None) = (args.output, &args.thread, &args.intervals)
        && let Some(light) = find_light(&args.log, some(&args.process))?
        && light.has_output(&args.process)?
    {
        return light.output(&args.process, streams);
    }
    let log = Log::open_source(find_log_of(&args.log, &args.process)?)?;
    if args.merged && !log.is_empty() {
        return order::replay(args);
    }
    let tools = tools(&args.time)?;
    let processes = selected(&log, &args.process)?;
    let selection = Selection { processes, tid: args.thread, intervals: args.intervals.clone() };
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    if let Some(streams) = args.output {
        return print_output(&tools, &log, &selection, jobs, streams);
    }
    // An index takes a replay of everything, which verifies most of it on the way. Whatever becomes of it, all is verified.
    let mut verified = Verified::default();
    let make_index = |pid| index::make_if_missing(&tools, &log, pid, jobs, &mut verified);
    let indexed = if args.index { indexed(&log, &selection)?.into_iter().try_for_each(make_index) } else { Ok(()) };
    // Drawn on a terminal only.
    let bar = ProgressBar::new(0).with_style(bar_style()).with_message("0");
    let report = verify(&tools, &log, &selection, &verified, jobs, |progress| {
        bar.set_length(progress.of_intervals as u64);
        bar.set_position(progress.intervals as u64);
        bar.set_message(HumanCount(progress.instructions).to_string());
    });
    bar.finish_and_clear();
    let report = report?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{report}")?;
    }
    out.flush()?;
    indexed?;
    Ok(ExitCode::from(exit_code(report.failures(), &report.gaps)))
}

/// The processes of which something is selected.
fn indexed(log: &Log, selection: &Selection) -> Result<BTreeSet<ProcessId>, Failure> {
    Ok(selection.intervals_of(log)?.into_iter().map(|id| id.thread.pid).collect())
}

fn bar_style() -> ProgressStyle {
    let template = "{bar:40} {pos} of {len} intervals, {msg} instructions, {eta} to go";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The worst that happened to an interval decides.
pub fn exit_code<'a>(failures: impl Iterator<Item = &'a IntervalReport>, gaps: &[Gap]) -> u8 {
    let failures: Vec<_> = failures.collect();
    let any = |test: fn(&Outcome) -> bool| failures.iter().any(|interval| test(&interval.outcome));
    if failures.is_empty() {
        if gaps.iter().all(|gap| gap.expected) { 0 } else { EXIT_INCOMPLETE }
    } else if any(|outcome| matches!(outcome, Outcome::Divergence(_))) {
        EXIT_WRONG
    } else if any(|outcome| matches!(outcome, Outcome::Damaged { .. })) {
        EXIT_BAD_LOG
    } else {
        EXIT_IMPOSSIBLE
    }
}

fn print_output(
    tools: &Tools,
    log: &Log,
    selection: &Selection,
    jobs: NonZeroUsize,
    streams: Streams,
) -> Result<ExitCode, Failure> {
    let (mut out, mut err) = (stdout().lock(), stderr().lock());
    let report = write_output(tools, log, selection, jobs, |piece| match piece.stream {
        // Flushed piece by piece: where both go to one place, the order is that of the recording.
        OutputStream::Stdout if streams != Streams::Stderr => out.write_all(&piece.bytes).and_then(|()| out.flush()),
        OutputStream::Stderr if streams != Streams::Stdout => err.write_all(&piece.bytes),
        _ => Ok(()),
    })?;
    drop((out, err));
    for failure in &report.failures {
        complain(&failure.to_string().trim_end());
    }
    let missing: Vec<_> = report.gaps.into_iter().filter(|gap| !gap.expected).collect();
    for line in Gaps(&missing).to_string().lines() {
        complain(&line);
    }
    Ok(ExitCode::from(exit_code(report.failures.iter(), &missing)))
}
