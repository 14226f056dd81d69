//! Why a run failed, as a page.

use super::display::{looked, symptom};
use super::report::{Illegal, Report, Step, Suspect};
use crate::page::page;
use bugnet_replay::crash::Sources;
use bugnet_replay::cursor::Place;
use bugnet_replay::symbols::Symbolizer;
use serde::Serialize;

/// Lines of source text before and behind each.
const AROUND: u32 = 4;
/// Longest of these, in characters.
const LONGEST: usize = 400;

/// What the page's script draws.
#[derive(Serialize)]
struct Page<'a> {
    symptom: Vec<String>,
    said: &'a [String],
    asked: Option<&'a str>,
    place: Option<String>,
    chain: Vec<Row<'a>>,
    outside: &'a [String],
    illegal: Vec<Wrong<'a>>,
    looked: String,
    differs: &'a [String],
    suspects: Vec<Candidate<'a>>,
    notes: &'a [String],
}

/// A line of the chain.
#[derive(Serialize)]
struct Row<'a> {
    place: String,
    function: Option<&'a str>,
    file: &'a str,
    line: u32,
    text: Option<&'a str>,
    with: &'a [String],
    values: &'a [String],
    times: u64,
}

impl<'a> Row<'a> {
    fn of(step: &'a Step) -> Self {
        let Step { place, function, file, line, text, with, values, times } = step;
        let (function, text) = (function.as_deref(), text.as_deref());
        Self { place: place.to_string(), function, file, line: *line, text, with, values, times: *times }
    }
}

/// Something illegal.
#[derive(Serialize)]
struct Wrong<'a> {
    what: &'a str,
    at: &'a str,
    place: String,
    command: String,
}

/// A line at which one would look.
#[derive(Serialize)]
struct Candidate<'a> {
    file: &'a str,
    line: u32,
    function: Option<&'a str>,
    /// Source text around it, by the number of the first line.
    around: Option<(u32, Vec<String>)>,
    why: &'a [String],
    command: String,
}

/// The page; `log` is what commands say to mean this process of this log.
///
/// # Errors
/// The report has no form as JSON.
pub fn html<'r>(report: &'r Report, symbols: &Symbolizer, log: &str) -> serde_json::Result<String> {
    let mut sources = Sources::default();
    let command = |place: Place| format!("bugnet debug --at {place} {log}");
    let mut candidate = |one: &'r Suspect| {
        let Suspect { file, line, function, why, place, .. } = one;
        let around = around(one, symbols, &mut sources);
        Candidate { file, line: *line, function: function.as_deref(), around, why, command: command(*place) }
    };
    let wrong = |one: &'r Illegal| {
        let Illegal { what, place, at } = one;
        Wrong { what, at, place: place.to_string(), command: command(*place) }
    };
    let shown = Page {
        symptom: symptom(&report.symptom),
        said: &report.said,
        asked: report.asked.as_deref(),
        place: report.place.map(|place| place.to_string()),
        chain: report.chain.iter().map(Row::of).collect(),
        outside: &report.outside,
        illegal: report.illegal.iter().map(wrong).collect(),
        looked: looked(report),
        differs: &report.differs,
        suspects: report.suspects.iter().map(&mut candidate).collect(),
        notes: &report.notes,
    };
    page("bugnet why", include_str!("html.css"), include_str!("html.js"), &shown)
}

/// Source text around a line, as far as there is some.
fn around(line: &Suspect, symbols: &Symbolizer, sources: &mut Sources) -> Option<(u32, Vec<String>)> {
    let first = line.line.saturating_sub(AROUND).max(1);
    let mut text = |number| Some(sources.line(symbols, &line.file, number)?.chars().take(LONGEST).collect());
    let text: Vec<String> = (first..=line.line.saturating_add(AROUND)).map_while(&mut text).collect();
    (text.len() > (line.line - first) as usize).then_some((first, text))
}
