//! Segments: what a thread executes between two calls by which threads are ordered. Where all that two segments do is ordered, each of their
//! accesses is, so that nobody has to look at these. What is in no order is looked at access by access ([`super::watch`]).
//!
//! Everything here errs on one side: a segment that is too long, or of whose order too little is known, is in no order with more others.

use super::clock::{Clock, Epoch};
use super::first::{Granules, Lines};
use super::pieces::Whose;
use super::times::Times;
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;

/// What a thread, or a handler in it, accessed from a place on, of what threads share.
pub struct Segment {
    /// Where it begins.
    pub place: Place,
    /// Whose it is.
    pub whose: Whose,
    /// In granules of 8 bytes.
    pub all: Granules,
    /// Those of them that were written.
    pub written: Granules,
}

/// When a segment's accesses were made that are looked at.
#[derive(Default)]
struct Span {
    /// The count of its thread at which it begins.
    start: u64,
    /// Of the first of these accesses: what has happened before it, as the program wants it. None: there are no such accesses.
    clock: Option<Clock>,
    /// A count of its thread up to which they have all been made.
    end: u64,
    /// What was given back: whoever does that may do with it what one who writes may do.
    freed: Granules,
}

impl Span {
    /// Whether all of it comes before another one, which one has come to.
    fn is_before(&self, thread: usize, other: &Self) -> bool {
        let last = Epoch::new(thread, self.end.saturating_sub(1));
        other.clock.as_ref().is_none_or(|clock| !last.is_none() && clock.has(last))
    }
}

/// The segments of all threads, as one goes through what the threads did in their order.
pub struct Spans {
    /// Of each thread, in the order of its segments.
    threads: Vec<Vec<Span>>,
    /// Of each thread, the segment that one has come to.
    now: Vec<usize>,
}

impl Spans {
    /// Before anything was executed.
    pub fn new(times: &Times, segments: &[Segment]) -> Self {
        let mut threads: Vec<Vec<Span>> = (0..times.len()).map(|_| Vec::new()).collect();
        for (thread, start) in segments.iter().filter_map(|segment| times.count(segment.place)) {
            threads[thread].push(Span { start, ..Span::default() });
        }
        Self { now: vec![0; threads.len()], threads }
    }

    /// The segments that have something of instructions from one count of a thread up to another.
    fn during(&mut self, thread: usize, from: u64, until: u64) -> impl Iterator<Item = &mut Span> {
        let (spans, now) = (&mut self.threads[thread], &mut self.now[thread]);
        while spans.get(*now + 1).is_some_and(|next| next.start <= from) {
            *now += 1;
        }
        spans.iter_mut().skip(*now).take_while(move |span| span.start < until)
    }

    /// A thread executes instructions from one count up to another, whose accesses are looked at; what has happened before.
    #[inline]
    pub fn executes(&mut self, thread: usize, from: u64, until: u64, clock: &Clock) {
        for span in self.during(thread, from, until) {
            span.clock.get_or_insert_with(|| clock.clone());
            span.end = until;
        }
    }

    /// A thread gives memory back at a count, some of which is shared.
    pub fn frees(&mut self, thread: usize, count: u64, clock: &Clock, addr: u64, len: u64) {
        for span in self.during(thread, count, count + 1) {
            span.clock.get_or_insert_with(|| clock.clone());
            span.end = span.end.max(count + 1);
            span.freed.touch(addr, len);
        }
    }

    /// The lines with granules that segments access of which neither comes before the other, and to which one writes; and all that a thread shares with
    /// its own handlers, which come when they like.
    pub fn unordered(mut self, segments: &[Segment], times: &Times) -> Lines {
        let mut found = Granules::default();
        let mut next = vec![0; self.threads.len()];
        // By 64 granules, in the order of segments: which are accessed, and written.
        let mut granules: HashMap<u64, Vec<Accessed>> = HashMap::new();
        for segment in segments {
            let Some((thread, _)) = times.count(segment.place) else { continue };
            let number = next[thread];
            next[thread] += 1;
            let span = &mut self.threads[thread][number];
            if span.clock.is_none() {
                // What it accesses is not looked at.
                continue;
            }
            let (mut all, mut written) = (segment.all.clone(), segment.written.clone());
            let freed = std::mem::take(&mut span.freed);
            all.add(&freed);
            written.add(&freed);
            let mut writes: HashMap<u64, u64> = written.words().collect();
            for (word, all) in all.words() {
                let written = writes.remove(&word).unwrap_or(0);
                granules.entry(word).or_default().push(Accessed { thread, number, whose: segment.whose, all, written });
            }
        }
        for (word, accessed) in granules {
            found.add_word(word, self.conflicts(&accessed));
        }
        found.coarse()
    }

