//! `bugnet replay --output` of a light log of which no log has been made: what was written, as it was captured.

use super::{Light, each_record};
use crate::args::{ProcessArg, Streams};
use crate::failure::{EXIT_INCOMPLETE, Failure, complain};
use crate::processes::end;
use bugnet_format::light::Record;
use bugnet_format::types::ProcessId;
use bugnet_replay::tree::{Process, ProcessEnd};
use std::io::{self, Write, stderr, stdout};
use std::process::ExitCode;

/// Numbers of `STDOUT` and `STDERR` in the log.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;

impl Light {
    /// Whether all that the processes wrote that are selected was kept.
    ///
    /// # Errors
    /// There is no such process.
    pub fn has_output(&self, arg: &ProcessArg) -> Result<bool, Failure> {
        let selected = arg.process.as_deref().map(|name| self.select_some(name)).transpose()?;
        let is_selected = |id: &ProcessId| selected.as_ref().is_none_or(|some| some.contains(id));
        Ok(self.processes.iter().filter(|one| is_selected(&one.process.id)).all(|one| one.has_output))
    }

    /// Writes what the processes wrote that are selected, one after the other.
    ///
    /// # Errors
    /// There is no such process, a light log cannot be read, or nobody reads what is written.
    pub fn output(&self, arg: &ProcessArg, streams: Streams) -> Result<ExitCode, Failure> {
        let selected = arg.process.as_deref().map(|name| self.select_some(name)).transpose()?;
        let is_selected =
            |process: &&Process| selected.as_ref().is_none_or(|some: &Vec<ProcessId>| some.contains(&process.id));
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        let mut missing = Vec::new();
        for process in self.processes().filter(is_selected) {
            let mut written: io::Result<()> = Ok(());
            let mut write = |stream: u8, bytes: &[u8]| match stream {
                // Where both go to one place, the order is that of the recording.
                STDOUT if streams != Streams::Stderr => out.write_all(bytes).and_then(|()| out.flush()),
                STDERR if streams != Streams::Stdout => err.write_all(bytes),
                _ => Ok(()),
            };
            let read = each_record(self.parts(process.id)?, &mut |record| {
                let Record::Call(call) = record else { return };
                for bytes in call.output() {
                    if written.is_ok() {
                        written = write(call.stream, bytes);
                    }
                }
            });
            written?;
            read.map_err(|source| self.unreadable(source))?;
            if let ProcessEnd::Incomplete { .. } = process.end {
                missing.push(format!("process {}: {}", process.id, end(&process.end)));
            }
        }
        drop((out, err));
        missing.iter().for_each(|line| complain(line));
        Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INCOMPLETE) })
    }
}
