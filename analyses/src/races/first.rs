//! A first look at all that was executed, each interval by itself and on all cores: which memory threads share, and which words
//! instructions access atomically. What only one thread touches needs no order.
//!
//! Replay processes mark what is accessed by themselves ([`bugnet_replay::lines`]). Where they cannot, or cannot be sure, each access is looked at here.

use super::pieces::{CLONE, CLONE3, Pieces, Whose};
use super::place::Modules;
use super::segments::Segment;
use crate::touched::Touched as Bits;
use bugnet_events::code::{Blocks, is_atomic};
use bugnet_events::stream::{Analysis, Worker};
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;
use bugnet_format::types::{Addr, IntervalNo, Position, Tid};
use bugnet_replay::Result;
use bugnet_replay::cursor::Place;
use bugnet_replay::lines::{Lines as Marked, Marker};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::pool;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Chunk;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// So many handlers in an interval, or more, and each access is looked at: to go from one to the next takes longer.
const MANY: usize = 16;
/// Most segments of all intervals together, beside those that handlers make: what they access is kept in memory.
const MOST_SEGMENTS: usize = 1 << 15;
/// And of one interval: a replay process goes from each to the next.
const MOST_OF_INTERVAL: usize = 1 << 10;

/// So many bytes of memory may be taken by what pieces of intervals access; where it would be more, those of an interval are joined.
const MOST_BYTES: usize = 1 << 30;

/// Lines of 64 bytes.
pub type Lines = Bits<6>;
/// Granules of 8 bytes.
pub type Granules = Bits<3>;

/// Words of 4 bytes that instructions access atomically.
#[derive(Clone, Default)]
pub struct Words {
    /// By instructions of the C library.
    pub of_libc: Bits<2>,
    /// By others; and those on which threads wait in the kernel, which are accessed atomically by what they are for, also by plain instructions.
    pub of_others: Bits<2>,
}

impl Words {
    /// Those of some lines in which any of the words are.
    pub fn lines(&self, of: &Lines) -> Lines {
        let mut lines = Lines::default();
        for (addr, len) in self.of_libc.ranges().into_iter().chain(self.of_others.ranges()) {
            lines.touch(addr, len);
        }
        lines.common(of)
    }
}

/// The same, by their addresses divided by 4.
#[derive(Debug, Default)]
struct Found {
    of_libc: HashSet<u64>,
    of_others: HashSet<u64>,
}

impl Found {
    fn words(&self) -> Words {
        let bits = |words: &HashSet<u64>| {
            let mut bits = Bits::default();
            words.iter().for_each(|word| bits.touch(word << 2, 4));
            bits
        };
        Words { of_libc: bits(&self.of_libc), of_others: bits(&self.of_others) }
    }
}

/// What the first look has found.
#[derive(Default)]
pub struct Shared {
    /// Lines with 8 bytes that more than one thread accessed, or a thread and a signal's handler in it, and to which one wrote, since there is more
    /// than one: all else comes before the making of the second thread.
    pub lines: Lines,
    /// What is accessed atomically.
    pub words: Words,
    /// What the threads accessed one after the other, since there is more than one.
    pub segments: Vec<Segment>,
}

impl Shared {
    /// The same, but for the segments, of these lines.
    pub fn of(&self, lines: Lines) -> Self {
        Self { lines, words: self.words.clone(), segments: Vec::new() }
    }
}

/// The words of 4 bytes in which an access lies.
pub fn words(addr: u64, len: u64) -> impl Iterator<Item = u64> {
    addr >> 2..=addr.saturating_add(len.saturating_sub(1)) >> 2
}

/// Granules that were accessed, and those of them that were written to.
#[derive(Default)]
pub struct Touched {
    /// All.
    pub all: Granules,
    /// Those that were written to.
    pub written: Granules,
    /// Granules that were accessed last, by the lowest bits of their numbers, and whether they were written to: most accesses are of these again. None
    /// where no access is looked at.
    recent: Vec<(u64, bool)>,
}

const RECENT: usize = 1 << 8;

impl Touched {
    #[inline]
    fn touch(&mut self, addr: u64, len: u64, writes: bool) {
        if self.recent.is_empty() {
            self.recent = vec![(u64::MAX, false); RECENT];
        }
        let granule = addr >> 3;
        let recent = &mut self.recent[granule as usize % RECENT];
        if recent.0 == granule && (recent.1 || !writes) && addr.saturating_add(len) <= (granule + 1) << 3 {
            return;
        }
        *recent = (granule, writes || recent.0 == granule && recent.1);
        self.all.touch(addr, len);
        if writes {
            self.written.touch(addr, len);
        }
    }

