//! Memory errors, found on replay: accesses beyond blocks of the heap and to those that were given back, blocks that are given back twice or in
//! a wrong way, copies that overlap, return addresses and canaries that were overwritten, and blocks that are lost at the end.
//!
//! The allocator is the program's own. Its functions are found by name ([`functions`]); their arguments and results say which blocks there are
//! (`heap`), and what it gets from the kernel meanwhile is its own but for these. What the program then accesses is compared with that, byte by
//! byte (`shadow`). So nothing is said of memory that no allocator is known to have got, and an access that goes beyond a block into another
//! one is not an error here, though it is one of the program.
//!
//! Which values are undefined, and what they decide, is followed on request (`undefined`).
//!
//! What allocators do themselves is not checked, nor what functions of C libraries for strings load beyond the end of a block, as long as they
//! need none of it (`code`). Of Python's own allocator, only what extensions ask for is known (`python`), and of Go's nothing: a report begins with that.

mod accesses;
mod ahead;
mod below;
mod brief;
mod check;
mod code;
mod display;
mod fault;
mod found;
mod frames;
pub mod functions;
mod heap;
mod leaks;
mod passing;
mod python;
mod report;
mod returns;
mod storing;
mod stubs;
mod texts;
mod undefined;
mod used;

pub use check::Counts;
pub use display::{Shown, of_frame, relation};
pub use found::Kind;
pub use leaks::Loss;
pub use report::{BlockReport, CallReport, ErrorReport, FrameReport, Leak, OriginReport, Report, Where};
pub use undefined::UndefinedCounts;

use crate::go;
use ahead::Ahead;
use brief::Brief;
use bugnet_events::looking::{Looks, walk_looking};
use bugnet_events::onward::walk_with;
use bugnet_format::allocator::{Allocator, Allocators};
use bugnet_format::process::Origin;
use bugnet_format::record::Record;
use bugnet_format::regs::RSP;
use bugnet_format::types::{Addr, IntervalNo, ProcessId, Tid};
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::looked::Looked;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use bugnet_replay::tree::{ProcessEnd, processes};
use bugnet_replay::{ReplayError, Result};
use check::Checker;
use code::{Known, Meaning};
use functions::{Family, Function};
use hashbrown::HashMap;
use passing::Passing;
use std::sync::Arc;
use undefined::Undefined;

/// Signals of which a process dies that accesses what is not there.
const FAULTS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What to look for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Functions of allocators beside those that are known.
    pub named: Vec<Function>,
    /// Look for blocks that are lost at the end.
    pub leaks: bool,
    /// Follow undefined values.
    pub undefined: bool,
    /// Find out which variables point at the blocks of so many errors.
    pub variables: usize,
    /// Look at about so many instructions from the beginning on, no more.
    pub most: u64,
    /// Do not let replay processes look at accesses by themselves: it takes longer, and what is found is the same.
    pub follow: bool,
}

