//! Forwards through all threads of a process, traced on a thread of its own: what was executed comes in parts, each of one thread, in their
//! recorded order, some ahead of whoever looks at them.
//!
//! Where threads take turns, each is traced further than its turn, and the stretch is handed out in parts: an interval is exact alone.

use crate::code::{Block, Fresh, Learner};
use crate::onward::Behind;
use crate::stretch::Stretch;
use crate::walk::{Happened, Run, epochs_of, runs_of};
use bugnet_format::types::{Epoch, IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::looked::Suspect;
use bugnet_replay::order::{OrderedThread, Threads};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::{Met, Tracer, Turn, Wanted};
use bugnet_replay::{ReplayError, Result};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

/// Instructions that are handed over at once, or a few more.
const AT_ONCE: u64 = 1 << 19;
/// Parts that are.
const MOST_PARTS: usize = 1 << 12;
/// Instructions that are traced of all threads beyond their turns.
const BEYOND: u64 = 1 << 22;
/// The fewest that it is worth to trace of a thread at once.
const LEAST: u64 = 1 << 12;
/// In a turn of so many instructions or more, what a thread accesses again need not be told each time, as no other thread comes in between.
const LONG: u64 = 1 << 15;

/// What a thread executed without another one in between, or a part of it, in one interval.
pub(crate) struct Part {
    pub tid: Tid,
    pub interval: IntervalNo,
    /// The number of its tracer. A thread has one until it ends; then, another thread may have it.
    pub lane: usize,
    /// Blocks of the tracer that are new.
    pub fresh: Fresh,
    /// What records say of the interval, where it is another one than before.
    pub happened: Option<Arc<Happened>>,
    pub stretch: Arc<Stretch>,
    /// Which of the stretch.
    pub positions: Range<u64>,
    /// Accesses in it that may be wrong, in their order, where somebody looks for them.
    pub suspects: Vec<(Suspect, Arc<Block>)>,
}

/// What is there for whoever looks at the parts: an error at the place where it was met.
pub(crate) type Batch = (Vec<Part>, Option<ReplayError>);

/// A tracer, and the interval in which it is.
#[derive(Default)]
struct Lane {
    number: Option<IntervalNo>,
    tracer: Option<Tracer>,
    learner: Learner,
    /// What comes with the next part.
    fresh: Fresh,
    happened: Option<Arc<Happened>>,
    /// What was traced and is not handed out.
    stretch: Option<Arc<Stretch>>,
    /// Memory for what is met in stretches.
    met: Met,
    /// Accesses of that which may be wrong, where the tracer looks at them, and the blocks that it has named.
    suspects: VecDeque<(Suspect, Arc<Block>)>,
    suspect_blocks: Vec<Arc<Block>>,
}

/// Where parts come from and go to.
pub(crate) struct Ahead<'a> {
    pub tools: &'a Tools,
    pub log: &'a Log,
    pub pid: ProcessId,
    pub wanted: &'a Arc<Wanted>,
    /// What the order of the threads has to agree with beside the records.
    pub behind: &'a [Behind],
    pub sender: SyncSender<Batch>,
    /// Stretches of which nobody needs anything any more.
    pub spare: Receiver<Stretch>,
    parts: Vec<Part>,
    /// Instructions in these.
    instructions: u64,
    lanes: Vec<Lane>,
    /// The lanes of threads, and those of nobody.
    threads: HashMap<Tid, usize>,
    free: Vec<usize>,
}

/// Why no more is traced.
enum Over {
    /// Nobody wants more.
    Gone,
    Failed(ReplayError),
}

