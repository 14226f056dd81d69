//! The paths of the threads of two processes, found interval by interval on all cores.

use super::follow::{Behind, Followed, Follower, Start};
use super::objects::{Code, Objects};
use super::trail::{Element, Numbers, Pieces, Trail};
use crate::runs::side::Recorded;
use bugnet_events::code::Blocks;
use bugnet_events::stream::{Analysis, Worker};
use bugnet_format::frame::Interval;
use bugnet_format::types::Tid;
use bugnet_replay::log::IntervalId;
use bugnet_replay::trace::Chunk;
use bugnet_replay::work::Over;
use bugnet_replay::{ReplayError, Result, pool};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// When a thread did something first: the thread, and how many instructions it had executed.
pub type When = (Tid, u64);

/// What a process executed.
#[derive(Default)]
pub struct Executed {
    /// The path of each thread.
    pub paths: BTreeMap<Tid, Trail>,
    /// Each instruction that was executed, by its address, with the first time of one of the threads. Without stubs that lead to functions of
    /// other files.
    pub ran: BTreeMap<u64, When>,
    /// The last block of each thread so far.
    ends: BTreeMap<Tid, Behind>,
}

/// What is found in an interval.
pub struct Part {
    before: u64,
    codes: Numbers<Code>,
    /// By the number of the block.
    numbers: Vec<Option<u32>>,
    follower: Follower,
    pieces: Pieces,
    /// Its first block, and which code it is: whether a step begins there depends on what came before.
    head: Option<(Start, u32)>,
    /// By the number of the block, when it ran first.
    first: Vec<Option<u64>>,
    ran: Vec<(u64, u64)>,
}

struct Looking<'a>(&'a Objects);

impl Analysis for Looking<'_> {
    type Part = Part;

    fn begin(&self, _id: IntervalId, interval: &Interval) -> Part {
        Part {
            before: interval.header.instructions_before,
            codes: Numbers::default(),
            numbers: Vec::new(),
            follower: Follower::default(),
            pieces: Pieces::default(),
            head: None,
            first: Vec::new(),
            ran: Vec::new(),
        }
    }

    fn chunk(&self, part: &mut Part, chunk: &Chunk<'_>, blocks: &Blocks) {
        part.numbers.resize(chunk.blocks.len(), None);
        part.first.resize(chunk.blocks.len(), None);
        for run in chunk.runs {
            let number = run.block as usize;
            let count = chunk.first.0 + u64::from(run.word);
            part.first[number].get_or_insert(count);
            let followed = part.follower.follow(self.0, chunk, *run, blocks);
            let code = || self.0.code(blocks.get(run.block), 0);
            let mut code = || *part.numbers[number].get_or_insert_with(|| part.codes.of(&code()));
            match followed {
                Followed::First(start) => part.head = Some((start, if start.is_own { code() } else { 0 })),
                Followed::Behind { element, step } => {
                    element.into_iter().for_each(|element| part.pieces.push(element));
                    if let Some(is_direct) = step {
                        part.pieces.push(Element::Step { code: code(), count, is_direct });
                    }
                }
            }
        }
    }

    fn end(&self, part: &mut Part, blocks: &Blocks) {
        for (number, first) in part.first.iter().enumerate() {
            let block = blocks.get(number as u32);
            let Some(first) = first.filter(|_| !self.0.is_stub(block.traced.pc)) else { continue };
            let each = block.instructions.iter().zip(first..);
            part.ran.extend(each.map(|(decoded, count)| (decoded.instruction.ip(), part.before + count)));
        }
        part.numbers = Vec::new();
        part.pieces.finish();
    }

    fn join(&mut self, _: IntervalId, _: Part) {}
}

impl Executed {
    /// Adds what the next interval of a thread has; `all` has the numbers of code.
    fn join(&mut self, tid: Tid, part: Part, all: &mut Numbers<Code>) {
        let Part { before, codes, pieces, head, follower, ran, .. } = part;
        let codes: Arc<Vec<u32>> = Arc::new(codes.all().iter().map(|code| all.of(code)).collect());
        let path = self.paths.entry(tid).or_default();
        if let Some((head, code)) = head {
            let last = self.ends.get(&tid).copied();
            let (element, step) = Behind::before(last, head);
            let mut first = Pieces::default();
            element.into_iter().for_each(|element| first.push(element));
            step.into_iter().for_each(|is_direct| first.push(Element::Step { code, count: 0, is_direct }));
            path.extend(first, codes.clone(), before);
        }
        path.extend(pieces, codes, before);
        self.ends.extend(follower.behind().map(|behind| (tid, behind)));
        for (at, count) in ran {
            let first = self.ran.entry(at).or_insert((tid, count));
            if first.0 == tid {
                first.1 = first.1.min(count);
            }
        }
    }
}

/// What two processes executed, as far as it was found out.
pub struct Collected {
    /// Of each.
    pub executed: [Executed; 2],
    /// Intervals of each that were looked at.
    pub intervals: [usize; 2],
    /// Why these are not all, if so.
    pub over: Option<Over>,
}

/// An interval of one of the processes, by their number, and by its own.
type Which = (usize, usize);

/// The intervals of both in the order in which they are looked at: what both did first comes first, so that what is known in between is of both.
fn in_turn(all: &[Vec<IntervalId>; 2]) -> Vec<Which> {
    let which = |side: usize| (0..all[side].len()).map(move |number| (side, number));
    let mut order: Vec<Which> = which(0).chain(which(1)).collect();
    order.sort_by_key(|(side, number)| all[*side][*number].interval);
    order
}

/// Finds out what two processes executed, `jobs` intervals at a time, as far as there is time. `codes` has the numbers of code in the paths, for both alike.
///
/// # Errors
/// An interval cannot be read or replayed.
pub fn collect(recorded: [&Recorded<'_>; 2], codes: &mut Numbers<Code>, jobs: NonZeroUsize) -> Result<Collected> {
    let all = recorded.map(|one| one.all().collect::<Vec<IntervalId>>());
    let looking = recorded.map(|one| Looking(&one.objects));
    let mut parts: Vec<(Which, Part)> = Vec::new();
    let look = |workers: &mut [Worker; 2], (side, number): &Which| -> Result<Part> {
        let (id, Recorded { tools, log, .. }) = (all[*side][*number], recorded[*side]);
        workers[*side].run((tools, log), (id, &log.interval(id)?), &looking[*side])
    };
    let looked = pool::in_order(&in_turn(&all), jobs, look, |which, part| {
        parts.push((*which, part?));
        Ok(())
    });
    let over = match looked {
        Err(ReplayError::Over(over)) => Some(over),
        looked => looked.map(|()| None)?,
    };
    // Those of a thread come one after the other.
    parts.sort_by_key(|(which, _)| *which);
    let (mut executed, mut intervals) = ([Executed::default(), Executed::default()], [0; 2]);
    for ((side, number), part) in parts {
        executed[side].join(all[side][number].thread.tid, part, codes);
        intervals[side] += 1;
    }
    Ok(Collected { executed, intervals, over })
}
