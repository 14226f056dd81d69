//! An expansion that does not fit its light log may have taken one of several positions that look alike for a moment at which a signal came, or none. What it
//! has seen of them says what the next one tries: positions with the same registers and memory in the order in which they come; then those of which some lines
//! of memory differ, the best first.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Most expansions of one program that come no further than those before them.
const MOST: usize = 8;

/// What is known of a moment that is not just the first position that looks like it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    /// It is at none of these.
    not: Vec<u64>,
    /// What else looks like it, the best last; none until that is asked.
    candidates: Option<Vec<u64>>,
}

/// What an expansion is told.
#[derive(Debug, Default)]
pub struct Choices {
    known: BTreeMap<(String, usize), Known>,
    /// Most moments that one has found, and how many have come no further since.
    best: usize,
    since: usize,
}

/// What an expansion has left.
pub enum Learned {
    /// Nothing: it fits, or no moment is to blame.
    Nothing,
    /// It does not fit; `again`: another one may.
    Tried {
        /// Whether.
        again: bool,
    },
}

/// What one has seen in a process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tried {
    found: Vec<u64>,
    is_missed: bool,
    candidates: Vec<u64>,
}

fn parse(text: &str) -> Tried {
    let mut tried = Tried::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words.get(i).and_then(|word| word.parse::<u64>().ok());
        match words.first() {
            Some(&"moment") => tried.found.extend(number(2)),
            Some(&"missed") => tried.is_missed = true,
            Some(&"candidate") => tried.candidates.extend(number(1)),
            _ => {}
        }
    }
    tried
}

impl Choices {
    /// How many moments are chosen.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Tells the next expansion, in the folder of the log that it makes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn tell(&self, folder: &Path) -> io::Result<()> {
        let mut text = String::new();
        for ((process, number), known) in &self.known {
            match &known.candidates {
                None => known.not.iter().for_each(|at| text += &format!("{process} {number} not {at}\n")),
                Some(left) => match left.last() {
                    Some(at) => text += &format!("{process} {number} take {at}\n"),
                    None => text += &format!("{process} {number} survey\n"),
                },
            }
        }
        fs::write(folder.join("choices"), text)
    }

    /// Learns from what an expansion has left in its folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn learn(&mut self, folder: &Path) -> io::Result<Learned> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(process) = name.strip_prefix("tried.") {
                let tried = parse(&fs::read_to_string(&path)?);
                self.since += 1;
                if tried.found.len() > self.best {
                    (self.best, self.since) = (tried.found.len(), 0);
                }
                let again = self.learn_from(process, &tried) && self.since < MOST;
                return Ok(Learned::Tried { again });
            }
        }
        Ok(Learned::Nothing)
    }

    fn learn_from(&mut self, process: &str, tried: &Tried) -> bool {
        let of = |number: usize| (process.to_owned(), number);
        let found = tried.found.len();
        if tried.is_missed {
            let known = self.known.entry(of(found)).or_default();
            match &known.candidates {
                None => {
                    known.candidates = Some(Vec::new());
                    return true;
                }
                Some(left) if left.is_empty() => {
                    let others = tried.candidates.iter().copied().filter(|at| !known.not.contains(at));
                    let left: Vec<u64> = others.rev().collect();
                    if !left.is_empty() {
                        known.candidates = Some(left);
                        return true;
                    }
                }
                Some(_) => {}
            }
            self.known.remove(&of(found));
        }
        // The one before was another one.
        for number in (0..found).rev() {
            let known = self.known.entry(of(number)).or_default();
            match &mut known.candidates {
                None => {
                    known.not.push(tried.found[number]);
                    return true;
                }
                Some(left) => {
                    left.pop();
                    if !left.is_empty() {
                        return true;
                    }
                }
            }
            self.known.remove(&of(number));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(choices: &mut Choices, text: &str) -> bool {
        choices.learn_from("7", &parse(text))
    }

    fn told(choices: &Choices) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("bugnet-choices-{}-{:p}", std::process::id(), choices));
        fs::create_dir_all(&folder).unwrap();
        choices.tell(&folder).unwrap();
        let text = fs::read_to_string(folder.join("choices")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_moment_that_is_missed_is_surveyed_and_the_best_is_tried_first() {
        let mut choices = Choices::default();
        assert!(learn(&mut choices, "moment 0 50\nmissed 1\n"));
        assert_eq!(told(&choices), ["7 1 survey"]);
        assert!(learn(&mut choices, "moment 0 50\nmissed 1\ncandidate 90 1\ncandidate 80 2\n"));
        assert_eq!(told(&choices), ["7 1 take 90"]);
        assert!(learn(&mut choices, "moment 0 50\nmoment 1 90\n"));
        assert_eq!(told(&choices), ["7 1 take 80"]);
        // None is left: the one before was not what it looked like.
        assert!(learn(&mut choices, "moment 0 50\nmoment 1 80\n"));
        assert_eq!(told(&choices), ["7 0 not 50"]);
    }

    #[test]
    fn the_first_that_looks_like_it_is_not_tried_again() {
        let mut choices = Choices::default();
        assert!(learn(&mut choices, "moment 0 50\n"));
        assert!(learn(&mut choices, "moment 0 60\n"));
        assert_eq!(told(&choices), ["7 0 not 50", "7 0 not 60"]);
        assert!(learn(&mut choices, "missed 0\n"));
        assert_eq!(told(&choices), ["7 0 survey"]);
        assert!(!learn(&mut choices, "missed 0\ncandidate 50 0\ncandidate 60 0\n"));
        assert!(!learn(&mut choices, ""));
    }
}
