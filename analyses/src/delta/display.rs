//! Two runs' use of memory for people.

use super::object::Object;
use super::report::{Conflict, Memory, Report};
use crate::runs::both::{BAD, GOOD};
use std::fmt::{Display, Formatter, Result};

/// Conflicts that both runs have of which each object shows so many.
const COMMON: usize = 5;

/// A report, as text.
pub struct Shown<'a>(pub &'a Report);

impl Display for Object {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Global(name) => write!(f, "{name}"),
            Self::Block(at) => write!(f, "what {at} allocates"),
        }
    }
}

fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Report { functions, memory, more, .. } = self.0;
        let functions = functions.join(", ");
        if memory.is_empty() {
            return writeln!(f, "{functions} uses no global variable and no block of the heap, in neither run");
        }
        writeln!(f, "Memory that {functions} uses, and who accesses it; in the right run, and in the wrong one:\n")?;
        for (number, memory) in (1..).zip(memory) {
            writeln!(f, "{number}. {memory}")?;
        }
        if *more > 0 {
            writeln!(f, "and {more} more, which --top N shows\n")?;
        }
        let only = memory.iter().flat_map(|memory| &memory.conflicts).filter(|one| one.is_only_bad()).count();
        writeln!(f, "{} only in the wrong run", count(only as u64, "conflict is", "conflicts are"))
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.object)?;
        if let Object::Block(_) = self.object {
            let blocks = self.blocks.map(|blocks| count(blocks, "block", "blocks"));
            write!(f, " ({}, and {})", blocks[GOOD], blocks[BAD])?;
        }
        let actors = self.actors.map(|actors| count(actors as u64, "thread", "threads"));
        writeln!(f, ", accessed by {}, and by {}", actors[GOOD], actors[BAD])?;
        let width = self.lines.iter().map(|line| line.spot.to_string().chars().count()).max().unwrap_or(0);
        for line in &self.lines {
            let spot = line.spot.to_string();
            write!(f, "     {spot:<width$}")?;
            for (what, counts) in [("read", line.reads), ("written", line.writes)] {
                if counts != [0, 0] {
                    write!(f, "  {what} {}, {}", counts[GOOD], counts[BAD])?;
                }
            }
            let differs = line.reads[GOOD] != line.reads[BAD] || line.writes[GOOD] != line.writes[BAD];
            writeln!(f, "{}", if differs { "  *" } else { "" })?;
        }
        let (only, common): (Vec<_>, Vec<_>) = self.conflicts.iter().partition(|one| one.is_only_bad());
        only.iter().try_for_each(|one| write!(f, "   only in the wrong run: {one}"))?;
        common.iter().take(COMMON).try_for_each(|one| write!(f, "   in the right run: {one}"))?;
        match common.len().saturating_sub(COMMON) {
            0 => Ok(()),
            more => writeln!(f, "   and {more} more that the right run has, too"),
        }
    }
}

impl Display for Conflict {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let times = self.times.map(|times| count(times, "time", "times"));
        // Such as WR: a write by one, and then a read by the other one.
        let words = self.pattern.chars().map(|letter| if letter == 'W' { "write" } else { "read" });
        write!(f, "{} ({})", self.pattern, words.collect::<Vec<_>>().join(", then "))?;
        if let Some(part) = &self.part {
            write!(f, " of {part}")?;
        }
        match self.is_only_bad() {
            true => write!(f, ", {}", times[BAD])?,
            false if self.times[BAD] == 0 => write!(f, ", {}, and never in the wrong one", times[GOOD])?,
            false => write!(f, ", {}, and {}", times[GOOD], times[BAD])?,
        }
        writeln!(f, "{}", if self.by_handler { ", with a signal's handler" } else { "" })?;
        for ((letter, spot), place) in self.pattern.chars().zip(&self.spots).zip(&self.places) {
            writeln!(f, "     {letter} {spot}  ({place})")?;
        }
        Ok(())
    }
}
