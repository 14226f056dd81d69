//! Locks that are taken while others are held, as a graph, and its cycles.

use crate::locks::{Held, Lock, Locking, Mode};
use crate::races::clock::{Clock, Epoch};
use std::collections::{BTreeMap, BTreeSet};

/// Locks of the longest cycle that is looked for.
const LONGEST: usize = 6;
/// Times that two locks are taken in this order that are remembered: those of other threads, or with other locks held.
const REMEMBERED: usize = 64;
/// Cycles that are looked for.
const MOST: usize = 1000;

/// A thread wants a lock while it holds another one.
#[derive(Clone, Debug)]
pub struct Edge {
    /// What it holds.
    pub held: Held,
    /// What it wants.
    pub wanted: Locking,
    /// When it does.
    pub at: Epoch,
    /// What the program has put before that, by making threads and waiting for their ends.
    pub clock: Clock,
    /// What else it holds: two threads that hold one of these alone are never there at the same time.
    pub gates: BTreeSet<(Lock, Mode)>,
}

impl Edge {
    /// Whether this one and another one may be there at the same time, so that they wait for each other.
    fn goes_with(&self, other: &Self) -> bool {
        let excludes =
            |gate: &(Lock, Mode)| other.gates.iter().any(|one| one.0 == gate.0 && (one.1, gate.1) != BOTH_READ);
        self.at.thread() != other.at.thread()
            && !self.gates.iter().any(excludes)
            && !self.clock.has(other.at)
            && !other.clock.has(self.at)
    }

    /// Whether who wants what this one holds has to wait.
    fn blocks(&self, before: &Self) -> bool {
        (before.wanted.mode, self.held.mode) != BOTH_READ
    }
}

const BOTH_READ: (Mode, Mode) = (Mode::Reading, Mode::Reading);

/// The graph: from each lock that is held to those that are wanted meanwhile.
#[derive(Default)]
pub struct Graph {
    edges: BTreeMap<Lock, BTreeMap<Lock, Vec<Edge>>>,
}

impl Graph {
    /// Adds an edge, unless one like it is there.
    pub fn add(&mut self, edge: Edge) {
        let known = self.edges.entry(edge.held.lock).or_default().entry(edge.wanted.lock).or_default();
        let is_like = |other: &Edge| {
            other.at.thread() == edge.at.thread()
                && other.gates == edge.gates
                && (other.held.mode, other.wanted.mode) == (edge.held.mode, edge.wanted.mode)
                // What came before another thread was made may be ordered before what that one did.
                && other.clock == edge.clock
        };
        if known.len() < REMEMBERED && !known.iter().any(is_like) {
            known.push(edge);
        }
    }

    /// Cycles, of each set of locks one: threads that might wait for each other. Each begins with its lowest lock.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<Edge>> {
        let mut found = BTreeMap::new();
        for start in self.edges.keys() {
            self.extend(*start, *start, &mut Vec::new(), &mut found);
        }
        found.into_values().collect()
    }

    fn extend<'a>(
        &'a self,
        start: Lock,
        at: Lock,
        way: &mut Vec<&'a Edge>,
        found: &mut BTreeMap<BTreeSet<Lock>, Vec<Edge>>,
    ) {
        for (next, edges) in self.edges.get(&at).into_iter().flatten().filter(|(next, _)| **next >= start) {
            let is_behind = way.iter().any(|edge| edge.held.lock == *next);
            for edge in edges {
                if found.len() >= MOST
                    || *next != start && (is_behind || way.len() + 1 >= LONGEST)
                    || !way.iter().all(|other| other.goes_with(edge))
                    || way.last().is_some_and(|before| !edge.blocks(before))
                {
                    continue;
                }
                way.push(edge);
                if *next != start {
                    self.extend(start, *next, way, found);
                } else if way.len() > 1 && way[0].blocks(edge) {
                    let locks = way.iter().map(|edge| edge.held.lock).collect();
                    found.entry(locks).or_insert_with(|| way.iter().map(|edge| (*edge).clone()).collect());
                }
                way.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::{Kind, Step};
    use bugnet_format::types::{IntervalNo, Position, Tid};
    use bugnet_replay::cursor::Place;

    fn edge(thread: usize, (from, mode): (u64, Mode), (to, wanted): (u64, Mode), gates: &[u64]) -> Edge {
        let lock = |addr| Lock { addr, life: 0 };
        let place = Place { tid: Tid(thread as u32), interval: IntervalNo(0), position: Position(1) };
        let (step, kind) = (Step::Wants, Kind::ReadWriteLock);
        Edge {
            held: Held { lock: lock(from), kind, mode, since: place },
            wanted: Locking { step, lock: lock(to), kind, mode: wanted, place, call: place },
            at: Epoch::new(thread, 1),
            clock: Clock::default(),
            gates: gates.iter().map(|gate| (lock(*gate), Mode::Alone)).collect(),
        }
    }

    fn lengths(edges: impl IntoIterator<Item = Edge>) -> Vec<usize> {
        let mut graph = Graph::default();
        edges.into_iter().for_each(|edge| graph.add(edge));
        graph.cycles().iter().map(Vec::len).collect()
    }

    #[test]
    fn threads_that_might_wait_for_each_other() {
        let (a, b, c) = ((1, Mode::Alone), (2, Mode::Alone), (3, Mode::Alone));
        assert_eq!(lengths([edge(0, a, b, &[]), edge(1, b, a, &[])]), [2]);
        assert_eq!(lengths([edge(0, a, b, &[]), edge(1, b, c, &[]), edge(2, c, a, &[])]), [3]);
        assert!(lengths([edge(0, a, b, &[]), edge(0, b, a, &[])]).is_empty(), "one thread alone");
        assert!(lengths([edge(0, a, b, &[9]), edge(1, b, a, &[9])]).is_empty(), "a lock around both");
        let mut later = edge(1, b, a, &[]);
        later.clock.reach(0, 2);
        assert!(lengths([edge(0, a, b, &[]), later]).is_empty(), "one after the other");
    }

    #[test]
    fn readers_do_not_wait_for_readers() {
        let (a, b, reads) = ((1, Mode::Alone), (2, Mode::Alone), (2, Mode::Reading));
        assert!(lengths([edge(0, a, reads, &[]), edge(1, reads, a, &[])]).is_empty());
        assert_eq!(lengths([edge(0, a, b, &[]), edge(1, reads, a, &[])]), [2]);
    }
}
