//! The versions as text.

use super::{History, Version, Writer};
use crate::disassembly::Line;
use std::fmt::{Display, Formatter, Result};

/// Writers of one version that are shown.
const WRITERS_SHOWN: usize = 6;

impl Display for History {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let count = self.versions.len() as u64 + self.omitted;
        if count == 0 {
            return writeln!(f, "{}: no instruction that begins here was run while it was recorded", self.at);
        }
        let s = if count == 1 { "" } else { "s" };
        writeln!(f, "{}: {count} version{s} of the code", self.at)?;
        for (index, version) in self.versions.iter().enumerate() {
            let number = index + 1;
            let (id, position) = (version.interval, version.position);
            write!(f, "\nversion {number}, first run by {id} at instruction {position}")?;
            match version.same_as {
                Some(same) => writeln!(f, ": version {same} again")?,
                None => writeln!(f)?,
            }
            code(self, version, f)?;
            writers(version, f)?;
        }
        if self.omitted > 0 {
            writeln!(f, "\n{} more changes are not listed", self.omitted)?;
        }
        Ok(())
    }
}

/// The instructions, those with changed bytes marked.
fn code(history: &History, version: &Version, f: &mut Formatter<'_>) -> Result {
    let len = |line: &Line| line.bytes.split(' ').count();
    let width = version.code.iter().map(|line| line.bytes.len()).max().unwrap_or(0);
    for line in &version.code {
        let start = (line.address.0 - history.at.0) as usize;
        let changed = version.changed.iter().any(|index| (start..start + len(line)).contains(index));
        let mark = if changed && version.changed.len() < version.bytes.len() { '>' } else { ' ' };
        writeln!(f, "  {mark} {:#018x}  {:width$}  {}", line.address.0, line.bytes, line.text)?;
    }
    Ok(())
}

fn writers(version: &Version, f: &mut Formatter<'_>) -> Result {
    let mut lead = "written by";
    for writer in version.written_by.iter().take(WRITERS_SHOWN) {
        writeln!(f, "  {lead} {writer}")?;
        lead = "       and";
    }
    match version.written_by.len().checked_sub(WRITERS_SHOWN) {
        Some(more @ 1..) => writeln!(f, "  {lead} {more} more"),
        _ => Ok(()),
    }
}

impl Display for Writer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Store { interval, position, pc, text, place } => {
                write!(f, "{text} at {pc}")?;
                if let Some(place) = place.brief() {
                    write!(f, ", {place}")?;
                }
                write!(f, " (interval {interval}, instruction {position})")
            }
            Self::SystemCall { interval, position, call } => {
                write!(f, "{call} (interval {interval}, instruction {position})")
            }
            Self::File { path } => write!(f, "nobody: it is so in {path}"),
            Self::Elsewhere => {
                write!(f, "another thread or process, through another mapping, or a system call that gathers pieces")
            }
            Self::Before => write!(f, "something before the recorded window"),
        }
    }
}
