//! Segments: what a thread executes between two calls by which threads are ordered. Where all that two segments do is ordered, each of their
//! accesses is, and none is in a race with another. Half of a torn pair they can be: where another thread's segment comes between two of a thread's by
//! nothing but locks, and the thread has not waited in between. What may be either is looked at access by access ([`super::watch`]), and nothing else.
//!
//! Everything here errs on one side: a segment that is too long, or of whose order too little is known, is in no order with more others.

use super::clock::{Clock, Epoch};
use super::first::{Granules, Lines};
use super::order::Clocks;
use super::pieces::Whose;
use super::times::Times;
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

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

/// What has happened before something.
#[derive(Clone)]
struct Before {
    /// By all that orders.
    all: Clock,
    /// As the program wants it.
    program: Clock,
    /// How often the thread had waited.
    waits: u64,
}

/// When a segment's accesses were made that are looked at.
#[derive(Clone, Default)]
struct Span {
    /// The count of its thread at which it begins.
    start: u64,
    /// Before the first of these accesses. None: there are no such accesses.
    first: Option<Before>,
    /// The same from counts of its thread on at which more had happened: the first ones, and the last.
    later: Vec<(u64, Before)>,
    /// How often that had changed before the last of them.
    changes: u64,
    /// A count of its thread up to which they have all been made.
    end: u64,
    /// How often the thread had waited before the last of them.
    waits: u64,
    /// What was given back: whoever does that may do with it what one who writes may do.
    freed: Granules,
}

impl Span {
    /// Something is accessed from one count up to another.
    #[inline]
    fn accesses(&mut self, (from, until): (u64, u64), clocks: &Clocks, waits: u64) {
        let now = || Before { all: clocks.all.clone(), program: clocks.program.clone(), waits };
        if self.first.is_none() {
            self.first = Some(now());
        } else if self.changes != clocks.changes {
            self.later.truncate(MOST_LATER - 1);
            self.later.push((from, now()));
        }
        self.changes = clocks.changes;
        self.end = self.end.max(until);
        self.waits = waits;
    }

    /// What of it lies between two counts of its thread. Nothing is known of where in it anything was given back.
    fn part(&self, start: u64, end: u64) -> Self {
        let later = self.later.iter().rev().find(|(count, _)| *count <= start).map(|(_, before)| before);
        let first = later.or(self.first.as_ref()).filter(|_| start < self.end).cloned();
        let (end, freed) = (self.end.min(end), self.freed.clone());
        Self { start, first, end, waits: self.waits, freed, ..Self::default() }
    }

    /// Whether all of it comes before another one, which one has come to.
    fn is_before(&self, thread: usize, other: &Self, by: impl Fn(&Before) -> &Clock) -> bool {
        let last = Epoch::new(thread, self.end.saturating_sub(1));
        other.first.as_ref().is_none_or(|first| !last.is_none() && by(first).has(last))
    }
}

/// The segments of all threads, as one goes through what the threads did in their order.
pub struct Spans {
    /// Of each thread, in the order of its segments.
    threads: Vec<Vec<Span>>,
    /// Of each thread, the segment that one has come to, and where the next one begins.
    now: Vec<(usize, u64)>,
}

impl Spans {
    /// Before anything was executed.
    pub fn new(times: &Times, segments: &[Segment]) -> Self {
        let mut threads: Vec<Vec<Span>> = (0..times.len()).map(|_| Vec::new()).collect();
        for (thread, start) in segments.iter().filter_map(|segment| times.count(segment.place)) {
            threads[thread].push(Span { start, ..Span::default() });
        }
        Self { now: vec![(0, 0); threads.len()], threads }
    }

    /// The lines of what threads do last of which accesses are in no order if nothing comes behind that: much of it may be done when others know already
    /// that it has been.
    pub fn by_ends(mut self, segments: &[Segment], times: &Times) -> Lines {
        self.threads.iter_mut().filter_map(|spans| spans.last_mut()).for_each(|last| last.end = u64::MAX);
        let mut last = Granules::default();
        for (at, (thread, number)) in self.numbered(segments, times) {
            if number + 1 == self.threads[thread].len() {
                last.add(&segments[at].all);
            }
        }
        let wanted: HashMap<u64, u64> = last.words().collect();
        self.left(self.accessed(segments, times, |word| wanted.get(&word).copied().unwrap_or(0)))
    }

