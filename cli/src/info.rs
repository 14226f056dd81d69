//! `bugnet info`: what was recorded, and how it ended.

use crate::args::{InfoArgs, TimeArg};
use crate::expand::Asked;
use crate::failure::Failure;
use crate::find_log::{find_light, find_log_of, tools};
use crate::handled::{self, Handled, Place};
use crate::next;
use crate::order;
use crate::processes::{Table, end, quoted, selected};
use crate::record::describe_ending;
use crate::terminal::{one_line, output};
use bugnet_format::folder::{CODE_FILE, ELF_FOLDER, Ending, Meta, process_folder};
use bugnet_format::process::Origin;
use bugnet_format::record::{EndReason, Record, SignalStep};
use bugnet_format::types::{IntervalNo, ProcessId};
use bugnet_replay::crash::{self, CrashReport, Limits};
use bugnet_replay::describe;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::memory::Amount;
use bugnet_replay::tree::{Process, ProcessEnd, processes};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// How many crashes are reported in full where the user did not choose a process.
const MOST_CRASHES: usize = 3;

/// How many signals that were handled are listed there.
const MOST_HANDLED: usize = 10;

/// What there is to say about a log.
#[derive(Debug, Serialize)]
struct Info {
    /// The log's folder.
    path: PathBuf,
    /// `recording.json`.
    recording: Meta,
    /// The selected processes, in the order in which they began.
    processes: Vec<Process>,
    /// Instructions of all threads since recording began, also those of intervals that were not kept.
    instructions: u64,
    /// Bytes on disk.
    sizes: Sizes,
    threads: Vec<ThreadInfo>,
    /// The threads that a signal killed.
    crashes: Vec<CrashReport>,
}

/// Bytes.
#[derive(Debug, Default, Serialize)]
struct Sizes {
    /// All files.
    total: u64,
    /// Interval files: compressed records.
    intervals: u64,
    /// The records in them, before compression.
    records: u64,
    /// Code stores.
    code: u64,
    /// Copies of ELF files.
    elf: u64,
}

#[derive(Debug, Serialize)]
struct ThreadInfo {
    #[serde(flatten)]
    id: ThreadId,
    /// Instructions since recording began.
    instructions: u64,
    /// Why the thread's log ends; none if it was cut off.
    end: Option<EndReason>,
    intervals: Vec<IntervalInfo>,
    /// The signals that its handlers took.
    handled: Vec<Handled>,
    /// What the log holds of the process's memory at the thread's end.
    memory: Amount,
}

#[derive(Debug, Serialize)]
struct IntervalInfo {
    interval: IntervalNo,
    /// Instructions in it, as far as its records tell.
    instructions: u64,
    /// Number of its records.
    records: u64,
    /// Bytes of its file.
    size: u64,
    /// Bytes of its records before compression.
    records_size: u64,
    /// Whether it has its END.
    complete: bool,
}

/// Prints what there is to say about a log.
pub fn info(args: &InfoArgs) -> Result<(), Failure> {
    if args.threads {
        return order::info(args);
    }
    if args.process.process.is_none()
        && let Some(light) = find_light(&args.log, Asked::All)?
    {
        return light.info(args.json);
    }
    let log = Log::open_source(find_log_of(&args.log, &args.process)?)?;
    let info = Info::of(&log, selected(&log, &args.process)?, &args.time)?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &info).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{info}")?;
    }
    Ok(out.flush()?)
}

impl Info {
    /// What there is to say about these processes, or all.
    fn of(log: &Log, only: Option<Vec<ProcessId>>, time: &TimeArg) -> Result<Self, Failure> {
        let selected = |id: &ProcessId| only.as_ref().is_none_or(|only| only.contains(id));
        let mut processes = processes(log)?;
        processes.retain(|process| selected(&process.id));
        let size = |path: &Path| log.source().size(path);
        let mut sizes = Sizes { total: size(log.path()), elf: size(&log.path().join(ELF_FOLDER)), ..Sizes::default() };
        let mut threads = Vec::new();
        for id in log.threads().filter(|thread| selected(&thread.pid)) {
            threads.push(ThreadInfo::of(log, id)?);
        }
        let code = |process: &Process| size(&log.path().join(process_folder(process.id)).join(CODE_FILE));
        sizes.code = processes.iter().map(code).sum();
        for interval in threads.iter().flat_map(|thread| &thread.intervals) {
            sizes.intervals += interval.size;
            sizes.records += interval.records_size;
        }
        // Without the tools for a replay the report says what is missing; the log itself can still be looked at.
        let tools = tools(time).ok();
        let mut crashes = Vec::new();
        // Of many processes, some are killed for good reasons; of those that the user asks for, all are of interest.
        let alone = only.is_some() || processes.len() == 1;
        let reported =
            |id| selected(&id) && (alone || processes.iter().any(|process| process.id == id && process.crashed()));
        let most = if alone { usize::MAX } else { MOST_CRASHES };
        for thread in crash::crashes(log)?.into_iter().filter(|thread| reported(thread.pid)).take(most) {
            crashes.extend(crash::report(tools.as_ref(), log, thread, Limits::default())?);
        }
        Ok(Self {
            path: log.path().to_owned(),
            recording: log.meta().clone(),
            processes,
            instructions: threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.instructions)),
            sizes,
            threads,
            crashes,
        })
    }
}