impl From<ReplayError> for Over {
    fn from(error: ReplayError) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Ahead<'a> {
    pub fn new(
        (tools, log, pid, wanted): (&'a Tools, &'a Log, ProcessId, &'a Arc<Wanted>),
        behind: &'a [Behind],
        (sender, spare): (SyncSender<Batch>, Receiver<Stretch>),
    ) -> Self {
        let (parts, lanes, threads, free) = (Vec::new(), Vec::new(), HashMap::new(), Vec::new());
        Self { tools, log, pid, wanted, behind, sender, spare, parts, instructions: 0, lanes, threads, free }
    }

    /// From a place on to the end of the log, as long as somebody wants it.
    pub fn trace(mut self, from: Place, first: Epoch) {
        let error = match self.all(from, first) {
            Err(Over::Gone) => return,
            Err(Over::Failed(error)) => Some(error),
            Ok(()) => None,
        };
        // Whoever does not want it has gone.
        let _ = self.sender.send((self.parts, error));
    }

    fn all(&mut self, from: Place, first: Epoch) -> std::result::Result<(), Over> {
        for epoch in epochs_of(self.log, self.pid)?.into_iter().filter(|epoch| *epoch >= first) {
            let (threads, mut runs) = runs_of(self.log, self.pid, epoch, self.behind)?;
            if epoch == first {
                cut(&mut runs, &threads, from);
            }
            let beyond = match threads.threads.len() {
                0 | 1 => 0,
                count => (BEYOND / count as u64).max(LEAST),
            };
            let turns = if self.wanted.shaded.is_empty() { HashMap::new() } else { turns(&runs) };
            for run in runs {
                let turns = turns.get(&run.thread).map_or(&[][..], Vec::as_slice);
                self.run(&threads.threads[run.thread], run.counts, (beyond, turns))?;
            }
        }
        Ok(())
    }

    /// Hands over a run of a thread. `ahead`: so many instructions beyond it may be traced; and where turns of the thread begin, if that matters.
    fn run(
        &mut self,
        thread: &OrderedThread,
        counts: Range<u64>,
        ahead: (u64, &[Turn]),
    ) -> std::result::Result<(), Over> {
        let tid = thread.id.tid;
        let number = self.threads.remove(&tid).or_else(|| self.free.pop()).unwrap_or(self.lanes.len());
        if number == self.lanes.len() {
            self.lanes.push(Lane::default());
        }
        let mut lane = std::mem::take(&mut self.lanes[number]);
        let at = self.run_in(thread, counts, ahead, (number, &mut lane))?;
        if at < thread.last() {
            self.threads.insert(tid, number);
        } else {
            // A process that is started anew has to translate anew.
            self.free.push(number);
            lane.number = None;
        }
        self.lanes[number] = lane;
        Ok(())
    }

    /// The same, in the thread's lane. Where the run ends.
    fn run_in(
        &mut self,
        thread: &OrderedThread,
        counts: Range<u64>,
        (beyond, turns): (u64, &[Turn]),
        (own, lane): (usize, &mut Lane),
    ) -> std::result::Result<u64, Over> {
        let mut at = counts.start;
        while at < counts.end {
            let (number, position) = thread.place(at);
            let id = IntervalId { thread: thread.id, interval: number };
            if lane.number != Some(number) {
                lane.enter(self, id, position)?;
            }
            let until = position.0.saturating_add(counts.end - at);
            if lane.stretch.is_none() {
                let known = thread.intervals.iter().find(|interval| interval.number == number);
                let end = known.map_or(until, |known| known.instructions.max(until));
                let ahead = position.0.saturating_add(beyond).min(end).max(until);
                let spare = self.spare.try_recv().unwrap_or_default();
                let turns = between(turns, at..at + (ahead - position.0));
                let turns = turns.map(|turn| Turn { at: turn.at - at + position.0, ..turn }).collect();
                lane.go_on(id, (position, Position(ahead)), turns, spare)?;
            }
            let Some(stretch) = lane.stretch.take() else { break };
            let end = stretch.end().0.min(until);
            if end < stretch.end().0 {
                lane.stretch = Some(stretch.clone());
            }
            at += end - position.0;
            let (fresh, happened) = (std::mem::take(&mut lane.fresh), lane.happened.take());
            let (tid, positions) = (thread.id.tid, position.0..end);
            let suspects = std::iter::from_fn(|| lane.suspects.pop_front_if(|(suspect, _)| suspect.at < end)).collect();
            self.hand_over(Part { tid, interval: number, lane: own, fresh, happened, stretch, positions, suspects })?;
        }
        Ok(at)
    }

    fn hand_over(&mut self, part: Part) -> std::result::Result<(), Over> {
        self.instructions += part.positions.end - part.positions.start;
        self.parts.push(part);
        if self.instructions < AT_ONCE && self.parts.len() < MOST_PARTS {
            return Ok(());
        }
        self.instructions = 0;
        self.sender.send((std::mem::take(&mut self.parts), None)).map_err(|_| Over::Gone)
    }
}

impl Lane {
    /// Goes to a position of another interval.
    fn enter(&mut self, ahead: &Ahead<'_>, id: IntervalId, position: Position) -> Result<()> {
        let interval = ahead.log.interval(id)?;
        let before = self.tracer.take();
        let mut tracer = Tracer::with(ahead.tools, ahead.log, id, &interval, before, ahead.wanted)?;
        while tracer.position() < position && tracer.next(position)?.is_some() {}
        self.tracer = Some(tracer);
        (self.number, self.stretch, self.happened) =
            (Some(id.interval), None, Some(Arc::new(Happened::of(&ahead.log.events_of(id, &interval)))));
        Ok(())
    }

