//! Stores of which the values differ, named.

use super::both::{BAD, GOOD};
use super::meaning::{same, same_here};
use super::scene::{Scene, Spot, name_of_memory};
use super::side::{Moment, Side};
use super::stores::{Seen, Store, stores};
use crate::path::align::Together;
use bugnet_format::regs::RSP;
use bugnet_format::types::{Addr, Tid};
use bugnet_replay::Result;
use serde::Serialize;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Differences that are looked at closely until some are found: each takes a seek in both logs.
const LOOKED_AT: usize = 200;

/// A store that stores other values in the two runs.
#[derive(Clone, Debug, Serialize)]
pub struct Differing {
    /// Where it is.
    pub spot: Spot,
    /// The text of the line.
    pub text: Option<String>,
    /// What it stores to, in the wrong run.
    pub variable: Option<String>,
    /// Bytes that it stores.
    pub bytes: u32,
    /// When, and what, in the right run.
    pub good: Stored,
    /// In the wrong one.
    pub bad: Stored,
    /// Instructions that the thread had executed, in each run.
    #[serde(skip)]
    pub counts: [u64; 2],
}

/// A value that was stored.
#[derive(Clone, Debug, Serialize)]
pub struct Stored {
    /// Before the store.
    #[serde(flatten)]
    pub moment: Moment,
    /// Where it went.
    pub address: Addr,
    /// What memory had then: as a number, of up to 8 bytes; none where it is not known.
    pub value: Option<crate::diff::Number>,
}

/// Stores that differ.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The first time of each instruction, in their order.
    pub all: Vec<Differing>,
    /// So many were looked at, and all were addresses; what came behind them was not looked at.
    pub gave_up: bool,
}

/// Finds the first time that each of up to `most` instructions stored other values, in steps that two threads have in common.
///
/// # Errors
/// The logs cannot be replayed.
pub fn differing(sides: &mut [Side<'_>; 2], threads: [Tid; 2], together: &[Together], most: usize) -> Result<Found> {
    let mut suspects = Vec::new();
    let mut known = HashSet::new();
    {
        let sides: &[Side<'_>; 2] = sides;
        let recorded = [&sides[GOOD].recorded, &sides[BAD].recorded];
        let end = [GOOD, BAD].map(|side| together.last().map_or(0, |run| run.from[side] + run.steps));
        let stacks = [GOOD, BAD].map(|side| sides[side].cursor.regs().gpr[RSP]);
        let mut each = |seen: Seen| {
            if let Seen::Both(both) = seen
                && !same(recorded, stacks, both.map(|store| store.value), both[BAD].bytes)
                && known.insert(both[BAD].instruction)
            {
                suspects.push(both);
            }
            let is_behind = seen.bad().step >= end[BAD];
            Ok(if is_behind || suspects.len() >= LOOKED_AT {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        };
        stores(recorded, threads, together, &mut each)?;
    }
    let mut found = Found { all: Vec::new(), gave_up: false };
    let looked_at = suspects.len();
    for both in suspects {
        if found.all.len() == most {
            return Ok(found);
        }
        found.all.extend(look(sides, threads, both)?);
    }
    found.gave_up = looked_at == LOOKED_AT;
    Ok(found)
}

/// Looks closely at two stores; `None` if they mean the same.
///
/// # Errors
/// The replay processes are lost.
pub fn look(sides: &mut [Side<'_>; 2], threads: [Tid; 2], both: [Store; 2]) -> Result<Option<Differing>> {
    let mut moments = Vec::new();
    for side in [GOOD, BAD] {
        moments.push(sides[side].go(threads[side], both[side].count)?);
    }
    if same_here(sides, both.map(|store| store.value), both[BAD].bytes)? {
        return Ok(None);
    }
    let scene = Scene::of(&mut sides[BAD])?;
    let variable = name_of_memory(&mut sides[BAD], &scene, both[BAD].addr);
    let at = sides[BAD].cursor.regs().rip;
    let spot = Spot::of(&mut sides[BAD].symbols, at);
    let mut stored = Vec::new();
    for (side, moment) in moments.into_iter().enumerate() {
        let store = both[side];
        sides[side].go(threads[side], store.count + 1)?;
        let value = crate::diff::memory(&mut sides[side], store.addr, store.len.into())?;
        stored.push(Stored { moment, address: Addr(store.addr), value });
    }
    let (bad, good) = (stored.pop(), stored.pop());
    let counts = both.map(|store| store.count);
    Ok(good.zip(bad).map(|(good, bad)| Differing {
        spot,
        text: scene.text,
        variable,
        bytes: both[BAD].len,
        good,
        bad,
        counts,
    }))
}
