//! Races and violations for people.

use super::report::{Benign, Race, Report, Violation};
use super::side::Side;
use std::fmt::{Display, Formatter, Result};

/// Callers of an access that are shown.
const CALLERS: usize = 6;

/// A report, as text.
pub struct Shown<'a>(pub &'a Report);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Report { races, violations, unfollowed, looked, passed, over, .. } = self.0;
        unfollowed.iter().try_for_each(|what| writeln!(f, "Not followed: {what}.\n"))?;
        if let Some(over) = over.filter(|_| looked.instructions == 0) {
            return writeln!(
                f,
                "{over}, before it was known which memory threads share: whether there are races is not known"
            );
        }
        if looked.instructions == 0 {
            return writeln!(
                f,
                "no races and no atomicity violations: there is no memory that two threads, or a thread and a signal's handler, access \
                 and one of them writes to"
            );
        }
        for (number, race) in (1..).zip(races) {
            writeln!(f, "{number}. {race}")?;
        }
        more(f, self.0.more_races, "races")?;
        for (number, violation) in (1..).zip(violations) {
            writeln!(f, "{number}. {violation}")?;
        }
        more(f, self.0.more_violations, "atomicity violations")?;
        let count = |found: usize, more: usize, [one, many]: [&str; 2]| match found + more {
            0 => format!("no {many}"),
            1 => format!("1 {one}"),
            all => format!("{all} {many}"),
        };
        writeln!(
            f,
            "{} and {}, of {} threads in {}{} instructions",
            count(races.len(), self.0.more_races, ["race", "races"]),
            count(violations.len(), self.0.more_violations, ["atomicity violation", "atomicity violations"]),
            self.0.threads,
            if over.is_some() { "the first " } else { "" },
            looked.instructions
        )?;
        if let Some(over) = over {
            writeln!(f, "{over}: what lies behind these instructions was not looked at")?;
        }
        writeln!(
            f,
            "looked at: {} accesses of lines that threads share, of which {} are atomic or of words that are accessed atomically",
            looked.accesses, looked.atomic
        )?;
        if looked.ordered_lines > 0 {
            writeln!(
                f,
                "of {} more lines that threads share, no access was looked at by itself: all that threads do there between two waits is in an order \
                 that the program wants",
                looked.ordered_lines
            )?;
        }
        writeln!(
            f,
            "not looked at: {} accesses of the C library's own, and what the kernel accesses",
            looked.internal
        )?;
        writeln!(
            f,
            "pairs with another thread in between that count as no violation: {} are rounds of a loop, in {} the thread waited for \
             others or let them go on, {} are in the order that the program wants",
            passed.rounds, passed.waited, passed.ordered
        )
    }
}

fn more(f: &mut Formatter<'_>, count: usize, what: &str) -> Result {
    if count > 0 {
        writeln!(f, "and {count} more {what}, which --top N shows\n")?;
    }
    Ok(())
}

fn memory(variable: Option<&str>, address: u64) -> String {
    variable.map_or_else(|| format!("{address:#x}"), |name| format!("{name} ({address:#x})"))
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

fn access(f: &mut Formatter<'_>, name: &str, side: &Side) -> Result {
    let does = if side.writes { "writes" } else { "reads" };
    write!(f, "   {name}  {} (time @{}) {does} in {}", side.place, side.time, side.spot)?;
    match (&side.before, &side.after) {
        (Some(before), Some(after)) if side.writes => writeln!(f, "; {before} -> {after}")?,
        (_, Some(after)) if side.writes => writeln!(f, "; -> {after}")?,
        (Some(before), _) if !side.writes => writeln!(f, "; {before}")?,
        _ => writeln!(f, "; the value is not known")?,
    }
    if let Some(text) = &side.text {
        writeln!(f, "             {text}")?;
    }
    side.callers.iter().take(CALLERS).try_for_each(|caller| writeln!(f, "          from {caller}"))
}

impl Display for Race {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let memory = memory(self.variable.as_deref(), self.address);
        writeln!(f, "{} race on {memory}, {} bytes, {}", self.kind, self.bytes, times(self.times))?;
        access(f, "first", &self.first)?;
        access(f, "then ", &self.second)?;
        match self.matters {
            Some(true) => writeln!(f, "   In the other order, there would have been another value.")?,
            Some(false) => {
                writeln!(f, "   In the other order, the value would have been the same here: it may do no harm.")?
            }
            None => writeln!(f, "   Whether the other order would have given another value is not known.")?,
        }
        if self.benign.contains(&Benign::Counter) {
            writeln!(
                f,
                "   Both lines count or add: as a statistics counter, it may do no harm, but counts are lost."
            )?;
        }
        if self.benign.contains(&Benign::MayBeOrdered) {
            let by = self.channels.join("; ");
            writeln!(
                f,
                "   Both may have been ordered by {by}: the recording does not tell. If so, there is no race."
            )?;
        }
        if self.benign.contains(&Benign::Untold) {
            writeln!(
                f,
                "   Debug information and source text would tell whether one of these is an atomic variable: if so, there may be no race."
            )?;
        }
        if self.benign.contains(&Benign::Atomic) {
            writeln!(f, "   Both lines speak of something atomic: if the variable is, there is no race.")?;
        }
        Ok(())
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (name, meaning) = (self.pattern.name(), self.pattern.meaning());
        let memory = memory(self.variable.as_deref(), self.address);
        writeln!(f, "{name} atomicity violation on {memory}, {}: {meaning}", times(self.times))?;
        let [first, between, second] = &self.accesses;
        access(f, "first", first)?;
        access(f, if self.by_handler { "handler" } else { "other" }, between)?;
        access(f, "then ", second)
    }
}
