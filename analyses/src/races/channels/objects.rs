//! What there is behind descriptors, and who has written to it and read from it.

use super::calls::Amount;
use super::moments::Moment;
use std::collections::BTreeMap;

/// As much as anybody likes.
pub const ANY: u64 = u64::MAX;

/// Something that was written or read.
#[derive(Clone, Debug)]
pub struct Op {
    /// When.
    pub moment: Moment,
    /// At least so much, and at most: bytes, messages, or how often something could be read then.
    pub amount: (u64, u64),
}

/// What a thread has written to an object, or read from it, in its order.
#[derive(Debug)]
pub struct Ops {
    all: Vec<Op>,
    /// What comes to before each, and behind the last one: at least, and at most.
    sums: Vec<(u64, u64)>,
}

impl Default for Ops {
    fn default() -> Self {
        Self { all: Vec::new(), sums: vec![(0, 0)] }
    }
}

impl Ops {
    fn push(&mut self, op: Op) {
        let (low, high) = self.sums[self.all.len()];
        self.sums.push((low.saturating_add(op.amount.0), high.saturating_add(op.amount.1)));
        self.all.push(op);
    }

    /// How many there are up to which something is true of each.
    fn until(&self, is_true: impl Fn(&Moment) -> bool) -> usize {
        self.all.partition_point(|op| is_true(&op.moment))
    }
}

/// How what is written comes to whoever reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// As bytes, in their order: a pipe, one direction of a socket.
    Bytes,
    /// As messages, in theirs.
    Messages,
    /// All that was written until then at once: an eventfd.
    Counter,
    /// One of as many as the writes say: an eventfd that is a semaphore.
    Semaphore,
    /// Nobody knows: it stands for several that may be the same, or is a file.
    #[default]
    Unknown,
}

/// What goes from descriptor to descriptor through the kernel.
#[derive(Debug, Default)]
pub struct Object {
    /// What it is called.
    pub name: String,
    /// How it goes.
    pub flow: Flow,
    /// Whether it stands for sockets.
    pub is_of_sockets: bool,
    /// Whether descriptors can be sent through it, too.
    pub carries_descriptors: bool,
    /// Whether one may wait for it with others, as one cannot for files.
    pub is_waited_for: bool,
    /// How often it could be read at the beginning, at most.
    pub initial: u64,
    writes: BTreeMap<usize, Ops>,
    reads: BTreeMap<usize, Ops>,
    /// Where reading has found the end.
    ends: Vec<Moment>,
    /// Where descriptors to which one could write were closed, and how many there were.
    closed: Vec<Moment>,
    pub writers: usize,
    /// Whether one has said that nothing more comes, without closing.
    pub is_shut: bool,
    /// Where other processes may have come to have descriptors of it.
    pub leaves: Vec<Moment>,
}

/// Where something was read, and what was written that it came behind: moments by thread and instructions.
#[derive(Debug, Default)]
pub struct Found {
    /// Writes of which it came behind for sure.
    pub certain: Vec<(usize, u64)>,
    /// Others that it may have come behind.
    pub possible: Vec<(usize, u64)>,
}

impl Object {
    /// A thread writes, if there was anything to be written.
    pub fn give(&mut self, moment: &Moment, amount: Amount) {
        let amount = match (self.flow, amount) {
            (Flow::Bytes, Amount::Bytes(0)) => return,
            (Flow::Bytes, Amount::Bytes(bytes)) => (bytes, bytes),
            (Flow::Messages, Amount::Bytes(_)) => (1, 1),
            // Zero is no number to wake anybody.
            (Flow::Counter, Amount::Bytes(_)) => (0, 1),
            _ => (0, ANY),
        };
        self.write(moment.clone(), amount);
    }

    /// A thread reads, or finds the end.
    pub fn take(&mut self, moment: &Moment, amount: Amount) {
        let amount = match (self.flow, amount) {
            (Flow::Bytes, Amount::Bytes(0)) => return self.ends.push(moment.clone()),
            (Flow::Bytes, Amount::Bytes(bytes)) => (bytes, bytes),
            // Nothing may be an empty message, or the end.
            (Flow::Messages, Amount::Bytes(1..)) | (Flow::Counter | Flow::Semaphore, Amount::Bytes(_)) => (1, 1),
            _ => (0, ANY),
        };
        self.read(moment.clone(), amount);
    }

