//! Counts as tables.

use super::{Calling, Counts, Cut, Hot, Hottest, Row, Sliced, Stats};
use crate::names::brief;
use crate::slice::Share;
use bugnet_replay::log::ThreadId;
use indicatif::{HumanBytes, HumanCount};
use std::collections::BTreeMap;
use std::fmt;

/// Counts of threads and, if wanted, of each interval; then what executed most.
pub struct Report<'a> {
    /// What was found out.
    pub stats: &'a Stats,
    /// Whether each interval has a line of its own.
    pub each: bool,
    /// How many functions and lines are shown.
    pub top: usize,
}

const HEAD: [&str; 7] = ["INSTRUCTIONS", "LOADS", "BYTES", "STORES", "BYTES", "FIRST LOADS", "MEMORY"];
/// What follows if a slice was asked for.
const HEAD_OF_SLICE: [&str; 2] = ["IN SLICE", "MEMORY"];

fn cells(counts: &Counts, slice: Option<Share>) -> Vec<String> {
    let Counts { instructions, loads, loaded, stores, stored, first_loads, lines, .. } = *counts;
    let count = |n| HumanCount(n).to_string();
    let bytes = |n| HumanBytes(n).to_string();
    let of = |part: Option<u64>, all: u64| match part {
        Some(part) => format!("{:.2} %", part as f64 * 100.0 / all.max(1) as f64),
        None => "-".to_owned(),
    };
    vec![
        count(instructions),
        count(loads),
        bytes(loaded),
        count(stores),
        bytes(stored),
        count(first_loads),
        bytes(lines * 64),
        of(slice.map(|slice| slice.instructions), instructions),
        of(slice.map(|slice| slice.lines), lines),
    ]
}

fn table(f: &mut fmt::Formatter<'_>, head: &[&str], rows: &[(String, Vec<String>)]) -> fmt::Result {
    let name = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = |n: usize| rows.iter().map(|(_, row)| row[n].len()).chain([head[n].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
        write!(f, "{first:name$}")?;
        cells.zip(&widths).try_for_each(|(cell, width)| write!(f, "  {cell:>width$}"))?;
        writeln!(f)
    };
    line("", &mut head.iter().copied())?;
    rows.iter().try_for_each(|(name, row)| line(name, &mut row.iter().map(String::as_str)))
}

/// Functions of the program itself, with what they called.
fn calling(f: &mut fmt::Formatter<'_>, all: &[Calling], of: u64, top: usize) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "\nFunctions of the program itself: with the libraries that they called, alone, and with all that they called:"
    )?;
    writeln!(f, "  WITH LIBRARIES      ALONE      TOTAL  FUNCTION")?;
    let share = |part: u64| format!("{:.2} %", part as f64 * 100.0 / of.max(1) as f64);
    for one in all.iter().take(top) {
        let Calling { name, module, instructions, with_libraries, total } = one;
        let [with, alone, total] = [*with_libraries, *instructions, *total].map(share);
        writeln!(f, "{with:>16}  {alone:>9}  {total:>9}  {}{}", brief(name), file(name, module.as_deref()))?;
    }
    let rest = of.saturating_sub(all.iter().map(|one| one.with_libraries).sum());
    writeln!(f, "{:>16}  {:>9}  {:>9}  before these were called, and behind them", share(rest), "", "")
}

/// Which file it is, unless the name says that.
fn file(name: &str, module: Option<&str>) -> String {
    let module = module.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    if name.contains(module) { String::new() } else { format!("  {module}") }
}

fn hottest(f: &mut fmt::Formatter<'_>, what: &str, all: &[Hot], of: u64, top: usize) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{what} that executed most:")?;
    let share = |hot: &Hot| hot.instructions as f64 * 100.0 / of.max(1) as f64;
    // Of what would be zero, only the first tells something.
    for (_, hot) in all.iter().take(top).enumerate().take_while(|(n, hot)| *n == 0 || share(hot) >= 0.005) {
        let share = share(hot);
        let file = file(&hot.name, hot.module.as_deref());
        writeln!(f, "{share:7.2} %  {:>15}  {}{file}", HumanCount(hot.instructions).to_string(), hot.name)?;
    }
    Ok(())
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { intervals, total, slice, hottest, cut } = self.stats;
        let Hottest { calling, functions, lines, without_line, of } = hottest;
        let mut threads: BTreeMap<ThreadId, (Counts, Option<Share>)> = BTreeMap::new();
        let mut rows = Vec::new();
        for Row { id, counts, slice } in intervals {
            let (sum, share) = threads.entry(id.thread).or_default();
            sum.add(counts);
            slice.iter().for_each(|slice| share.get_or_insert_default().add(*slice));
            if self.each {
                rows.push((id.to_string(), cells(counts, *slice)));
            }
        }
        if !self.each {
            rows.extend(threads.iter().map(|(thread, (counts, share))| (thread.to_string(), cells(counts, *share))));
        }
        if rows.len() > 1 {
            rows.push(("all".into(), cells(total, slice.as_ref().map(|slice| slice.share))));
        }
        let head = if slice.is_some() { [&HEAD[..], &HEAD_OF_SLICE].concat() } else { HEAD.to_vec() };
        table(f, &head, &rows)?;
        if let Some(Sliced { asked, full, over, .. }) = slice {
            let far = over.map(|over| format!(", as far as it was followed ({over})")).unwrap_or_default();
            writeln!(f, "\nIn the {} slice of {asked}{far}.", if *full { "full" } else { "thin" })?;
        }
        self::calling(f, calling, *of, self.top)?;
        self::hottest(f, "Functions", functions, *of, self.top)?;
        self::hottest(f, "Lines", lines, *of, self.top)?;
        if *without_line > 0 && !lines.is_empty() {
            writeln!(f, "Of {} instructions, no line is known.", HumanCount(*without_line))?;
        }
        cut.iter().try_for_each(|cut| writeln!(f, "\n{cut}"))
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { over, intervals, of } = self;
        write!(
            f,
            "{over}: {intervals} of {of} intervals were counted, thread by thread; of the others, nothing is known."
        )
    }
}
