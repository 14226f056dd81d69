//! Two runs of a program: what each executed, with their threads side by side.

use super::side::{Side, counterpart};
use crate::path::align::{Alignment, align};
use crate::path::collect::{Executed, collect};
use crate::path::objects::Code;
use crate::path::trail::{Numbers, Trail};
use bugnet_format::types::{IntervalNo, ProcessId, Tid};
use bugnet_replay::Result;
use bugnet_replay::births::births;
use bugnet_replay::log::{Log, ThreadId};
use bugnet_replay::tools::Tools;
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
    /// Replays both, `jobs` intervals at a time. `progress` is called with how many intervals are done, and how many there are.
    ///
    /// # Errors
    /// The logs are of different programs, or cannot be replayed.
    pub fn replay(
        tools: &'a Tools,
        which: Which<'a>,
        jobs: NonZeroUsize,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
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
        let (of_good, of_bad) = (sides[GOOD].recorded.count(), sides[BAD].recorded.count());
        let mut codes = Numbers::default();
        progress(0, of_good + of_bad);
        let mut executed = |side: usize, before: usize| {
            collect(&sides[side].recorded, &mut codes, jobs, |done| progress(before + done, of_good + of_bad))
        };
        let executed = [executed(GOOD, 0)?, executed(BAD, of_good)?];
        let born = |side: &Side<'_>| births(side.recorded.log, side.recorded.pid);
        let (threads, alone) = pairs([&born(&sides[GOOD])?, &born(&sides[BAD])?], &executed);
        Ok(Self { sides, executed, codes, threads, is_other_build: any_build, alone })
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