    fn write(&mut self, moment: Moment, amount: (u64, u64)) {
        self.writes.entry(moment.thread).or_default().push(Op { moment, amount });
    }

    fn read(&mut self, moment: Moment, amount: (u64, u64)) {
        self.reads.entry(moment.thread).or_default().push(Op { moment, amount });
    }

    /// A descriptor is closed, or one says that nothing more comes.
    pub fn close(&mut self, moment: Moment) {
        self.closed.push(moment);
    }

    /// A thread has written so much that nobody knows how much.
    pub fn add(&mut self, moment: Moment) {
        self.write(moment, (0, ANY));
    }

    /// A thread has found something, or may have.
    pub fn wait(&mut self, moment: Moment) {
        self.read(moment, (0, ANY));
    }

    /// Puts what was collected of several into the order of each thread.
    pub fn sort(&mut self) {
        for ops in self.writes.values_mut().chain(self.reads.values_mut()) {
            ops.all.sort_by_key(|op| op.moment.count);
        }
    }

    /// Where anything was read, or the end was found.
    pub fn read_at(&self) -> impl Iterator<Item = &Moment> {
        self.reads.values().flat_map(|ops| ops.all.iter().map(|op| &op.moment)).chain(&self.ends)
    }

    /// All that was written, and what was closed.
    pub fn written(&self) -> impl Iterator<Item = &Moment> {
        self.writes.values().flat_map(|ops| ops.all.iter().map(|op| &op.moment)).chain(&self.closed)
    }

    /// Whether one thread writes and another one reads, or may find the end.
    pub fn connects(&self) -> bool {
        let givers: Vec<usize> = self.writes.keys().copied().chain(self.closed.iter().map(|at| at.thread)).collect();
        let mut takers = self.reads.keys().copied().chain(self.ends.iter().map(|at| at.thread));
        takers.any(|taker| givers.iter().any(|giver| *giver != taker))
    }

    /// Goes through what was read: what each came behind of what other threads have written.
    pub fn found(&self, mut each: impl FnMut(&Moment, Found)) {
        for own in self.reads.values() {
            for (nth, op) in own.all.iter().enumerate() {
                each(&op.moment, self.of_read(own, nth));
            }
        }
        for end in &self.ends {
            let others = self.closed.iter().filter(|closed| closed.thread != end.thread && !closed.is_behind(end));
            let others = others.map(|closed| (closed.thread, closed.count)).collect();
            let is_certain = !self.is_shut && !self.may_be_elsewhere(end) && self.closed.len() == self.writers;
            each(
                end,
                if is_certain {
                    Found { certain: others, ..Found::default() }
                } else {
                    Found { possible: others, ..Found::default() }
                },
            );
        }
    }

    fn may_be_elsewhere(&self, read: &Moment) -> bool {
        self.leaves.iter().any(|leave| !leave.is_behind(read))
    }

    fn of_read(&self, own: &Ops, nth: usize) -> Found {
        let read = &own.all[nth].moment;
        let is_elsewhere = self.may_be_elsewhere(read);
        // So much was read for sure when the read was over, and no more than that can have been.
        let mut least = own.sums[nth + 1].0;
        let mut most = if is_elsewhere { ANY } else { own.sums[nth + 1].1 };
        for (_, other) in self.reads.iter().filter(|(thread, _)| **thread != read.thread) {
            least = least.saturating_add(other.sums[other.until(|at| read.is_behind(at))].0);
            most = most.saturating_add(other.sums[other.until(|at| !at.is_behind(read))].1);
        }
        let mut found = Found::default();
        for (&thread, writes) in self.writes.iter().filter(|(thread, _)| **thread != read.thread) {
            let possible = writes.until(|at| !at.is_behind(read));
            // Without the write and all that comes behind it, there would not have been so much to read.
            let lacks = |at: usize| self.without(thread, at, read) < least;
            let certain = if is_elsewhere { 0 } else { first_not(possible, lacks) };
            let last = |count: usize| count.checked_sub(1).map(|last| (thread, writes.all[last].moment.count));
            found.certain.extend(last(certain));
            let may_be = first_not(possible, |at| self.before(thread, at) < most);
            found.possible.extend(last(may_be).filter(|_| may_be > certain));
        }
        found
    }