    /// The granules of 64 that segments access without an order.
    fn conflicts(&self, accessed: &[Accessed]) -> u64 {
        let shared = accessed.iter().fold(0, |all, one| all | one.written);
        let mut found = 0;
        // Segments of a thread follow each other here, in their order.
        let threads: Vec<&[Accessed]> = accessed.chunk_by(|one, next| one.thread == next.thread).collect();
        for (number, own) in threads.iter().enumerate() {
            let of = |whose| {
                let all = own.iter().filter(|one| one.whose == whose);
                all.fold((0, 0), |(all, written), one| (all | one.all, written | one.written))
            };
            let ((all, written), (by_handler, written_by_handler)) = (of(Whose::Thread), of(Whose::Handler));
            found |= all & written_by_handler | written & by_handler;
            for others in &threads[number + 1..] {
                for one in *own {
                    if found & shared == shared {
                        return found;
                    }
                    let span = self.span(one);
                    // Those that come before it come first, then those in no order, and then those behind it.
                    let from = others.partition_point(|other| self.span(other).is_before(other.thread, span));
                    let rest = &others[from..];
                    let until = rest.partition_point(|other| !span.is_before(one.thread, self.span(other)));
                    for other in &rest[..until] {
                        found |= one.all & other.written | one.written & other.all;
                    }
                }
            }
        }
        found
    }

    fn span(&self, accessed: &Accessed) -> &Span {
        &self.threads[accessed.thread][accessed.number]
    }
}

/// What a segment does with 64 granules.
struct Accessed {
    thread: usize,
    /// The segment's, in its thread.
    number: usize,
    whose: Whose,
    all: u64,
    written: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(clock: &[(usize, u64)], end: u64) -> Span {
        let mut known = Clock::default();
        clock.iter().for_each(|(thread, count)| known.reach(*thread, *count));
        Span { start: 0, clock: Some(known), end, freed: Granules::default() }
    }

    fn accessed(thread: usize, number: usize, whose: Whose, all: u64, written: u64) -> Accessed {
        Accessed { thread, number, whose, all, written }
    }

    /// Two threads with a barrier between two segments of each.
    fn with_barrier() -> Spans {
        let one = vec![span(&[], 10), span(&[(1, 10)], 20)];
        let other = vec![span(&[], 10), span(&[(0, 10)], 20)];
        Spans { threads: vec![one, other], now: vec![0; 2] }
    }

    #[test]
    fn only_segments_without_an_order_conflict() {
        let spans = with_barrier();
        let whose = Whose::Thread;
        // Granule 0 is written before the barrier by one and read behind it by the other; of 1, the other way round; 2 is written by both.
        let before = [accessed(0, 0, whose, 0b101, 0b101), accessed(0, 1, whose, 0b010, 0b010)];
        let behind = [accessed(1, 0, whose, 0b110, 0b110), accessed(1, 1, whose, 0b001, 0)];
        let all: Vec<Accessed> = before.into_iter().chain(behind).collect();
        assert_eq!(spans.conflicts(&all), 0b100);
    }

    #[test]
    fn reads_do_not_conflict_and_handlers_do() {
        let spans = with_barrier();
        let all = [accessed(0, 0, Whose::Thread, 0b11, 0), accessed(1, 0, Whose::Thread, 0b11, 0)];
        assert_eq!(spans.conflicts(&all), 0);
        let all = [accessed(0, 0, Whose::Thread, 0b11, 0), accessed(0, 1, Whose::Handler, 0b10, 0b10)];
        assert_eq!(spans.conflicts(&all), 0b10);
    }

    #[test]
    fn what_is_executed_belongs_to_its_segments() {
        let spans = || [0, 10, 20].map(|start| Span { start, ..Span::default() }).into();
        let mut all = Spans { threads: vec![spans()], now: vec![0] };
        let mut clock = Clock::default();
        all.executes(0, 3, 5, &clock);
        clock.reach(1, 7);
        all.executes(0, 8, 14, &clock);
        all.frees(0, 15, &clock, 64, 1);
        let [first, second, third] = &mut all.threads[0][..] else { panic!("three") };
        assert_eq!((first.end, second.end, third.clock.is_none()), (14, 16, true));
        assert!(first.clock.as_ref().is_some_and(|clock| !clock.has(Epoch::new(1, 6))));
        assert!(second.clock.as_ref().is_some_and(|clock| clock.has(Epoch::new(1, 6))));
        assert!(second.freed.has(64, 1) && first.freed.is_empty());
    }
}
