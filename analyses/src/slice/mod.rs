//! Dynamic slices: which of all that was executed has made a value what it is (Zhang, Gupta and Zhang, *Precise Dynamic Slicing
//! Algorithms*; thin slices: Sridharan, Fink and Bodík; BugNet, section 6).
//!
//! From the moment at which one asks, the walk goes back through what all threads executed ([`bugnet_events::walk`]). What is wanted is a
//! set of parts of registers and bytes of memory (`live`). An instruction that writes one of them is in the slice: what it wrote is
//! wanted no more, and what it computed that from is (`back`). It ends where nothing is wanted any more: everything came from
//! constants, or from [outside](Origin).
//!
//! A thin slice follows values alone. A full one follows the addresses from which they were loaded, and the decisions by which the
//! instructions were executed (`frames`, `branches`). The stack pointer and segment bases are not followed where they only say where in memory
//! something is, since nearly everything would be in the slice.

mod ask;
mod back;
mod branches;
mod calls;
mod display;
mod elsewhere;
mod forward;
mod frames;
mod given;
mod graph;
mod handled;
mod html;
mod live;
mod loads;
mod origins;
mod output;
mod report;
mod signals;
mod thrown;
mod walker;
mod wants;

pub use ask::{Asked, Named, Question, ask};
pub use display::Shown;
pub use forward::forward;
pub use graph::{ASKED, Dependence, Graph, Instance, Node, Origin, Source, What};
pub use handled::{Fault, accessed, first as first_fault};
pub use html::{PAGE_LINES, html};
pub use origins::Outside;
pub use report::{Counts, Detail, Line, Report, Value, report};

use bugnet_events::atoms::Atoms;
use bugnet_format::types::{IntervalNo, ProcessId, Tid};
use bugnet_replay::Result;
use bugnet_replay::cursor::Place;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_replay::work::Over;
use elsewhere::Changes;
use hashbrown::HashSet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;
use walker::Walker;

/// What one asks about: values as they are before the instruction at a place.
#[derive(Clone, Debug)]
pub struct Criterion {
    /// The place.
    pub place: Place,
    /// Parts of the thread's registers.
    pub atoms: Atoms,
    /// Bytes of memory: first ones, and how many.
    pub memory: Vec<(u64, u64)>,
    /// Why the thread called the function that is to return there, or has not returned there: the last such call.
    pub call: Option<u64>,
    /// Why the thread came to the place at all: the address of the instruction there.
    pub here: Option<u64>,
}

/// How far to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// What says where in memory values are, too.
    pub addresses: bool,
    /// What decides that instructions are executed, too.
    pub control: bool,
    /// The dynamic linker's work, and what functions keep of registers for their callers, is given: nobody asks from what that follows, and why it was done.
    pub given: bool,
    /// What is loaded from memory that nobody can write to follows from the address: which entry of a table it is, or which text.
    pub tables: bool,
    /// No more steps than this.
    pub depth: Option<u32>,
    /// Not before this place, in its thread.
    pub until: Option<Place>,
    /// Only what this thread did.
    pub thread: Option<Tid>,
    /// No more executions of instructions in the slice than about so many.
    pub most: Option<u64>,
    /// Keep so many executions of instructions, the last ones.
    pub keep: usize,
    /// Say how much of each interval is in the slice.
    pub shares: bool,
    /// Count the bytes of memory that are accessed. Then, the search goes on to `until` even if all is found.
    pub touched: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: false,
            control: false,
            given: false,
            tables: true,
            depth: None,
            until: None,
            thread: None,
            most: None,
            keep: 1 << 20,
            shares: false,
            touched: false,
        }
    }
}

/// What was found.
pub struct Slice {
    /// Instructions and sources, and how they depend on each other.
    pub graph: Graph,
    /// Instructions of all threads through which the search went.
    pub walked: u64,
    /// Where it ended.
    pub ended: Ended,
    /// System calls, by place and number, of which nobody knows what memory they wrote, while some was wanted: they count as if they had
    /// written none. The last ones.
    pub doubtful: Vec<(Place, u64)>,
    /// How many there are of these.
    pub doubts: u64,
    /// Bytes of memory that instructions accessed, if these were counted.
    pub touched: Option<Touched>,
    /// Of each interval that has any of the slice, how much; empty if that is not asked for.
    pub shares: BTreeMap<(Tid, IntervalNo), Share>,
    /// Pages of memory, by their numbers, of which values were taken that a store, or nothing, had put there.
    pub pages: HashSet<u64>,
}

/// How much of an interval is in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Instructions executed for the slice.
    pub instructions: u64,
    /// Lines of 64 bytes of which these read or wrote something.
    pub lines: u64,
}

impl Share {
    /// And that of another interval.
    pub fn add(&mut self, other: Self) {
        let Self { instructions, lines } = other;
        self.instructions += instructions;
        self.lines += lines;
    }
}

/// Bytes of memory that instructions accessed, each once; system calls do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Touched {
    /// All of those through which the search went.
    pub walked: u64,
    /// Those in the slice.
    pub slice: u64,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing was wanted any more.
    Found,
    /// There is nothing before.
    Start,
    /// It was not to go on.
    Until,
    /// It has as many executions of instructions as it was to have.
    Enough,
    /// The work was over.
    Over(Over),
}

/// Finds out what has made values what they are.
///
/// # Errors
/// The log does not hold the place, or cannot be read, replayed or traced.
pub fn slice(tools: &Tools, log: &Log, pid: ProcessId, criterion: &Criterion, options: &Options) -> Result<Slice> {
    let mut changes = Changes::default();
    let begun = Instant::now();
    let (slice, comparison, mut found) = Walker::new(tools, log, pid, criterion, options, &changes)?.all(criterion)?;
    comparison.compare(tools, log, pid, &mut found)?;
    if found.is_empty() {
        return Ok(slice);
    }
    // Whoever followed what was stored before followed too much: what is in the slice now was in it before, and is known to be sound.
    changes = found;
    if let Ended::Over(_) = slice.ended {
        tools.work.begin("following the value again", 0, Some(begun.elapsed()));
    }
    let (mut again, ..) = Walker::new(tools, log, pid, criterion, options, &changes)?.all(criterion)?;
    if let (Ended::Over(_), first @ Ended::Over(_)) = (again.ended, slice.ended) {
        again.ended = first;
    }
    Ok(again)
}
