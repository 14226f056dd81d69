//! What was found, and how much was looked at.

use super::atomicity::Torn;
use super::shadow::Made;
use hashbrown::HashMap;

/// A pair of instructions whose accesses are not ordered.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The first time: the earlier access, and the later one.
    pub made: [Made; 2],
    /// Whether they write.
    pub writes: [bool; 2],
    /// The bytes that both accessed: the first, and how many.
    pub bytes: (u64, u64),
    /// In how many turns of the later thread it happened, between which other threads came: what a thread does again before that says no more.
    pub times: u64,
    /// The number of the last one.
    pub turn: u64,
    /// By what the two may have been ordered each time, as bits; none if they were not at least once, and those are the two.
    pub via: Option<u64>,
}

/// What identifies a pair: the instructions, and whether they write.
pub type Between = ([u64; 2], [bool; 2]);

/// What was found.
#[derive(Default)]
pub struct Found {
    /// Pairs that race, in the order in which they first did.
    pub pairs: Vec<Pair>,
    known: HashMap<Between, usize>,
    /// Pairs with another thread in between, in that order, and how often.
    pub torn: Vec<(Torn, u64)>,
    known_torn: HashMap<[u64; 3], usize>,
    /// How much was looked at.
    pub looked: Looked,
}

impl Found {
    /// A pair is torn apart by a third access; all three are identified by their instructions.
    pub fn torn(&mut self, instructions: [u64; 3], torn: Torn) {
        let known = *self.known_torn.entry(instructions).or_insert(self.torn.len());
        if known == self.torn.len() {
            self.torn.push((torn, 0));
        }
        self.torn[known].1 += 1;
    }

    /// A pair races, or may.
    pub fn race(&mut self, key: Between, pair: Pair) {
        let known = *self.known.entry(key).or_insert(self.pairs.len());
        if known == self.pairs.len() {
            self.pairs.push(pair);
        }
        let there = &mut self.pairs[known];
        there.times += u64::from(there.turn != pair.turn);
        there.turn = pair.turn;
        match (there.via, pair.via) {
            // One that nothing can have ordered says more.
            (Some(_), None) => *there = Pair { times: there.times, ..pair },
            (Some(one), Some(other)) => there.via = Some(one | other),
            (None, _) => {}
        }
    }
}

/// How much was looked at, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Looked {
    /// Instructions of all threads; none where the threads share no memory.
    pub instructions: u64,
    /// Lines that threads share, of which accesses were not looked at, because each two segments of different threads that access them, and of which one
    /// writes, are in an order that the program wants.
    pub ordered_lines: u64,
    /// Accesses of the other lines that threads share.
    pub accesses: u64,
    /// Of these, atomic ones, and others of words that are accessed atomically: they order threads.
    pub atomic: u64,
    /// Of these, the C library's own, which were not looked at.
    pub internal: u64,
}
