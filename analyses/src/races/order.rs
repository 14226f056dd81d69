//! What orders threads: who has given what, and who has taken it.

use super::channels::At;
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
    /// What may have happened before beside that: by what is handed through the kernel, where it is not certain what goes where.
    pub possible: Clock,
    /// By what, as bits.
    pub via: u64,
    /// Of a thread, how often `program` has changed.
    pub version: u64,
    /// And how often `all` has.
    pub changes: u64,
}

impl Clocks {
    /// Whether a place comes before what the thread does next whose clocks these are, as the program wants it.
    #[inline]
    pub fn is_wanted(&self, thread: usize, place: Epoch) -> bool {
        place.thread() == thread || self.program.has(place)
    }

    fn join(&mut self, other: &Self, meaning: Meaning) {
        if self.all.join(&other.all) {
            self.changes += 1;
        }
        self.possible.join(&other.possible);
        self.via |= other.via;
        if meaning == Meaning::Program && self.program.join(&other.program) {
            self.version += 1;
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
    /// What came before calls behind which others come that read what the kernel hands over, and how many will.
    sent: HashMap<At, (Clocks, u32)>,
    /// The threads that may come behind more of a thread than one has come to, and by what.
    followed: HashMap<usize, HashMap<usize, u64>>,
}

impl Order {
    /// What has happened before the next instruction of a thread.
    pub fn thread(&mut self, thread: usize) -> &Clocks {
        self.clocks(thread)
    }

    /// By what a place may come before what a thread does next, as bits, if it does not for sure; none if it does not.
    pub fn may_be_behind(&mut self, place: Epoch, thread: usize) -> Option<u64> {
        let own = self.clocks(thread);
        own.possible.has(place).then_some(own.via)
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
        there.possible.join(&own.possible);
        there.via |= own.via;
    }

    /// A thread makes a call behind which so many others will come, and has executed so many instructions before.
    pub fn send(&mut self, (thread, count): At, takers: u32) {
        let mut own = self.clocks(thread).clone();
        own.reach(thread, count, Meaning::Program);
        self.sent.insert((thread, count), (own, takers));
    }

    /// A thread comes behind such a call for sure.
    pub fn receive(&mut self, thread: usize, from: At) {
        let (given, _) = self.given(from);
        self.join(thread, &given);
    }

    /// A thread may come behind such a call, by what the bit says.
    pub fn may_receive(&mut self, thread: usize, from: At, via: u64) {
        let (given, is_open) = self.given(from);
        let own = self.clocks(thread);
        own.via |= via | given.via;
        own.possible.join(&given.all);
        own.possible.join(&given.possible);
        if is_open && from.0 != thread {
            self.followed.entry(from.0).or_default().insert(thread, via);
        }
    }

    /// What came before a call; and whether one has not come there, so that there may be more.
    fn given(&mut self, from: At) -> (Clocks, bool) {
        if let Some((given, left)) = self.sent.get_mut(&from) {
            *left -= 1;
            let (given, left) = (given.clone(), *left);
            if left == 0 {
                self.sent.remove(&from);
            }
            return (given, false);
        }
        // The thread is in the call, and will be back in a later part of the log; or it may have been there earlier than in the order of the threads.
        let mut own = self.clocks(from.0).clone();
        own.reach(from.0, from.1, Meaning::Program);
        (own, true)
    }

    fn join(&mut self, thread: usize, given: &Clocks) {
        self.clocks(thread).join(given, Meaning::Program);
        self.pass_on(thread);
    }

    /// What a thread has come behind, those have, too, who come behind more of it than one has come to.
    fn pass_on(&mut self, thread: usize) {
        if self.outlived.is_empty() && self.followed.is_empty() {
            return;
        }
        let own = self.clocks(thread).clone();
        for other in self.outlived.get(&thread).into_iter().flatten() {
            self.threads[*other].join(&own, Meaning::Program);
        }
        for (other, via) in self.followed.get(&thread).into_iter().flatten() {
            let other = &mut self.threads[*other];
            other.possible.join(&own.all);
            other.possible.join(&own.possible);
            other.via |= own.via | via;
        }
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
            self.pass_on(thread);
        }
    }

    /// A thread has a lock, which may be any.
    pub fn take_locks(&mut self, thread: usize) {
        self.clocks(thread);
        let is_lock = |object: &Object| matches!(object, Object::Lock(_) | Object::Readers(_));
        for (_, given) in self.objects.iter().filter(|(object, _)| is_lock(object)) {
            self.threads[thread].join(given, Meaning::Exclusion);
        }
        self.pass_on(thread);
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
        assert!(order.thread(1).all.has(Epoch::new(0, 9)) && !order.thread(1).is_wanted(1, Epoch::new(0, 9)));
        order.outlive(2, 0, 4);
        assert!(order.thread(2).is_wanted(2, Epoch::new(0, 3)) && !order.thread(2).is_wanted(2, Epoch::new(0, 4)));
    }
}
