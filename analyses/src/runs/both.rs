//! Two runs of a program: what each executed, with their threads side by side.

use super::side::{Recorded, Side, counterpart};
use crate::path::align::{Alignment, align};
use crate::path::collect::{Collected, Executed, collect};
use crate::path::objects::Code;
use crate::path::trail::{Numbers, Trail};
use bugnet_format::types::{IntervalNo, ProcessId, Tid};
use bugnet_replay::births::births;
use bugnet_replay::log::{Log, ThreadId};
use bugnet_replay::tools::Tools;
use bugnet_replay::work::Over;
use bugnet_replay::{ReplayError, Result};
use serde::Serialize;
use std::num::NonZeroUsize;

/// The right run, and the wrong one.
pub const GOOD: usize = 0;
/// The wrong one.
pub const BAD: usize = 1;

/// Two runs, what they executed, and what they have in common.
pub struct Both<'a> {
    /// The runs.
    pub sides: [Side<'a>; 2],
    /// What each executed.
    pub executed: [Executed; 2],
    /// Which code it is.
    pub codes: Numbers<Code>,
    /// Threads that do the same, in the order in which the wrong run made them.
    pub threads: Vec<[Tid; 2]>,
    /// Whether the right run is of another build.
    pub is_other_build: bool,
    /// Threads that only one of the runs has.
    pub alone: [Vec<Tid>; 2],
    /// Why not all of both was looked at, if so.
    pub cut: Option<Cut>,
}

/// What was looked at of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// Why it was no more.
    pub over: Over,
    /// Intervals of each that were looked at.
    pub intervals: [usize; 2],
    /// How many there are.
    pub of: [usize; 2],
}

/// Two runs.
#[derive(Clone, Copy)]
pub struct Which<'a> {
    /// Their logs.
    pub logs: [&'a Log; 2],
    /// The process of the wrong one; of the right one, it is what ran the same program.
    pub bad: ProcessId,
    /// Mapped files of these names count as the program's own.
    pub own: &'a [String],
    /// The right run may be of another build of the program.
    pub any_build: bool,
    /// Of the wrong one, no intervals behind this one are looked at.
    pub until: Option<IntervalNo>,
}

impl<'a> Both<'a> {
    /// Replays both, `jobs` intervals at a time.
    ///
    /// # Errors
    /// The logs are of different programs, or cannot be replayed.
    pub fn replay(tools: &'a Tools, which: Which<'a>, jobs: NonZeroUsize) -> Result<Self> {
        let both = Self::replay_some(tools, which, jobs)?;
        both.cut.map_or(Ok(both), |cut| Err(ReplayError::Over(cut.over)))
    }

    /// The same, as far as there is time; what is done with it is not limited any more.
    ///
    /// # Errors
    /// As [`Self::replay`].
    pub fn replay_some(tools: &'a Tools, which: Which<'a>, jobs: NonZeroUsize) -> Result<Self> {
        let Which { logs, bad, own, any_build, until } = which;
        let pids = [counterpart(logs[BAD], bad, logs[GOOD], any_build)?, bad];
        let mut sides =
            [Side::open(tools, logs[GOOD], pids[GOOD], own)?, Side::open(tools, logs[BAD], pids[BAD], own)?];
        if let Some(last) = until {
            sides[BAD].recorded.end_with(last);
        }
        if any_build {
            let [good, bad] = &mut sides;
            let other = (&bad.recorded.objects, logs[BAD], bad.run.program.as_str());
            good.recorded.objects.is_build_of(logs[GOOD], &good.run.program, other)?;
        }
        let recorded = [&sides[GOOD].recorded, &sides[BAD].recorded];
        let of = recorded.map(Recorded::count);
        let mut codes = Numbers::default();
        let Collected { executed, intervals, over } = collect(recorded, &mut codes, jobs)?;
        let cut = over.map(|over| Cut { over, intervals, of });
        let born = |side: &Side<'_>| births(side.recorded.log, side.recorded.pid);
        let (threads, mut alone) = pairs([&born(&sides[GOOD])?, &born(&sides[BAD])?], &executed);
        if cut.is_some() {
            // Those of the other run may not have been looked at.
            alone = [Vec::new(), Vec::new()];
        }
        Ok(Self { sides, executed, codes, threads, is_other_build: any_build, alone, cut })
    }

    /// Goes on with what there is, where the work was over: the first one to say so says why.
    ///
    /// # Errors
    /// The cursors cannot begin anew.
    pub fn resume(&mut self) -> Result<()> {
        self.sides[GOOD].recorded.tools.work.resume();
        self.sides.iter_mut().try_for_each(|side| side.cursor.begin_anew())
    }

    /// The paths of a pair of threads.
    #[must_use]
    pub fn paths(&self, threads: [Tid; 2]) -> [&Trail; 2] {
        // Threads come from these.
        [GOOD, BAD].map(|side| &self.executed[side].paths[&threads[side]])
    }

    /// The paths of a pair of threads, side by side.
    #[must_use]
    pub fn aligned(&self, threads: [Tid; 2]) -> Alignment {
        let paths = self.paths(threads).map(Trail::walk);
        align(paths, |code| self.codes.all()[code as usize].order())
    }
}

/// Threads that begin with the same code, in the order in which they were made; then those that only one has.
fn pairs(born: [&[ThreadId]; 2], executed: &[Executed; 2]) -> (Vec<[Tid; 2]>, [Vec<Tid>; 2]) {
    let begins = |side: usize| {
        let paths = born[side].iter().filter_map(|thread| Some((thread.tid, executed[side].paths.get(&thread.tid)?)));
        paths.map(|(tid, path)| (tid, path.walk().next().map(|step| step.code))).collect::<Vec<_>>()
    };
    let (mut good, bad) = (begins(GOOD), begins(BAD));
    let (mut threads, mut alone) = (Vec::new(), Vec::new());
    for (tid, begin) in bad {
        match good.iter().position(|(_, other)| *other == begin) {
            Some(at) => threads.push([good.remove(at).0, tid]),
            None => alone.push(tid),
        }
    }
    (threads, [good.into_iter().map(|(tid, _)| tid).collect(), alone])
}
