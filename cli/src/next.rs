//! What to do next with a log, by how the program has ended: commands, ready to paste.

use bugnet_format::folder::Ending;
use bugnet_format::types::ProcessId;
use bugnet_replay::crash::CrashReport;
use std::path::Path;

/// Signals by which programs die of their own faults.
const CRASHES: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

/// A command with what it is for.
pub struct Step {
    /// As a shell takes it.
    pub command: String,
    /// What it is for.
    pub what: &'static str,
}

/// What to do next about a crash of the log at this path.
pub fn steps(log: &Path, crash: &CrashReport) -> Vec<Step> {
    let log = quoted(&log.display().to_string());
    let (process, thread, interval) = (crash.thread.pid, crash.thread.tid, crash.interval);
    let mut steps = vec![
        Step {
            command: format!("bugnet why -p {process} {log}"),
            what: "why: what led there, memory errors and races on the way, which changes avoid it",
        },
        Step {
            command: format!("bugnet debug -p {process} {log}"),
            what: "gdb, there; it goes backwards, too (reverse-continue, reverse-step ...)",
        },
        Step {
            command: format!("bugnet at end -p {process} {log}"),
            what: "look around there; other positions work, too",
        },
        Step {
            command: format!("bugnet last-write VARIABLE -p {process} {log}"),
            what: "what wrote a variable last; ADDR:8 are the 8 bytes at ADDR",
        },
        Step { command: format!("bugnet memcheck -p {process} {log}"), what: "all memory errors" },
        Step { command: format!("bugnet replay -p {process} {log}"), what: "verify that it replays exactly" },
        Step { command: format!("bugnet replay -p {process} --output {log}"), what: "all that it printed" },
        Step {
            command: format!("bugnet dump -p {process} --thread {thread} --interval {interval} {log}"),
            what: "what it read last, record by record",
        },
    ];
    if !crash.others.is_empty() {
        let command = format!("bugnet races -p {process} {log}");
        steps.push(Step { command, what: "accesses of several threads that nothing orders" });
        let command = format!("bugnet info -p {process} --threads {log}");
        steps.push(Step { command, what: "which thread waited for which" });
    }
    steps
}

/// What to do next about the log of a program that ended like this, or about one of its processes that did. `has_threads`: several of them in one process.
pub fn steps_of_ending(log: &Path, process: Option<ProcessId>, ending: &Ending, has_threads: bool) -> Vec<Step> {
    let process = process.map_or_else(String::new, |process| format!("-p {process} "));
    let log = format!("{process}{}", quoted(&log.display().to_string()));
    let step = |command: &str, what| Step { command: format!("bugnet {command} {log}"), what };
    let deadlocks = || step("deadlocks", "who waits for whom, if it hung");
    let memcheck = step("memcheck", "memory errors that nobody noticed");
    let races = step("races", "accesses of several threads that nothing orders");
    let mut steps = match ending {
        Ending::Exited { status: 0 } => {
            vec![step("why --expect FILE", "why its output is not that of the file, if it is wrong"), memcheck]
        }
        Ending::Exited { .. } => vec![step("why", "what led to this exit status"), memcheck],
        Ending::Killed { signal } if CRASHES.contains(signal) => vec![step("why", "what led there")],
        Ending::Killed { .. } | Ending::Unknown => {
            let why = step("why", "in which loop it was, and since when");
            if has_threads { vec![deadlocks(), why] } else { vec![why] }
        }
    };
    if has_threads {
        steps.push(races);
    }
    steps.push(step("debug", "gdb, at the end; it goes backwards, too"));
    steps
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_command_comes_first() {
        let first = |ending: Ending, has_threads| {
            steps_of_ending(Path::new("/l"), None, &ending, has_threads)[0].command.clone()
        };
        assert_eq!(first(Ending::Exited { status: 0 }, false), "bugnet why --expect FILE /l");
        assert_eq!(first(Ending::Exited { status: 3 }, true), "bugnet why /l");
        assert_eq!(first(Ending::Killed { signal: libc::SIGABRT }, true), "bugnet why /l");
        assert_eq!(first(Ending::Killed { signal: libc::SIGTERM }, true), "bugnet deadlocks /l");
        assert_eq!(first(Ending::Killed { signal: libc::SIGTERM }, false), "bugnet why /l");
    }

    #[test]
    fn words() {
        assert_eq!(quoted("/tmp/log-1"), "/tmp/log-1");
        assert_eq!(quoted("my log"), "'my log'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
