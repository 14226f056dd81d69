//! What orders threads: who has given what, and who has taken it.

use super::clock::{Clock, Epoch};
use crate::locks::Lock;
use hashbrown::HashMap;

/// Something by which threads are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// 4 bytes of memory that instructions access atomically, by their address divided by 4.
    Word(u64),
    /// A lock of the C library, of those who have it alone.
    Lock(Lock),
    /// Of those who read.
    Readers(Lock),
    /// A word on which threads wait in the kernel.
    Futex(u64),
    /// The making of a thread, by its number.
    Birth(usize),
    /// A signal that threads send each other.
    Signal(u64),
}

/// What an order says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The program wants one to come before the other.
    Program,
    /// They exclude each other: which one comes first is chance.
    Exclusion,
}

/// What has happened before.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// By all that orders.
    pub all: Clock,
    /// By what the program wants to come first alone, without what excludes each other.
    pub program: Clock,
}

impl Clocks {
    fn join(&mut self, other: &Self, meaning: Meaning) {
        self.all.join(&other.all);
        if meaning == Meaning::Program {
            self.program.join(&other.program);
        }
    }

    fn reach(&mut self, thread: usize, count: u64, meaning: Meaning) {
        self.all.reach(thread, count);
        if meaning == Meaning::Program {
            self.program.reach(thread, count);
        }
    }
}

/// The threads, and what orders them.
#[derive(Default)]
pub struct Order {
    threads: Vec<Clocks>,
    objects: HashMap<Object, Clocks>,
    /// The threads that go on behind the end of a thread.
    outlived: HashMap<usize, Vec<usize>>,
}

impl Order {
    /// What has happened before the next instruction of a thread.
    pub fn thread(&mut self, thread: usize) -> &Clocks {
        self.clocks(thread)
    }

    /// Whether a place comes before what a thread does next, as the program wants it.
    pub fn is_wanted(&mut self, place: Epoch, thread: usize) -> bool {
        place.thread() == thread || self.clocks(thread).program.has(place)
    }

    /// A thread gives what it did before so many instructions: whoever takes the object comes behind that. What others gave stays.
    pub fn give(&mut self, thread: usize, count: u64, object: Object, meaning: Meaning) {
        let mut own = self.clocks(thread).clone();
        own.reach(thread, count, meaning);
        if meaning == Meaning::Exclusion {
            own.program = Clock::default();
        }
        let there = self.objects.entry(object).or_default();
        there.all.join(&own.all);
        there.program.join(&own.program);
    }

    /// The same in place of what others gave.
    pub fn replace(&mut self, thread: usize, count: u64, object: Object, meaning: Meaning) {
        self.objects.remove(&object);
        self.give(thread, count, object, meaning);
    }

    /// A thread comes behind those who have given the object.
    pub fn take(&mut self, thread: usize, object: Object, meaning: Meaning) {
        self.clocks(thread);
        if let Some(given) = self.objects.get(&object) {
            self.threads[thread].join(given, meaning);
            for other in self.outlived.get(&thread).into_iter().flatten() {
                let own = self.threads[thread].clone();
                self.threads[*other].join(&own, Meaning::Program);
            }
        }
    }

    /// A thread comes behind all that another one does up to its end. What that one has not come to yet, as nothing that was recorded orders it
    /// before this, is added when it does.
    pub fn outlive(&mut self, thread: usize, other: usize, end: u64) {
        let mut before = self.clocks(other).clone();
        before.reach(other, end, Meaning::Program);
        self.clocks(thread).join(&before, Meaning::Program);
        self.outlived.entry(other).or_default().push(thread);
    }

    fn clocks(&mut self, thread: usize) -> &mut Clocks {
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Clocks::default);
        }
        &mut self.threads[thread]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_comes_behind_who_gave() {
        let (mut order, word) = (Order::default(), Object::Word(1));
        order.give(0, 10, word, Meaning::Program);
        order.take(1, Object::Futex(1), Meaning::Program);
        assert!(!order.thread(1).all.has(Epoch::new(0, 9)));
        order.take(1, word, Meaning::Program);
        assert!(order.thread(1).all.has(Epoch::new(0, 9)) && !order.thread(1).all.has(Epoch::new(0, 10)));
        order.replace(1, 3, word, Meaning::Program);
        order.take(2, word, Meaning::Program);
        assert!(order.thread(2).all.has(Epoch::new(0, 9)), "what a thread gives includes what it took");
    }

    #[test]
    fn what_excludes_each_other_is_no_wanted_order() {
        let (mut order, word) = (Order::default(), Object::Word(1));
        order.give(0, 10, word, Meaning::Exclusion);
        order.take(1, word, Meaning::Exclusion);
        assert!(order.thread(1).all.has(Epoch::new(0, 9)) && !order.is_wanted(Epoch::new(0, 9), 1));
        order.outlive(2, 0, 4);
        assert!(order.is_wanted(Epoch::new(0, 3), 2) && !order.is_wanted(Epoch::new(0, 4), 2));
    }
}
