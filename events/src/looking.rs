//! Forwards through what threads executed, with a look at each access whether it may be wrong: by replay processes of their own, in the code cache
//! ([`bugnet_replay::looked`]), so that whoever is told of calls and returns need not be told of accesses.
//!
//! What threads executed is traced ahead in outline. A *shader* goes through that first and says from where on which memory must not be accessed. Then
//! each thread's accesses are looked at as far as that goes, and what may be wrong comes with the outline.

use crate::ahead::{Ahead, Batch, Part};
use crate::code::Block;
use crate::onward::{Present, look};
use crate::walk::Visitor;
use bugnet_format::types::{IntervalNo, Position, ProcessId};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::looked::{Looked, Looker, Shade};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use bugnet_replay::{ReplayError, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

/// Most changes that are kept for threads which do not run.
const MOST_KEPT: usize = 1 << 20;

/// Memory that must not be accessed from a moment on, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// From which of the thread's instructions on, for itself: one that it has come to, or an earlier one, if it does not matter what it
    /// accesses meanwhile. These ascend.
    pub from: Position,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it must not be accessed.
    pub wrong: bool,
}

/// Who says what must not be accessed. It breaks off where the program does what makes a look at its accesses tell too little.
pub trait Shader: Visitor {
    /// What has changed by what the thread executed that was visited last.
    fn take(&mut self) -> Vec<Change>;
}

/// Whether everything was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// It was.
    All,
    /// This machine cannot, or not for this program: what was visited is of no use.
    None,
}

/// Goes on from a place to the end of the log, or until the visitor ends it: [`crate::onward::walk_with`] in outline, with
/// [`Visitor::suspects`].
///
/// # Errors
/// As there.
pub fn walk_looking(
    (tools, log, pid): (&Tools, &Log, ProcessId),
    from: Place,
    wanted: &Arc<Wanted>,
    looked: Looked,
    shader: impl Shader + Send,
    visitor: &mut impl Visitor,
) -> Result<Looks> {
    let start = IntervalId { thread: ThreadId { pid, tid: from.tid }, interval: from.interval };
    let first = log.header(start)?.epoch;
    // Of each kind, one is looked at, and one waits.
    let (sender, outlines) = sync_channel(0);
    let (looked_at, batches) = sync_channel(1);
    let (used, spare) = channel();
    let refused = AtomicBool::new(false);
    let spawn = |what: &str| std::thread::Builder::new().name(what.into());
    std::thread::scope(|scope| {
        let ahead = Ahead::new((tools, log, pid, wanted), &[], (sender, spare));
        spawn("ahead")
            .spawn_scoped(scope, move || ahead.trace(from, first))
            .map_err(ReplayError::system("start a thread"))?;
        let looking = Looking {
            tools,
            log,
            pid,
            looked,
            shader,
            refused: &refused,
            lanes: Vec::new(),
            presents: Vec::new(),
            wrong: Ranges::default(),
            changes: Vec::new(),
        };
        spawn("looking")
            .spawn_scoped(scope, move || looking.run(outlines, &looked_at))
            .map_err(ReplayError::system("start a thread"))?;
        look(batches, &used, visitor)
    })?;
    Ok(if refused.into_inner() { Looks::None } else { Looks::All })
}

/// Ranges of memory that do not meet.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn remove(&mut self, range: &Range<u64>) {
        while let Some((start, end)) = self.0.range(..range.end).next_back().map(|(start, end)| (*start, *end))
            && end > range.start
        {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, range.start);
            }
            if end > range.end {
                self.0.insert(range.end, end);
            }
        }
    }

    fn change(&mut self, change: &Change) {
        let range = change.addr..change.addr.saturating_add(change.len);
        self.remove(&range);
        if change.wrong {
            let before = self.0.range(..=range.start).next_back().filter(|(_, end)| **end == range.start);
            let start = before.map_or(range.start, |(start, _)| *start);
            let end = self.0.remove(&range.end).unwrap_or(range.end);
            self.0.insert(start, end);
        }
    }
}

/// Where a lane's replay process is, and what it is to do.
#[derive(Default)]
struct Lane {
    looker: Option<Looker>,
    interval: Option<IntervalNo>,
    /// How many of the changes it knows.
    seen: usize,
    shades: Vec<Shade>,
    /// Where it is to go, and the parts up to there: indices in the batch.
    until: Position,
    parts: Vec<usize>,
    /// Blocks that the process has told.
    blocks: Vec<Arc<Block>>,
}

struct Looking<'a, S> {
    tools: &'a Tools,
    log: &'a Log,
    pid: ProcessId,
    looked: Looked,
    shader: S,
    refused: &'a AtomicBool,
    lanes: Vec<Lane>,
    presents: Vec<Present>,
    /// What is wrong where the shader is.
    wrong: Ranges,
    /// What has changed, as far as there is anybody who does not know it.
    changes: Vec<Change>,
}

/// Why nothing more is looked at.
enum Over {
    Failed(ReplayError),
    /// A process cannot, or the shader has broken off.
    Refused,
}

impl From<ReplayError> for Over {
    fn from(error: ReplayError) -> Self {
        Self::Failed(error)
    }
}

