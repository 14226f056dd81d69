//! Which instructions a process executed, and where each one last: an instruction behind one that faulted counts as executed, too.

use bugnet_events::code::{Block, Blocks};
use bugnet_events::stream::{Analysis, run};
use bugnet_format::frame::Interval;
use bugnet_format::types::{Position, ProcessId};
use bugnet_replay::Result;
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Chunk;
use hashbrown::HashMap;
use std::num::NonZeroUsize;

/// The instructions that a process executed, by their addresses, and where each one last in one of its threads.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn find(tools: &Tools, log: &Log, pid: ProcessId, jobs: NonZeroUsize) -> Result<HashMap<u64, Place>> {
    let mut ids: Vec<IntervalId> = Vec::new();
    for thread in log.threads().filter(|thread: &ThreadId| thread.pid == pid) {
        ids.extend(log.intervals(thread)?.iter().map(|interval| IntervalId { thread, interval: *interval }));
    }
    let mut ran = Ran::default();
    run(tools, log, &ids, jobs, &mut ran, |_| {})?;
    Ok(ran.last)
}

#[derive(Default)]
struct Ran {
    last: HashMap<u64, Place>,
}

/// Where each block was last in an interval, by its number.
#[derive(Default)]
pub struct LastRuns(Vec<Option<u64>>);

impl LastRuns {
    /// More of the interval.
    pub fn chunk(&mut self, chunk: &Chunk<'_>) {
        self.0.resize(chunk.blocks.len(), None);
        for run in chunk.runs {
            self.0[run.block as usize] = Some(chunk.first.0 + u64::from(run.word));
        }
    }

    /// Those that were executed, and the position of the first instruction the last time.
    pub fn all<'a>(&'a self, blocks: &'a Blocks) -> impl Iterator<Item = (&'a Block, u64)> {
        let last = self.0.iter().zip(0..);
        last.filter_map(|(last, number)| Some((blocks.get(number), (*last)?)))
    }
}

/// What was executed in an interval: blocks, and then where each of their instructions was last.
#[derive(Default)]
struct Part {
    blocks: LastRuns,
    instructions: Vec<(u64, u64)>,
}

impl Analysis for Ran {
    type Part = Part;

    fn begin(&self, _id: IntervalId, _interval: &Interval) -> Part {
        Part::default()
    }

    fn chunk(&self, part: &mut Part, chunk: &Chunk<'_>, _blocks: &Blocks) {
        part.blocks.chunk(chunk);
    }

    fn end(&self, part: &mut Part, blocks: &Blocks) {
        for (block, last) in part.blocks.all(blocks) {
            let all = (last..).zip(&block.instructions);
            part.instructions.extend(all.map(|(position, decoded)| (decoded.instruction.ip(), position)));
        }
    }

    fn join(&mut self, id: IntervalId, part: Part) {
        for (ip, position) in part.instructions {
            let place = Place { tid: id.thread.tid, interval: id.interval, position: Position(position) };
            let known = self.last.entry(ip).or_insert(place);
            if (known.interval, known.position) < (place.interval, place.position) {
                *known = place;
            }
        }
    }
}
