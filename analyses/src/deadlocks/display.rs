//! Deadlocks for people.

use super::report::{Cycle, Gone, Report, Step, Wait, Waited};
use crate::locks::{Kind, Mode};
use std::fmt::{Display, Formatter, Result};

/// A report, as text.
pub struct Shown<'a>(pub &'a Report);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Report { waits, deadlocks, cycles, unknown, .. } = self.0;
        for circle in deadlocks {
            match &circle[..] {
                [_] => writeln!(f, "deadlock: a thread waits for what it holds itself")?,
                _ => writeln!(f, "deadlock: {} threads wait for each other", circle.len())?,
            }
            circle.iter().try_for_each(|wait| write!(f, "{}", waits[*wait]))?;
            in_order(f, circle.iter().map(|wait| &waits[*wait]))?;
            writeln!(f)?;
        }
        let mut others =
            (0..waits.len()).filter(|wait| !deadlocks.iter().flatten().any(|other| other == wait)).peekable();
        if others.peek().is_some() {
            writeln!(f, "waiting at the end of the recording:")?;
            others.try_for_each(|wait| write!(f, "{}", waits[wait]))?;
            writeln!(f)?;
        }
        for cycle in cycles {
            writeln!(f, "{cycle}")?;
        }
        let count = |count: usize, what: &str| match count {
            0 => format!("no {what}s"),
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        let [closed, open] = [count(deadlocks.len(), "deadlock"), count(cycles.len(), "cycle")];
        writeln!(f, "{closed} at the end, and {open} of locks that did not close")?;
        match unknown {
            0 => Ok(()),
            _ => writeln!(f, "of {unknown} calls it is not known which lock they were about"),
        }
    }
}

/// How waits came to be, the first step first.
fn in_order<'a>(f: &mut Formatter<'_>, waits: impl Iterator<Item = &'a Wait>) -> Result {
    let mut steps = Vec::new();
    for wait in waits {
        let what = wait.what();
        steps.push((wait.since.time, format!("thread {} waits for {what}", wait.thread), &wait.since));
        for holder in &wait.holders {
            let Some((_, since)) = &holder.since else { continue };
            steps.push((since.time, format!("thread {} takes {what}", holder.thread), since));
        }
    }
    steps.sort_by_key(|(time, ..)| *time);
    writeln!(f, "  how it came to that:")?;
    for (number, (_, text, step)) in (1..).zip(steps) {
        writeln!(f, "    {number}. {text} at {step}")?;
    }
    Ok(())
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "the mutex",
        Kind::ReadWriteLock => "the read-write lock",
        Kind::Spinlock => "the spinlock",
    }
}

fn named(what: &str, addr: Option<u64>, name: Option<&String>) -> String {
    match (addr, name) {
        (Some(addr), Some(name)) => format!("{what} {name} ({addr:#x})"),
        (Some(addr), None) => format!("{what} at {addr:#x}"),
        (None, _) => what.to_owned(),
    }
}

/// Why a lock is never given back.
pub fn never(gone: Gone) -> String {
    match gone {
        Gone::Ended => "that thread has ended without giving it back".to_owned(),
        Gone::LeftBehind { by } => {
            format!("that is a thread of process {by}, which held it when it forked this one, where the thread is not")
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} (time @{})", self.place, self.time)?;
        self.spot.iter().try_for_each(|spot| write!(f, " in {spot}"))
    }
}

impl Wait {
    /// What it waits for, in words.
    fn what(&self) -> String {
        let what = match self.waited {
            Waited::Lock(lock) => kind(lock),
            Waited::Condition => "the condition variable",
            Waited::Semaphore => "the semaphore",
            Waited::Barrier => "the barrier",
            Waited::Thread => "the end of a thread",
        };
        named(what, self.address, self.name.as_ref())
    }
}

impl Display for Wait {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "  thread {} waits for {} since {}", self.thread, self.what(), self.since)?;
        if self.holders.is_empty() && matches!(self.waited, Waited::Lock(_)) {
            writeln!(f, "    nobody is known to hold it")?;
        }
        for holder in &self.holders {
            match &holder.since {
                Some((mode, since)) if holder.is_inferred => {
                    let (at, thread) = (self.address.unwrap_or_default(), holder.thread);
                    let how = if *mode == Mode::Reading { "held for reading" } else { "held" };
                    writeln!(f, "    {how} by thread {thread}, by what it has made of the word at {at:#x}: {since}")?;
                }
                Some((Mode::Alone, since)) => writeln!(f, "    held by thread {} since {since}", holder.thread)?,
                Some((Mode::Reading, since)) => {
                    writeln!(f, "    held for reading by thread {} since {since}", holder.thread)?;
                }
                None => writeln!(f, "    which is thread {}", holder.thread)?,
            }
            if let Some(gone) = holder.gone {
                writeln!(f, "    {}", never(gone))?;
            }
        }
        Ok(())
    }
}

impl Display for Cycle {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "{} threads might have waited for each other:", self.steps.len())?;
        for step in &self.steps {
            let lock = |(own, addr, name): &(Kind, u64, Option<String>)| named(kind(*own), Some(*addr), name.as_ref());
            writeln!(f, "  thread {} takes {} at {}", step.thread, lock(&step.wanted), step.at)?;
            writeln!(f, "    while it holds {} since {}", lock(&step.held), step.since)?;
        }
        Ok(())
    }
}
