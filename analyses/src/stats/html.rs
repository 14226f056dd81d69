//! Counts as a page: drawn over time, thread by thread.

use super::{Calling, Counts, Hot, Row, Sliced, Stats};
use crate::page::page;
use crate::slice::Share;
use bugnet_replay::log::ThreadId;
use serde::Serialize;

/// Most bars of a drawing; with more intervals, several have one together.
const BARS: usize = 200;
/// Functions and lines that are shown.
const HOTTEST: usize = 30;

/// What the page's script draws. No number has more digits than a script can hold: nobody records so much.
#[derive(Serialize)]
struct Page<'a> {
    log: &'a str,
    total: &'a Counts,
    slice: Option<&'a Sliced>,
    /// How much was counted, as a sentence, if not all was.
    cut: Option<String>,
    threads: Vec<Thread>,
    calling: &'a [Calling],
    functions: &'a [Hot],
    lines: &'a [Hot],
    /// Instructions of which no line is known.
    without_line: u64,
    /// All instructions.
    of: u64,
}

/// What is drawn of a thread.
#[derive(Serialize)]
struct Thread {
    name: String,
    bars: Vec<Bar>,
}

/// An interval, or several ones that follow each other.
#[derive(Serialize)]
struct Bar {
    first: u64,
    last: u64,
    #[serde(flatten)]
    counts: Counts,
    slice: Option<Share>,
}

/// The page.
///
/// # Errors
/// The counts have no form as JSON.
pub fn html(stats: &Stats, log: &str) -> serde_json::Result<String> {
    let threads = stats.intervals.chunk_by(|a, b| a.id.thread == b.id.thread);
    let hottest = &stats.hottest;
    let shown = Page {
        log,
        total: &stats.total,
        slice: stats.slice.as_ref(),
        cut: stats.cut.map(|cut| cut.to_string()),
        threads: threads.map(|rows| thread(rows[0].id.thread, rows)).collect(),
        calling: &hottest.calling[..hottest.calling.len().min(HOTTEST)],
        functions: &hottest.functions[..hottest.functions.len().min(HOTTEST)],
        lines: &hottest.lines[..hottest.lines.len().min(HOTTEST)],
        without_line: hottest.without_line,
        of: hottest.of,
    };
    page("bugnet stats", include_str!("html.css"), include_str!("html.js"), &shown)
}

fn thread(id: ThreadId, rows: &[Row]) -> Thread {
    let bars = rows.chunks(rows.len().div_ceil(BARS)).map(|some| {
        let (mut counts, mut slice) = (Counts::default(), None::<Share>);
        for row in some {
            counts.add(&row.counts);
            row.slice.iter().for_each(|share| slice.get_or_insert_default().add(*share));
        }
        Bar { first: some[0].id.interval.0, last: some[some.len() - 1].id.interval.0, counts, slice }
    });
    Thread { name: id.to_string(), bars: bars.collect() }
}