    /// The segments that have something of instructions from one count of a thread up to another.
    fn during(&mut self, thread: usize, from: u64, until: u64) -> impl Iterator<Item = &mut Span> {
        let (spans, (now, end)) = (&mut self.threads[thread], &mut self.now[thread]);
        while spans.get(*now + 1).is_some_and(|next| next.start <= from) {
            *now += 1;
        }
        *end = spans.get(*now + 1).map_or(u64::MAX, |next| next.start);
        spans.iter_mut().skip(*now).take_while(move |span| span.start < until)
    }

    /// A thread executes instructions from one count up to another, whose accesses are looked at; what has happened before, and how often it has waited.
    #[inline]
    pub fn executes(&mut self, thread: usize, (from, until): (u64, u64), clocks: &Clocks, waits: u64) {
        let (now, end) = self.now[thread];
        match self.threads[thread].get_mut(now) {
            Some(span) if span.start <= from && until <= end => span.accesses((from, until), clocks, waits),
            _ => self.during(thread, from, until).for_each(|span| span.accesses((from, until), clocks, waits)),
        }
    }

    /// A thread gives memory back at a count, some of which is shared.
    pub fn frees(&mut self, thread: usize, count: u64, (clocks, waits): (&Clocks, u64), (addr, len): (u64, u64)) {
        for span in self.during(thread, count, count + 1) {
            span.accesses((count, count + 1), clocks, waits);
            span.freed.touch(addr, len);
        }
    }

    /// The lines with granules that segments access of which neither comes before the other, and to which one writes; those with which a pair may be torn;
    /// and all that a thread shares with its own handlers, which come when they like.
    pub fn unordered(&self, segments: &[Segment], times: &Times) -> Lines {
        self.left(self.accessed(segments, times, |_| u64::MAX))
    }

    /// The lines with granules of which accesses are in no order, or may be torn.
    fn left(&self, granules: HashMap<u64, Vec<Accessed>>) -> Lines {
        let (mut found, mut known) = (Granules::default(), HashMap::new());
        for (word, accessed) in granules {
            // What lies together is mostly accessed together.
            let conflicts = *known.entry(accessed).or_insert_with_key(|accessed| self.conflicts(accessed));
            found.add_word(word, conflicts);
        }
        found.coarse()
    }

    /// By 64 granules, in the order of segments, which access them; of each 64, those that are `wanted`.
    fn accessed(
        &self,
        segments: &[Segment],
        times: &Times,
        wanted: impl Fn(u64) -> u64,
    ) -> HashMap<u64, Vec<Accessed>> {
        let mut granules: HashMap<u64, Vec<Accessed>> = HashMap::new();
        for (at, (thread, number)) in self.numbered(segments, times) {
            let (segment, span) = (&segments[at], &self.threads[thread][number]);
            if span.first.is_none() {
                // What it accesses is not looked at.
                continue;
            }
            let (mut all, mut written) = (segment.all.clone(), segment.written.clone());
            all.add(&span.freed);
            written.add(&span.freed);
            let mut writes: HashMap<u64, u64> = written.words().collect();
            for (word, all) in all.words() {
                let (wanted, written) = (wanted(word), writes.remove(&word).unwrap_or(0));
                let (all, written) = (all & wanted, written & wanted);
                if all != 0 {
                    let accessed = Accessed { thread, number, at, whose: segment.whose, all, written };
                    granules.entry(word).or_default().push(accessed);
                }
            }
        }
        granules
    }

