//! `bugnet diff`, `bugnet delta` and `bugnet window`: a right and a wrong run of a program, side by side.

use crate::args::{CompareArgs, DeltaArgs, DiffArgs, LogArg, WindowArgs};
use crate::failure::Failure;
use crate::find_log::{find_log, tools, tools_that_show};
use crate::next::quoted;
use crate::processes::meant;
use crate::terminal::output;
use bugnet_analyses::delta;
use bugnet_analyses::diff::{Diff, Report, Threads, Way, diff as compare};
use bugnet_analyses::runs::both::{Both, Which};
use bugnet_analyses::runs::side::{Ran, counterpart};
use bugnet_analyses::window::window as find;
use bugnet_format::types::ProcessId;
use bugnet_replay::log::Log;
use bugnet_replay::tree::processes;
use bugnet_replay::{ReplayError, Result as Replayed};
use serde::Serialize;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Says where the runs part.
pub fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let show = |found: &Diff| Report { diff: found, top: args.top }.to_string() + &next(found);
    told(&args.good, &args.bad, &args.compare, true, |both| compare(both, args.top), show)
}

/// Commands that look around where the runs first part, ready to paste.
fn next(found: &Diff) -> String {
    let Some(first) = found.threads.iter().find_map(Threads::first) else { return String::new() };
    let sides = [("GOOD", &found.good, &first.good), ("BAD", &found.bad, &first.bad)];
    let line = |(name, run, way): (&str, &Ran, &Way)| {
        let (position, pid, log) = (&way.moment.position, run.pid, quoted(&run.log));
        format!("  bugnet debug --at {position} -p {pid} {log}    gdb, where {name} parts first\n")
    };
    format!("\nNext:\n{}", sides.map(line).concat())
}

/// Says which memory the failing function used in both, and who else did.
pub fn delta(args: &DeltaArgs) -> Result<(), Failure> {
    let (good, bad) = (open(&args.good, &args.identity)?, open(&args.bad, &args.identity)?);
    let tools = tools(&args.time)?;
    let process = meant(&bad, &args.process)?;
    let found = delta::delta(&tools, [&good, &bad], process, &args.function, args.top)?;
    print(args.json, &found, |found| delta::Shown(found).to_string())
}

/// Says how long before the end they do.
pub fn window(args: &WindowArgs) -> Result<(), Failure> {
    told(&args.good, &args.bad, &args.compare, false, find, ToString::to_string)
}

/// Replays both, or as much of them as there is time for if some of it is good for something, and prints what is found out about them.
fn told<T: Serialize>(
    good: &Path,
    bad: &Path,
    args: &CompareArgs,
    is_some_good: bool,
    find: impl FnOnce(&mut Both<'_>) -> Replayed<T>,
    show: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let (good, bad) = (open(good, &args.identity)?, open(bad, &args.identity)?);
    let tools = tools_that_show(&args.time)?;
    let process = meant(&bad, &args.process)?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let which = Which { logs: [&good, &bad], bad: process, own: &args.own, any_build: args.other_build, until: None };
    let instructions = instructions(&good, counterpart(&bad, process, &good, args.other_build)?)?;
    tools.work.begin("replaying both", instructions + self::instructions(&bad, process)?, None);
    let both = if is_some_good { Both::replay_some } else { Both::replay };
    let mut both = both(&tools, which, jobs)?;
    // Of one alone, there is nothing to compare.
    if let Some(cut) = both.cut.filter(|cut| cut.intervals.contains(&0)) {
        return Err(ReplayError::Over(cut.over).into());
    }
    tools.work.begin("comparing", 0, None);
    let found = find(&mut both)?;
    tools.work.end();
    print(args.json, &found, show)
}

/// How many a process executed.
fn instructions(log: &Log, pid: ProcessId) -> Result<u64, Failure> {
    Ok(processes(log)?.into_iter().find(|process| process.id == pid).map_or(0, |process| process.instructions))
}

fn open(path: &Path, identity: &[PathBuf]) -> Result<Log, Failure> {
    let arg = LogArg { log: Some(path.to_owned()), identity: identity.to_vec() };
    Ok(Log::open_source(find_log(&arg)?)?)
}

fn print<T: Serialize>(json: bool, found: &T, show: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    let mut out = output(json);
    if json {
        serde_json::to_writer_pretty(&mut out, found).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", show(found))?;
    }
    Ok(out.flush()?)
}
