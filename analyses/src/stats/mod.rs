//! How much a recorded program executed, loaded and stored, interval by interval, and which functions and lines executed most: by themselves, and functions
//! of the program itself with what they called.

mod called;
mod display;
mod hottest;
mod html;
mod own;

use crate::slice::{Ended, Share, Slice};
use crate::touched::Touched;
use bugnet_events::code::Blocks;
use bugnet_events::stream::{Analysis, run_some};
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;
use bugnet_format::types::ProcessId;
use bugnet_replay::log::{IntervalId, Log, Selection};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Chunk;
use bugnet_replay::work::Over;
use bugnet_replay::{ReplayError, Result};
use called::{Called, Walk};
use hottest::Executed;
use own::Own;
use serde::Serialize;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;

pub use display::Report;
pub use hottest::{Calling, Hot, Hottest};
pub use html::html;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Instructions executed.
    pub instructions: u64,
    /// Times that memory was read; once for each operand of an instruction.
    pub loads: u64,
    /// Bytes that were read.
    pub loaded: u64,
    /// Times that memory was written.
    pub stores: u64,
    /// Bytes that were written.
    pub stored: u64,
    /// First loads: `LOAD` records, without which a load's value follows from those before.
    pub first_loads: u64,
    /// Their bytes.
    pub first_loaded: u64,
    /// Lines of 64 bytes of which something was read or written. Of several intervals, the sum: a line counts in each.
    pub lines: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        let Self { instructions, loads, loaded, stores, stored, first_loads, first_loaded, lines } = other;
        self.instructions += instructions;
        self.loads += loads;
        self.loaded += loaded;
        self.stores += stores;
        self.stored += stored;
        self.first_loads += first_loads;
        self.first_loaded += first_loaded;
        self.lines += lines;
    }
}

/// Counts of one interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Which one.
    #[serde(flatten)]
    pub id: IntervalId,
    /// What was counted in it.
    #[serde(flatten)]
    pub counts: Counts,
    /// How much of that is in the slice; none if no slice of its process was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Share>,
}

/// The slice of which the intervals' parts are known.
#[derive(Debug, Serialize)]
pub struct Sliced {
    /// Of what, in words.
    pub asked: String,
    /// With addresses and decisions.
    pub full: bool,
    /// Of all intervals that were selected.
    #[serde(flatten)]
    pub share: Share,
    /// Why it was not followed to its end, if so: there may be more in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
}

/// How much was counted, where not all was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// Why it was no more.
    pub over: Over,
    /// Intervals that were counted: of the threads one after the other, the first ones.
    pub intervals: usize,
    /// Those that were selected.
    pub of: usize,
}

/// What was found out.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// Interval by interval.
    pub intervals: Vec<Row>,
    /// All together.
    pub total: Counts,
    /// The slice's part, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Sliced>,
    /// What executed most, of all processes.
    pub hottest: Hottest,
    /// How much was counted, if not all: nothing is known of what else was selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// What was found in an interval.
pub struct Part {
    pid: ProcessId,
    counts: Counts,
    /// Of 64 bytes.
    lines: Touched<6>,
    /// By the number of the block, how often it ran.
    runs: Vec<u64>,
    /// By address, how often the instruction there was executed.
    executed: HashMap<u64, u64>,
    walk: Walk,
}

/// What is known of a process.
struct Known {
    own: Own,
    executed: HashMap<u64, u64>,
    called: Called,
}

struct Counting {
    rows: Vec<Row>,
    processes: BTreeMap<ProcessId, Known>,
}

/// `LOAD` records of an interval, and their bytes.
fn first_loads(interval: &Interval) -> (u64, u64) {
    let loads = interval.records().flatten().filter_map(|placed| match placed.record {
        Record::Load { value, .. } => Some(value.len() as u64),
        _ => None,
    });
    loads.fold((0, 0), |(count, bytes), len| (count + 1, bytes + len))
}

impl Analysis for Counting {
    type Part = Part;

    fn begin(&self, id: IntervalId, interval: &Interval) -> Part {
        let (first_loads, first_loaded) = first_loads(interval);
        let counts = Counts { first_loads, first_loaded, ..Counts::default() };
        let (lines, executed, walk) = (Touched::default(), HashMap::new(), Walk::default());
        Part { pid: id.thread.pid, counts, lines, runs: Vec::new(), executed, walk }
    }

