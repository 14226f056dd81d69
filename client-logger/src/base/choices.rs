//! Which position is the moment of a light log, where several look like it: an expansion tells the next one what it has seen, and is told what to try
//! (`bugnet expand` keeps the files, in the folder of the log that is made).
//!
//! The file `choices` has a line for each moment of which is known more than its looks: the process, the moment's number in it, and `survey`, `take POSITION` or `not POSITION`.
//! An expansion that does not fit leaves `tried.PROCESS`: `moment NUMBER POSITION` for each that was found, `missed NUMBER` for one that was not, and
//! `candidate POSITION LINES` for what looked like it but for so many lines of memory.

use crate::base::descriptors::{How, OwnFile};
use crate::base::options;
use bugnet_format::types::ProcessId;
use hashbrown::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};

/// Most candidates that are told of.
const MOST: usize = 64;
/// Most lines of memory in which a candidate differs.
pub const MOST_LINES: u32 = 16;

/// How a moment is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// It is the first position with the same registers and memory.
    #[default]
    First,
    /// The same, but for these positions, behind which the program did not do what it did.
    Not(Vec<u64>),
    /// It is at this position, with the same registers.
    Take(u64),
    /// It is at none with the same memory: which are nearly the same?
    Survey,
}

/// What is chosen for a process's moment.
pub fn of(process: ProcessId, number: usize) -> Choice {
    let mut text = String::new();
    let path = options::get().log.join("choices");
    let read = OwnFile::open(&path, How::Read).and_then(|file| {
        let mut file: &File = &file;
        file.read_to_string(&mut text)
    });
    if read.is_err() {
        return Choice::First;
    }
    parse(&text, &process.to_string(), number)
}

fn parse(text: &str, process: &str, number: usize) -> Choice {
    let mut not = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        if words.next() != Some(process) || words.next().and_then(|n| n.parse().ok()) != Some(number) {
            continue;
        }
        let what = words.next();
        match (what, words.next().and_then(|position| position.parse().ok())) {
            (Some("survey"), _) => return Choice::Survey,
            (Some("take"), Some(position)) => return Choice::Take(position),
            (Some("not"), Some(position)) => not.push(position),
            _ => {}
        }
    }
    if not.is_empty() { Choice::First } else { Choice::Not(not) }
}

/// What was seen of moments.
#[derive(Debug, Default)]
pub struct Seen {
    /// Where those before were found.
    pub found: Vec<u64>,
    /// What looks nearly like the next one: positions, and lines that differ.
    candidates: Vec<(u64, u32)>,
    /// Lines of memory that differed at a moment before: what nobody reads stays there, as what XSAVE left in a stack's dead part. They tell nothing.
    noise: HashSet<u64>,
}

impl Seen {
    /// Whether a line of memory tells nothing.
    pub fn is_noise(&self, line: u64) -> bool {
        self.noise.contains(&line)
    }

    /// These lines differ at a moment.
    pub fn learn(&mut self, lines: Vec<u64>) {
        /// Most such lines: where there are more, something else is wrong.
        const MOST: usize = 256;
        self.noise.extend(lines);
        if self.noise.len() > MOST {
            self.noise.clear();
        }
    }

    /// A position looks like the next moment but for so many lines. The best are kept, of equals the last.
    pub fn add(&mut self, position: u64, lines: u32) {
        self.candidates.push((position, lines));
        if self.candidates.len() > 2 * MOST {
            self.keep_best();
        }
    }

    fn keep_best(&mut self) {
        self.candidates.sort_by_key(|(position, lines)| (*lines, u64::MAX - position));
        self.candidates.truncate(MOST);
    }

    /// One is found there.
    pub fn find(&mut self, position: u64) {
        self.found.push(position);
        self.candidates.clear();
    }

    /// Leaves word of them; `missed`: whether one was looked for.
    pub fn tell(&mut self, process: ProcessId, missed: bool) {
        if self.found.is_empty() && !missed {
            return;
        }
        self.keep_best();
        let mut text = String::new();
        for (number, position) in self.found.iter().enumerate() {
            let _ = writeln!(text, "moment {number} {position}");
        }
        if missed {
            let _ = writeln!(text, "missed {}", self.found.len());
        }
        for (position, lines) in &self.candidates {
            let _ = writeln!(text, "candidate {position} {lines}");
        }
        let path = options::get().log.join(format!("tried.{process}"));
        let written = OwnFile::open(&path, How::Empty).and_then(|file| {
            let mut file: &File = &file;
            file.write_all(text.as_bytes())
        });
        if let Err(error) = written {
            crate::base::warn(&format!("{}: {error}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_of_a_process_and_a_moment() {
        let text = "7.0 0 survey\n7.0 1 not 5\n7.0 1 not 9\n7.1 0 take 12\n7.0 2 take\nnonsense\n";
        assert_eq!(parse(text, "7.0", 0), Choice::Survey);
        assert_eq!(parse(text, "7.0", 1), Choice::Not(vec![5, 9]));
        assert_eq!(parse(text, "7.1", 0), Choice::Take(12));
        assert_eq!(parse(text, "7.0", 2), Choice::First);
        assert_eq!(parse(text, "8.0", 0), Choice::First);
    }

    #[test]
    fn the_best_candidates_stay() {
        let mut seen = Seen::default();
        (0..1000).for_each(|n| seen.add(n, 3));
        seen.add(1000, 1);
        seen.add(1001, 4);
        seen.keep_best();
        assert_eq!(seen.candidates.len(), MOST);
        assert_eq!(seen.candidates[..3], [(1000, 1), (999, 3), (998, 3)]);
    }
}
