//! What tells two runs apart, as text.

use super::{At, Decided, Diff, Number, Only, OnlyOne, Parted, Returned, Threads};
use crate::runs::both::Cut;
use crate::runs::scene::Spot;
use crate::runs::side::Ran;
use crate::runs::values::Differing;
use bugnet_replay::signal;
use bugnet_replay::tree::ProcessEnd;
use indicatif::HumanCount;
use std::fmt::{Display, Formatter, Result};

/// What was found out, for people.
pub struct Report<'a> {
    /// What was found out.
    pub diff: &'a Diff,
    /// How many lines and functions are shown of each list.
    pub top: usize,
}

/// Rows of what each run has; a row in which both are the same is marked by nothing, others by an asterisk.
pub struct Columns(Vec<(String, String, String)>);

impl Columns {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// One more.
    pub fn row(&mut self, name: impl Display, good: impl Display, bad: impl Display) {
        self.0.push((name.to_string(), good.to_string(), bad.to_string()));
    }
}

impl Default for Columns {
    fn default() -> Self {
        Self::new()
    }
}

impl Display for Columns {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        // What is longer sticks out.
        const WIDEST: usize = 44;
        let width = |cells: &mut dyn Iterator<Item = usize>| cells.map(|len| len.min(WIDEST)).max().unwrap_or(0);
        let first = width(&mut self.0.iter().map(|row| row.0.chars().count()));
        let second = width(&mut self.0.iter().map(|row| row.1.chars().count()).chain([4]));
        writeln!(f, "  {:first$}  {:second$}  BAD", "", "GOOD")?;
        self.0.iter().try_for_each(|(name, good, bad)| writeln!(f, "  {name:first$}  {good:second$}  {bad}"))
    }
}

/// How a run ended.
#[must_use]
pub fn ended(run: &Ran) -> String {
    match &run.end {
        ProcessEnd::Exited { status } => format!("exit status {status}"),
        ProcessEnd::Killed { signal } => format!("killed by {}", signal::name(*signal)),
        ProcessEnd::Executed => "executed another program".into(),
        ProcessEnd::Incomplete { why } => format!("recording ended before it did: {why}"),
        ProcessEnd::Unrecorded { why } => format!("not recorded: {why}"),
        ProcessEnd::Unknown => "still running, or killed from outside".into(),
    }
}

/// The two runs, a line each.
pub fn runs(f: &mut Formatter<'_>, good: &Ran, bad: &Ran) -> Result {
    for (name, run) in [("GOOD", good), ("BAD", bad)] {
        let (end, count) = (ended(run), HumanCount(run.instructions));
        writeln!(f, "{name:4}  {}  process {}: {}", run.log, run.pid, run.args.join(" "))?;
        writeln!(f, "      {end}, {count} instructions")?;
    }
    Ok(())
}

/// What two threads part at, in words.
fn at(parted: &Parted) -> String {
    let spot = &parted.spot;
    match parted.at {
        At::Branch => format!("at a branch in {spot}"),
        At::Jump => format!("at a jump in {spot}"),
        At::Call => format!("at a call in {spot}"),
        At::Return => format!("at the return from {spot}"),
        At::Library => match &parted.library {
            Some(library) => format!("in {library}, behind {spot}"),
            None => format!("in a library, behind {spot}"),
        },
        At::End => format!("behind {spot}, where one of them ends"),
        At::Outside => format!("behind {spot}, by something from outside, as a signal"),
        At::Start => "from the start".into(),
    }
}

/// The lines in which the runs go on, where that says something.
fn lines_after(parted: &Parted) -> String {
    let line = |to: &Option<Spot>| to.as_ref().filter(|to| to.file == parted.spot.file).and_then(|to| to.line);
    match (line(&parted.good.to), line(&parted.bad.to)) {
        (Some(good), Some(bad)) if good != bad => format!(", to line {good} in GOOD and {bad} in BAD"),
        _ => String::new(),
    }
}

fn to(spot: Option<&Spot>, ends: &str) -> String {
    spot.map_or_else(|| ends.to_owned(), ToString::to_string)
}

fn number(number: Option<Number>) -> String {
    number.map_or_else(|| "not known".into(), |number| number.to_string())
}

