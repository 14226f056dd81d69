//! Processes of a recording, as the commands select and show them.

use crate::args::ProcessArg;
use crate::failure::{Failure, complain};
use crate::terminal::one_line;
use bugnet_format::signal;
use bugnet_format::types::ProcessId;
use bugnet_replay::ReplayError;
use bugnet_replay::crash::failed;
use bugnet_replay::log::Log;
use bugnet_replay::tree::{self, Process, ProcessEnd};
use indicatif::HumanCount;
use std::fmt;

/// The processes that the user has selected; `None` for all.
pub fn selected(log: &Log, arg: &ProcessArg) -> Result<Option<Vec<ProcessId>>, Failure> {
    Ok(arg.process.as_ref().map(|name| tree::select(log, name)).transpose()?)
}

/// Of several processes, the one that a user most likely means: the last that failed, or else the last.
pub fn most_likely<'a>(all: impl DoubleEndedIterator<Item = &'a Process> + Clone) -> Option<ProcessId> {
    let mut backwards = all.rev();
    let last = backwards.clone().next();
    backwards.find(|process| process.failed()).or(last).map(|process| process.id)
}

/// The process that failed first, of those that one that failed has started, and they in turn: what failed behind it may have failed because of it.
pub fn failed_first(all: &[Process], id: ProcessId) -> Option<ProcessId> {
    let mut last = all.iter().find(|process| process.id == id && process.failed())?.id;
    // No longer than there are processes: a process id may be used again.
    for _ in all {
        let is_child = |process: &&Process| {
            process.info.as_ref().is_some_and(|info| info.parent == last.pid.0) && process.id.pid != last.pid
        };
        match all.iter().find(|process| process.failed() && is_child(process)) {
            Some(child) => last = child.id,
            None => break,
        }
    }
    (last != id).then_some(last)
}

/// The one process that is meant: of several that fit, the last that failed, or else the last; without a choice, the one that failed, or else the program that was
/// recorded, not one that it started. Where that is a choice, it is said.
pub fn meant(log: &Log, arg: &ProcessArg) -> Result<ProcessId, Failure> {
    let selected = selected(log, arg)?;
    let all = log.processes()?;
    let number = selected.as_ref().map_or(all.len(), Vec::len);
    let chosen = match selected {
        Some(selected) if number > 1 => {
            let all = tree::processes(log)?;
            most_likely(all.iter().filter(|process| selected.contains(&process.id)))
        }
        Some(selected) => selected.first().copied(),
        None => match failed(log)? {
            Some(crashed) => Some(crashed.pid),
            None => log.last_of_first_process()?.or_else(|| log.threads().map(|thread| thread.pid).last()),
        },
    };
    let nothing = || ReplayError::OutOfRange(format!("{} holds no process", log.path().display()));
    let chosen = chosen.ok_or_else(nothing)?;
    if number > 1 {
        let info = all.into_iter().find(|(id, _)| *id == chosen).and_then(|(_, info)| info);
        say_chosen(number, chosen, info.as_ref().map_or(&[], |info| &info.args));
    }
    Ok(chosen)
}

/// Says which of several processes is looked at.
pub fn say_chosen(number: usize, chosen: ProcessId, args: &[String]) {
    let command = if args.is_empty() { String::new() } else { format!(" ({})", quoted(args)) };
    complain(&format!("of {number} processes, this is {chosen}{command}; -p takes another that bugnet ps lists"));
}

/// How a process ended, in words.
pub fn end(end: &ProcessEnd) -> String {
    match end {
        ProcessEnd::Exited { status } => format!("exit status {status}"),
        ProcessEnd::Killed { signal } => format!("killed by {}", signal::name(*signal)),
        ProcessEnd::Executed => "executed another program".into(),
        ProcessEnd::Incomplete { why } => format!("recording ended before it did: {why}"),
        ProcessEnd::Unrecorded { why } => format!("not recorded: {why}"),
        ProcessEnd::Unknown => "still running, or killed from outside".into(),
    }
}

/// Arguments as one would type them into a shell.
pub fn quoted(args: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=,@%:".contains(c);
    let quote = |arg: &String| {
        if !arg.is_empty() && arg.chars().all(plain) {
            arg.clone()
        } else {
            format!("'{}'", arg.replace('\'', r"'\''"))
        }
    };
    args.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Processes as a table, a line each.
pub struct Table<'a> {
    processes: Vec<&'a Process>,
    is_counted: bool,
}

impl<'a> Table<'a> {
    /// Of these.
    pub fn new(processes: &'a [Process]) -> Self {
        Self { processes: processes.iter().collect(), is_counted: true }
    }

    /// Of these, whose instructions nobody has counted yet.
    pub fn of_captured(processes: &[&'a Process]) -> Self {
        Self { processes: processes.to_vec(), is_counted: false }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEAD: [&str; 4] = ["PROCESS", "PARENT", "INSTRUCTIONS", "ENDED"];
        // What is longer sticks out, so that it does not move everything else; and there is a limit to what can be padded.
        const WIDEST: usize = 40;
        let row = |p: &&Process| {
            let parent = p.info.as_ref().map_or_else(|| "?".to_owned(), |info| info.parent.to_string());
            let instructions = if self.is_counted { HumanCount(p.instructions).to_string() } else { "?".to_owned() };
            [p.id.to_string(), parent, instructions, one_line(&end(&p.end)).into_owned()]
        };
        let rows: Vec<_> = self.processes.iter().map(row).collect();
        let width = |n: usize| {
            let widths = rows.iter().map(|row| row[n].chars().count().min(WIDEST));
            widths.chain([HEAD[n].len()]).max().unwrap_or(0)
        };
        let [id, parent, instructions, ended] = [0, 1, 2, 3].map(width);
        let line = |f: &mut fmt::Formatter<'_>, cells: [&str; 4], command: &str| {
            let [a, b, c, d] = cells;
            writeln!(f, "{a:<id$}  {b:>parent$}  {c:>instructions$}  {d:<ended$}  {command}")
        };
        line(f, HEAD, "COMMAND")?;
        for (process, cells) in self.processes.iter().zip(&rows) {
            let command = process.info.as_ref().map_or_else(String::new, |info| quoted(&info.args));
            line(f, cells.each_ref().map(String::as_str), &one_line(&command))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_can_be_typed_again() {
        let args = ["sh", "-c", "echo it's $X", ""].map(String::from);
        assert_eq!(quoted(&args), r"sh -c 'echo it'\''s $X' ''");
    }
}
