//! A first look at all that was executed, each interval by itself and on all cores: which lines of memory threads share, and which words
//! instructions access atomically. What only one thread touches needs no order.
//!
//! Replay processes mark these lines by themselves ([`bugnet_replay::lines`]). Where they cannot, or cannot be sure, each access is looked at here.

use super::place::Modules;
use crate::touched::Touched as Bits;
use bugnet_events::code::{Blocks, is_atomic};
use bugnet_events::stream::{Analysis, Worker};
use bugnet_format::frame::Interval;
use bugnet_format::record::{Record, SignalStep};
use bugnet_format::types::{Addr, IntervalNo, Position, Tid};
use bugnet_replay::Result;
use bugnet_replay::lines::{Lines as Marked, Marker};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::pool;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Chunk;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// The system call with which threads wait for a word of memory to change, and wake each other.
const FUTEX: u64 = 202;
/// Those that make threads.
const CLONE: u64 = 56;
const CLONE3: u64 = 435;

/// Bytes of a line.
const LINE: u64 = 64;
/// So many handlers in an interval, or more, and each access is looked at: to go from one to the next takes longer.
const MANY: usize = 16;

/// Lines of 64 bytes.
type Lines = Bits<6>;

/// Words of 4 bytes that instructions access atomically.
#[derive(Default)]
pub struct Words {
    /// By instructions of the C library.
    pub of_libc: Bits<2>,
    /// By others; and those on which threads wait in the kernel, which are accessed atomically by what they are for, also by plain instructions.
    pub of_others: Bits<2>,
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
    /// Lines that more than one thread accessed, or a thread and a signal's handler in it, and to which one wrote, since there is more than one:
    /// all else comes before the making of the second thread.
    pub lines: Lines,
    /// What is accessed atomically.
    pub words: Words,
}

/// The words of 4 bytes in which an access lies.
pub fn words(addr: u64, len: u64) -> impl Iterator<Item = u64> {
    addr >> 2..=addr.saturating_add(len.saturating_sub(1)) >> 2
}

/// Lines that were accessed, and those of them that were written to.
struct Touched {
    all: Lines,
    written: Lines,
    /// Lines that were accessed last, by the lowest bits of their numbers, and whether they were written to: most accesses are of these again.
    recent: Box<[(u64, bool); RECENT]>,
}

const RECENT: usize = 1 << 8;

impl Default for Touched {
    fn default() -> Self {
        let recent = Box::new([(u64::MAX, false); RECENT]);
        Self { all: Lines::default(), written: Lines::default(), recent }
    }
}

impl Touched {
    #[inline]
    fn touch(&mut self, addr: u64, len: u64, writes: bool) {
        let line = addr >> 6;
        let recent = &mut self.recent[line as usize % RECENT];
        if recent.0 == line && (recent.1 || !writes) && addr.saturating_add(len) <= (line + 1) << 6 {
            return;
        }
        *recent = (line, writes || recent.0 == line && recent.1);
        self.all.touch(addr, len);
        if writes {
            self.written.touch(addr, len);
        }
    }

    /// Adds lines that were marked.
    fn mark(&mut self, marked: &Marked) {
        for page in &marked.pages {
            for line in (0..Addr::PAGE / LINE).filter(|line| page.accessed >> line & 1 != 0) {
                let addr = page.addr + line * LINE;
                self.all.touch(addr, 1);
                if page.written >> line & 1 != 0 {
                    self.written.touch(addr, 1);
                }
            }
        }
    }
}

/// What is found in an interval.
struct Part {
    /// Of the thread, and of handlers in it.
    touched: [Touched; 2],
    words: Found,
    /// Words with which the kernel was called for threads to wait or to wake.
    futexes: HashSet<u64>,
    /// Where handlers begin, or end.
    handlers: Vec<(u64, bool)>,
    /// What comes before this position of the interval comes before the making of the second thread.
    alone_until: u64,
}

impl Part {
    /// Whether a handler runs at a position.
    fn in_handler(&self, position: u64) -> usize {
        let depth = self
            .handlers
            .iter()
            .take_while(|(at, _)| *at <= position)
            .fold(0_u32, |depth, (_, begins)| if *begins { depth + 1 } else { depth.saturating_sub(1) });
        usize::from(depth > 0)
    }

    /// What the interval is made of, in its order: where each piece begins and ends, and to whose it counts, if it does.
    fn pieces(&self) -> Vec<(u64, Option<u64>, Option<usize>)> {
        let mut starts: Vec<u64> = self.handlers.iter().map(|(at, _)| *at).chain([0]).collect();
        starts.extend(Some(self.alone_until).filter(|until| *until != u64::MAX));
        starts.sort_unstable();
        starts.dedup();
        let ends = starts[1..].iter().copied().map(Some).chain([None]);
        let whose = |start: u64| (start >= self.alone_until).then(|| self.in_handler(start));
        starts.iter().zip(ends).map(|(start, end)| (*start, end, whose(*start))).collect()
    }
}

