//! A slice as a page: its lines as a list, and as a graph to walk through. What belongs to libraries is folded in both.

use super::report::{From, Line, Report, Value};
use crate::page::page;
use bugnet_replay::crash::Sources;
use bugnet_replay::symbols::Symbolizer;
use serde::Serialize;

/// Lines of a slice that a page shows, of the program's own and of libraries each; more of them say less.
pub const PAGE_LINES: usize = 200;
/// Lines of source text before and behind each.
const AROUND: u32 = 4;
/// Longest of these, in characters.
const LONGEST: usize = 400;

/// What the page's script draws. Numbers that may have more digits than a script can hold are text.
#[derive(Serialize)]
struct Shown<'a> {
    asked: &'a str,
    place: String,
    command: String,
    full: bool,
    forward: bool,
    /// Lines in all: the program's own, and those of libraries.
    of: [usize; 2],
    executed: u64,
    walked: u64,
    ended: &'a str,
    notes: &'a [String],
    from: Vec<From>,
    lines: Vec<Node<'a>>,
    outside: Vec<Source<'a>>,
}

/// A line of the slice.
#[derive(Serialize)]
struct Node<'a> {
    place: String,
    command: String,
    before: Option<u64>,
    text: Option<&'a str>,
    function: Option<&'a str>,
    inlined: &'a [String],
    file: Option<&'a str>,
    line: Option<u32>,
    module: Option<&'a str>,
    system: bool,
    /// Where the library was called, of the first of several lines.
    caller: Option<String>,
    times: u64,
    with: &'a [Value],
    values: &'a [Value],
    instructions: Vec<(String, &'a str)>,
    /// Source text around it, by the number of the first line.
    around: Option<(u32, Vec<String>)>,
    from: Vec<From>,
    /// Lines that it takes values from, and that are not shown.
    more: usize,
}

/// Where values come from outside.
#[derive(Serialize)]
struct Source<'a> {
    what: &'a str,
    place: Option<String>,
    command: Option<String>,
    times: u64,
}

/// The page of a slice; `log` is what commands say to mean this process of this log.
///
/// # Errors
/// The report has no form as JSON.
pub fn html<'r>(report: &'r Report, symbols: &Symbolizer, log: &str) -> serde_json::Result<String> {
    let command = |place: &str| format!("bugnet at {place} {log}").trim_end().to_owned();
    let shown = shown(&report.lines);
    let number = |line: usize| shown.binary_search(&line).ok();
    let among = |from: &[From]| -> Vec<From> {
        let shown = from.iter().map(|from| From { line: from.line.and_then(number), ..*from });
        shown.filter(|from| from.line.is_some() || from.outside.is_some()).collect()
    };
    let mut sources = Sources::default();
    let node = |line: &'r Line| {
        let Line { place, before, text, function, inlined_into: inlined, file, line: number, .. } = line;
        let place = place.to_string();
        let from = among(&line.from);
        Node {
            command: command(&place),
            place,
            before: *before,
            text: text.as_deref(),
            function: function.as_deref(),
            inlined,
            file: file.as_deref(),
            line: *number,
            module: line.module.as_deref(),
            system: line.is_system,
            caller: line.called_from.as_ref().map(ToString::to_string),
            times: line.times,
            with: &line.with,
            values: &line.values,
            instructions: line.instructions.iter().map(|(at, text)| (format!("{:#x}", at.0), &**text)).collect(),
            around: around(line, symbols, &mut sources),
            more: line.from.len() - from.len(),
            from,
        }
    };
    let place = report.place.to_string();
    let libraries = report.lines.iter().filter(|line| line.is_system).count();
    let shown = Shown {
        asked: &report.asked,
        command: command(&place),
        place,
        full: report.full,
        forward: report.forward,
        of: [report.lines.len() - libraries, libraries],
        executed: report.counts.executed,
        walked: report.counts.walked,
        ended: &report.ended,
        notes: &report.notes,
        from: among(&report.from),
        lines: shown.iter().map(|line| &report.lines[*line]).map(node).collect(),
        outside: report
            .outside
            .iter()
            .map(|one| {
                let place = one.place.map(|place| place.to_string());
                Source { what: &one.what, command: place.as_deref().map(command), place, times: one.times }
            })
            .collect(),
    };
    page("bugnet slice", include_str!("html.css"), include_str!("html.js"), &shown)
}

/// The lines that are shown, by their place in the list: of the program's own and of libraries, the last ones each.
fn shown(lines: &[Line]) -> Vec<usize> {
    let first = |is_system| {
        let all = lines.iter().enumerate().filter(move |(_, line)| line.is_system == is_system);
        all.map(|(number, _)| number).take(PAGE_LINES)
    };
    let mut all: Vec<usize> = first(false).chain(first(true)).collect();
    all.sort_unstable();
    all
}

/// Source text around a line, as far as there is some.
fn around(line: &Line, symbols: &Symbolizer, sources: &mut Sources) -> Option<(u32, Vec<String>)> {
    let (file, number) = (line.file.as_ref()?, line.line?);
    let first = number.saturating_sub(AROUND).max(1);
    let mut text = |number| Some(sources.line(symbols, file, number)?.chars().take(LONGEST).collect());
    let text: Vec<String> = (first..=number.saturating_add(AROUND)).map_while(&mut text).collect();
    (text.len() > (number - first) as usize).then_some((first, text))
}
