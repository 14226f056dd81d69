//! What to do next with a log, by how the program has ended: commands, ready to paste.

use bugnet_replay::crash::CrashReport;
use std::path::Path;

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
    use super::quoted;

    #[test]
    fn words() {
        assert_eq!(quoted("/tmp/log-1"), "/tmp/log-1");
        assert_eq!(quoted("my log"), "'my log'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
