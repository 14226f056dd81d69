//! Delta analysis: the global variables and blocks of the heap that the failing function used, and who accessed them in which order, in a right and a
//! wrong run side by side. What only the wrong run did is where one would look (paper 000, sections 3.1 to 3.3).
//!
//! The paper takes the variables from a static analysis of the function; here they are those that its instructions have accessed in either run, so
//! that blocks of the heap are among them. A second pass looks at all accesses of these. Conflicting accesses are told by their patterns: RW, WR and WW of
//! two threads, or of a thread and a handler; RWR, WWR, RWW and WRW of a call with another one's access in between.

mod display;
mod follow;
mod object;
mod pattern;
mod report;

pub use display::Shown;
pub use object::Object;
pub use report::{Conflict, Line, Memory, Report};

use crate::races::times::Times;
use crate::runs::both::{BAD, GOOD};
use crate::runs::scene::Spot;
use crate::runs::side::{Side, counterpart};
use bugnet_format::types::ProcessId;
use bugnet_replay::crash::{is_system, scopes_at};
use bugnet_replay::cursor::Seek;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use follow::Follow;
use object::{Touching, Using, Wanted};
use pattern::Patterns;
use std::collections::{BTreeMap, BTreeSet};

/// Frames of the stack at the end that are looked at.
const FRAMES: usize = 64;

/// What a run did with the memory that is of interest.
struct Used {
    patterns: Patterns,
    blocks: BTreeMap<Object, u64>,
    times: Times,
}

/// Compares how the process `bad` of the second log, and what ran the same program in the first one, used the memory that functions of these names
/// accessed. Without names, it is the innermost function of the program's own in which the wrong run ended. At most `top` objects are told.
///
/// # Errors
/// The logs are of different programs, or cannot be replayed; it is not known in which function the run ended; neither run has executed one.
pub fn delta(tools: &Tools, logs: [&Log; 2], bad: ProcessId, functions: &[String], top: usize) -> Result<Report> {
    let good = counterpart(logs[BAD], bad, logs[GOOD], false)?;
    let mut sides = [Side::open(tools, logs[GOOD], good, &[])?, Side::open(tools, logs[BAD], bad, &[])?];
    let functions = if functions.is_empty() { vec![failing(logs[BAD], &mut sides[BAD])?] } else { functions.to_vec() };
    let names: BTreeSet<String> = functions.iter().cloned().collect();
    // What one run used is looked at in both.
    let mut wanted = Wanted::default();
    let mut has_run = false;
    for side in &mut sides {
        let follow = Follow::new(side)?;
        let mut touching = Touching::new(side, &names, &mut wanted)?;
        follow.walk(side, &mut touching)?;
        has_run |= touching.has_run;
    }
    if !has_run {
        let what = format!("neither run has executed a function called {}", functions.join(" or "));
        return Err(ReplayError::OutOfRange(what));
    }
    let [of_good, of_bad] = &mut sides;
    let used = [used(of_good, &wanted)?, used(of_bad, &wanted)?];
    report::report(&mut sides, used, functions, top)
}

/// The innermost function of the program's own in which a run ended.
fn failing(log: &Log, side: &mut Side<'_>) -> Result<String> {
    side.cursor.seek(Seek::End)?;
    let frames = scopes_at(log, &mut side.cursor, &mut side.symbols, FRAMES)?;
    let is_own = |spot: &Spot| {
        !spot.is_systems()
            && spot.object.as_ref().is_some_and(|object| !is_system(object))
            && spot.function.as_deref() != Some("_start")
    };
    // A return address may lie behind the end of the function that called.
    let spots = frames.iter().enumerate().map(|(number, frame)| frame.pc - u64::from(number > 0));
    let found = spots.map(|at| Spot::of(&mut side.symbols, at)).filter(is_own).find_map(|spot| spot.function);
    found.ok_or_else(|| {
        ReplayError::OutOfRange(
            "it is not known in which function of the program's own the wrong run ended; --function NAME says which one to look at"
                .into(),
        )
    })
}

/// All accesses of the objects.
fn used(side: &mut Side<'_>, wanted: &Wanted) -> Result<Used> {
    let mut using = Using::new(side, wanted)?;
    let times = Follow::new(side)?.walk(side, &mut using)?;
    Ok(Used { patterns: using.patterns, blocks: using.blocks, times })
}