    /// Adds what was marked.
    pub fn mark(&mut self, marked: &Marked) {
        for page in &marked.pages {
            // 64 granules are a number here as there.
            let words = (page.addr / Addr::PAGE * 8..).zip(page.accessed.iter().zip(&page.written));
            for (word, (accessed, written)) in words.filter(|(_, (accessed, _))| **accessed != 0) {
                self.all.add_word(word, *accessed);
                if *written != 0 {
                    self.written.add_word(word, *written);
                }
            }
        }
    }
}

/// What is found in an interval.
struct Part {
    pieces: Pieces,
    /// Of each piece.
    touched: Vec<Touched>,
    words: Found,
    /// Words with which the kernel was called for threads to wait or to wake.
    futexes: HashSet<u64>,
}

impl Part {
    /// About how many bytes of memory it takes.
    fn bytes(&self) -> usize {
        self.touched.iter().map(|touched| touched.all.bytes() + touched.written.bytes()).sum()
    }

    /// Pieces that follow each other become one.
    fn join(&mut self) {
        let mut joined: Vec<Touched> = Vec::new();
        for (number, touched) in self.pieces.join().into_iter().zip(self.touched.drain(..)) {
            match joined.get_mut(number) {
                Some(joined) => {
                    joined.all.add(&touched.all);
                    joined.written.add(&touched.written);
                }
                None => joined.push(touched),
            }
        }
        self.touched = joined;
    }
}

struct Looking<'a> {
    log: &'a Log,
    modules: &'a Modules,
    /// Whether each access is looked at.
    follow: bool,
    /// Where the first thread makes the second one.
    second: Option<(IntervalId, Position)>,
    /// Most segments of an interval, beside those that handlers make.
    segments: usize,
}

impl Analysis for Looking<'_> {
    type Part = Part;

    fn begin(&self, id: IntervalId, interval: &Interval) -> Part {
        let alone_until = match self.second {
            Some((second, at)) if id == second => at.0,
            Some((second, _)) if id.thread == second.thread && id.interval < second.interval => u64::MAX,
            _ => 0,
        };
        let (pieces, futexes) = Pieces::of(&self.log.events_of(id, interval), alone_until, self.segments);
        let touched = pieces.iter().map(|_| Touched::default()).collect();
        let futexes = futexes.into_iter().flat_map(|word| words(word, 4)).collect();
        Part { pieces, touched, words: Found::default(), futexes }
    }

    fn chunk(&self, part: &mut Part, chunk: &Chunk<'_>, blocks: &Blocks) {
        let mut piece = part.pieces.at(chunk.first.0);
        for run in chunk.runs {
            let position = chunk.first.0 + u64::from(run.word);
            piece = part.pieces.from(piece, position);
            let block = blocks.get(run.block);
            if part.pieces.whose(piece).is_some() {
                for (addr, len, writes) in blocks.touched(chunk, *run) {
                    part.touched[piece].touch(addr, len.into(), writes);
                }
            }
            if block.has_atomic {
                let of_libc = self.modules.is_libc(block.traced.pc);
                let to = if of_libc { &mut part.words.of_libc } else { &mut part.words.of_others };
                for access in &block.traced.accesses {
                    if is_atomic(&block.instructions[usize::from(access.instruction)].instruction) {
                        to.extend(words(chunk.address(*run, access), access.bytes.into()));
                    }
                }
            }
        }
        for odd in &chunk.odd {
            let piece = part.pieces.at(chunk.first.0 + u64::from(odd.word));
            if part.pieces.whose(piece).is_some() {
                part.touched[piece].touch(odd.addr, odd.len, odd.writes);
            }
        }
    }

    fn end(&self, part: &mut Part, _: &Blocks) {
        part.touched.iter_mut().for_each(|touched| touched.recent = Vec::new());
    }

    fn join(&mut self, _: IntervalId, _: Part) {}
}

/// What goes from interval to interval.
#[derive(Default)]
struct Workers {
    marker: Option<Marker>,
    tracing: Worker,
}

impl Looking<'_> {
    /// What is found in an interval by marks; none where they do not tell.
    fn mark(
        &self,
        (tools, log): (&Tools, &Log),
        (id, interval): (IntervalId, &Interval),
        marker: &mut Option<Marker>,
    ) -> Result<Option<Part>> {
        let mut part = self.begin(id, interval);
        if self.follow || part.pieces.handlers() > 2 * MANY {
            return Ok(None);
        }
        let Some(mut new) = Marker::start(tools, log, id, interval, marker.take())? else { return Ok(None) };
        for piece in 0..part.touched.len() {
            let Some(marked) = new.run_to(part.pieces.end(piece).map(Position))? else { return Ok(None) };
            if part.pieces.whose(piece).is_some() {
                part.touched[piece].mark(&marked);
            }
            for access in &marked.atomic {
                let of_libc = self.modules.is_libc(access.pc);
                let to = if of_libc { &mut part.words.of_libc } else { &mut part.words.of_others };
                to.extend(words(access.addr, access.len));
            }
        }
        *marker = Some(new);
        Ok(Some(part))
    }
}

