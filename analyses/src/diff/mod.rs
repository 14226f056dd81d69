//! Where two runs of a program part, one right and one wrong, and what only one of them did.

mod decided;
mod display;
mod kernel;
mod lines;
mod parting;

pub use decided::{Decided, Number, Operand, memory};
pub use display::{Columns, Report, ended, parted, runs, stored};
pub use kernel::Returned;
pub use lines::{Only, OnlyOne};
pub use parting::{At, Parted, Way};

use crate::path::align::{self, Alignment, Parting};
use crate::runs::both::{BAD, Both, Cut, GOOD};
use crate::runs::side::Ran;
use crate::runs::values::{Differing, Found, differing};
use bugnet_format::types::Tid;
use bugnet_replay::work::Over;
use bugnet_replay::{ReplayError, Result};
use serde::Serialize;

/// Stores that differ of which is told.
const STORES: usize = 3;

/// What tells two runs apart.
#[derive(Debug, Serialize)]
pub struct Diff {
    /// The right run.
    pub good: Ran,
    /// The wrong run.
    pub bad: Ran,
    /// Threads that both have, those first that part first in the wrong run.
    pub threads: Vec<Threads>,
    /// Threads that only the right run has.
    pub only_good_threads: Vec<Tid>,
    /// Threads that only the wrong run has.
    pub only_bad_threads: Vec<Tid>,
    /// What only the right run executed.
    pub only_good: OnlyOne,
    /// What only the wrong run executed.
    pub only_bad: OnlyOne,
    /// How much of the runs was looked at, where not all was: what comes behind is not known, nor what only one of them has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// What tells apart two threads, one of each run.
#[derive(Debug, Serialize)]
pub struct Threads {
    /// The right run's.
    pub good: Tid,
    /// The wrong run's.
    pub bad: Tid,
    /// How often they part in the program's own code and come together again.
    pub times: u64,
    /// At how many places.
    pub places: usize,
    /// The first of these, in their order. Those in functions of the system's sources, as the compiler makes of templates, are left out where
    /// there are others.
    pub parted: Vec<Parted>,
    /// How many such places were left out.
    pub systems: usize,
    /// Where they part for good; none if they end at the same place.
    pub last: Option<Parted>,
    /// Stores of the program's own code that first store other values, before they part for good.
    pub values: Vec<Differing>,
    /// Whether so many addresses differ that no more stores were looked at.
    pub values_gave_up: bool,
    /// Why stores were not compared, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_over: Option<Over>,
    /// The system call that returned the values of the first of these stores: inferred from their being the same.
    pub returned: Option<Returned>,
}

impl Threads {
    /// The first place at which they part.
    #[must_use]
    pub fn first(&self) -> Option<&Parted> {
        self.parted.first().or(self.last.as_ref())
    }

    /// When the wrong run first does something else.
    fn time(&self) -> Option<u64> {
        let value = self.values.first().map(|value| value.bad.moment.time);
        value.into_iter().chain(self.first().map(|parted| parted.bad.moment.time)).min()
    }
}

/// Finds out what tells two runs apart. Of each pair of threads, at most `top` places are told at which they part. Where the work is over before its end, what
/// is known by then is told.
///
/// # Errors
/// The logs cannot be replayed.
pub fn diff(both: &mut Both<'_>, top: usize) -> Result<Diff> {
    let mut over = both.cut.map(|cut| cut.over);
    if over.is_some() {
        both.resume()?;
    }
    let mut threads = Vec::new();
    for pair in both.threads.clone() {
        let alignment = both.aligned(pair);
        threads.push(pair_of(both, pair, &alignment, top, &mut over)?);
    }
    threads.sort_by_key(|pair| pair.time().unwrap_or(u64::MAX));
    let [only_good, only_bad] = if both.cut.is_some() { Default::default() } else { both.only()? };
    let [only_good_threads, only_bad_threads] = both.alone.clone();
    let [good, bad] = both.sides.each_ref().map(|side| side.run.clone());
    Ok(Diff { good, bad, threads, only_good_threads, only_bad_threads, only_good, only_bad, cut: both.cut })
}

/// Does it once more where the work is over meanwhile: it takes not so long.
fn surely<T>(
    both: &mut Both<'_>,
    over: &mut Option<Over>,
    mut what: impl FnMut(&mut Both<'_>) -> Result<T>,
) -> Result<T> {
    match what(both) {
        Err(ReplayError::Over(why)) => {
            *over = Some(why);
            both.resume()?;
            what(both)
        }
        done => done,
    }
}

fn pair_of(
    both: &mut Both<'_>,
    pair: [Tid; 2],
    alignment: &Alignment,
    top: usize,
    over: &mut Option<Over>,
) -> Result<Threads> {
    let (of_system, own): (Vec<align::Parted>, Vec<align::Parted>) =
        alignment.parted.iter().partition(|one| both.is_systems(&one.first));
    let (shown, systems) = if own.is_empty() { (of_system, 0) } else { (own, of_system.len()) };
    let mut parted = Vec::new();
    for one in shown.iter().take(top) {
        parted.push(surely(both, over, |both| both.tell(pair, &one.first, one.times))?);
    }
    // Where one was not looked at any further, it has not ended.
    let is_known = |last: &&Parting| both.cut.is_none() || last.next.iter().all(Option::is_some);
    let last = match alignment.last.as_ref().filter(is_known) {
        Some(last) => Some(surely(both, over, |both| both.tell(pair, last, 1))?),
        None => None,
    };
    let compared = match *over {
        None => differing(&mut both.sides, pair, &alignment.together, STORES),
        Some(why) => Err(ReplayError::Over(why)),
    };
    let (Found { all: values, gave_up }, values_over) = match compared {
        Err(ReplayError::Over(why)) => {
            *over = Some(why);
            both.resume()?;
            (Found::default(), Some(why))
        }
        found => (found?, None),
    };
    let recorded = [GOOD, BAD].map(|side| &both.sides[side].recorded);
    let first = values.first().and_then(|first| Some((first.counts, first.good.value?, first.bad.value?)));
    let returned = match first {
        Some((until, good, bad)) => kernel::returned(recorded, pair, until, [good, bad])?,
        None => None,
    };
    Ok(Threads {
        good: pair[GOOD],
        bad: pair[BAD],
        times: alignment.times(),
        places: alignment.parted.len(),
        parted,
        systems,
        last,
        values,
        values_gave_up: gave_up,
        values_over,
        returned,
    })
}
