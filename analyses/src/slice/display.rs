//! A slice as text.

use super::Touched;
use super::report::{Line, Report, Value};
use crate::names::brief;
use crate::runs::scene::Spot;
use std::fmt::{Display, Formatter, Result};

/// Lines, and origins, that are shown.
const SHOWN: usize = 40;
/// Values that are shown of a line, and characters of each.
const VALUES: usize = 6;
const LONGEST: usize = 60;

/// How much of a report is shown.
pub struct Shown<'a> {
    /// The report.
    pub report: &'a Report,
    /// Lines at most.
    pub lines: usize,
    /// Whether each instruction is, too.
    pub instructions: bool,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Report { asked, place, lines, outside, counts, .. } = self.report;
        let kind = if self.report.full { "full" } else { "thin" };
        let is_forward = self.report.forward;
        writeln!(f, "{}: {asked}, at {place}\n", if is_forward { "Influence of" } else { "Why" })?;
        if lines.is_empty() {
            writeln!(f, "No instruction has {} it.", if is_forward { "taken" } else { "made" })?;
        } else if is_forward {
            writeln!(f, "It went into, the first first (each line as it was executed first with it):")?;
        } else {
            writeln!(f, "Made by, the last first (each line as it was executed last for it):")?;
        }
        let mut hidden: Option<(usize, &Line)> = None;
        let mut shown = 0;
        for line in lines {
            if shown == self.lines {
                break;
            }
            if line.is_librarys() && !self.instructions {
                let (count, first) = hidden.unwrap_or((0, line));
                hidden = Some((count + 1, first));
                continue;
            }
            show_hidden(f, hidden.take())?;
            show_line(f, line, self.instructions)?;
            shown += 1;
        }
        show_hidden(f, hidden)?;
        if shown == self.lines && lines.len() > shown {
            writeln!(f, "  ... {} lines in all; --lines shows more", lines.len())?;
        }
        if !outside.is_empty() {
            writeln!(f, "\n{}:", if is_forward { "To the kernel" } else { "From outside" })?;
        }
        for one in outside.iter().take(SHOWN) {
            let place = one.place.map_or_else(|| "before".to_owned(), |place| place.to_string());
            let times = if one.times > 1 { format!(" (x{})", one.times) } else { String::new() };
            writeln!(f, "  {place:<22} {}{times}", one.what)?;
        }
        if outside.len() > SHOWN {
            writeln!(f, "  ... {} in all; --json has them", outside.len())?;
        }
        writeln!(
            f,
            "\n{} of {} executed instructions ({}) are in the {kind} slice: {} of the program's, of {} lines; {}.",
            counts.executed,
            counts.walked,
            share(counts.executed, counts.walked),
            counts.instructions,
            lines.len(),
            self.report.ended
        )?;
        if let Some(Touched { walked, slice }) = counts.touched {
            writeln!(
                f,
                "It accesses {slice} of {walked} bytes of memory that were accessed ({}).",
                share(slice, walked)
            )?;
        }
        self.report.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

fn share(part: u64, all: u64) -> String {
    if all == 0 {
        return "0 %".to_owned();
    }
    let percent = 100.0 * part as f64 / all as f64;
    if percent >= 0.1 { format!("{percent:.1} %") } else { format!("{percent:.1e} %") }
}

/// Steps within libraries, of which the first is named.
fn show_hidden(f: &mut Formatter<'_>, hidden: Option<(usize, &Line)>) -> Result {
    let Some((count, first)) = hidden else { return Ok(()) };
    let name = first.function.as_deref().map_or_else(|| "a library".to_owned(), brief);
    let more = match count - 1 {
        0 => String::new(),
        1 => " and 1 more function of libraries".to_owned(),
        more => format!(" and {more} more functions of libraries"),
    };
    let from = first.called_from.as_ref().map_or_else(String::new, |from| format!(", called {}", at(from)));
    writeln!(f, "  {:<22} {name}{more}{from}", "")
}

/// Where a call is, as lines of the slice say where they are.
fn at(spot: &Spot) -> String {
    let function = spot.function.as_deref().map_or_else(|| "?".to_owned(), brief);
    match (&spot.file, spot.line) {
        (Some(file), Some(line)) => format!("at {}:{line} in {function}", file.rsplit('/').next().unwrap_or(file)),
        _ => format!("in {function}"),
    }
}

fn show_line(f: &mut Formatter<'_>, line: &Line, instructions: bool) -> Result {
    let function = brief(line.function.as_deref().unwrap_or("?"));
    let at = match (&line.file, line.line) {
        (Some(file), Some(number)) => {
            let name = file.rsplit('/').next().unwrap_or(file);
            format!("{name}:{number} in {function}")
        }
        _ => match &line.module {
            Some(module) => format!("{function} in {}", module.rsplit('/').next().unwrap_or(module)),
            None => function,
        },
    };
    let inlined = line.inlined_into.first().map_or(String::new(), |outer| format!(", inlined into {}", brief(outer)));
    let times = if line.times > 1 { format!("  x{}", line.times) } else { String::new() };
    writeln!(f, "  {:<22} {at}{inlined}{times}", line.place.to_string())?;
    if let Some(text) = &line.text {
        writeln!(f, "  {:<22}     {text}", "")?;
    }
    let listed = |values: &[Value]| {
        let shown = values.iter().take(VALUES).map(|one| format!("{} = {}", one.name, shortened(&one.value)));
        shown.collect::<Vec<_>>().join(", ")
    };
    let (with, values) = (listed(&line.with), listed(&line.values));
    let text = match (with.is_empty(), values.is_empty()) {
        (true, true) => return show_instructions(f, line, instructions),
        (false, true) => format!("with {with}"),
        (true, false) => format!("-> {values}"),
        (false, false) => format!("with {with} -> {values}"),
    };
    writeln!(f, "  {:<22}     {text}", "")?;
    show_instructions(f, line, instructions)
}

fn shortened(value: &str) -> String {
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

fn show_instructions(f: &mut Formatter<'_>, line: &Line, instructions: bool) -> Result {
    if instructions {
        for (addr, text) in &line.instructions {
            writeln!(f, "  {:<22}     {:#x}  {text}", "", addr.0)?;
        }
    }
    Ok(())
}