    /// Takes the accesses of what was traced last that may be wrong.
    fn suspect(&mut self) {
        let Some(tracer) = &mut self.tracer else { return };
        let (found, blocks) = tracer.suspects();
        let news = blocks[self.suspect_blocks.len()..].iter();
        self.suspect_blocks.extend(news.map(|block| Arc::new(Block::bare(block.pc, &block.code))));
        let blocks = &self.suspect_blocks;
        self.suspects.extend(found.drain(..).map(|suspect| (suspect, blocks[suspect.block as usize].clone())));
    }

    /// Traces the next stretch from a position to another one, in memory that is there. `turns`: as [`Tracer::take_turns`] wants them.
    fn go_on(
        &mut self,
        id: IntervalId,
        (position, until): (Position, Position),
        turns: Vec<Turn>,
        mut spare: Stretch,
    ) -> Result<()> {
        let none = || ReplayError::OutOfRange(format!("{id} has no instruction {position}"));
        let tracer = self.tracer.as_mut().ok_or_else(none)?;
        tracer.take_turns(turns)?;
        let chunk = tracer.next_unread(until)?.ok_or_else(none)?;
        self.fresh = self.learner.learn(chunk.blocks);
        let mut runs = chunk.read_runs(std::mem::take(&mut self.met));
        spare.fill(&chunk, &mut runs, &self.learner.plans);
        if !runs.is_whole() {
            return Err(tracer.makes_no_sense());
        }
        let mut met = runs.take_met();
        spare.tell(&mut met.told);
        self.met = met;
        self.suspect();
        self.stretch = Some(Arc::new(spare));
        Ok(())
    }
}

/// Where the turns of each thread begin, by counts.
fn turns(runs: &[Run]) -> HashMap<usize, Vec<Turn>> {
    let mut turns: HashMap<usize, Vec<Turn>> = HashMap::new();
    for Run { thread, counts } in runs {
        let each = counts.end - counts.start < LONG;
        turns.entry(*thread).or_default().push(Turn { at: counts.start, each });
    }
    turns
}

/// Those of the turns in which a thread is between two counts: the first one as if it began there.
fn between(turns: &[Turn], counts: Range<u64>) -> impl Iterator<Item = Turn> {
    let first = turns.partition_point(|turn| turn.at <= counts.start).saturating_sub(1);
    let within = turns[first..].iter().take_while(move |turn| turn.at < counts.end);
    within.map(move |turn| Turn { at: turn.at.max(counts.start), each: turn.each })
}

/// Leaves out what comes before a place.
fn cut(runs: &mut Vec<Run>, threads: &Threads, from: Place) {
    let Some(thread) = threads.threads.iter().position(|thread| thread.id.tid == from.tid) else { return };
    let interval = threads.threads[thread].intervals.iter().find(|interval| interval.number == from.interval);
    let Some(at) = interval.map(|interval| interval.before.saturating_add(from.position.0)) else { return };
    if let Some(first) = runs.iter().position(|run| run.thread == thread && run.counts.contains(&at)) {
        runs.drain(..first);
        runs[0].counts.start = at;
    } else {
        // It is at the thread's end.
        let last = runs.iter().rposition(|run| run.thread == thread).map_or(0, |last| last + 1);
        runs.drain(..last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_a_stretch() {
        let run = |thread, counts| Run { thread, counts };
        let long = LONG + 20;
        let runs = [run(0, 0..5), run(1, 0..7), run(0, 5..9), run(0, 9..long), run(1, 7..9), run(0, long..long + 1)];
        let all = turns(&runs);
        let of = |counts| between(&all[&0], counts).map(|turn| (turn.at, turn.each)).collect::<Vec<_>>();
        assert_eq!(of(2..9), [(2, true), (5, true)]);
        assert_eq!(of(9..20), [(9, false)]);
        assert_eq!(of(19..long + 1), [(19, false), (long, true)]);
    }
}