impl<S: Shader> Looking<'_, S> {
    fn run(mut self, outlines: Receiver<Batch>, to: &SyncSender<Batch>) {
        for (mut parts, error) in outlines {
            let error = match self.batch(&mut parts) {
                Ok(()) => error,
                Err(Over::Failed(failed)) => Some(failed),
                Err(Over::Refused) => {
                    self.refused.store(true, Ordering::Relaxed);
                    return;
                }
            };
            let is_last = error.is_some();
            if to.send((parts, error)).is_err() || is_last {
                return;
            }
        }
    }

    fn batch(&mut self, parts: &mut [Part]) -> std::result::Result<(), Over> {
        for index in 0..parts.len() {
            self.part(parts, index)?;
            let present = Present::of(&mut self.presents, &parts[index]);
            if present.visit(&parts[index], &mut self.shader).is_break() {
                return Err(Over::Refused);
            }
            let start = parts[index].positions.start;
            let news = self.shader.take();
            news.iter().for_each(|change| self.wrong.change(change));
            let lane = &mut self.lanes[parts[index].lane];
            let mut last = lane.shades.last().map_or(start, |shade| shade.at.max(start));
            for Change { from, addr, len, wrong } in &news {
                last = last.max(from.0);
                lane.shades.push(Shade { at: last, addr: *addr, len: *len, wrong: *wrong });
            }
            if self.lanes.len() > 1 {
                self.changes.extend(news);
                self.lanes[parts[index].lane].seen = self.changes.len();
            }
        }
        for lane in 0..self.lanes.len() {
            self.flush(lane, parts)?;
        }
        self.forget();
        Ok(())
    }

    /// A part begins: its lane's process is to go to its end.
    fn part(&mut self, parts: &mut [Part], index: usize) -> std::result::Result<(), Over> {
        let Part { tid, interval, lane: number, ref positions, .. } = parts[index];
        let positions = positions.clone();
        if self.lanes.len() <= number {
            self.lanes.resize_with(number + 1, Lane::default);
        }
        if self.lanes[number].interval != Some(interval) || parts[index].happened.is_some() {
            self.flush(number, parts)?;
            let id = IntervalId { thread: ThreadId { pid: self.pid, tid }, interval };
            self.enter(number, id, Position(positions.start))?;
        }
        let (known, lane) = (self.changes.len(), &mut self.lanes[number]);
        for Change { addr, len, wrong, .. } in &self.changes[lane.seen.min(known)..] {
            lane.shades.push(Shade { at: positions.start, addr: *addr, len: *len, wrong: *wrong });
        }
        lane.seen = known;
        lane.until = Position(positions.end);
        lane.parts.push(index);
        Ok(())
    }

    /// The process of a lane goes over to another interval, up to a position.
    fn enter(&mut self, number: usize, id: IntervalId, position: Position) -> std::result::Result<(), Over> {
        let Self { tools, log, looked, lanes, wrong, changes, .. } = self;
        let interval = log.interval(id)?;
        let lane = &mut lanes[number];
        let before = lane.looker.take();
        let started = Looker::start(tools, log, id, &interval, before, looked)?;
        let (mut looker, is_new) = started.ok_or(Over::Refused)?;
        looker.run_to(position)?;
        if is_new {
            lane.blocks.clear();
            let all = wrong.0.iter().map(|(start, end)| Shade {
                at: position.0,
                addr: *start,
                len: end - start,
                wrong: true,
            });
            lane.shades = all.collect();
            lane.seen = changes.len();
        }
        (lane.looker, lane.interval) = (Some(looker), Some(id.interval));
        Ok(())
    }

    /// Lets the process of a lane do what it is to do, and hands out what it has found.
    fn flush(&mut self, number: usize, parts: &mut [Part]) -> std::result::Result<(), Over> {
        let lane = &mut self.lanes[number];
        if lane.parts.is_empty() {
            return Ok(());
        }
        let shades = std::mem::take(&mut lane.shades);
        let (Some(looker), until) = (&mut lane.looker, lane.until) else { return Ok(()) };
        if !looker.shade(&shades)? {
            return Err(Over::Refused);
        }
        let mut found = looker.run_to(until)?.into_iter().peekable();
        let news = looker.blocks()[lane.blocks.len()..].iter();
        lane.blocks.extend(news.map(|block| Arc::new(Block::bare(block.pc, &block.code))));
        for index in lane.parts.drain(..) {
            let part = &mut parts[index];
            while let Some(suspect) = found.next_if(|suspect| suspect.at < part.positions.end) {
                part.suspects.push((suspect, lane.blocks[suspect.block as usize].clone()));
            }
        }
        Ok(())
    }

    /// Forgets changes that all know. Whoever is too far behind begins anew.
    fn forget(&mut self) {
        let least = self.lanes.iter().filter(|lane| lane.looker.is_some()).map(|lane| lane.seen).min();
        let mut least = least.unwrap_or(self.changes.len());
        if self.changes.len() - least > MOST_KEPT {
            for lane in self.lanes.iter_mut().filter(|lane| lane.seen == least) {
                (lane.looker, lane.interval) = (None, None);
            }
            let others = self.lanes.iter().filter(|lane| lane.looker.is_some()).map(|lane| lane.seen);
            least = others.min().unwrap_or(self.changes.len());
        }
        self.changes.drain(..least);
        self.lanes.iter_mut().for_each(|lane| lane.seen = lane.seen.saturating_sub(least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_change() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let (mut ranges, mut all) = (Ranges::default(), [false; 64]);
            for _ in 0..random.usize(1..8) {
                let (addr, len, wrong) = (random.u64(0..40), random.u64(1..20), random.bool());
                ranges.change(&Change { from: Position(1), addr, len, wrong });
                all[addr as usize..(addr + len) as usize].fill(wrong);
            }
            let mut known = [false; 64];
            ranges.0.iter().for_each(|(start, end)| known[*start as usize..*end as usize].fill(true));
            assert_eq!(known, all);
            assert!(ranges.0.iter().all(|(start, end)| start < end));
        }
    }
}