impl ThreadInfo {
    fn of(log: &Log, id: ThreadId) -> Result<Self, Failure> {
        let (intervals, handled, memory) = (Vec::new(), Vec::new(), Amount::default());
        let mut thread = Self { id, instructions: 0, end: None, intervals, handled, memory };
        for &number in log.intervals(id)? {
            let interval = log.interval(IntervalId { thread: id, interval: number })?;
            let (mut records, mut instructions) = (0, 0);
            thread.end = None;
            for placed in interval.records().flatten() {
                records += 1;
                instructions = placed.position.0;
                match placed.record {
                    Record::End { reason, .. } => thread.end = Some(reason),
                    Record::Signal { step: SignalStep::Delivery, number: signal, .. } => {
                        let place = Place { tid: id.tid, interval: number, position: placed.position };
                        handled::count(&mut thread.handled, signal, place);
                    }
                    record => thread.memory.add(&record),
                }
            }
            thread.instructions = interval.header.instructions_before.saturating_add(instructions);
            thread.intervals.push(IntervalInfo {
                interval: number,
                instructions,
                records,
                size: interval.file_size,
                records_size: interval.stream.len() as u64,
                complete: interval.complete,
            });
        }
        Ok(thread)
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.recording;
        let sizes = &self.sizes;
        let list = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            writeln!(f, "{name:<13} {}", one_line(&value.to_string()))
        };
        list(f, "log", &self.path.display())?;
        let only = if let [only] = &self.processes[..] { Some(only) } else { None };
        let own = only.and_then(|only| only.info.as_ref());
        if let Some(only) = only {
            let child = own.filter(|info| info.origin != Origin::Start);
            let parent = child.map_or_else(String::new, |info| format!(", a child of {}", info.parent));
            list(f, "process", &format_args!("{}{parent}", only.id))?;
        }
        list(f, "program", own.map_or(&meta.program, |info| &info.program))?;
        list(f, "arguments", &quoted(own.map_or(&meta.args, |info| &info.args)))?;
        if own.is_none_or(|info| info.origin == Origin::Start) {
            list(f, "folder", &meta.cwd)?;
        }
        list(f, "started", &time(own.map_or(meta.started, |info| info.began / 1_000_000_000)))?;
        list(f, "machine", &format_args!("{}, {}", meta.machine.cpu, meta.machine.kernel))?;
        list(f, "processor", &format_args!("shown as {}", meta.cpu_level))?;
        if meta.light {
            list(f, "recorded", &"lightly (--light): it ran natively, and its log was made afterwards")?;
            if meta.keep > 0 {
                list(f, "kept", &format_args!("its end, from an epoch on: at least the last {} epochs", meta.keep))?;
            }
        }
        if let Some(seed) = meta.chaos {
            list(f, "chaos", &chaos(seed))?;
        }
        match only {
            // Of the first process it is known how it ended, whatever is recorded of it.
            Some(Process { end: not_recorded @ ProcessEnd::Unrecorded { .. }, id, .. })
                if Some(id.pid.0) == meta.pid =>
            {
                list(f, "ended", &format_args!("{}; {}", describe_ending(&meta.ending), end(not_recorded)))?;
            }
            Some(only) if only.end != ProcessEnd::Unknown || Some(only.id.pid.0) != meta.pid => {
                list(f, "ended", &end(&only.end))?;
            }
            _ => list(f, "ended", &describe_ending(&meta.ending))?,
        }
        for crash in &self.crashes {
            list(f, "crash", &crash.headline)?;
        }
        list(f, "instructions", &HumanCount(self.instructions))?;
        list(
            f,
            "size",
            &format_args!(
                "{} (intervals {}, {} before compression; code {}; ELF files {})",
                HumanBytes(sizes.total),
                HumanBytes(sizes.intervals),
                HumanBytes(sizes.records),
                HumanBytes(sizes.code),
                HumanBytes(sizes.elf)
            ),
        )?;
        let kept = if meta.kept_epochs() == 0 { String::new() } else { format!(", the last {} kept", meta.keep) };
        list(f, "intervals of", &format_args!("{} instructions{kept}", HumanCount(meta.interval)))?;
        if only.is_some() {
            self.threads.iter().try_for_each(|thread| write!(f, "{thread}"))?;
        } else {
            write!(f, "\n{}", Table::new(&self.processes))?;
            let handled = self.threads.iter().flat_map(|thread| thread.handled.iter().map(move |one| (thread.id, one)));
            for (n, (id, one)) in handled.enumerate() {
                match n {
                    0 => writeln!(f, "\n{id}: {one}")?,
                    1..MOST_HANDLED => writeln!(f, "{id}: {one}")?,
                    _ => {
                        writeln!(f, "and more; bugnet info -p PROCESS lists those of a process")?;
                        break;
                    }
                }
            }
            let crashed: Vec<_> = self.processes.iter().filter(|process| process.crashed()).collect();
            for process in &crashed {
                let (id, name) = (process.id, one_line(process.name()));
                writeln!(f, "\nprocess {id} ({name}) crashed: {}; bugnet info -p {id} says more", end(&process.end))?;
            }
        }
        self.crashes.iter().try_for_each(|crash| write!(f, "\n{crash}"))?;
        let steps = match self.crashes.first() {
            Some(crash) => next::steps(&self.path, crash),
            None => {
                let (process, ending) = match only.map(|only| (only.id, &only.end)) {
                    Some((id, ProcessEnd::Exited { status })) => (Some(id), Ending::Exited { status: *status }),
                    Some((id, ProcessEnd::Killed { signal })) => (Some(id), Ending::Killed { signal: *signal }),
                    _ => (None, meta.ending.clone()),
                };
                let has_threads = self.threads.iter().any(|thread| thread.id.tid.0 != thread.id.pid.pid.0);
                next::steps_of_ending(&self.path, process, &ending, has_threads)
            }
        };
        writeln!(f, "\nnext:")?;
        for step in steps {
            writeln!(f, "  {}\n      {}", one_line(&step.command), step.what)?;
        }
        Ok(())
    }
}

