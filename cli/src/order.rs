//! `bugnet order`, and what `dump --order`, `info --threads` and `replay --merged` show: all threads of each process.

use crate::args::{DumpArgs, InfoArgs, LogArg, OrderArgs, ProcessArg, ReplayArgs};
use crate::failure::{EXIT_BAD_LOG, EXIT_IMPOSSIBLE, EXIT_INCOMPLETE, EXIT_WRONG, Failure, complain};
use crate::find_log::{find_log, tools};
use crate::processes::selected;
use crate::replay::exit_code;
use crate::terminal::output;
use bugnet_format::complete::{Gap, Gaps, Mentions};
use bugnet_format::package::Segment;
use bugnet_format::types::{Epoch, ProcessId};
use bugnet_replay::ReplayError;
use bugnet_replay::describe;
use bugnet_replay::log::{Log, Selection, ThreadId};
use bugnet_replay::merged::{MergedReport, replay_merged};
use bugnet_replay::order::{ThreadSummary, Threads, Window, in_order, per_million, schedule, stretches, summaries};
use bugnet_replay::tree;
use bugnet_replay::verify::{IntervalReport, survey};
use indicatif::HumanCount;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// A log, and which of its processes are shown, one after the other: those that are selected and have threads.
struct Shown {
    log: Log,
    processes: Vec<ProcessId>,
    /// What each is called, if there are several.
    names: Vec<String>,
}

/// Something of a process.
#[derive(Serialize)]
struct Of<'a, T> {
    #[serde(flatten)]
    process: ProcessId,
    #[serde(flatten)]
    what: &'a T,
}

impl Shown {
    fn open(log: &LogArg, process: &ProcessArg) -> Result<Self, Failure> {
        let log = Log::open_source(find_log(log)?)?;
        let selected = selected(&log, process)?;
        let wanted = |pid: &ProcessId| selected.as_ref().is_none_or(|selected| selected.contains(pid));
        let has_intervals = |thread: &ThreadId| log.intervals(*thread).is_ok_and(|intervals| !intervals.is_empty());
        let threads = log.threads().filter(has_intervals).map(|thread| thread.pid);
        let mut processes: Vec<ProcessId> = threads.filter(wanted).collect();
        processes.dedup();
        if processes.is_empty() {
            let what = format!("{} holds no thread", log.path().display());
            return Err(ReplayError::OutOfRange(what).into());
        }
        let known = match processes.len() {
            1 => Vec::new(),
            _ => tree::processes(&log)?,
        };
        let name = |pid: &ProcessId| match known.iter().find(|process| process.id == *pid) {
            Some(process) => format!("process {pid} ({})", process.name()),
            None => format!("process {pid}"),
        };
        let names = processes.iter().map(name).collect();
        Ok(Self { log, processes, names })
    }

    /// Shows one process after the other; several are named, unless that is a part of what is shown.
    fn each(&self, json: bool, mut show: impl FnMut(ProcessId) -> Result<(), Failure>) -> Result<(), Failure> {
        for (pid, name) in self.processes.iter().zip(&self.names) {
            if self.processes.len() > 1 && !json {
                let mut out = output(json);
                writeln!(out, "{name}:")?;
                out.flush()?;
            }
            show(*pid)?;
        }
        Ok(())
    }

    /// As [`Self::each`]. One that cannot be shown does not keep the others from being shown; the worst exit status counts.
    fn each_with_status(
        &self,
        json: bool,
        mut show: impl FnMut(ProcessId) -> Result<u8, Failure>,
    ) -> Result<u8, Failure> {
        let mut worst = 0;
        self.each(json, |pid| {
            let status = match show(pid) {
                Err(failure) if self.processes.len() > 1 && !failure.is_broken_pipe() => {
                    complain(&format!("process {pid}: {failure}"));
                    failure.exit_code()
                }
                status => status?,
            };
            worst = worse(worst, status);
            Ok(())
        })?;
        Ok(worst)
    }

    /// What the log lacks of the selected processes that have nothing to show, by what the others mention.
    fn gaps_of_others(&self, process: &ProcessArg, mentions: &Mentions) -> Result<Vec<Gap>, Failure> {
        let selection = Selection { processes: selected(&self.log, process)?, ..Selection::default() };
        let mut gaps = selection.gaps(&self.log, mentions)?;
        gaps.retain(|gap| !self.processes.contains(&gap.process));
        Ok(gaps)
    }
}

/// The worse of two exit statuses.
fn worse(a: u8, b: u8) -> u8 {
    let by_rank = [EXIT_WRONG, EXIT_BAD_LOG, EXIT_IMPOSSIBLE, EXIT_INCOMPLETE];
    by_rank.into_iter().find(|status| [a, b].contains(status)).unwrap_or(a.max(b))
}

fn ordered(log: &Log, pid: ProcessId) -> Result<(Window, Threads, Vec<Segment>), ReplayError> {
    let window = Window::of(log, pid)?;
    let threads = Threads::read(log, pid, &window)?;
    let order = schedule(&threads).map_err(|cycle| ReplayError::Contradiction { pid, what: cycle.to_string() })?;
    Ok((window, threads, order))
}

