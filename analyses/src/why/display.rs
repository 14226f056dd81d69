//! One page for people.

use super::report::{Report, Step, Suspect};
use super::symptom::Symptom;
use crate::names::brief;
use std::fmt::{Display, Formatter, Result};

/// Lines of the chain, sources, and illegal things that are shown.
const CHAIN: usize = 8;
const OUTSIDE: usize = 4;
const ILLEGAL: usize = 3;
/// Characters that are shown of a value, and values of a line.
const LONGEST: usize = 48;
const VALUES: usize = 3;

/// What was found, for people.
pub struct Shown<'a> {
    /// What was found.
    pub report: &'a Report,
    /// What stands behind a position in a command: the process and the log, as a shell takes them.
    pub log: &'a str,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let report = self.report;
        symptom(f, &report.symptom)?;
        if let (Some(asked), Some(place)) = (&report.asked, report.place) {
            writeln!(f, "wrong value: {asked}, at {place}")?;
        }
        chain(f, report)?;
        if let Some(first) = report.illegal.first() {
            writeln!(f, "\nFirst thing that was illegal: {}\n  {} in {}", first.what, first.place, first.at)?;
        } else if !matches!(report.symptom, Symptom::None { .. }) {
            writeln!(f, "\nNothing illegal was found before: no memory error{}.", races(report))?;
        }
        for more in report.illegal.iter().skip(1).take(ILLEGAL - 1) {
            writeln!(f, "then: {}\n  {} in {}", more.what, more.place, more.at)?;
        }
        for differs in &report.differs {
            writeln!(f, "{differs}")?;
        }
        if !report.suspects.is_empty() {
            writeln!(f, "\nLines to look at first:")?;
        }
        for (number, suspect) in (1..).zip(&report.suspects) {
            self.suspect(f, number, suspect)?;
        }
        report.notes.iter().try_for_each(|note| writeln!(f, "Note: {note}"))
    }
}

fn races(report: &Report) -> &'static str {
    if report.looked_for_races { " and no race that matters" } else { "" }
}

fn symptom(f: &mut Formatter<'_>, symptom: &Symptom) -> Result {
    match symptom {
        Symptom::Crash { what, because, at, text } => {
            writeln!(f, "Symptom: {what}")?;
            if let Some(because) = because {
                writeln!(f, "  {because}")?;
            }
            if let Some(at) = at {
                writeln!(f, "  in {}", brief(at))?;
            }
            text.iter().try_for_each(|text| writeln!(f, "      {text}"))
        }
        Symptom::Exit { status } => writeln!(f, "Symptom: exit status {status}"),
        Symptom::Output { byte, what } => writeln!(f, "Symptom: byte {byte} of the output is wrong: {what}"),
        Symptom::Short { bytes, missing } => writeln!(
            f,
            "Symptom: standard output ends after {bytes} bytes, where {missing:?} is missing: which value that follows from is not known"
        ),
        Symptom::Hang { signal } => writeln!(f, "Symptom: {signal} ended it, as one ends a program that hangs"),
        Symptom::Ended { what } => writeln!(f, "Symptom: not known; {what}"),
        Symptom::None { is_compared: true } => {
            writeln!(f, "Nothing tells that it failed: exit status 0, and its output is the expected one.")
        }
        Symptom::None { is_compared: false } => writeln!(
            f,
            "Nothing tells that it failed: exit status 0. Say what is wrong: --expect FILE with the right output, --wrong with a byte or a \
             text of the output, or --good with the log of a right run."
        ),
    }
}

fn chain(f: &mut Formatter<'_>, report: &Report) -> Result {
    if !report.chain.is_empty() {
        writeln!(f, "\nMade by, the last first:")?;
    }
    for step in report.chain.iter().take(CHAIN) {
        self::step(f, step)?;
    }
    if report.chain.len() > CHAIN {
        writeln!(f, "  ... {} lines in all; bugnet slice shows them", report.chain.len())?;
    }
    for outside in report.outside.iter().take(OUTSIDE) {
        writeln!(f, "  from outside: {outside}")?;
    }
    if report.outside.len() > OUTSIDE {
        writeln!(f, "  ... from {} places in all", report.outside.len())?;
    }
    Ok(())
}

fn step(f: &mut Formatter<'_>, step: &Step) -> Result {
    let file = step.file.rsplit('/').next().unwrap_or(&step.file);
    let function = brief(step.function.as_deref().unwrap_or("?"));
    let times = if step.times > 1 { format!("  x{}", step.times) } else { String::new() };
    writeln!(f, "  {:<22} {file}:{} in {function}{times}", step.place.to_string(), step.line)?;
    if let Some(text) = &step.text {
        writeln!(f, "  {:<22}     {text}", "")?;
    }
    let listed = |values: &[String]| values.iter().take(VALUES).map(|one| short(one)).collect::<Vec<_>>().join(", ");
    match (step.with.is_empty(), step.values.is_empty()) {
        (true, true) => Ok(()),
        (false, true) => writeln!(f, "  {:<22}     with {}", "", listed(&step.with)),
        (true, false) => writeln!(f, "  {:<22}     -> {}", "", listed(&step.values)),
        (false, false) => writeln!(f, "  {:<22}     with {} -> {}", "", listed(&step.with), listed(&step.values)),
    }
}

fn short(value: &str) -> String {
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

impl Shown<'_> {
    fn suspect(&self, f: &mut Formatter<'_>, number: usize, suspect: &Suspect) -> Result {
        let function = suspect.function.as_deref().map_or(String::new(), |name| format!(" in {}", brief(name)));
        writeln!(f, "{number}. {}:{}{function}", suspect.file, suspect.line)?;
        if let Some(text) = &suspect.text {
            writeln!(f, "       {text}")?;
        }
        for why in &suspect.why {
            writeln!(f, "   - {why}")?;
        }
        writeln!(f, "   bugnet debug --at {} {}", suspect.place, self.log)
    }
}