/// Finds memory errors of a process. The cursor should have an index where there are several epochs: of memory that is not known, leaks
/// know nothing.
///
/// What was found is told, too, if the tools' work is over before the end.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn memcheck(tools: &Tools, log: &Log, cursor: &mut Cursor<'_>, options: &Options) -> Result<Report> {
    let pid = cursor.pid();
    // Of Python's own blocks, replay processes know nothing.
    let has_python = !Symbolizer::new(log, pid)?.functions(&python::FUNCTIONS.map(|(name, _)| name)).is_empty();
    // What a stack has that Go's runtime moves was set elsewhere.
    let own = Options { undefined: options.undefined && !go::is_there(log, pid)?, ..options.clone() };
    let options = &own;
    let can_look = !options.undefined && !options.follow && !has_python;
    // Whoever looks at a part alone goes as far as parts of the whole outline do.
    let in_brief = can_look && options.most == u64::MAX;
    let kept = if in_brief && has_one_thread(log, pid) { keep(tools, log, cursor, options)? } else { None };
    let brief = match kept {
        None if in_brief => look(tools, log, cursor, options, true)?,
        kept => kept,
    };
    // What cannot be looked at in brief cannot be looked at.
    let can_look = can_look && (brief.is_some() || !in_brief);
    let looked = match brief.filter(Checker::is_certain) {
        Some(checker) => Some(checker),
        None if can_look => look(tools, log, cursor, options, false)?,
        None => None,
    };
    let mut checker = match looked {
        Some(checker) => checker,
        None => follow(tools, log, cursor, options)?,
    };
    let checked = checker.check().and_then(|()| checker.undefined.as_mut().map_or(Ok(()), Undefined::check));
    unless_over(checked)?;
    let over = tools.work.over();
    tools.work.tell();
    if over.is_some() {
        tools.work.resume();
        checker.cursor.begin_anew()?;
    } else {
        checker.judge_exit()?;
    }
    let end = processes(log)?.into_iter().find(|process| process.id == pid).map(|process| process.end);
    let has_exited = over.is_none() && matches!(end, Some(ProcessEnd::Exited { .. }));
    // The last instruction of one thread is the call by which it exits, then.
    checker.judge_returns(over.is_none() && (!has_exited || !has_one_thread(log, pid)))?;
    if over.is_none() && matches!(end, Some(ProcessEnd::Killed { signal }) if FAULTS.contains(&signal)) {
        checker.judge_fault()?;
    }
    let lost = (options.leaks && has_exited).then(|| leaks::leaks(checker.cursor, &checker.heap)).transpose()?;
    report::report(log, checker, lost, (options, over), has_exited)
}

/// An error, unless it is that the work is over: what was found by then stands.
fn unless_over(result: Result<()>) -> Result<()> {
    match result {
        Err(ReplayError::Over(_)) => Ok(()),
        other => other,
    }
}

/// Before the first instruction. `in_brief`: stubs of functions that copy are looked at where they begin themselves, so that it does not matter where they
/// lead.
fn begin<'c, 'a>(log: &Log, cursor: &'c mut Cursor<'a>, options: &Options, in_brief: bool) -> Result<Checker<'c, 'a>> {
    let pid = cursor.pid();
    let mut symbols = Symbolizer::new(log, pid)?;
    let mut known = Known::new(log, pid, &mut symbols, &options.named)?;
    if !in_brief {
        cursor.seek(Seek::End)?;
    }
    for (stub, slot) in known.slots.clone().into_iter().filter(|_| !in_brief) {
        if let Some(target) = cursor.read_memory(Addr(slot), 8)?.try_into().ok().map(u64::from_le_bytes) {
            known.add_target(stub, target);
        }
    }
    if options.undefined {
        let (named, slots) = texts::places(log, known.modules(), &mut symbols);
        named.into_iter().for_each(|(address, index)| known.add_text(address, index));
        for (slot, index) in slots {
            if let Some(target) = cursor.read_memory(Addr(slot), 8)?.try_into().ok().map(u64::from_le_bytes) {
                known.add_text(target, index);
            }
        }
    }
    cursor.seek(Seek::Start)?;
    let start = cursor.place();
    let is_whole = start.interval == IntervalNo(0) && start.tid.0 == pid.pid.0 && !is_forked(log, pid)?;
    let stacks = stacks(log, pid)?;
    Ok(Checker::new(known, cursor, symbols, is_whole, stacks))
}

/// Where functions begin of which one wants to be told.
fn beginnings(known: &Known) -> Vec<u64> {
    let mut functions: Vec<u64> = known.meanings.keys().copied().collect();
    functions.sort_unstable();
    functions
}

fn has_one_thread(log: &Log, pid: ProcessId) -> bool {
    log.threads().filter(|thread| thread.pid == pid).count() == 1
}

/// Which code may access anything.
fn looked(known: &Known) -> Looked {
    let mut trusted: Vec<(u64, u64)> = known.own().iter().map(|range| (range.start, range.end)).collect();
    trusted.sort_unstable();
    Looked { trusted }
}

/// What it takes to keep the heap.
fn allocators(checker: &Checker<'_, '_>) -> Allocators {
    let known = &checker.known;
    let allocator = |(address, meaning): (&u64, &Meaning)| {
        let Meaning::Allocator(index) = meaning else { return None };
        let Function { does, ref family, .. } = known.allocators[*index];
        Some(Allocator { address: *address, does, is_named: matches!(family, Family::Named(_)) })
    };
    let mut functions: Vec<Allocator> = known.meanings.iter().filter_map(allocator).collect();
    functions.sort_unstable_by_key(|function| function.address);
    Allocators { functions, is_whole: checker.is_whole, looked: looked(known) }
}

