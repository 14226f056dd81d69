//! The next hit behind a time.

use super::super::{Conditions, Open};
use crate::error::Result;
use bugnet_format::control::{Hits, Stop, Target};

/// By how much more is run with the conditions at once after that was in vain.
const GROWTH: u64 = 4;

/// What is no longer is run with the conditions at once.
const STEP: u64 = 64;

/// A run to the next hit.
struct Run<'a> {
    conditions: &'a Conditions,
    /// Where it began: what holds there does not count.
    origin: u64,
    /// What is not longer is run with the conditions.
    least: u64,
}

/// Where a stretch is to end: time, and how the process is told.
#[derive(Clone, Copy)]
struct End {
    time: u64,
    target: Target,
}

/// What has become of a stretch.
enum Outcome {
    /// This has ended it before its end, and the process is there.
    Stopped(Stop),
    /// Nothing holds in it; the process is at its end.
    Nothing(Stop),
    /// A glance tells nothing, from here on.
    Useless,
}

impl Open {
    /// Runs until a condition holds, or up to a target, which is at this time.
    pub fn run_to_hit(&mut self, conditions: &Conditions, target: Target, time: u64) -> Result<Stop> {
        let (origin, left) = (self.time, time.saturating_sub(self.time));
        if left <= STEP || !self.can_scout(conditions) {
            self.set_conditions(conditions)?;
            return self.run(target, Hits::Stop);
        }
        if self.tracked.process.observes {
            // It takes longer to build all code anew, twice, and what is watched is often accessed again soon.
            let near = self.grain.near;
            self.set_conditions(conditions)?;
            let stop = self.run(if near < left { Target::Time(origin + near) } else { target }, Hits::Stop)?;
            if stop != Stop::Reached || self.hit.is_some() || near >= left {
                return Ok(stop);
            }
            if self.interrupter.take() {
                return Ok(Stop::Interrupted);
            }
        }
        if self.can_scout(conditions) {
            let mut run = Run { conditions, origin, least: self.grain.least };
            match run.stretch(self, End { time, target }, self.grain.ahead)? {
                Outcome::Stopped(stop) | Outcome::Nothing(stop) => return Ok(stop),
                Outcome::Useless => {}
            }
        }
        self.set_conditions(conditions)?;
        self.run(target, if self.time == origin { Hits::Stop } else { Hits::StopHere })
    }
}

impl Run<'_> {
    /// Runs a stretch from where the process is, in pieces that are so long at first and at most.
    fn stretch(&mut self, open: &mut Open, end: End, (mut step, most): (u64, u64)) -> Result<Outcome> {
        open.begin_scouting(self.conditions, end.time)?;
        loop {
            let from = open.time;
            let to = from.saturating_add(step.max(1));
            let piece = if to < end.time { End { time: to, target: Target::Time(to) } } else { end };
            let hits = if from == self.origin { Hits::Stop } else { Hits::StopHere };
            let copy = open.tracked.process.fork()?;
            let mut stop = open.run(piece.target, hits)?;
            if stop == Stop::Reached && open.hit.is_none() && open.interrupter.take() {
                stop = Stop::Interrupted;
            }
            let Some(noticed) = open.glance(self.conditions)? else {
                // From where it is certain that nothing was met.
                self.go_back(open, from, copy)?;
                return Ok(Outcome::Useless);
            };
            if noticed && stop == Stop::Interrupted {
                self.go_back(open, from, copy)?;
                return Ok(Outcome::Stopped(stop));
            }
            if noticed {
                let there = open.change_places(from, copy)?;
                match self.closer(open, piece, hits)? {
                    Outcome::Nothing(_) => open.return_to(there)?,
                    decided => {
                        open.keep_original(there.time, there.process);
                        return Ok(decided);
                    }
                }
            }
            if stop != Stop::Reached || open.hit.is_some() {
                // At the end of all, nothing was met, either.
                let is_end = matches!(stop, Stop::End | Stop::CutOff) && open.hit.is_none();
                return Ok(if is_end { Outcome::Nothing(stop) } else { Outcome::Stopped(stop) });
            }
            if open.time >= end.time {
                return Ok(Outcome::Nothing(stop));
            }
            step = step.saturating_mul(2).min(most);
        }
    }

    /// Looks closer at a piece with something in it.
    fn closer(&mut self, open: &mut Open, piece: End, hits: Hits) -> Result<Outcome> {
        let len = piece.time.saturating_sub(open.time);
        if len > self.least {
            let step = len.div_ceil(open.grain.pieces);
            return self.stretch(open, piece, (step, step));
        }
        open.set_conditions(self.conditions)?;
        let stop = open.run(piece.target, hits)?;
        if open.hit.is_some() || stop == Stop::Interrupted {
            return Ok(Outcome::Stopped(stop));
        }
        self.least = self.least.saturating_mul(GROWTH);
        Ok(Outcome::Nothing(stop))
    }

    fn go_back(&self, open: &mut Open, time: u64, copy: crate::process::Process) -> Result<()> {
        if copy.suits(open.patches.reach(Target::Time(time))) {
            open.take_copy(time, copy)?;
            open.run(Target::Time(time), Hits::Ignore)?;
            return Ok(());
        }
        // The patches were wrong.
        open.go_to(self.origin).map(drop)
    }
}