struct Looking<'a> {
    modules: &'a Modules,
    /// Whether each access is looked at.
    follow: bool,
    /// Where the first thread makes the second one.
    second: Option<(IntervalId, Position)>,
    words: Found,
    futexes: HashSet<u64>,
    /// By thread, and whether it is a handler.
    touched: BTreeMap<(Tid, usize), Touched>,
}

impl Analysis for Looking<'_> {
    type Part = Part;

    fn begin(&self, id: IntervalId, interval: &Interval) -> Part {
        let (mut handlers, mut futexes) = (Vec::new(), HashSet::new());
        for placed in interval.records().flatten() {
            match placed.record {
                Record::Signal { step, .. } => {
                    let begins = step == SignalStep::Delivery;
                    handlers.push((placed.position.0 + u64::from(!begins), begins));
                }
                Record::Syscall { number: FUTEX, args, .. } => futexes.extend(words(args[0], 4)),
                _ => {}
            }
        }
        let alone_until = match self.second {
            Some((second, at)) if id == second => at.0,
            Some((second, _)) if id.thread == second.thread && id.interval < second.interval => u64::MAX,
            _ => 0,
        };
        Part { touched: Default::default(), words: Found::default(), futexes, handlers, alone_until }
    }

    fn chunk(&self, part: &mut Part, chunk: &Chunk<'_>, blocks: &Blocks) {
        let mut is_handler = part.in_handler(chunk.first.0);
        for run in chunk.runs {
            if !part.handlers.is_empty() {
                is_handler = part.in_handler(chunk.first.0 + u64::from(run.word));
            }
            let block = blocks.get(run.block);
            if chunk.first.0 + u64::from(run.word) >= part.alone_until {
                let touched = &mut part.touched[is_handler];
                for (addr, len, writes) in blocks.touched(chunk, *run) {
                    touched.touch(addr, len.into(), writes);
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
            if chunk.first.0 + u64::from(odd.word) < part.alone_until {
                continue;
            }
            let at = part.in_handler(chunk.first.0 + u64::from(odd.word));
            part.touched[at].touch(odd.addr, odd.len, odd.writes);
        }
    }

    fn join(&mut self, id: IntervalId, part: Part) {
        for (is_handler, touched) in part.touched.into_iter().enumerate() {
            let known = self.touched.entry((id.thread.tid, is_handler)).or_default();
            known.all.add(&touched.all);
            known.written.add(&touched.written);
        }
        self.words.of_libc.extend(part.words.of_libc);
        self.words.of_others.extend(part.words.of_others);
        self.futexes.extend(part.futexes);
    }
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
        if self.follow || part.handlers.len() > 2 * MANY {
            return Ok(None);
        }
        let Some(mut new) = Marker::start(tools, log, id, interval, marker.take())? else { return Ok(None) };
        for (_, until, whose) in part.pieces() {
            let Some(marked) = new.run_to(until.map(Position))? else { return Ok(None) };
            if let Some(whose) = whose {
                part.touched[whose].mark(&marked);
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
        if log.interval(*id)?.records().flatten().any(|placed| matches!(placed.record, Record::Signal { .. })) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where the first thread makes another one, or a process; none if that is not known, or a handler has interrupted it before.
fn second(log: &Log, intervals: &[IntervalId]) -> Result<Option<(IntervalId, Position)>> {
    let Some(first) = intervals.first().filter(|first| first.interval == IntervalNo(0)) else { return Ok(None) };
    for id in intervals.iter().take_while(|id| id.thread == first.thread) {
        for placed in log.interval(*id)?.records().flatten() {
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
    let (words, futexes, touched) = (Found::default(), HashSet::new(), BTreeMap::new());
    let mut looking = Looking { modules, follow, second, words, futexes, touched };
    let (shared, mut parts) = (&looking, Vec::new());
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
            parts.push((*id, part?));
            progress(parts.len());
            Ok(())
        },
    )?;
    parts.into_iter().for_each(|(id, part)| looking.join(id, part));
    // Of those that the C library accesses atomically, its functions are known.
    looking.words.of_others.extend(looking.futexes.difference(&looking.words.of_libc));
    let (mut seen, mut twice, mut written) = (Lines::default(), Lines::default(), Lines::default());
    for touched in looking.touched.values() {
        twice.add(&seen.common(&touched.all));
        seen.add(&touched.all);
        written.add(&touched.written);
    }
    Ok(Shared { lines: twice.common(&written), words: looking.words.words() })
}
