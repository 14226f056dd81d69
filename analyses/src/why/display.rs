//! One page for people.

use super::Part;
use super::report::{Report, Step, Suspect};
use super::symptom::Symptom;
use crate::names::brief;
use indicatif::HumanCount;
use std::fmt::{Display, Formatter, Result};

/// Lines of the chain, sources, and illegal things that are shown.
const CHAIN: usize = 8;
const OUTSIDE: usize = 4;
const ILLEGAL: usize = 3;
/// Characters that are shown of a value, and values of a line.
const LONGEST: usize = 48;
const VALUES: usize = 3;

/// A part of what was found, for people. One page has all three, one behind the other.
pub struct Shown<'a> {
    /// What was found.
    pub report: &'a Report,
    /// Which part.
    pub part: Part,
    /// What stands behind a position in a command: the process and the log, as a shell takes them.
    pub log: &'a str,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.part {
            Part::Chain => self.symptom(f),
            Part::Illegal => self.illegal(f),
            Part::Lines => self.lines(f),
        }
    }
}

impl Shown<'_> {
    fn symptom(&self, f: &mut Formatter<'_>) -> Result {
        let report = self.report;
        let name = if matches!(report.symptom, Symptom::None { .. }) { "" } else { "Symptom: " };
        for (number, line) in symptom(&report.symptom).iter().enumerate() {
            writeln!(f, "{}{line}", if number == 0 { name } else { "  " })?;
        }
        if let Some(fault) = &report.fault {
            let at = fault.at.as_ref().map_or_else(String::new, |at| format!(", in {}", brief(at)));
            writeln!(f, "  in its handler of {}, which came first, at {}{at}", fault.signal, fault.place)?;
        }
        if !report.said.is_empty() {
            writeln!(f, "It wrote to standard error, last:")?;
            report.said.iter().try_for_each(|line| writeln!(f, "  | {}", inert(line)))?;
        }
        if let (Some(asked), Some(place)) = (&report.asked, report.place) {
            writeln!(f, "wrong value: {asked}, at {place}")?;
        }
        chain(f, report)
    }

    fn illegal(&self, f: &mut Formatter<'_>) -> Result {
        let report = self.report;
        if let Some(first) = report.illegal.first() {
            writeln!(f, "\nFirst thing that was illegal: {}\n  {} in {}", first.what, first.place, first.at)?;
        } else if !matches!(report.symptom, Symptom::None { .. } | Symptom::Silent { .. }) {
            writeln!(f, "\n{}", looked(report))?;
        }
        for more in report.illegal.iter().skip(1).take(ILLEGAL - 1) {
            writeln!(f, "then: {}\n  {} in {}", more.what, more.place, more.at)?;
        }
        for what in &report.unfollowed {
            writeln!(f, "Not followed: {what}.")?;
        }
        for differs in &report.differs {
            writeln!(f, "{differs}")?;
        }
        Ok(())
    }

    fn lines(&self, f: &mut Formatter<'_>) -> Result {
        let report = self.report;
        if !report.suspects.is_empty() {
            writeln!(f, "\nLines to look at first:")?;
        }
        for (number, suspect) in (1..).zip(&report.suspects) {
            self.suspect(f, number, suspect)?;
        }
        if let Some(count) = report.tried {
            writeln!(f, "\n{} small changes of the code were tried.", HumanCount(count.into()))?;
        }
        report.notes.iter().try_for_each(|note| writeln!(f, "Note: {note}"))
    }
}

/// A line of the program's own words, with control characters escaped.
fn inert(line: &str) -> String {
    line.chars().fold(String::new(), |mut all, c| {
        if c.is_control() {
            all.extend(c.escape_default())
        } else {
            all.push(c)
        }
        all
    })
}

fn races(report: &Report) -> &'static str {
    if report.looked_for_races { " and no race that matters" } else { "" }
}

/// What shows that it failed: a sentence, and lines with more.
pub fn symptom(symptom: &Symptom) -> Vec<String> {
    let first = match symptom {
        Symptom::Crash { what, because, at, text, .. } => {
            let at = at.as_ref().map(|at| format!("in {}", brief(at)));
            let text = text.as_ref().map(|text| format!("    {text}"));
            let because = because.map(str::to_owned);
            return [Some(what.clone()), because, at, text].into_iter().flatten().collect();
        }
        Symptom::Hang { signal, doing } => {
            let ended = format!("{signal} ended it, as one ends a program that hangs");
            return [Some(ended), doing.clone()].into_iter().flatten().collect();
        }
        Symptom::Exit { status, because: None } => format!("exit status {status}"),
        Symptom::Exit { status, because: Some(because) } => format!("exit status {status}, after {because}"),
        Symptom::Output { byte, what } => format!("byte {byte} of the output is wrong: {what}"),
        Symptom::Short { bytes, missing } => format!(
            "standard output ends after {bytes} bytes, where {missing:?} is missing, though the exit status is 0"
        ),
        Symptom::Silent { is_compared } => {
            let output = if *is_compared { ", and its output is the expected one" } else { "" };
            format!("none at its end (exit status 0{output}), but it did something illegal")
        }
        Symptom::Ended { what } => format!("not known; {what}"),
        Symptom::None { is_compared: true } => {
            "Nothing tells that it failed: exit status 0, and its output is the expected one.".to_owned()
        }
        Symptom::None { is_compared: false } => {
            "Nothing tells that it failed: exit status 0. Say what is wrong: --expect FILE with the right output, --wrong with a byte or a \
             text of the output, or --good with the log of a right run."
                .to_owned()
        }
    };
    vec![first]
}

/// What was looked for without finding any.
pub fn looked(report: &Report) -> String {
    if report.is_cut {
        return "Nothing illegal was found before, but not all was looked at: see the notes.".to_owned();
    }
    let followed = if report.unfollowed.is_empty() { "" } else { " in what is followed" };
    format!("Nothing illegal was found before: no memory error{followed}{}.", races(report))
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