    /// The segments, by their indices: of which thread each is, and its number there.
    fn numbered(&self, segments: &[Segment], times: &Times) -> Vec<(usize, (usize, usize))> {
        let mut next = vec![0; self.threads.len()];
        let number = |(at, segment): (usize, &Segment)| {
            let (thread, _) = times.count(segment.place)?;
            next[thread] += 1;
            Some((at, (thread, next[thread] - 1)))
        };
        segments.iter().enumerate().filter_map(number).collect()
    }

    /// Where segments are to be cut, that all of the accesses of these lines may be seen to be in an order: by the segments' indices, the counts of their
    /// threads up to which others come behind them that are in no order with the whole. `None`: there are others, or which may be torn.
    pub fn cuts(&self, segments: &[Segment], times: &Times, lines: &Lines) -> Option<BTreeMap<usize, BTreeSet<u64>>> {
        let mut cuts: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for accessed in self.accessed(segments, times, granules_of(lines)).values() {
            if self.is_by_handlers_or_torn(accessed) {
                return None;
            }
            for (one, other) in self.conflicting(accessed) {
                let between = self.cuts_between(one, other);
                if between.iter().all(Vec::is_empty) {
                    return None;
                }
                for (of, counts) in [one, other].into_iter().zip(between) {
                    cuts.entry(of.at).or_default().extend(counts);
                }
            }
        }
        cuts.retain(|_, counts| !counts.is_empty());
        Some(cuts)
    }

    /// Where each of two segments that are in no order may be cut: where the other one comes behind it, or more has happened before it.
    fn cuts_between(&self, one: &Accessed, other: &Accessed) -> [Vec<u64>; 2] {
        [(one, other), (other, one)].map(|(one, other)| {
            let (own, behind) = (self.span(one), self.span(other));
            let befores = behind.first.iter().chain(behind.later.iter().map(|(_, before)| before));
            let untils = befores.map(|before| before.all.until(one.thread));
            let counts = untils.chain(own.later.iter().map(|(count, _)| *count));
            counts.filter(|count| own.start < *count && *count < own.end).collect()
        })
    }

    /// Whether all accesses of these lines are in an order. Whether any are torn, [`Self::cuts`] has found out.
    pub fn are_ordered(&self, segments: &[Segment], times: &Times, lines: &Lines) -> bool {
        self.accessed(segments, times, granules_of(lines))
            .values()
            .all(|accessed| self.conflicting(accessed).is_empty())
    }

