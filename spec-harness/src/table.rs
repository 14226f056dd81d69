//! Printing what was measured.

use crate::measure::Row;
use crate::way::{PATIENCE, Way};
use std::fmt::Write;

/// What a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// bugnet itself.
    Own,
    /// bugnet and its peers.
    Peers,
    /// Light recording.
    Light,
}

/// How a table looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Columns for a terminal.
    Text,
    /// A Markdown table.
    Markdown,
}

/// A column: its heading, a row's cell, and the ratio whose geometric mean a group gets.
struct Column {
    name: &'static str,
    cell: fn(&Row) -> String,
    ratio: Option<fn(&Row) -> Option<f64>>,
    /// Put before a mean.
    sign: &'static str,
}

const fn text(name: &'static str, cell: fn(&Row) -> String) -> Column {
    Column { name, cell, ratio: None, sign: "" }
}

macro_rules! ratio {
    ($name:expr, $way:ident, $to:ident, $f:expr) => {
        Column {
            name: $name,
            cell: |row| factor(row.ratio(Way::$way, Way::$to, $f)),
            ratio: Some(|row| row.ratio(Way::$way, Way::$to, $f)),
            sign: "",
        }
    };
}

/// A ratio to native of which hundredths count.
macro_rules! hundredths {
    ($name:expr, $way:ident, $f:expr) => {
        Column {
            name: $name,
            cell: |row| {
                row.ratio(Way::$way, Way::Native, $f).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x"))
            },
            ratio: Some(|row| row.ratio(Way::$way, Way::Native, $f)),
            sign: "",
        }
    };
}

macro_rules! peer {
    ($name:expr, $way:ident) => {
        Column {
            name: $name,
            cell: |row| match row.failed.get(&Way::$way) {
                // The signal at the limit of CPU time.
                Some(status) if status.starts_with("signal: 24") => match row.costs.get(&Way::Native) {
                    Some(native) => format!(">{:.0}x", f64::from(PATIENCE) / native.cpu),
                    None => "-".to_owned(),
                },
                Some(_) => "fails".to_owned(),
                None => factor(row.ratio(Way::$way, Way::Native, |c| c.cpu)),
            },
            ratio: Some(|row| row.ratio(Way::$way, Way::Native, |c| c.cpu)),
            sign: "",
        }
    };
}

/// bugnet itself.
const OWN: [Column; 15] = [
    text("program", |row| row.name.clone()),
    text("instructions", |row| count(row.log.instructions)),
    ratio!("DynamoRIO", DynamoRio, Native, |c| c.cpu),
    ratio!("record CPU", Record, Native, |c| c.cpu),
    ratio!("record wall", Record, Native, |c| c.wall),
    ratio!("replay CPU", Replay, Native, |c| c.cpu),
    ratio!("replay wall", Replay, Native, |c| c.wall),
    ratio!("-j2 faster", Replay, ReplayTwo, |c| c.wall),
    ratio!("merged/replay", Merged, Replay, |c| c.cpu),
    text("log", |row| size(row.log.compressed as f64)),
    text("raw /100M", |row| per(row, row.log.raw)),
    text("log /100M", |row| per(row, row.log.compressed)),
    text("deps /M found", |row| per_million(row, row.log.before_reduction)),
    text("deps /M logged", |row| per_million(row, row.log.dependencies)),
    ratio!("memory", Record, Native, |c| c.memory as f64),
];

/// Light recording.
const LIGHT: [Column; 11] = [
    text("program", |row| row.name.clone()),
    text("instructions", |row| count(row.log.instructions)),
    text("native wall", |row| milliseconds(row.costs.get(&Way::Native).map(|cost| cost.wall))),
    hundredths!("captured CPU", Capture, |c| c.cpu),
    hundredths!("captured wall", Capture, |c| c.wall),
    text("more wall", |row| {
        let [captured, native] = [Way::Capture, Way::Native].map(|way| row.costs.get(&way).map(|cost| cost.wall));
        milliseconds(captured.zip(native).map(|(captured, native)| captured - native))
    }),
    ratio!("recorded CPU", Record, Native, |c| c.cpu),
    ratio!("recorded wall", Record, Native, |c| c.wall),
    ratio!("expand CPU", Expand, Native, |c| c.cpu),
    ratio!("expand wall", Expand, Native, |c| c.wall),
    text("light log", |row| size(row.light as f64)),
];

