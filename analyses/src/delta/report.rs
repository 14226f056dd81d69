//! What both runs did with each object, side by side.

use super::Used;
use super::object::Object;
use super::pattern::{Accessed, Conflict as Found};
use crate::runs::both::{BAD, GOOD};
use crate::runs::scene::Spot;
use crate::runs::side::{Ran, Side};
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the functions used, and how both runs did.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The right run.
    pub good: Ran,
    /// The wrong run.
    pub bad: Ran,
    /// The functions.
    pub functions: Vec<String>,
    /// What they used: first that of which only the wrong run has conflicts, then that which the runs used in other ways.
    pub memory: Vec<Memory>,
    /// How much more there is.
    pub more: usize,
}

/// A global variable, or the blocks that a line asked for, and what was done with it in the right run and in the wrong one.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// What it is.
    pub object: Object,
    /// How many blocks, in each run.
    pub blocks: [u64; 2],
    /// Threads that accessed it; a handler counts as one.
    pub actors: [usize; 2],
    /// How often, by line.
    pub lines: Vec<Line>,
    /// Conflicting accesses, those first that only the wrong run has.
    pub conflicts: Vec<Conflict>,
}

/// What a line did with an object.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Where.
    pub spot: Spot,
    /// How often it read it, in each run.
    pub reads: [u64; 2],
    /// How often it wrote it.
    pub writes: [u64; 2],
}

/// Accesses by several, of which one writes.
#[derive(Debug, Serialize)]
pub struct Conflict {
    /// `RW`, `WR`, `WW`, or `RWR`, `WWR`, `RWW`, `WRW` for two accesses of a call with another one's in between.
    pub pattern: &'static str,
    /// The lines, in the order of the accesses.
    pub spots: Vec<Spot>,
    /// How often it happened, in each run.
    pub times: [u64; 2],
    /// Where each access was the first time: in the wrong run if that has any.
    pub places: Vec<String>,
    /// What of the object was accessed then.
    pub part: Option<String>,
    /// Whether a signal's handler took part then.
    pub by_handler: bool,
}

impl Memory {
    /// Whether something is only in the wrong run.
    fn is_only_bad(&self) -> bool {
        self.conflicts.iter().any(Conflict::is_only_bad)
    }

    fn differs(&self) -> bool {
        self.lines.iter().any(|line| line.reads[GOOD] != line.reads[BAD] || line.writes[GOOD] != line.writes[BAD])
    }
}

impl Conflict {
    /// Whether only the wrong run has it.
    #[must_use]
    pub fn is_only_bad(&self) -> bool {
        self.times[GOOD] == 0
    }
}

/// Puts together what was found.
pub(super) fn report(sides: &mut [Side<'_>; 2], used: [Used; 2], functions: Vec<String>, top: usize) -> Result<Report> {
    let objects: BTreeSet<&Object> = used.iter().flat_map(|used| used.patterns.objects.keys()).collect();
    let mut memory: Vec<Memory> = objects.into_iter().map(|object| both(sides, &used, object)).collect();
    memory.sort_by_key(|memory| (!memory.is_only_bad(), !memory.differs(), memory.object.clone()));
    let more = memory.len().saturating_sub(top);
    memory.truncate(top);
    let [good, bad] = sides.each_ref().map(|side| side.run.clone());
    Ok(Report { good, bad, functions, memory, more })
}

fn both(sides: &mut [Side<'_>; 2], used: &[Used; 2], object: &Object) -> Memory {
    let mut lines: BTreeMap<Spot, Line> = BTreeMap::new();
    let mut conflicts: BTreeMap<(&'static str, Vec<Spot>), Conflict> = BTreeMap::new();
    for side in [BAD, GOOD] {
        let Some(accessed) = used[side].patterns.objects.get(object) else { continue };
        for ((ip, writes), count) in &accessed.counts {
            let spot = Spot::of(&mut sides[side].symbols, *ip);
            let line = lines.entry(spot.clone()).or_insert_with(|| Line { spot, reads: [0, 0], writes: [0, 0] });
            *(if *writes { &mut line.writes[side] } else { &mut line.reads[side] }) += count;
        }
        for (pattern, spots, found) in in_order(&mut sides[side], accessed) {
            let conflict = conflicts.entry((pattern, spots.clone())).or_insert_with(|| Conflict {
                pattern,
                spots,
                times: [0, 0],
                places: places(found, &used[side]),
                part: sides[side].symbols.describe(Addr(found.addr)),
                by_handler: found.by_handler,
            });
            conflict.times[side] += found.times;
        }
    }
    let mut conflicts: Vec<Conflict> = conflicts.into_values().collect();
    // Those of three accesses say more.
    conflicts.sort_by_key(|one| (!one.is_only_bad(), std::cmp::Reverse(one.pattern.len())));
    Memory {
        object: object.clone(),
        blocks: [GOOD, BAD].map(|side| used[side].blocks.get(object).copied().unwrap_or(0)),
        actors: [GOOD, BAD].map(|side| used[side].patterns.objects.get(object).map_or(0, |all| all.actors.len())),
        lines: lines.into_values().collect(),
        conflicts,
    }
}

/// The conflicts of a run with their lines, the first to happen first.
fn in_order<'a>(side: &mut Side<'_>, accessed: &'a Accessed) -> Vec<(&'static str, Vec<Spot>, &'a Found)> {
    let mut all: Vec<_> = accessed.conflicts.iter().collect();
    all.sort_by_key(|(kind, found)| (found.made.iter().map(|made| made.count()).collect::<Vec<_>>(), kind.ips.clone()));
    let symbols = &mut side.symbols;
    let with_lines = |(kind, found): (&super::pattern::Kind, &'a Found)| {
        (kind.name, kind.ips.iter().map(|ip| Spot::of(symbols, *ip)).collect(), found)
    };
    all.into_iter().map(with_lines).collect()
}

fn places(found: &Found, used: &Used) -> Vec<String> {
    let place = |made: &crate::races::clock::Epoch| used.times.place(made.thread(), made.count());
    found.made.iter().map(|made| place(made).map_or_else(String::new, |place| place.to_string())).collect()
}