/// Prints one order of all threads: a stretch of one thread a line.
pub fn order(args: &OrderArgs) -> Result<ExitCode, Failure> {
    let shown = Shown::open(&args.log, &args.process)?;
    shown
        .each_with_status(args.json, |pid| {
            let (window, threads, order) = ordered(&shown.log, pid)?;
            let mut out = output(args.json);
            if !args.json {
                write!(out, "{window}")?;
            }
            let mut epoch = window.first;
            for stretch in stretches(&threads, &order) {
                if args.json {
                    print_json(&mut out, pid, &stretch)?;
                } else {
                    let (tid, interval, from, to) = (stretch.tid, stretch.interval, stretch.from, stretch.to);
                    if stretch.epoch > epoch {
                        epoch = stretch.epoch;
                        writeln!(out, "epoch {epoch}:")?;
                    }
                    writeln!(out, "thread {tid} interval {interval}: instructions {from} to {to}")?;
                }
            }
            out.flush()?;
            Ok(0)
        })
        .map(ExitCode::from)
}

/// Prints all dependencies in the merged order, one a line.
pub fn dump(args: &DumpArgs) -> Result<(), Failure> {
    let shown = Shown::open(&args.log, &args.process)?;
    shown.each(args.json, |pid| {
        let (window, threads, order) = ordered(&shown.log, pid)?;
        let mut out = output(args.json);
        if !args.json {
            write!(out, "{window}")?;
        }
        for dependency in in_order(&threads, &order) {
            if args.json {
                print_json(&mut out, pid, &dependency)?;
            } else {
                writeln!(out, "{dependency}")?;
            }
        }
        Ok(out.flush()?)
    })
}

fn print_json(out: &mut impl Write, process: ProcessId, what: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, &Of { process, what }).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Prints each thread in numbers, and for whom it waited.
pub fn info(args: &InfoArgs) -> Result<(), Failure> {
    let shown = Shown::open(&args.log, &args.process)?;
    let mut all = Vec::new();
    shown.each(args.json, |pid| {
        let summaries = summaries(&Threads::read(&shown.log, pid, &Window::ALL)?);
        if args.json {
            all.push((pid, summaries));
            return Ok(());
        }
        let mut out = output(args.json);
        summaries.iter().try_for_each(|thread| print_thread(&mut out, thread))?;
        Ok(out.flush()?)
    })?;
    if args.json {
        let threads = all.iter().flat_map(|(pid, threads)| threads.iter().map(|what| Of { process: *pid, what }));
        let mut out = output(args.json);
        serde_json::to_writer_pretty(&mut out, &threads.collect::<Vec<_>>()).map_err(std::io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

fn print_thread(out: &mut impl Write, thread: &ThreadSummary) -> std::io::Result<()> {
    let ThreadSummary { tid, intervals, instructions, dependencies, before_reduction, outside, .. } = thread;
    let end = describe::thread_end(thread.end.as_ref());
    let mut in_intervals = if *intervals == 1 { "1 interval".to_owned() } else { format!("{intervals} intervals") };
    let [first, last] = thread.epochs;
    match (first, last) {
        (Epoch(0), Epoch(0)) => {}
        _ if first == last => in_intervals += &format!(", epoch {first}"),
        _ => in_intervals += &format!(", epochs {first} to {last}"),
    }
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

/// What `replay --merged --json` prints of a process.
#[derive(Serialize)]
struct Merged<'a> {
    #[serde(flatten)]
    report: &'a MergedReport,
    /// The intervals that were cut off or are damaged.
    unfinished: &'a [IntervalReport],
    /// What the log lacks of the process.
    gaps: &'a [Gap],
}

/// Replays all threads of each process together; the exit status says whether the order explains all that they read.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let shown = Shown::open(&args.log, &args.process)?;
    let tools = tools(&args.time)?;
    let mut mentions = Mentions::default();
    let replayed = shown.each_with_status(args.json, |pid| {
        let report = replay_merged(&tools, &shown.log, pid)?;
        let selection = Selection { processes: Some(vec![pid]), ..Selection::default() };
        let (unfinished, mentioned) = survey(&shown.log, &selection)?;
        let gaps = selection.gaps(&shown.log, &mentioned)?;
        mentions.add(mentioned);
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
            return Ok(EXIT_WRONG);
        }
        Ok(exit_code(unfinished.iter().filter(|interval| !interval.outcome.is_exact()), &gaps))
    })?;
    let unseen = shown.gaps_of_others(&args.process, &mentions)?;
    let mut out = output(args.json);
    if args.json && !unseen.is_empty() {
        serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "gaps": unseen })).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", Gaps(&unseen))?;
    }
    out.flush()?;
    Ok(ExitCode::from(worse(replayed, exit_code(std::iter::empty(), &unseen))))
}