    /// The pairs of segments of different threads that are in no order, and access some of 64 granules in a way that needs one.
    fn conflicting<'a>(&self, accessed: &'a [Accessed]) -> Vec<(&'a Accessed, &'a Accessed)> {
        let (threads, mut pairs) = (by_thread(accessed), Vec::new());
        for (number, own) in threads.iter().enumerate() {
            for others in &threads[number + 1..] {
                for one in *own {
                    let without = self.without_order(one, others).iter().filter(|other| one.conflicts(other) != 0);
                    pairs.extend(without.map(|other| (one, other)));
                }
            }
        }
        pairs
    }

    /// The same segments with some of them cut: by the indices of these, their parts.
    pub fn cut(
        &self,
        segments: Vec<Segment>,
        times: &Times,
        mut parts: BTreeMap<usize, Vec<Segment>>,
    ) -> (Vec<Segment>, Self) {
        let numbers: HashMap<usize, (usize, usize)> = self.numbered(&segments, times).into_iter().collect();
        let mut finer = Self { threads: vec![Vec::new(); self.threads.len()], now: self.now.clone() };
        let mut all = Vec::with_capacity(segments.len() + 2 * parts.len());
        for (at, whole) in segments.into_iter().enumerate() {
            let Some(&(thread, number)) = numbers.get(&at) else { continue };
            let span = &self.threads[thread][number];
            let parts = parts.remove(&at).unwrap_or_else(|| vec![whole]);
            let start = |part: &Segment| times.count(part.place).map_or(span.start, |(_, count)| count);
            let starts: Vec<u64> = parts.iter().map(start).collect();
            let ends = starts[1..].iter().copied().chain([u64::MAX]);
            finer.threads[thread].extend(starts.iter().zip(ends).map(|(start, end)| span.part(*start, end)));
            all.extend(parts);
        }
        (all, finer)
    }

    /// The granules of 64 that segments access without an order, or that may be those of a torn pair.
    fn conflicts(&self, accessed: &[Accessed]) -> u64 {
        let shared = accessed.iter().fold(0, |all, one| all | one.written);
        let threads = by_thread(accessed);
        let mut found = threads.iter().fold(0, |all, own| all | with_handlers(own));
        for (number, own) in threads.iter().enumerate() {
            for others in &threads[number + 1..] {
                for one in *own {
                    if found & shared == shared {
                        return found;
                    }
                    found |= self.unordered_with(one, others);
                }
            }
        }
        for (number, own) in threads.iter().enumerate() {
            for (_, others) in threads.iter().enumerate().filter(|(other, _)| *other != number) {
                for between in *others {
                    if found & shared == shared {
                        return found;
                    }
                    found |= self.torn(own, between);
                }
            }
        }
        found
    }

    fn is_before(&self, one: &Accessed, other: &Accessed, by: impl Fn(&Before) -> &Clock) -> bool {
        self.span(one).is_before(one.thread, self.span(other), by)
    }

    /// Those of another thread's segments that are in no order with one.
    fn without_order<'a>(&self, one: &Accessed, others: &'a [Accessed]) -> &'a [Accessed] {
        // Those that come before it come first, then those in no order, and then those behind it.
        let from = others.partition_point(|other| self.is_before(other, one, |before| &before.all));
        let rest = &others[from..];
        &rest[..rest.partition_point(|other| !self.is_before(one, other, |before| &before.all))]
    }

    /// The granules that a segment and some of another thread's access without an order.
    fn unordered_with(&self, one: &Accessed, others: &[Accessed]) -> u64 {
        let (all, written) = sum(self.without_order(one, others));
        one.all & written | one.written & all
    }

    /// Whether handlers, or torn pairs, may access some of 64 granules in a way that needs an order: no cut changes that.
    fn is_by_handlers_or_torn(&self, accessed: &[Accessed]) -> bool {
        let threads = by_thread(accessed);
        threads.iter().enumerate().any(|(number, own)| {
            let others = threads.iter().enumerate().filter(|(other, _)| *other != number);
            with_handlers(own) != 0
                || others.flat_map(|(_, others)| *others).any(|between| self.torn(own, between) != 0)
        })
    }

    /// The granules of which a thread's accesses may be torn apart by those of a segment of another one, which comes between them by more than the
    /// program's will (what [`super::atomicity`] tells of accesses).
    fn torn(&self, own: &[Accessed], between: &Accessed) -> u64 {
        let before = &own[..own.partition_point(|one| self.is_before(one, between, |before| &before.all))];
        let behind = &own[own.partition_point(|one| !self.is_before(between, one, |before| &before.all))..];
        let waits = |one: &Accessed| self.span(one).first.as_ref().map_or(0, |first| first.waits);
        let (Some(last), Some(next)) = (before.last(), behind.first()) else { return 0 };
        let waited = self.span(last).waits;
        if waits(next) != waited {
            return 0;
        }
        let before = &before[before.partition_point(|one| self.span(one).waits < waited)..];
        let behind = &behind[..behind.partition_point(|one| waits(one) <= waited)];
        let (wanted, chance) =
            before.split_at(before.partition_point(|one| self.is_before(one, between, |before| &before.program)));
        let (after_chance, after_wanted) =
            behind.split_at(behind.partition_point(|one| !self.is_before(between, one, |before| &before.program)));
        let of = |all: &[Accessed]| if all.len() > MOST_TO_SUM { sum(own) } else { sum(all) };
        let ((wanted, chance), (after_chance, after_wanted)) =
            ((of(wanted), of(chance)), (of(after_chance), of(after_wanted)));
        let either = |one: (u64, u64), other: (u64, u64)| (one.0 | other.0, one.1 | other.1);
        pairs(chance, between, either(after_chance, after_wanted))
            | pairs(either(wanted, chance), between, after_chance)
    }

    fn span(&self, accessed: &Accessed) -> &Span {
        &self.threads[accessed.thread][accessed.number]
    }
}