/// A time; `-` if there is none.
fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.1} ms", seconds * 1e3))
}

/// bugnet and its peers, CPU time.
const PEERS: [Column; 11] = [
    text("program", |row| row.name.clone()),
    text("instructions", |row| count(row.log.instructions)),
    ratio!("DynamoRIO", DynamoRio, Native, |c| c.cpu),
    ratio!("bugnet record", Record, Native, |c| c.cpu),
    ratio!("bugnet replay", Replay, Native, |c| c.cpu),
    peer!("valgrind, no tool", Valgrind),
    peer!("memcheck", Memcheck),
    peer!("lackey", Lackey),
    peer!("qemu-user", Qemu),
    peer!("qemu-user, plugin", QemuPlugin),
    Column {
        name: "gdb record full",
        cell: |row| match row.gdb_ratio() {
            Some(ratio) => format!("~{}", factor(Some(ratio))),
            None => "fails".to_owned(),
        },
        ratio: Some(Row::gdb_ratio),
        sign: "~",
    },
];

/// A ratio, in no more digits than it deserves; `-` if there is none.
#[must_use]
pub fn factor(ratio: Option<f64>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(ratio) if ratio < 100.0 => format!("{ratio:.1}x"),
        Some(ratio) if ratio < 1000.0 => format!("{ratio:.0}x"),
        Some(ratio) if ratio < 10_000.0 => format!("{:.0}00x", ratio / 100.0),
        Some(ratio) if ratio < 999_500.0 => format!("{:.0},000x", ratio / 1000.0),
        Some(ratio) => format!("{:.1} million x", ratio / 1e6),
    }
}

fn per(row: &Row, bytes: u64) -> String {
    match row.log.instructions {
        // From a few instructions nothing can be said about many.
        0..10_000_000 => "-".to_owned(),
        n => size(bytes as f64 * 1e8 / n as f64),
    }
}

/// Dependencies among threads for each million of instructions; nothing where there is one thread only.
fn per_million(row: &Row, count: u64) -> String {
    match (row.log.before_reduction, row.log.instructions) {
        (0, _) | (_, 0) => "-".to_owned(),
        (_, n) => format!("{:.1}", count as f64 * 1e6 / n as f64),
    }
}

/// The geometric mean of ratios, of which there is one at least.
#[must_use]
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// A number of instructions; `-` if it is none.
#[must_use]
pub fn count(n: u64) -> String {
    match n {
        0 => "-".to_owned(),
        1..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.2} G", n as f64 / 1e9),
    }
}

/// Bytes.
#[must_use]
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.2} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}

/// What the figures of a table are, for who does not know.
#[must_use]
pub fn caption(kind: Kind) -> String {
    if kind == Kind::Light {
        return "Relative to native. captured: under record --light, with bugnet's own start; more wall: the time that this adds. recorded: under record. expand: the log made \
            of the light one, with as many jobs as there are processors. light log: without copies of mapped files.\n"
            .to_owned();
    }
    if kind == Kind::Peers {
        return format!(
            "CPU time relative to native. bugnet records and verifies by replay; valgrind without a tool and qemu-user only\n\
             run the program, memcheck checks its memory, lackey counts and the plugin of qemu-user is called at its loads\n\
             and stores. gdb keeps all instructions; its figure follows from how many it records in some seconds; it fails at\n\
             instructions and system calls that it does not know. >: stopped after {PATIENCE} s.\n"
        );
    }
    "Relative to native. replay: of the whole log, verified, one job. merged/replay: CPU time of verifying all threads in one\n\
     order, relative to that. log: on disk, without copies of ELF files. /100M: bytes for 100 million instructions, before and after compression. deps: dependencies between threads, for a million\n\
     instructions, before and after reduction. memory: peak.\n"
        .to_owned()
}