fn decided(columns: &mut Columns, decided: &Decided) {
    for operand in
        decided.operands.iter().filter(|operand| operand.differs != Some(false) || operand.good != operand.bad)
    {
        let name = match &operand.variable {
            Some(variable) => format!("{variable}, {}", operand.text),
            None => operand.text.clone(),
        };
        let note = if operand.differs == Some(false) { " (the same place)" } else { "" };
        columns.row(name, number(operand.good), format!("{}{note}", number(operand.bad)));
    }
}

/// A place at which threads part, in full; what comes behind may not have been looked at.
pub fn parted(f: &mut Formatter<'_>, parted: &Parted, [good_end, bad_end]: [&str; 2], is_cut: bool) -> Result {
    if let Some(text) = &parted.text {
        writeln!(f, "    {text}")?;
    }
    if let Some(caller) = &parted.caller {
        writeln!(f, "  called from {caller}")?;
    }
    if let Some(Decided { instruction, .. }) = &parted.decided {
        writeln!(f, "  decided by {instruction}")?;
    }
    let mut columns = Columns::new();
    columns.row("position", &parted.good.moment.position, &parted.bad.moment.position);
    if let Some(decided) = &parted.decided {
        self::decided(&mut columns, decided);
    }
    for variable in &parted.variables {
        columns.row(&variable.name, &variable.good, &variable.bad);
    }
    columns.row("goes on in", to(parted.good.to.as_ref(), good_end), to(parted.bad.to.as_ref(), bad_end));
    if let (Some(_), Some(good), Some(bad)) = (&parted.again, parted.good.instructions, parted.bad.instructions) {
        columns.row("for", format!("{} instructions", HumanCount(good)), format!("{} instructions", HumanCount(bad)));
    }
    write!(f, "{columns}")?;
    match &parted.again {
        Some(again) => writeln!(f, "  They come together again in {again}.")?,
        None if is_cut => writeln!(f, "  Whether they come together again is not known.")?,
        None => writeln!(f, "  They do not come together again.")?,
    }
    let library =
        parted.library.as_ref().filter(|_| parted.at == At::Library).and_then(|library| library.object.as_ref());
    match library.and_then(|path| path.rsplit('/').next()) {
        Some(name) => writeln!(f, "  --own {name} shows where in it."),
        None => Ok(()),
    }
}

/// A store that differs.
pub fn stored(f: &mut Formatter<'_>, store: &Differing) -> Result {
    writeln!(f, "  {}", store.spot)?;
    if let Some(text) = &store.text {
        writeln!(f, "    {text}")?;
    }
    let mut columns = Columns::new();
    columns.row("position", &store.good.moment.position, &store.bad.moment.position);
    let name = match &store.variable {
        Some(variable) => variable.clone(),
        None => format!("{} bytes", store.bytes),
    };
    columns.row(name, number(store.good.value), number(store.bad.value));
    write!(f, "{columns}")
}

fn returned(f: &mut Formatter<'_>, returned: &Returned) -> Result {
    let Returned { call, good_position, bad_position, .. } = returned;
    writeln!(
        f,
        "  The first of these values are what {call} returned, at {good_position} of GOOD and {bad_position} of BAD."
    )
}

fn list(f: &mut Formatter<'_>, what: &str, all: &[Only], top: usize) -> Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{what}:")?;
    for Only { spot, until, position } in all.iter().take(top) {
        let until =
            until.filter(|until| Some(*until) != spot.offset).map_or(String::new(), |until| format!(" to +{until:#x}"));
        writeln!(f, "  {spot}{until}, first at {position}")?;
    }
    let more = all.len().saturating_sub(top);
    if more > 0 { writeln!(f, "  and {more} more (--top, or --json)") } else { Ok(()) }
}

fn only(f: &mut Formatter<'_>, who: &str, only: &OnlyOne, top: usize) -> Result {
    let OnlyOne { functions, lines, library_functions } = only;
    list(f, &format!("Functions that only {who} ran"), functions, top)?;
    let what = if lines.iter().any(|line| line.spot.line.is_some()) { "Lines" } else { "Code" };
    list(f, &format!("{what} that only {who} ran, in functions that both ran"), lines, top)?;
    list(f, &format!("Functions of libraries that only {who} ran"), library_functions, top)
}