impl fmt::Display for ThreadInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let intervals = match (self.intervals.first(), self.intervals.last()) {
            (Some(first), Some(last)) if first.interval != last.interval => {
                format!("intervals {} to {}", first.interval, last.interval)
            }
            (Some(only), _) => format!("interval {}", only.interval),
            _ => "no interval".to_owned(),
        };
        let end = describe::thread_end(self.end.as_ref());
        writeln!(f, "{}: {} instructions, {intervals}; {end}", self.id, HumanCount(self.instructions))?;
        if self.memory != Amount::default() {
            writeln!(f, "  memory at its end: {}", Kept(self.memory))?;
        }
        self.handled.iter().try_for_each(|handled| writeln!(f, "  {handled}"))
    }
}

/// Memory that is kept, in words.
pub struct Kept(pub Amount);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Amount { kept, zeros, omitted } = self.0;
        write!(f, "{} kept, and {} of zeros", HumanBytes(kept), HumanBytes(zeros))?;
        match omitted {
            0 => Ok(()),
            _ => write!(f, "; {} left out, of which record --snapshot=LIMIT keeps more", HumanBytes(omitted)),
        }
    }
}

/// How threads were perturbed, in words.
pub fn chaos(seed: u64) -> String {
    format!("when threads ran was perturbed (--chaos={seed})")
}

/// Seconds since the Unix epoch as date and time, UTC; as they are where they are no time that a calendar has.
pub fn time(seconds: u64) -> String {
    // The year 9999, where four digits end.
    const LAST: u64 = 253_402_300_799;
    if seconds > LAST {
        return format!("{seconds} seconds after 1970-01-01T00:00:00Z");
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time(1_800_000_000), "2027-01-15T08:00:00Z");
        assert_eq!(time(253_402_300_799), "9999-12-31T23:59:59Z");
        assert!(time(253_402_300_800).starts_with("253402300800 seconds"));
        assert!(time(u64::MAX).contains("seconds"));
    }
}