/// What a segment does with 64 granules.
#[derive(PartialEq, Eq, Hash)]
struct Accessed {
    thread: usize,
    /// The segment's, in its thread, and among all.
    number: usize,
    at: usize,
    whose: Whose,
    all: u64,
    written: u64,
}

impl Accessed {
    /// The granules that both access and one writes.
    fn conflicts(&self, other: &Self) -> u64 {
        self.all & other.written | self.written & other.all
    }
}

/// Those of each thread, which follow each other, in their order.
fn by_thread(accessed: &[Accessed]) -> Vec<&[Accessed]> {
    accessed.chunk_by(|one, next| one.thread == next.thread).collect()
}

/// Of 64 granules, those of some lines, by the number of the first one divided by 64.
fn granules_of(lines: &Lines) -> impl Fn(u64) -> u64 {
    let mut granules: HashMap<u64, u64> = HashMap::new();
    for (addr, len) in lines.ranges() {
        for granule in addr >> 3..(addr + len) >> 3 {
            *granules.entry(granule >> 6).or_default() |= 1 << (granule & 63);
        }
    }
    move |word| granules.get(&word).copied().unwrap_or(0)
}

/// Of so many counts in a segment it is known what more had happened.
const MOST_LATER: usize = 8;

/// Of more segments than this, all that a thread accesses is taken for what they access.
const MOST_TO_SUM: usize = 64;

/// What segments access together, and write.
fn sum<'a>(all: impl IntoIterator<Item = &'a Accessed>) -> (u64, u64) {
    all.into_iter().fold((0, 0), |(all, written), one| (all | one.all, written | one.written))
}

/// The granules that a thread accesses and its handlers write, or the other way round.
fn with_handlers(own: &[Accessed]) -> u64 {
    let of = |whose| sum(own.iter().filter(|one| one.whose == whose));
    let ((all, written), (by_handler, written_by_handler)) = (of(Whose::Thread), of(Whose::Handler));
    all & written_by_handler | written & by_handler
}

