//! Printing what was measured.

use crate::measure::Row;
use std::fmt::Write;

/// How a table looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Columns for a terminal.
    Text,
    /// A Markdown table.
    Markdown,
}

const COLUMNS: [&str; 10] = [
    "program",
    "instructions",
    "record CPU",
    "record wall",
    "replay CPU",
    "replay wall",
    "log",
    "raw /100M",
    "log /100M",
    "memory",
];

fn cells(row: &Row) -> Vec<String> {
    let ratio = |a: f64, b: f64| if b > 0.0 && a > 0.0 { format!("{:.1}x", a / b) } else { "-".to_owned() };
    let per = |bytes: u64| {
        if row.log.instructions == 0 {
            return "-".to_owned();
        }
        size(bytes as f64 * 1e8 / row.log.instructions as f64)
    };
    vec![
        row.name.clone(),
        count(row.log.instructions),
        ratio(row.recording.cpu, row.native.cpu),
        ratio(row.recording.wall, row.native.wall),
        ratio(row.replay.cpu, row.native.cpu),
        ratio(row.replay.wall, row.native.wall),
        size(row.log.compressed as f64),
        per(row.log.raw),
        per(row.log.compressed),
        ratio(row.recording.memory as f64, row.native.memory as f64),
    ]
}

fn count(n: u64) -> String {
    match n {
        0 => "-".to_owned(),
        1..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.2} G", n as f64 / 1e9),
    }
}

fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.2} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}

/// The table of all rows, with the geometric mean of the slowdowns of each group of more than one row.
#[must_use]
pub fn table(rows: &[Row], style: Style) -> String {
    let mut lines: Vec<Vec<String>> = vec![COLUMNS.map(ToOwned::to_owned).to_vec()];
    let mut from = 0;
    for group in rows.chunk_by(|a, b| a.group == b.group) {
        lines.extend(rows[from..from + group.len()].iter().map(cells));
        from += group.len();
        if group.len() > 1 {
            lines.push(mean_line(group));
        }
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        let padded = |column: usize| match column {
            0 => format!("{:<1$}", line[0], widths[0]),
            _ => format!("{:>1$}", line[column], widths[column]),
        };
        let padded: Vec<String> = (0..line.len()).map(padded).collect();
        match style {
            Style::Text => {
                let _ = writeln!(out, "{}", padded.join("  ").trim_end());
            }
            Style::Markdown => {
                let _ = writeln!(out, "| {} |", padded.join(" | "));
                if number == 0 {
                    let _ = writeln!(out, "|---|{}", "---:|".repeat(COLUMNS.len() - 1));
                }
            }
        }
    }
    out
}

fn mean_line(group: &[Row]) -> Vec<String> {
    let mean = |f: fn(&Row) -> f64| {
        let logs: Vec<f64> = group.iter().map(f).filter(|x| x.is_finite() && *x > 0.0).map(f64::ln).collect();
        match logs.len() {
            0 => "-".to_owned(),
            n => format!("{:.1}x", (logs.iter().sum::<f64>() / n as f64).exp()),
        }
    };
    vec![
        format!("{}: geometric mean", group[0].group),
        String::new(),
        mean(|r| r.recording.cpu / r.native.cpu),
        mean(|r| r.recording.wall / r.native.wall),
        mean(|r| r.replay.cpu / r.native.cpu),
        mean(|r| r.replay.wall / r.native.wall),
        String::new(),
        String::new(),
        String::new(),
        mean(|r| r.recording.memory as f64 / r.native.memory as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Cost, LogSize};

    fn row(name: &str, slowdown: f64) -> Row {
        let cost = |factor: f64| Cost { cpu: 2.0 * factor, wall: 3.0 * factor, memory: (1e6 * factor) as u64 };
        Row {
            name: name.to_owned(),
            group: "single",
            runs: 3,
            native: cost(1.0),
            recording: cost(slowdown),
            replay: cost(slowdown / 2.0),
            log: LogSize { instructions: 2_000_000_000, raw: 40_000_000, compressed: 10_000_000, total: 20_000_000 },
        }
    }

    #[test]
    fn ratios_and_geometric_mean() {
        let markdown = table(&[row("a", 2.0), row("b", 8.0)], Style::Markdown);
        let cells: Vec<Vec<&str>> =
            markdown.lines().map(|line| line.split('|').map(str::trim).filter(|c| !c.is_empty()).collect()).collect();
        assert_eq!(
            cells[2],
            ["a", "2.00 G", "2.0x", "2.0x", "1.0x", "1.0x", "10.00 MB", "2.00 MB", "500.0 kB", "2.0x"]
        );
        assert_eq!(cells[4], ["single: geometric mean", "4.0x", "4.0x", "2.0x", "2.0x", "4.0x"]);
    }
}
