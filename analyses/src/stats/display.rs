//! Counts as tables.

use super::{Counts, Hot, Hottest, Row, Stats};
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

fn cells(counts: &Counts) -> [String; 7] {
    let Counts { instructions, loads, loaded, stores, stored, first_loads, lines, .. } = *counts;
    let count = |n| HumanCount(n).to_string();
    let bytes = |n| HumanBytes(n).to_string();
    [
        count(instructions),
        count(loads),
        bytes(loaded),
        count(stores),
        bytes(stored),
        count(first_loads),
        bytes(lines * 64),
    ]
}

fn table(f: &mut fmt::Formatter<'_>, rows: &[(String, [String; 7])]) -> fmt::Result {
    let name = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = |n: usize| rows.iter().map(|(_, row)| row[n].len()).chain([HEAD[n].len()]).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut line = |first: &str, cells: [&str; 7]| {
        write!(f, "{first:name$}")?;
        cells.iter().zip(widths).try_for_each(|(cell, width)| write!(f, "  {cell:>width$}"))?;
        writeln!(f)
    };
    line("", HEAD)?;
    rows.iter().try_for_each(|(name, row)| line(name, std::array::from_fn(|n| row[n].as_str())))
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
        let module = hot.module.as_ref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let module = if hot.name.contains(module) { String::new() } else { format!("  {module}") };
        writeln!(f, "{share:7.2} %  {:>15}  {}{module}", HumanCount(hot.instructions).to_string(), hot.name)?;
    }
    Ok(())
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { intervals, total, hottest: Hottest { functions, lines, without_line, of } } = self.stats;
        let mut threads: BTreeMap<ThreadId, (Counts, usize)> = BTreeMap::new();
        let mut rows = Vec::new();
        for Row { id, counts } in intervals {
            let (sum, intervals) = threads.entry(id.thread).or_default();
            sum.add(counts);
            *intervals += 1;
            if self.each {
                rows.push((id.to_string(), cells(counts)));
            }
        }
        if !self.each {
            rows.extend(threads.iter().map(|(thread, (counts, _))| (thread.to_string(), cells(counts))));
        }
        if rows.len() > 1 {
            rows.push(("all".into(), cells(total)));
        }
        table(f, &rows)?;
        hottest(f, "Functions", functions, *of, self.top)?;
        hottest(f, "Lines", lines, *of, self.top)?;
        if *without_line > 0 && !lines.is_empty() {
            writeln!(f, "Of {} instructions, no line is known.", HumanCount(*without_line))?;
        }
        Ok(())
    }
}
