//! Lines and functions that only one of two runs executed.

use crate::path::collect::When;
use crate::runs::both::Both;
use crate::runs::scene::Spot;
use crate::runs::side::Side;
use bugnet_replay::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Code that only one of the runs executed.
#[derive(Clone, Debug, Serialize)]
pub struct Only {
    /// What it is: a line; where none is known, the first instruction of a stretch, or a function.
    #[serde(flatten)]
    pub spot: Spot,
    /// Where no line is known, how far behind the function's start the stretch's last instruction is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Where it was executed first, by one of the threads that did.
    pub position: String,
}

/// What only one of the runs executed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OnlyOne {
    /// Functions of the program's own code, in the order in which they were first executed, thread by thread.
    pub functions: Vec<Only>,
    /// Lines of the program's own code; where no line is known, stretches of instructions. Without those of such functions.
    pub lines: Vec<Only>,
    /// Functions of libraries, and those of the system's sources that the compiler has made of templates.
    pub library_functions: Vec<Only>,
}

/// A function, and a line in it.
type Function = (Option<String>, Option<String>);

/// What a run executed: the first time of each line, or instruction without one, and of each function.
#[derive(Default)]
struct Lines {
    lines: BTreeMap<Spot, (When, bool)>,
    functions: BTreeMap<Function, (When, bool)>,
}

fn function(spot: &Spot) -> Function {
    (spot.object.clone(), spot.function.clone())
}

fn lines(side: &mut Side<'_>, ran: &BTreeMap<u64, When>) -> Lines {
    let mut all = Lines::default();
    for (&at, &when) in ran {
        let spot = Spot::of(&mut side.symbols, at);
        let is_own = side.recorded.objects.is_own(at) && !spot.is_systems();
        if spot.function.is_some() {
            let first = all.functions.entry(function(&spot)).or_insert((when, is_own));
            first.0 = first.0.min(when);
        }
        // Code that was made has no names, so nothing tells it apart.
        if is_own && spot.object.is_some() {
            let first = all.lines.entry(spot).or_insert((when, is_own));
            first.0 = first.0.min(when);
        }
    }
    all
}

/// Joins instructions that follow each other in what one run alone executed. `next` says which instruction it executed behind another.
fn joined(spots: Vec<(Spot, When)>, all: &BTreeSet<Spot>) -> Vec<(Spot, Option<u64>, When)> {
    let mut joined: Vec<(Spot, Option<u64>, When)> = Vec::new();
    for (spot, when) in spots {
        if spot.offset.is_none() {
            joined.push((spot, None, when));
            continue;
        }
        let goes_on = |(first, until, _): &&mut (Spot, Option<u64>, When)| {
            let here = Spot { offset: *until, ..first.clone() };
            // Nothing that both executed lies between.
            until.is_some() && function(first) == function(&spot) && all.range(here..spot.clone()).nth(1).is_none()
        };
        match joined.last_mut().filter(goes_on) {
            Some((_, until, first)) => (*until, *first) = (spot.offset, (*first).min(when)),
            None => joined.push((spot.clone(), spot.offset, when)),
        }
    }
    joined
}

impl Both<'_> {
    /// What only one of the runs executed, the right one's first.
    ///
    /// # Errors
    /// A log does not hold what it executed.
    pub fn only(&mut self) -> Result<[OnlyOne; 2]> {
        let mut found = Vec::new();
        for (side, executed) in self.sides.iter_mut().zip(&self.executed) {
            found.push(lines(side, &executed.ran));
        }
        let mut all = [OnlyOne::default(), OnlyOne::default()];
        for (side, only) in all.iter_mut().enumerate() {
            let (own, other, run) = (&found[side], &found[1 - side], &self.sides[side].recorded);
            let position = |(tid, count): When| run.place(tid, count).map(|place| place.to_string());
            let alone = own.functions.iter().filter(|(name, _)| !other.functions.contains_key(*name));
            let mut alone: Vec<_> = alone.map(|(name, (when, is_own))| (*when, *is_own, name.clone())).collect();
            alone.sort();
            let functions: BTreeSet<&Function> = alone.iter().map(|(.., name)| name).collect();
            let is_new = |spot: &Spot| !other.lines.contains_key(spot) && !functions.contains(&function(spot));
            let spots =
                own.lines.iter().filter(|(spot, _)| is_new(spot)).map(|(spot, (when, _))| (spot.clone(), *when));
            let executed: BTreeSet<Spot> = own.lines.keys().cloned().collect();
            let mut lines = joined(spots.collect(), &executed);
            lines.sort_by_key(|(.., when)| *when);
            for (spot, until, when) in lines {
                only.lines.push(Only { spot, until, position: position(when)? });
            }
            for (when, is_own, (object, function)) in alone {
                let spot = Spot { object, function, ..Spot::default() };
                let list = if is_own { &mut only.functions } else { &mut only.library_functions };
                list.push(Only { spot, until: None, position: position(when)? });
            }
        }
        Ok(all)
    }
}