fn threads(f: &mut Formatter<'_>, pair: &Threads, ends: [&str; 2], (top, is_cut): (usize, bool)) -> Result {
    match pair.first() {
        Some(first) => {
            writeln!(f, "They first part {}:", at(first))?;
            parted(f, first, ends, is_cut)?;
        }
        None if is_cut => {
            writeln!(f, "They go the same way through the program's own code, as far as that was looked at.")?
        }
        None => writeln!(f, "They go the same way through the program's own code, from its start to its end.")?,
    }
    if !pair.values.is_empty() {
        writeln!(f, "\nThe first stores of other values, in what both do:")?;
        pair.values.iter().try_for_each(|store| stored(f, store))?;
    } else if let Some(over) = pair.values_over {
        writeln!(f, "\nWhich stores store other values was not looked at to the end: {over}.")?;
    } else if pair.values_gave_up {
        writeln!(f, "\nMany stores differ that are addresses; whether others do is not known.")?;
    }
    pair.returned.iter().try_for_each(|call| returned(f, call))?;
    if let Some(last) = pair.last.as_ref().filter(|_| !pair.parted.is_empty()) {
        let for_good = if is_cut { "in the end, as far as that was looked at," } else { "for good" };
        writeln!(f, "\nThey part {for_good} {}:", at(last))?;
        parted(f, last, ends, is_cut)?;
    }
    if pair.places > 0 {
        let times = if pair.times == 1 { "once".into() } else { format!("{} times", HumanCount(pair.times)) };
        let places = if pair.places == 1 { "one place".into() } else { format!("{} places", pair.places) };
        writeln!(f, "\nThey parted and came together again {times}, at {places}:")?;
        for one in pair.parted.iter().take(top) {
            let times = if one.times == 1 { String::new() } else { format!(", {} times", HumanCount(one.times)) };
            let position = &one.bad.moment.position;
            writeln!(f, "  {}{times}{}, first at {position} of BAD", at(one), lines_after(one))?;
        }
        let more = pair.places.saturating_sub(pair.parted.len() + pair.systems);
        if more > 0 {
            writeln!(f, "  and {more} more (--top)")?;
        }
        if pair.systems > 0 {
            writeln!(f, "  and {} more, in functions of the system's sources, such as templates", pair.systems)?;
        }
    }
    Ok(())
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { diff, top } = self;
        let Diff { good, bad, .. } = diff;
        runs(f, good, bad)?;
        let ends = [ended(good), ended(bad)].map(|end| format!("ends: {end}"));
        let ends = ends.each_ref().map(String::as_str);
        let is_alone = diff.threads.len() == 1 && diff.only_good_threads.is_empty() && diff.only_bad_threads.is_empty();
        let tells = |pair: &&Threads| pair.first().is_some() || !pair.values.is_empty() || pair.values_over.is_some();
        let (part, same): (Vec<&Threads>, Vec<_>) = diff.threads.iter().partition(tells);
        for pair in &part {
            writeln!(f)?;
            if !is_alone {
                writeln!(f, "Thread {} of GOOD and {} of BAD:", pair.good, pair.bad)?;
            }
            threads(f, pair, ends, (*top, diff.cut.is_some()))?;
        }
        if part.is_empty() && diff.cut.is_none() {
            writeln!(f, "\nThey go the same way through the program's own code, and store the same values.")?;
        } else if !same.is_empty() {
            let (threads, do_it) = if same.len() == 1 { ("thread", "does") } else { ("threads", "do") };
            writeln!(f, "\n{} more {threads} {do_it} the same in both runs.", same.len())?;
        }
        for (who, alone) in [("GOOD", &diff.only_good_threads), ("BAD", &diff.only_bad_threads)] {
            if !alone.is_empty() {
                let ids: Vec<String> = alone.iter().map(ToString::to_string).collect();
                writeln!(f, "\nThreads that only {who} has: {}", ids.join(", "))?;
            }
        }
        only(f, "BAD", &diff.only_bad, *top)?;
        only(f, "GOOD", &diff.only_good, *top)?;
        let Some(Cut { over, intervals: [good, bad], of: [of_good, of_bad] }) = diff.cut else { return Ok(()) };
        writeln!(
            f,
            "\n{over}: {good} of {of_good} intervals of GOOD were looked at, and {bad} of {of_bad} of BAD. What lies behind is not known, nor what only one \
             of them ran."
        )
    }
}