/// Goes in brief through the outline of the one thread's execution, while its replay process keeps the heap, too, and looks at each access. `None`: it
/// cannot.
fn keep<'c, 'a>(
    tools: &Tools,
    log: &Log,
    cursor: &'c mut Cursor<'a>,
    options: &Options,
) -> Result<Option<Checker<'c, 'a>>> {
    let mut checker = begin(log, cursor, options, true)?;
    checker.brief = Some(Brief::default());
    let (pid, start) = (checker.cursor.pid(), checker.cursor.place());
    let wanted = Wanted {
        functions: beginnings(&checker.known),
        outline: true,
        closely: ahead::closely(&checker.known),
        open: true,
        heap: Some(allocators(&checker)),
        ..Wanted::default()
    };
    let mut passing = Passing::new(checker, options.most);
    match walk_with(tools, log, pid, start, &Arc::new(wanted), &mut passing) {
        Ok(()) | Err(ReplayError::Over(_)) => Ok(Some(passing.checker)),
        Err(ReplayError::NotTraced { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Goes through the outline of what was executed, while replay processes look at each access; in brief ([`brief`]), if that is said. `None`: they
/// cannot.
fn look<'c, 'a>(
    tools: &Tools,
    log: &Log,
    cursor: &'c mut Cursor<'a>,
    options: &Options,
    in_brief: bool,
) -> Result<Option<Checker<'c, 'a>>> {
    let mut checker = begin(log, cursor, options, in_brief)?;
    checker.brief = in_brief.then(Brief::default);
    let (pid, start) = (checker.cursor.pid(), checker.cursor.place());
    let wanted = Wanted {
        functions: beginnings(&checker.known),
        outline: true,
        closely: ahead::closely(&checker.known),
        open: in_brief,
        ..Wanted::default()
    };
    let looked = looked(&checker.known);
    let ahead = Ahead::new(&checker.known, checker.is_whole);
    let mut passing = Passing::new(checker, options.most);
    match walk_looking((tools, log, pid), start, &Arc::new(wanted), looked, ahead, &mut passing) {
        Ok(looks) => Ok((looks == Looks::All).then_some(passing.checker)),
        Err(ReplayError::Over(_)) => Ok(Some(passing.checker)),
        Err(other) => Err(other),
    }
}

/// Goes through all that was executed, and looks at each access here.
fn follow<'c, 'a>(
    tools: &'c Tools,
    log: &'c Log,
    cursor: &'c mut Cursor<'a>,
    options: &Options,
) -> Result<Checker<'c, 'a>> {
    let mut checker = begin(log, cursor, options, false)?;
    let (pid, start) = (checker.cursor.pid(), checker.cursor.place());
    let wanted = Arc::new(Wanted { functions: beginnings(&checker.known), ..Wanted::default() });
    checker.undefined = options.undefined.then(|| Undefined::new(tools, log, pid));
    let mut passing = Passing::new(checker, options.most);
    unless_over(walk_with(tools, log, pid, start, &wanted, &mut passing))?;
    Ok(passing.checker)
}

fn is_forked(log: &Log, pid: ProcessId) -> Result<bool> {
    let info = log.processes()?.into_iter().find(|(id, _)| *id == pid).and_then(|(_, info)| info);
    Ok(info.is_none_or(|info| matches!(info.origin, Origin::Fork { .. })))
}

/// Where the stack pointers of threads were when they began.
fn stacks(log: &Log, pid: ProcessId) -> Result<HashMap<Tid, u64>> {
    let mut all = HashMap::new();
    for thread in log.threads().filter(|thread| thread.pid == pid) {
        if log.intervals(thread)?.first() != Some(&IntervalNo(0)) {
            continue;
        }
        let interval = log.interval(IntervalId { thread, interval: IntervalNo(0) })?;
        if let Some(Record::Checkpoint { regs, .. }) = interval.records().flatten().next().map(|placed| placed.record) {
            all.insert(thread.tid, regs.gpr[RSP]);
        }
    }
    Ok(all)
}
