//! The paths of a process's threads, found interval by interval on all cores.

use super::follow::{Behind, Followed, Follower, Start};
use super::objects::{Code, Objects};
use super::trail::{Element, Numbers, Pieces, Trail};
use crate::runs::side::Recorded;
use bugnet_events::code::Blocks;
use bugnet_events::stream::{Analysis, run};
use bugnet_format::frame::Interval;
use bugnet_format::types::Tid;
use bugnet_replay::Result;
use bugnet_replay::log::IntervalId;
use bugnet_replay::trace::Chunk;
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

struct Collecting<'a> {
    objects: &'a Objects,
    executed: Executed,
    codes: &'a mut Numbers<Code>,
}

impl Analysis for Collecting<'_> {
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
            let followed = part.follower.follow(self.objects, chunk, *run, blocks);
            let code = || self.objects.code(blocks.get(run.block), 0);
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
            let Some(first) = first.filter(|_| !self.objects.is_stub(block.traced.pc)) else { continue };
            let each = block.instructions.iter().zip(first..);
            part.ran.extend(each.map(|(decoded, count)| (decoded.instruction.ip(), part.before + count)));
        }
        part.numbers = Vec::new();
        part.pieces.finish();
    }

    fn join(&mut self, id: IntervalId, part: Part) {
        let Part { before, codes, pieces, head, follower, ran, .. } = part;
        let tid = id.thread.tid;
        let codes: Arc<Vec<u32>> = Arc::new(codes.all().iter().map(|code| self.codes.of(code)).collect());
        let path = self.executed.paths.entry(tid).or_default();
        if let Some((head, code)) = head {
            let last = self.executed.ends.get(&tid).copied();
            let (element, step) = Behind::before(last, head);
            let mut first = Pieces::default();
            element.into_iter().for_each(|element| first.push(element));
            step.into_iter().for_each(|is_direct| first.push(Element::Step { code, count: 0, is_direct }));
            path.extend(first, codes.clone(), before);
        }
        path.extend(pieces, codes, before);
        self.executed.ends.extend(follower.behind().map(|behind| (tid, behind)));
        for (at, count) in ran {
            let first = self.executed.ran.entry(at).or_insert((tid, count));
            if first.0 == tid {
                first.1 = first.1.min(count);
            }
        }
    }
}

/// Finds out what a process executed, `jobs` intervals at a time. `codes` has the numbers of code in the paths, for several processes alike.
///
/// # Errors
/// An interval cannot be read or replayed.
pub fn collect(
    recorded: &Recorded<'_>,
    codes: &mut Numbers<Code>,
    jobs: NonZeroUsize,
    progress: impl FnMut(usize),
) -> Result<Executed> {
    let Recorded { tools, log, objects, .. } = recorded;
    let intervals: Vec<IntervalId> = recorded.all().collect();
    let mut collecting = Collecting { objects, executed: Executed::default(), codes };
    run(tools, log, &intervals, jobs, &mut collecting, progress)?;
    Ok(collecting.executed)
}
