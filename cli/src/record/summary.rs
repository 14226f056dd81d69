//! The line at the end of a recording.

use crate::failure::complain;
use crate::info::Kept;
use crate::next::steps_of_ending;
use bugnet_format::folder::{Ending, Recording};
use bugnet_format::record::{EndReason, Record};
use bugnet_format::signal;
use bugnet_format::source::Source;
use bugnet_format::types::{ProcessId, Tid};
use bugnet_replay::memory::Amount;
use indicatif::{HumanBytes, HumanCount};
use std::path::Path;

/// Whether the logger has come so far as to make a thread's folder.
pub fn anything_recorded(log: &Path) -> bool {
    Recording::open(log).and_then(|recording| recording.threads()).is_ok_and(|threads| !threads.is_empty())
}

/// How a program ended, in words.
pub fn describe_ending(ending: &Ending) -> String {
    match ending {
        Ending::Unknown => "still running, or killed together with bugnet".into(),
        Ending::Exited { status } => format!("exit status {status}"),
        Ending::Killed { signal } => format!("killed by {}", signal::name(*signal)),
    }
}

/// What a log holds, in short.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions of all threads, since recording began, also of intervals that were not kept.
    pub instructions: u64,
    /// Interval files.
    pub intervals: u64,
    /// Threads.
    pub threads: u64,
    /// Why a thread's log ends before the thread did.
    pub incomplete: Vec<String>,
    /// The processes of whose memory at the end not all was kept.
    pub left_out: Vec<(ProcessId, Amount)>,
}

impl Totals {
    /// Sums up the log of a program that ended like this.
    pub fn of(recording: &Recording, ending: &Ending) -> bugnet_format::Result<Self> {
        let mut totals = Self::default();
        // Only of this one is known that it has exited. Others may still run, have been killed, or have executed a program while a
        // thread did something else, which its log cannot say.
        let exited = matches!(ending, Ending::Exited { .. });
        let mut unexplained = recording.last_of_first_process()?.filter(|_| exited);
        let mut lacks_end = None;
        for thread in recording.last_intervals()? {
            let (thread, last) = thread?;
            totals.threads += 1;
            totals.intervals += thread.intervals.len() as u64;
            let Some(interval) = last else { continue };
            let Some(end) = interval.records().flatten().last() else { continue };
            let mut memory = Amount::default();
            interval.ending().flatten().for_each(|placed| memory.add(&placed.record));
            if memory.omitted > 0 {
                totals.left_out.push((thread.pid, memory));
            }
            totals.instructions += interval.header.instructions_before + end.position.0;
            let Record::End { reason, .. } = end.record else {
                lacks_end = lacks_end.or(Some(thread.tid).filter(|_| unexplained == Some(thread.pid)));
                continue;
            };
            if reason != EndReason::Terminated {
                unexplained = unexplained.filter(|process| *process != thread.pid);
            }
            if let EndReason::Unsupported { why } | EndReason::LogStopped { why } = reason {
                totals.incomplete.push(incomplete(thread.tid, &why));
            }
        }
        // Who exits ends its log, in one thread at least.
        if let (Some(_), Some(tid)) = (unexplained, lacks_end) {
            totals.incomplete.push(incomplete(tid, "the recorder has failed"));
        }
        Ok(totals)
    }
}

fn incomplete(tid: Tid, why: &str) -> String {
    format!("the log of thread {tid} ends before the thread did: {why}")
}

/// Prints the line to standard error.
pub fn print(log: &Path, ending: &Ending) {
    let totals = Recording::open(log).and_then(|recording| Totals::of(&recording, ending));
    let totals = match totals {
        Ok(totals) => totals,
        Err(error) => return complain(&format_args!("the log in {} cannot be read: {error}", log.display())),
    };
    for why in &totals.incomplete {
        complain(&format_args!("warning: {why}"));
    }
    for (process, memory) in &totals.left_out {
        complain(&format_args!("memory of process {process} at its end: {}", Kept(*memory)));
    }
    complain(&line(log, ending, &totals, Source::from(log).size(log)));
}

/// Prints which command says most of a program that has failed, if it has.
pub fn print_next(log: &Path, ending: &Ending) {
    let threads = Recording::open(log).and_then(|recording| recording.threads()).unwrap_or_default();
    if threads.is_empty() || matches!(ending, Ending::Exited { status: 0 }) {
        return;
    }
    let has_several = threads.iter().any(|thread| thread.tid.0 != thread.pid.pid.0);
    if let Some(step) = steps_of_ending(log, None, ending, has_several).first() {
        complain(&format_args!("next: {}  ({})", step.command, step.what));
    }
}

fn line(log: &Path, ending: &Ending, totals: &Totals, size: u64) -> String {
    format!(
        "{} instructions in {} interval{}, {}, {}: {}",
        HumanCount(totals.instructions),
        totals.intervals,
        if totals.intervals == 1 { "" } else { "s" },
        HumanBytes(size),
        describe_ending(ending),
        log.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line() {
        let totals = Totals { instructions: 1_234_567, intervals: 1, threads: 1, ..Totals::default() };
        assert_eq!(
            line(Path::new("/logs/ls-0"), &Ending::Killed { signal: 11 }, &totals, 2048),
            "1,234,567 instructions in 1 interval, 2.00 KiB, killed by SIGSEGV: /logs/ls-0"
        );
        assert_eq!(
            line(Path::new("/l"), &Ending::Exited { status: 3 }, &Totals { intervals: 2, ..totals }, 1),
            "1,234,567 instructions in 2 intervals, 1 B, exit status 3: /l"
        );
    }

    #[test]
    fn signals_without_a_name() {
        assert_eq!(describe_ending(&Ending::Killed { signal: 40 }), "killed by signal 40");
    }
}
