//! How long before its end a wrong run begins to be another one than a right run: the replay window, of which a log has to hold as much
//! for the cause to be in it ("Software Profiling for Deterministic Replay Debugging of User Code", section 6.1).

mod display;

use crate::diff::Parted;
use crate::path::align::Alignment;
use crate::runs::both::{BAD, Both, GOOD};
use crate::runs::meaning::same;
use crate::runs::side::{Moment, Ran};
use crate::runs::stores::{Seen, stores};
use crate::runs::values::{Differing, Found, differing};
use bugnet_format::regs::RSP;
use bugnet_format::types::Tid;
use bugnet_replay::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Instructions in which differences are counted together, as in the paper.
pub const PIECE: u64 = 10_000;
/// As many differences in a piece are not yet a deviation, as in the paper.
pub const MOST: u64 = 30;

/// How a window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// With a store of another value.
    Value,
    /// With another way of control.
    Control,
    /// With a store that the right run's build of the program does not have there.
    Code,
}

/// From when on the runs differ, and how long that is before the wrong one's end.
#[derive(Clone, Debug, Serialize)]
pub struct Begin {
    /// When, in the wrong run.
    #[serde(flatten)]
    pub moment: Moment,
    /// Instructions of all threads from there to the end.
    pub length: u64,
}

/// The window.
#[derive(Debug, Serialize)]
pub struct Window {
    /// The right run.
    pub good: Ran,
    /// The wrong run.
    pub bad: Ran,
    /// With what it begins; none if nothing differs.
    pub by: Option<By>,
    /// From the first difference on.
    pub first: Option<Begin>,
    /// The first store of another value.
    pub value: Option<Differing>,
    /// The first other way of control.
    pub control: Option<Parted>,
    /// Of two builds, the first store that the right one does not have there.
    pub code: Option<Begin>,
    /// From the first piece of [`PIECE`] instructions on in which more than [`MOST`] stores differ.
    pub deviation: Option<Begin>,
    /// Stores of the wrong run that were compared, or that the right one does not have.
    pub stores: u64,
    /// Of these, those that differ.
    pub differing: u64,
    /// The pieces of [`PIECE`] instructions in which stores differ.
    pub pieces: Vec<Piece>,
}

/// Instructions of a thread in which stores differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// The thread of the wrong run.
    pub thread: Tid,
    /// The first one, counted from the thread's.
    pub from: u64,
    /// Stores that differ.
    pub differing: u64,
}

/// What is counted in a pair of threads.
#[derive(Default)]
struct Counted {
    stores: u64,
    differing: u64,
    /// By where they begin, stores that differ in pieces.
    pieces: BTreeMap<u64, u64>,
    /// Instructions before the first store that only the wrong run has.
    alone: Option<u64>,
}

impl Counted {
    /// The start of the first piece with more than [`MOST`].
    fn deviation(&self) -> Option<u64> {
        self.pieces.iter().find(|(_, times)| **times > MOST).map(|(from, _)| *from)
    }
}

fn count(both: &Both<'_>, pair: [Tid; 2], alignment: &Alignment) -> Result<Counted> {
    let sides = &both.sides;
    let recorded = [&sides[GOOD].recorded, &sides[BAD].recorded];
    let stacks = [GOOD, BAD].map(|side| sides[side].cursor.regs().gpr[RSP]);
    let mut counted = Counted::default();
    let mut each = |seen: Seen| {
        counted.stores += 1;
        let is_same = match seen {
            Seen::Both(both) => same(recorded, stacks, both.map(|store| store.value), both[BAD].bytes),
            Seen::Bad(store) => {
                counted.alone.get_or_insert(store.count);
                false
            }
        };
        if !is_same {
            counted.differing += 1;
            *counted.pieces.entry(seen.bad().count / PIECE * PIECE).or_default() += 1;
        }
        Ok(ControlFlow::Continue(()))
    };
    stores(recorded, pair, &alignment.together, &mut each)?;
    Ok(counted)
}

/// Finds the window.
///
/// # Errors
/// The logs cannot be replayed.
pub fn window(both: &mut Both<'_>) -> Result<Window> {
    let [good, bad] = both.sides.each_ref().map(|side| side.run.clone());
    let (by, first, deviation, value, control, code) = (None, None, None, None, None, None);
    let mut window =
        Window { good, bad, by, first, value, control, code, deviation, stores: 0, differing: 0, pieces: Vec::new() };
    let earlier = |time: u64, known: Option<u64>| known.is_none_or(|known| time < known);
    for pair in both.threads.clone() {
        let alignment = both.aligned(pair);
        let counted = count(both, pair, &alignment)?;
        window.stores += counted.stores;
        window.differing += counted.differing;
        let pieces = counted.pieces.iter().map(|(from, differing)| (*from, *differing));
        window.pieces.extend(pieces.map(|(from, differing)| Piece { thread: pair[BAD], from, differing }));
        if let Some(at) = counted.deviation() {
            let begin = both.begin(pair[BAD], at)?;
            if earlier(begin.moment.time, window.deviation.as_ref().map(|begin| begin.moment.time)) {
                window.deviation = Some(begin);
            }
        }
        if let Some(at) = counted.alone.filter(|_| both.is_other_build) {
            let begin = both.begin(pair[BAD], at)?;
            if earlier(begin.moment.time, window.code.as_ref().map(|begin| begin.moment.time)) {
                window.code = Some(begin);
            }
        }
        let Found { all, .. } = differing(&mut both.sides, pair, &alignment.together, 1)?;
        if let Some(value) = all.into_iter().next()
            && earlier(value.bad.moment.time, window.value.as_ref().map(|value| value.bad.moment.time))
        {
            window.value = Some(value);
        }
        if let Some(parting) = alignment.first() {
            let parted = both.tell(pair, &parting, 1)?;
            if earlier(parted.bad.moment.time, window.control.as_ref().map(|parted| parted.bad.moment.time)) {
                window.control = Some(parted);
            }
        }
    }
    let of_value = window.value.as_ref().map(|value| (value.bad.moment.time, By::Value, &value.bad.moment));
    let of_control = window.control.as_ref().map(|parted| (parted.bad.moment.time, By::Control, &parted.bad.moment));
    let of_code = window.code.as_ref().map(|begin| (begin.moment.time, By::Code, &begin.moment));
    let begins = of_value.into_iter().chain(of_control).chain(of_code).min_by_key(|(time, ..)| *time);
    if let Some((time, by, moment)) = begins {
        let length = both.sides[BAD].cursor.end() - time;
        (window.by, window.first) = (Some(by), Some(Begin { moment: moment.clone(), length }));
    }
    Ok(window)
}

impl Both<'_> {
    /// From where a thread of the wrong run has executed so many instructions.
    fn begin(&mut self, thread: Tid, count: u64) -> Result<Begin> {
        let side = &mut self.sides[BAD];
        let moment = side.go(thread, count)?;
        let length = side.cursor.end() - moment.time;
        Ok(Begin { moment, length })
    }
}