    fn chunk(&self, part: &mut Part, chunk: &Chunk<'_>, blocks: &Blocks) {
        let Part { pid, counts, lines, runs, walk, .. } = part;
        walk.go_through(&self.processes[pid].own, chunk, blocks);
        counts.instructions += u64::from(chunk.len);
        runs.resize(chunk.blocks.len(), 0);
        for run in chunk.runs {
            runs[run.block as usize] += 1;
            for (addr, len) in blocks.accessed(chunk, *run) {
                lines.touch(addr, len.into());
            }
        }
        for odd in &chunk.odd {
            let (times, bytes) = match odd.writes {
                true => (&mut counts.stores, &mut counts.stored),
                false => (&mut counts.loads, &mut counts.loaded),
            };
            *times += 1;
            *bytes += odd.len;
            lines.touch(odd.addr, odd.len);
        }
    }

    fn end(&self, part: &mut Part, blocks: &Blocks) {
        for (number, times) in part.runs.drain(..).enumerate().filter(|(_, times)| *times > 0) {
            let block = blocks.get(number as u32);
            let ([loads, stores], [loaded, stored]) = (block.accesses, block.bytes);
            part.counts.loads += times * loads;
            part.counts.loaded += times * loaded;
            part.counts.stores += times * stores;
            part.counts.stored += times * stored;
            for decoded in &block.instructions {
                *part.executed.entry(decoded.instruction.ip()).or_default() += times;
            }
        }
        part.counts.lines = part.lines.count();
        part.walk.finish();
    }

    fn join(&mut self, id: IntervalId, Part { counts, executed, walk, .. }: Part) {
        let Some(process) = self.processes.get_mut(&id.thread.pid) else { return };
        executed.into_iter().for_each(|(at, times)| *process.executed.entry(at).or_default() += times);
        let is_next = |last: &Row| last.id.thread == id.thread && last.id.interval.0 + 1 == id.interval.0;
        if !self.rows.last().is_some_and(is_next) {
            process.called.begin_anew();
        }
        process.called.join(walk);
        self.rows.push(Row { id, counts, slice: None });
    }
}

impl Stats {
    /// Says of each interval of a process how much of it is in a slice, which was made with [`crate::slice::Options::shares`].
    pub fn add_slice(&mut self, pid: ProcessId, slice: &Slice, asked: &str, full: bool) {
        let mut all = Share::default();
        for row in self.intervals.iter_mut().filter(|row| row.id.thread.pid == pid) {
            let share = slice.shares.get(&(row.id.thread.tid, row.id.interval)).copied().unwrap_or_default();
            all.add(share);
            row.slice = Some(share);
        }
        let over = if let Ended::Over(over) = slice.ended { Some(over) } else { None };
        self.slice = Some(Sliced { asked: asked.to_owned(), full, share: all, over });
    }
}

/// Counts what was executed in the selected intervals, `jobs` at a time. `progress` is called with how many are done, and how many there
/// are. Where the work is over before its end, what was counted by then is told.
///
/// # Errors
/// Nothing is selected, an interval cannot be replayed, or the work is over before anything was counted.
pub fn stats(
    tools: &Tools,
    log: &Log,
    selection: &Selection,
    jobs: NonZeroUsize,
    mut progress: impl FnMut(usize, usize),
) -> Result<Stats> {
    let intervals = selection.intervals_of(log)?;
    let mut symbols = BTreeMap::new();
    let mut counting = Counting { rows: Vec::new(), processes: BTreeMap::new() };
    for pid in intervals.iter().map(|id| id.thread.pid) {
        if let Entry::Vacant(entry) = counting.processes.entry(pid) {
            let mut names = Symbolizer::new(log, pid)?;
            let own = Own::of(log, pid, &mut names)?;
            entry.insert(Known { own, executed: HashMap::new(), called: Called::default() });
            symbols.insert(pid, names);
        }
    }
    progress(0, intervals.len());
    let over = run_some(tools, log, &intervals, jobs, &mut counting, |done| progress(done, intervals.len()))?;
    let counted = counting.rows.len();
    let cut = match over {
        Some(over) if counted == 0 => return Err(ReplayError::Over(over)),
        over => over.map(|over| Cut { over, intervals: counted, of: intervals.len() }),
    };
    let mut total = Counts::default();
    counting.rows.iter().for_each(|row| total.add(&row.counts));
    let processes = counting.processes.iter_mut().zip(symbols.values_mut());
    let executed = processes.map(|((_, Known { own, executed, called }), symbols)| {
        let (executed, called) = (std::mem::take(executed), std::mem::take(called));
        Executed { own, symbols, executed, called }
    });
    let hottest = Hottest::of(executed.collect(), total.instructions);
    Ok(Stats { intervals: counting.rows, total, slice: None, hottest, cut })
}