/// The table of all rows, with the geometric mean of the slowdowns of each group of more than one row; of bugnet and
/// its peers, or of light recording, by `kind`.
#[must_use]
pub fn table(rows: &[Row], kind: Kind, style: Style) -> String {
    let columns: &[Column] = match kind {
        Kind::Own => &OWN,
        Kind::Peers => &PEERS,
        Kind::Light => &LIGHT,
    };
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|column| column.name.to_owned()).collect()];
    for group in rows.chunk_by(|a, b| a.group == b.group) {
        lines.extend(group.iter().map(|row| columns.iter().map(|column| (column.cell)(row)).collect()));
        if group.len() > 1 {
            lines.push(mean_line(columns, group));
        }
    }
    self::lines(&lines, style)
}

/// Lines of cells as a table; the first has the headings.
#[must_use]
pub fn lines(lines: &[Vec<String>], style: Style) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
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
                    let _ = writeln!(out, "|---|{}", "---:|".repeat(columns.saturating_sub(1)));
                }
            }
        }
    }
    out
}

fn mean_line(columns: &[Column], group: &[Row]) -> Vec<String> {
    let mean = |ratio: fn(&Row) -> Option<f64>| {
        // A mean of only those that came to an end would flatter.
        let ratios: Option<Vec<f64>> = group.iter().map(ratio).collect();
        ratios.map(|ratios| geometric_mean(&ratios))
    };
    let cell = |column: &Column| match column.ratio.map(mean) {
        None => String::new(),
        Some(None) => factor(None),
        Some(mean) => format!("{}{}", column.sign, factor(mean)),
    };
    let cells = columns.iter().map(cell);
    [format!("{}: geometric mean", group[0].group)].into_iter().chain(cells.skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Cost, LogSize};
    use crate::way::Pace;

    fn row(name: &str, slowdown: f64) -> Row {
        let cost = |factor: f64| Cost { cpu: 2.0 * factor, wall: 3.0 * factor, memory: (1e6 * factor) as u64 };
        Row {
            name: name.to_owned(),
            group: "single",
            runs: 3,
            costs: [
                (Way::Native, cost(1.0)),
                (Way::Record, cost(slowdown)),
                (Way::Replay, cost(slowdown / 2.0)),
                (Way::ReplayTwo, cost(slowdown / 4.0)),
                (Way::Merged, cost(slowdown * 1.5)),
            ]
            .into(),
            failed: [(Way::Lackey, "signal: 24 (SIGXCPU)".to_owned())].into(),
            gdb: Some(Pace { instructions: 10_000, cpu: 1.5 }),
            log: LogSize {
                instructions: 2_000_000_000,
                raw: 40_000_000,
                compressed: 10_000_000,
                total: 20_000_000,
                dependencies: 100,
                before_reduction: 3_000,
            },
            light: 0,
        }
    }

    fn cells(markdown: &str) -> Vec<Vec<&str>> {
        markdown.lines().map(|line| line.split('|').map(str::trim).filter(|c| !c.is_empty()).collect()).collect()
    }

    #[test]
    fn ratios_and_geometric_mean() {
        let markdown = table(&[row("a", 2.0), row("b", 8.0)], Kind::Own, Style::Markdown);
        let cells = cells(&markdown);
        assert_eq!(
            cells[2],
            [
                "a", "2.00 G", "-", "2.0x", "2.0x", "1.0x", "1.0x", "2.0x", "3.0x", "10.00 MB", "2.00 MB", "500.0 kB",
                "1.5", "0.1", "2.0x"
            ]
        );
        assert_eq!(cells[4], ["single: geometric mean", "-", "4.0x", "4.0x", "2.0x", "2.0x", "2.0x", "3.0x", "4.0x"]);
    }

    #[test]
    fn digits_of_ratios() {
        let shown = [2.04, 123.4, 1234.0, 51_234.0, 1_622_000.0].map(|ratio| factor(Some(ratio)));
        assert_eq!(shown, ["2.0x", "123x", "1200x", "51,000x", "1.6 million x"]);
        assert_eq!(factor(None), "-");
    }

    #[test]
    fn peers_that_were_stopped() {
        let markdown = table(&[row("a", 2.0)], Kind::Peers, Style::Markdown);
        assert_eq!(cells(&markdown)[2], ["a", "2.00 G", "-", "2.0x", "1.0x", "-", "-", ">15x", "-", "-", "~150,000x"]);
    }
}
