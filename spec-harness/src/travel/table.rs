//! The table: a line for each question, a column for each workload.

use super::peer::{Pace, Peers};
use super::questions::{Column, Question, Unit};
use crate::table::{Style, count, factor, lines, size};

/// What the figures are, for who does not know.
#[must_use]
pub fn caption(samples: usize) -> String {
    format!(
        "Wall time in `bugnet debug`, gdb included, at {samples} random positions (fewer where that would take minutes); log and index on disk, read before. Goals\n\
         in the second column. CPU: user and system time, one job. -: not measured; why, is on standard error.\n"
    )
}

/// The table of all workloads.
#[must_use]
pub fn table(columns: &[Column], style: Style) -> String {
    let line = |name: &str, goal: &str, cell: &dyn Fn(&Column) -> String| -> Vec<String> {
        [name.to_owned(), goal.to_owned()].into_iter().chain(columns.iter().map(cell)).collect()
    };
    let mut all = vec![
        line("question", "goal", &|column| column.name.clone()),
        line("instructions", "", &|column| count(column.instructions)),
        line("log", "", &|column| size(column.log as f64)),
        line("index", "", &|column| size(column.index as f64)),
    ];
    for question in Question::ALL {
        let (goal, unit) = question.goal();
        let cell = |column: &Column| column.figures.get(&question).map_or_else(|| "-".to_owned(), |f| show(*f, unit));
        all.push(line(question.text(), &show(goal, unit), &cell));
        if question == Question::BackToBreakpoint {
            all.push(line("  so many instructions back", "5.00 G", &|column| count(column.distance)));
        }
    }
    lines(&all, style)
}

/// gdb's own recorder beside bugnet.
#[must_use]
pub fn peers(peers: &Peers, style: Style) -> String {
    let line =
        |name: &str, cell: &dyn Fn(&Pace) -> String| vec![name.to_owned(), cell(&peers.bugnet), cell(&peers.gdb)];
    let all = [
        ["program: sums", "bugnet", "gdb record full"].map(str::to_owned).to_vec(),
        line("instructions", &|pace| count(pace.instructions)),
        line("recording against native, CPU", &|pace| factor(Some(pace.slowdown))),
        line("reverse-stepi, median", &|pace| show(pace.step_back, Unit::Seconds)),
        line("reverse-continue, for a million instructions", &|pace| show(pace.back, Unit::Seconds)),
    ];
    format!("{}{}\n", lines(&all, style), peers.rr)
}

fn show(figure: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if figure < 1e-3 => format!("{:.0} us", figure * 1e6),
        Unit::Seconds if figure < 0.01 => format!("{:.1} ms", figure * 1e3),
        Unit::Seconds if figure < 1.0 => format!("{:.0} ms", figure * 1e3),
        Unit::Seconds => format!("{figure:.1} s"),
        Unit::Added => format!("{:+.0} %", figure * 100.0),
        Unit::Times => factor(Some(figure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_those_that_are_missing() {
        let mut column = Column { name: "gzip".to_owned(), instructions: 300_000_000, ..Column::default() };
        column.set(Question::Seek, Ok(0.0423));
        column.set(Question::Step, Ok(0.000_81));
        column.set(Question::IndexPass, Ok(1.25));
        column.omit(Question::Merged, "one thread".to_owned());
        let markdown = table(&[column], Style::Markdown);
        let cells = |name: &str| -> Vec<String> {
            let line = markdown.lines().find(|line| line.contains(name)).unwrap_or_default();
            line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
        };
        assert_eq!(cells("seek anywhere, median")[1..], ["150 ms", "42 ms"]);
        assert_eq!(cells("step after it")[1..], ["2.0 ms", "810 us"]);
        assert_eq!(cells("index pass")[1..], ["+30 %", "+125 %"]);
        assert_eq!(cells("merged")[1..], ["3.0x", "-"]);
        assert_eq!(cells("first prompt, no index")[1..], ["1.0 s", "-"]);
    }
}