/// The granules of which one access before, one between and one behind may be of such kinds that they cannot be put next to each other. What is written may
/// be read, too.
fn pairs(before: (u64, u64), between: &Accessed, behind: (u64, u64)) -> u64 {
    between.written & before.0 & behind.0 | between.all & before.1 & behind.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(of: &[(usize, u64)]) -> Clock {
        let mut clock = Clock::default();
        of.iter().for_each(|(thread, count)| clock.reach(*thread, *count));
        clock
    }

    fn span(all: &[(usize, u64)], end: u64) -> Span {
        with_locks([all; 2], end, 0)
    }

    fn with_locks([all, program]: [&[(usize, u64)]; 2], end: u64, waits: u64) -> Span {
        let first = Before { all: clock(all), program: clock(program), waits };
        Span { first: Some(first), end, waits, ..Span::default() }
    }

    fn accessed(thread: usize, number: usize, whose: Whose, all: u64, written: u64) -> Accessed {
        Accessed { thread, number, at: 0, whose, all, written }
    }

    /// Two threads with a barrier between two segments of each.
    fn with_barrier() -> Spans {
        let one = vec![span(&[], 10), span(&[(1, 10)], 20)];
        let other = vec![span(&[], 10), span(&[(0, 10)], 20)];
        Spans { threads: vec![one, other], now: vec![(0, 0); 2] }
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

    /// A thread's two segments, between which another thread's comes by a lock, as the program wants it or not; and how often the first has waited before.
    fn torn(wanted: [&[(usize, u64)]; 2], waits: u64, kinds: [(u64, u64); 3]) -> u64 {
        let own = vec![with_locks([&[]; 2], 10, 0), with_locks([&[(1, 10)], wanted[1]], 20, waits)];
        let other = vec![with_locks([&[(0, 10)], wanted[0]], 10, 0)];
        let spans = Spans { threads: vec![own, other], now: vec![(0, 0); 2] };
        let whose = Whose::Thread;
        let [before, between, behind] = kinds;
        let all = [(0, 0, before), (0, 1, behind), (1, 0, between)]
            .map(|(thread, number, (all, written))| accessed(thread, number, whose, all, written));
        spans.conflicts(&all)
    }

    #[test]
    fn what_locks_alone_order_may_be_torn() {
        let (read, written) = ((1, 0), (1, 1));
        assert_eq!(torn([&[], &[]], 0, [read, written, read]), 1);
        assert_eq!(torn([&[], &[]], 0, [written, read, written]), 1);
        assert_eq!(torn([&[], &[]], 0, [written, read, read]), 0);
        assert_eq!(torn([&[], &[]], 0, [read, read, written]), 0);
        assert_eq!(torn([&[], &[]], 0, [(2, 0), written, read]), 0, "nothing of it was there before");
        assert_eq!(torn([&[], &[]], 1, [read, written, read]), 0, "the thread has waited");
        assert_eq!(torn([&[(0, 10)], &[]], 0, [read, written, read]), 1, "it need not have come before what is behind");
        assert_eq!(torn([&[], &[(1, 10)]], 0, [read, written, read]), 1);
        assert_eq!(torn([&[(0, 10)], &[(1, 10)]], 0, [read, written, read]), 0);
    }

    #[test]
    fn segments_are_cut_where_others_come_behind_them() {
        let before = |of| Before { all: clock(of), program: clock(of), waits: 0 };
        // Thread 1 comes behind the first half of thread 0, but has done something before that.
        let mut behind = span(&[], 10);
        behind.later = vec![(4, before(&[(0, 5)]))];
        let spans = Spans { threads: vec![vec![span(&[], 10)], vec![behind.clone()]], now: vec![(0, 0); 2] };
        let (one, other) = (accessed(0, 0, Whose::Thread, 1, 1), accessed(1, 0, Whose::Thread, 1, 0));
        assert_eq!(spans.cuts_between(&one, &other), [vec![5], vec![4]]);
        assert_eq!(spans.unordered_with(&one, std::slice::from_ref(&other)), 1);
        let parts = Spans {
            threads: vec![
                vec![span(&[], 10).part(0, 5), span(&[], 10).part(5, 99)],
                vec![behind.part(0, 4), behind.part(4, 99)],
            ],
            now: vec![(0, 0); 2],
        };
        let of = |thread, number| accessed(thread, number, Whose::Thread, 1, 1);
        let conflicts = |one: usize, other: usize| parts.unordered_with(&of(0, one), &[of(1, other)]);
        assert_eq!([conflicts(0, 0), conflicts(1, 0), conflicts(0, 1), conflicts(1, 1)], [1, 1, 0, 1]);
        assert!(span(&[], 10).part(10, 99).first.is_none(), "nothing is looked at there");
    }

    #[test]
    fn what_is_executed_belongs_to_its_segments() {
        let spans = || [0, 10, 20].map(|start| Span { start, ..Span::default() }).into();
        let mut all = Spans { threads: vec![spans()], now: vec![(0, 0)] };
        let mut clocks = Clocks::default();
        all.executes(0, (3, 5), &clocks, 1);
        clocks.program.reach(1, 7);
        clocks.changes += 1;
        all.executes(0, (8, 14), &clocks, 2);
        all.frees(0, 15, (&clocks, 3), (64, 1));
        let [first, second, third] = &mut all.threads[0][..] else { panic!("three") };
        assert_eq!((first.end, second.end, third.first.is_none()), (14, 16, true));
        let known = |span: &Span| span.first.as_ref().map(|first| (first.program.has(Epoch::new(1, 6)), first.waits));
        assert_eq!((known(first), first.waits), (Some((false, 1)), 2));
        assert_eq!((known(second), second.waits), (Some((true, 2)), 3));
        assert!(second.freed.has(64, 1) && first.freed.is_empty());
    }
}