    /// How much others can have written, and the thread itself before this write, that was there for the read, had the write not begun.
    fn without(&self, thread: usize, at: usize, read: &Moment) -> u64 {
        let write = &self.writes[&thread].all[at].moment;
        let mut sum = self.initial.saturating_add(self.writes[&thread].sums[at].1);
        for (_, other) in self.writes.iter().filter(|(other, _)| **other != thread) {
            let until = other.until(|at| !at.began_behind(write) && !at.is_behind(read));
            sum = sum.saturating_add(other.sums[until].1);
        }
        sum
    }

    /// How much was written for sure before this write began.
    fn before(&self, thread: usize, at: usize) -> u64 {
        let write = &self.writes[&thread].all[at].moment;
        let mut sum = self.writes[&thread].sums[at].0;
        for (_, other) in self.writes.iter().filter(|(other, _)| **other != thread) {
            sum = sum.saturating_add(other.sums[other.until(|at| write.is_behind(at))].0);
        }
        sum
    }
}

/// The first of so many of which something is not true, that is true of all before it and of none behind it.
fn first_not(count: usize, is_true: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_true(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(thread: usize, count: u64, before: [u64; 3]) -> Moment {
        Moment { thread, count, before: before.into() }
    }

    type Writes = Vec<(usize, u64)>;

    /// What a thread's reads came behind: counts of the other threads' writes, for sure and possibly.
    fn found(object: &Object) -> Vec<(Writes, Writes)> {
        let mut all = Vec::new();
        object.found(|_, found| all.push((found.certain, found.possible)));
        all
    }

    #[test]
    fn one_writer_is_followed_byte_by_byte() {
        let mut object = Object::default();
        for (count, bytes) in [(10, 4), (20, 4), (30, 4)] {
            object.write(at(0, count, [0; 3]), (bytes, bytes));
        }
        for (count, bytes) in [(5, 3), (6, 2), (7, 7)] {
            object.read(at(1, count, [0; 3]), (bytes, bytes));
        }
        let expected = [vec![(0, 10)], vec![(0, 20)], vec![(0, 30)]];
        assert_eq!(found(&object), expected.map(|certain| (certain, Vec::new())));
    }

    #[test]
    fn of_two_writers_either_may_have_come_first() {
        let mut object = Object::default();
        object.write(at(0, 10, [0; 3]), (1, 1));
        object.write(at(1, 10, [0; 3]), (1, 1));
        object.read(at(2, 5, [0; 3]), (1, 1));
        object.read(at(2, 6, [0; 3]), (1, 1));
        let first = (Vec::new(), vec![(0, 10), (1, 10)]);
        assert_eq!(found(&object), [first, (vec![(0, 10), (1, 10)], Vec::new())]);
    }

    #[test]
    fn what_was_written_behind_a_read_does_not_count() {
        let mut object = Object::default();
        object.write(at(0, 10, [0; 3]), (1, 1));
        // The second writer had seen the reader go on.
        object.write(at(1, 10, [0, 0, 6]), (1, 1));
        object.read(at(2, 5, [0; 3]), (1, 1));
        assert_eq!(found(&object), [(vec![(0, 10)], Vec::new())]);
    }

    #[test]
    fn other_processes_may_have_written() {
        let mut object = Object::default();
        object.leaves.push(at(2, 6, [0; 3]));
        object.write(at(0, 10, [0; 3]), (1, 1));
        object.read(at(2, 5, [0; 3]), (1, 1));
        object.read(at(2, 7, [0; 3]), (1, 1));
        assert_eq!(found(&object), [(vec![(0, 10)], Vec::new()), (Vec::new(), vec![(0, 10)])]);
    }

    #[test]
    fn the_end_comes_behind_all_that_was_closed() {
        let mut object = Object { writers: 2, ..Object::default() };
        object.close(at(0, 10, [0; 3]));
        object.close(at(1, 11, [0; 3]));
        object.ends.push(at(2, 5, [0; 3]));
        assert_eq!(found(&object), [(vec![(0, 10), (1, 11)], Vec::new())]);
        object.is_shut = true;
        assert_eq!(found(&object), [(Vec::new(), vec![(0, 10), (1, 11)])]);
    }
}
