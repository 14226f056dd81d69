//! Goes through the calls that take and give back locks, in the recorded order of the threads.

use super::cycles::{Edge, Graph};
use crate::locks::{Held, Lock, Locking, Locks, Mode, Step};
use crate::races::births::Births;
use crate::races::clock::Epoch;
use crate::races::joins::Joins;
use crate::races::order::{Meaning, Object, Order};
use crate::races::times::Times;
use bugnet_events::calls::{Called, Calls, Entered};
use bugnet_events::stretch::Ran;
use bugnet_events::walk::{Did, Visit, Visitor};
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

const CLONE: u64 = 56;
const CLONE3: u64 = 435;

/// What a function waits for that is not held by anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// That another thread says that something has changed.
    Condition,
    /// That a count is not zero.
    Semaphore,
    /// That so many threads have come there.
    Barrier,
    /// The end of a thread, by what the C library calls it.
    End,
}

/// What a thread waits for in a function that it has called.
pub enum Waits<'a> {
    /// A lock.
    Lock(&'a Locking),
    /// Something else, in this call.
    Other(For, &'a Entered),
}

/// Functions that wait for something that is no lock.
pub const WAITS: [(&str, For); 11] = [
    ("pthread_cond_wait", For::Condition),
    ("pthread_cond_timedwait", For::Condition),
    ("pthread_cond_clockwait", For::Condition),
    ("sem_wait", For::Semaphore),
    ("sem_timedwait", For::Semaphore),
    ("sem_clockwait", For::Semaphore),
    ("pthread_barrier_wait", For::Barrier),
    ("pthread_join", For::End),
    ("pthread_timedjoin_np", For::End),
    ("pthread_clockjoin_np", For::End),
    ("thrd_join", For::End),
];

/// What was seen.
pub struct Watch {
    /// The threads' places.
    pub times: Times,
    /// Who was made.
    pub births: Births,
    /// What threads hold.
    pub locks: Locks,
    /// The locks that a thread wants, and does not have yet: of several, a handler wants the later one, which interrupted the wait for the one before.
    wants: BTreeMap<Tid, Vec<Locking>>,
    /// Who took which lock while it held which.
    pub graph: Graph,
    joins: Joins,
    waits: BTreeMap<u64, usize>,
    calls: Calls,
    order: Order,
    born: HashSet<usize>,
    lockings: Vec<(Locking, Vec<Held>)>,
    joined: Vec<(Place, u64)>,
    /// The thread that was visited last, where nothing is left to be told of its calls with its next block.
    quiet: Option<Tid>,
}

impl Visitor for Watch {
    /// Blocks that neither call nor return.
    #[inline]
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool {
        self.quiet == Some(tid) && ran.block.is_plain
    }

    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        self.look_at(&visit);
        self.quiet = match visit {
            Visit::Ran { place, .. } => Some(place.tid).filter(|tid| !self.calls.has_returned(*tid)),
            _ => None,
        };
        ControlFlow::Continue(())
    }
}

impl Watch {
    /// At the beginning.
    pub fn new(times: Times, births: Births, locks: Locks, joins: Joins, waits: BTreeMap<u64, usize>) -> Self {
        Self {
            times,
            births,
            locks,
            joins,
            waits,
            wants: BTreeMap::new(),
            graph: Graph::default(),
            calls: Calls::default(),
            order: Order::default(),
            born: HashSet::new(),
            lockings: Vec::new(),
            joined: Vec::new(),
            quiet: None,
        }
    }

    fn look_at(&mut self, visit: &Visit<'_>) {
        let place = visit.place();
        self.arrive(place, visit);
        let Self { calls, locks, joins, lockings, joined, wants, .. } = self;
        calls.visit(visit, &mut |called| {
            joined.extend(joins.called(called));
            locks.called(called, &mut |locks, locking| {
                lockings.push((locking, locks.held(locking.place.tid).to_vec()));
            });
            // Who did not get it in time wants it no more, nor does who has left the call.
            if let Called::Returned { call, .. } | Called::Left(call) = called
                && let Some(wanted) = wants.get_mut(&call.place.tid)
            {
                wanted.retain(|locking| locking.call != call.place);
            }
        });
        for (place, ended) in std::mem::take(&mut self.joined) {
            if let Some(((thread, _), ended)) = self.times.count(place).zip(self.births.named(ended)) {
                self.order.outlive(thread, ended, self.times.end(ended));
            }
        }
        for (locking, held) in std::mem::take(&mut self.lockings) {
            if locking.step == Step::Wants {
                self.wanted(&locking, held);
                self.wants.entry(locking.place.tid).or_default().push(locking);
            }
        }
    }

    /// A thread begins behind what its maker did before.
    fn arrive(&mut self, place: Place, visit: &Visit<'_>) {
        let Some((thread, count)) = self.times.count(place) else { return };
        if self.born.insert(thread) {
            self.order.take(thread, Object::Birth(thread), Meaning::Program);
        }
        if let Visit::Skipped { did: Did::Call { number: CLONE | CLONE3, result, .. }, .. } = visit
            && let Some(child) = u32::try_from(*result).ok().and_then(|id| self.births.made(id, &self.times))
        {
            self.order.give(thread, count + 1, Object::Birth(child), Meaning::Program);
        }
    }

    fn wanted(&mut self, locking: &Locking, held: Vec<Held>) {
        let Some((thread, count)) = self.times.count(locking.place) else { return };
        // A recursive mutex is there at once; a thread that waits for itself is seen at the end.
        if held.iter().any(|held| held.lock == locking.lock) {
            return;
        }
        let clock = &self.order.thread(thread).program;
        for one in &held {
            self.graph.add(Edge {
                held: *one,
                wanted: *locking,
                at: Epoch::new(thread, count),
                clock: clock.clone(),
                gates: held.iter().map(|gate| (gate.lock, gate.mode)).filter(|gate| gate.0 != one.lock).collect(),
            });
        }
    }

    /// What a thread waits for, by the innermost of the calls that wait: what a handler does comes before what it interrupted.
    pub fn waits(&self, tid: Tid) -> Option<Waits<'_>> {
        let wanted = self.wants.get(&tid).map_or(&[][..], |wanted| wanted);
        for call in self.calls.open(tid).rev() {
            if let Some(locking) = wanted.iter().find(|locking| locking.call == call.place) {
                return Some(Waits::Lock(locking));
            }
            if let Some(wait) = self.waits.get(&call.function) {
                return Some(Waits::Other(WAITS[*wait].1, call));
            }
        }
        None
    }

    /// The threads that hold a lock, and since when.
    pub fn holders(&self, lock: Lock) -> Vec<(Tid, Place, Mode)> {
        let threads = (0..self.times.len()).map(|thread| self.times.id(thread).tid);
        let held = threads.flat_map(|tid| self.locks.held(tid).iter().map(move |held| (tid, held)));
        held.filter(|(_, held)| held.lock == lock).map(|(tid, held)| (tid, held.since, held.mode)).collect()
    }
}
