//! Ranks as a table.

use super::peers::Peer;
use super::{Answer, Row};
use crate::table::{Style, lines, size};
use std::fmt::Write;

/// Lines that `bugnet why` shows of itself.
const SHOWN: usize = 3;

fn rank(rank: Option<usize>) -> String {
    rank.map_or("-".to_owned(), |rank| rank.to_string())
}

/// A line for somebody who waits.
pub fn brief(row: &Row) -> String {
    let good = row.with_good.map(|answer| format!(", with {} right runs {}", row.good, rank(answer.rank)));
    format!("{}, rank {}{}, {:.1} s", row.symptom, rank(row.alone.rank), good.unwrap_or_default(), row.alone.seconds)
}

/// Ranks of all programs, and how many are among the first.
pub fn table(rows: &[Row]) -> String {
    let mut out = "The rank of the faulty line among those that `bugnet why` names: from the recording alone (with --expect where only the output is \
                   wrong), and with logs of right runs. Beside it, its rank among the lines of the program that valgrind (memcheck; helgrind for \
                   those with threads) and gdb's backtrace print. -: not among them; an empty cell: not asked.\n\n"
        .to_owned();
    out += &lines(&summary(rows), Style::Markdown);
    let headings =
        ["program", "lines", "symptom", "alone", "of", "with good", "s", "memory", "valgrind", "gdb", "what is wrong"];
    let mut all = vec![headings.map(str::to_owned).to_vec()];
    for row in rows {
        let peer = |peers: &[Peer]| {
            let found = peers.iter().find_map(|peer| row.peers.get(peer));
            found.map_or(String::new(), |found| rank(*found))
        };
        all.push(vec![
            format!("{}/{} {}", row.class, row.name, row.optimisation),
            row.length.map_or(String::new(), |length| length.to_string()),
            row.symptom.clone(),
            rank(row.alone.rank),
            row.alone.named.to_string(),
            row.with_good.map_or(String::new(), |answer| rank(answer.rank)),
            format!("{:.1}", row.alone.seconds),
            size(row.alone.memory as f64),
            peer(&[Peer::Memcheck, Peer::Helgrind]),
            peer(&[Peer::Gdb]),
            row.what.replace('|', "\\|"),
        ]);
    }
    let _ = write!(out, "\n{}", lines(&all, Style::Markdown));
    out
}

/// How many of each class are among the first.
fn summary(rows: &[Row]) -> Vec<Vec<String>> {
    let headings = ["class", "programs", "alone: first", "among 3", "with good: first", "among 3", "valgrind: among 3"];
    let mut all = vec![headings.map(str::to_owned).to_vec()];
    let classes: Vec<&str> = ["memory", "parallel", "output", "real"].into();
    for class in classes.into_iter().map(Some).chain([None]) {
        let rows: Vec<&Row> = rows.iter().filter(|row| class.is_none_or(|class| row.class == class)).collect();
        let share = |most: usize, of: &dyn Fn(&Row) -> Option<usize>| {
            let count = rows.iter().filter(|row| of(row).is_some_and(|rank| rank <= most)).count();
            format!("{:.0} %", 100.0 * count as f64 / rows.len().max(1) as f64)
        };
        let alone = |row: &Row| row.alone.rank;
        let good = |row: &Row| row.with_good.as_ref().unwrap_or(&row.alone as &Answer).rank;
        let valgrind =
            |row: &Row| [Peer::Memcheck, Peer::Helgrind].iter().find_map(|peer| row.peers.get(peer).copied().flatten());
        if !rows.is_empty() {
            all.push(vec![
                class.unwrap_or("all").to_owned(),
                rows.len().to_string(),
                share(1, &alone),
                share(SHOWN, &alone),
                share(1, &good),
                share(SHOWN, &good),
                share(SHOWN, &valgrind),
            ]);
        }
    }
    all
}
