//! Memory that something else than the process's instructions and the calls that one knows has changed: the kernel at a moment of its own, or
//! another process.
//!
//! On the way back, a wanted byte is seen to have a value where a `LOAD` record has it. If the store that one comes to then has left another
//! one there, that store is not where the value comes from. What stores leave is not traced, as there is much of it and nearly always it
//! is the same; so what was seen is put down with the store ([`Stored`]), and compared behind all the walk, by replaying each interval once more
//! ([`Comparison::compare`]).

use super::graph::Origin;
use super::live::Seen;
use bugnet_format::types::{Addr, IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::Result;
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::memory::Memory;
use bugnet_replay::session::{Session, Stop};
use bugnet_replay::tools::Tools;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// Most bytes that are read at once.
const PIECE: u64 = 1 << 16;

/// A byte that an instruction has stored, as far as one knows, and that was later seen to have a value.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Which byte.
    pub addr: u64,
    /// What it was seen to have.
    pub seen: Seen,
    /// The instruction that stored it.
    pub place: Place,
}

/// Bytes that were changed by something else: where they were first seen so, and behind which place that happened.
#[derive(Clone, Debug, Default)]
pub struct Changes(HashMap<(Place, u64), Place>);

impl Changes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte has another value at a place than behind one before it.
    pub fn add(&mut self, addr: u64, seen: Place, after: Place) {
        self.0.insert((seen, addr), after);
    }

    /// Those of `len` bytes that have another value at a place than something has left there: first ones, how many, and from where.
    pub fn at(&self, place: Place, addr: u64, len: u64) -> Vec<(u64, u64, Origin)> {
        let mut found: Vec<(u64, u64, Place)> = Vec::new();
        if self.is_empty() {
            return Vec::new();
        }
        for at in addr..addr.saturating_add(len) {
            let Some(after) = self.0.get(&(place, at)) else { continue };
            match found.last_mut() {
                Some((first, len, same)) if *first + *len == at && same == after => *len += 1,
                _ => found.push((at, 1, *after)),
            }
        }
        found.into_iter().map(|(addr, len, after)| (addr, len, Origin::Elsewhere { after })).collect()
    }
}

/// The interval of a thread, and the position behind the last instruction that it executed there without another thread's in between, of those
/// to which one has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The thread.
    pub tid: Tid,
    /// The interval.
    pub interval: IntervalNo,
    /// Behind the last instruction.
    pub end: Position,
    /// The first one to which one has come.
    pub start: Position,
}

/// What was seen of stores, by the interval in which they are and the positions at which memory still has what they left.
#[derive(Default)]
pub struct Comparison(BTreeMap<(Tid, IntervalNo), BTreeMap<Position, Vec<Stored>>>);

impl Comparison {
    /// To be compared, too. The store is in a thread's present run.
    pub fn add(&mut self, stored: Stored, run: Run) {
        let Stored { seen, place, .. } = stored;
        // Other threads store nothing there before it is seen, and this one does not either. If it sees that itself before the run's end, it has what
        // was seen there.
        let is_seen_within =
            seen.place.tid == place.tid && seen.place.interval == place.interval && seen.place.position < run.end;
        let at = if is_seen_within { Position(place.position.0 + 1) } else { run.end };
        self.0.entry((place.tid, place.interval)).or_default().entry(at).or_default().push(stored);
    }

    /// Compares all, and says what has changed in between.
    ///
    /// # Errors
    /// An interval cannot be read or replayed.
    pub fn compare(self, tools: &Tools, log: &Log, pid: ProcessId, changes: &mut Changes) -> Result<()> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        let jobs = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let each = all.len().div_ceil(jobs).max(1);
        let parts = all.chunks_mut(each);
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = parts.map(|part| scope.spawn(move || compare_part(tools, log, pid, part))).collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.collect::<Result<Vec<_>>>()
        })?;
        for Stored { addr, seen, place } in found.into_iter().flatten() {
            changes.add(addr, seen.place, place);
        }
        Ok(())
    }
}

type Part = [((Tid, IntervalNo), BTreeMap<Position, Vec<Stored>>)];

fn compare_part(tools: &Tools, log: &Log, pid: ProcessId, part: &mut Part) -> Result<Vec<Stored>> {
    let (mut session, mut found): (Option<Session>, Vec<Stored>) = (None, Vec::new());
    for ((tid, interval), stops) in part {
        let id = IntervalId { thread: ThreadId { pid, tid: *tid }, interval: *interval };
        let mut next = Session::start_behind(session.take(), tools, log, id, &log.interval(id)?)?;
        for (at, stored) in stops.iter_mut() {
            if let Stop::Divergence { what, .. } = next.run_to(*at)? {
                return Err(next.diverged(what));
            }
            stored.sort_unstable_by_key(|stored| stored.addr);
            let near = |a: &Stored, b: &Stored| b.addr - a.addr <= 64;
            for near in stored.chunk_by(near) {
                for some in near.chunk_by(|a, b| a.addr / PIECE == b.addr / PIECE) {
                    let (first, last) = (some[0].addr, some[some.len() - 1].addr);
                    let bytes = next.read_memory(Addr(first), last - first + 1)?;
                    let differs = |stored: &&Stored| {
                        bytes.get((stored.addr - first) as usize).is_some_and(|byte| *byte != stored.seen.value)
                    };
                    found.extend(some.iter().filter(differs));
                }
            }
        }
        session = Some(next);
    }
    Ok(found)
}