/// Whether all that was executed is one thread's, which no handler interrupted: its records tell, and nothing is shared then.
fn is_alone(log: &Log, intervals: &[IntervalId]) -> Result<bool> {
    let Some(first) = intervals.first() else { return Ok(true) };
    if intervals.iter().any(|id| id.thread != first.thread) {
        return Ok(false);
    }
    for id in intervals {
        if log.events(*id)?.records().flatten().any(|placed| matches!(placed.record, Record::Signal { .. })) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where the first thread makes another one, or a process; none if that is not known, or a handler has interrupted it before.
fn second(log: &Log, intervals: &[IntervalId]) -> Result<Option<(IntervalId, Position)>> {
    let Some(first) = intervals.first().filter(|first| first.interval == IntervalNo(0)) else { return Ok(None) };
    for id in intervals.iter().take_while(|id| id.thread == first.thread) {
        for placed in log.events(*id)?.records().flatten() {
            match placed.record {
                Record::Signal { .. } => return Ok(None),
                Record::Syscall { number: CLONE | CLONE3, result: 0.., .. } => return Ok(Some((*id, placed.position))),
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Looks at all intervals of a process, `jobs` at a time; at each access if it is to `follow`. `progress` is called after each with how many are done.
///
/// # Errors
/// An interval cannot be read or replayed.
pub fn look(
    (tools, log): (&Tools, &Log),
    intervals: &[IntervalId],
    modules: &Modules,
    (jobs, follow): (NonZeroUsize, bool),
    mut progress: impl FnMut(usize),
) -> Result<Shared> {
    if is_alone(log, intervals)? {
        return Ok(Shared::default());
    }
    let second = second(log, intervals)?;
    let segments = (MOST_SEGMENTS / intervals.len()).min(MOST_OF_INTERVAL);
    let looking = Looking { log, modules, follow, second, segments };
    let (shared, mut parts): (_, Vec<(IntervalId, Part)>) = (&looking, Vec::new());
    let mut bytes = 0;
    pool::in_order(
        intervals,
        jobs,
        |workers: &mut Workers, id| -> Result<Part> {
            let interval = log.interval(*id)?;
            match shared.mark((tools, log), (*id, &interval), &mut workers.marker)? {
                Some(part) => Ok(part),
                None => workers.tracing.run((tools, log), (*id, &interval), shared),
            }
        },
        |id, part| {
            let part = part?;
            // Those that came when there was more are joined already.
            let joined = if bytes > MOST_BYTES { parts.len() } else { 0 };
            bytes += part.bytes();
            parts.push((*id, part));
            if bytes > MOST_BYTES {
                parts[joined..].iter_mut().for_each(|(_, part)| part.join());
            }
            progress(parts.len());
            Ok(())
        },
    )?;
    Ok(shared_by(parts))
}

/// What the intervals have in common.
fn shared_by(parts: Vec<(IntervalId, Part)>) -> Shared {
    let (mut words, mut futexes, mut segments) = (Found::default(), HashSet::new(), Vec::new());
    // By thread, and whether it is a handler.
    let mut touched: BTreeMap<(Tid, Whose), [Granules; 2]> = BTreeMap::new();
    for (id, part) in parts {
        words.of_libc.extend(part.words.of_libc);
        words.of_others.extend(part.words.of_others);
        futexes.extend(part.futexes);
        for (piece, Touched { all, written, .. }) in part.touched.into_iter().enumerate() {
            let Some(whose) = part.pieces.whose(piece) else { continue };
            let known = touched.entry((id.thread.tid, whose)).or_default();
            known[0].add(&all);
            known[1].add(&written);
            let start = Position(part.pieces.start(piece));
            let place = Place { tid: id.thread.tid, interval: id.interval, position: start };
            segments.push(Segment { place, whose, all, written });
        }
    }
    // Of those that the C library accesses atomically, its functions are known.
    words.of_others.extend(futexes.difference(&words.of_libc));
    let (mut seen, mut twice, mut all_written) = (Granules::default(), Granules::default(), Granules::default());
    for [all, written] in touched.values() {
        twice.add(&seen.common(all));
        seen.add(all);
        all_written.add(written);
    }
    let shared = twice.common(&all_written);
    for segment in &mut segments {
        (segment.all, segment.written) = (segment.all.common(&shared), segment.written.common(&shared));
    }
    Shared { lines: shared.coarse(), words: words.words(), segments }
}
