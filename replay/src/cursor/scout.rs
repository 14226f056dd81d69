//! Where watched memory may have been accessed: found out before anything is watched.
//!
//! A replay process that watches memory is called at each access, which is slow. One that only looks out for accesses is not
//! ([`Process::glance`]): it tells afterwards whether there may have been any. So a stretch is run like that first, in pieces, with a copy
//! before each. Pieces with something in them are divided again, and only what is short is run with the conditions. A glance may see
//! more than a watch does, so that such a run may find nothing; then it is another piece's turn.
//!
//! All other conditions cost nothing, and are met on the way.
//!
//! - `behind`: the last hit before a time
//! - `ahead`: the next one

mod ahead;
mod behind;

pub(super) use behind::Search;

use super::{Conditions, Cursor, Open};
use crate::error::Result;
use crate::process::Process;
use bugnet_format::control::{Hit, MAX_GLANCE, Target};
use bugnet_format::regs::RegisterFile;

/// How stretches are divided, in instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    /// So much is looked at at once, closest to where one comes from; forwards, where the client is called at each access already.
    near: u64,
    /// Where there is something, and it is not longer, it is run with the conditions.
    least: u64,
    /// A longer stretch is divided, even if it is not known whether there is anything in it.
    most: u64,
    /// Into so many pieces.
    pieces: u64,
    /// How long pieces are at first and at most on the way to what comes next.
    ahead: (u64, u64),
}

impl Default for Grain {
    fn default() -> Self {
        Self { near: 1 << 16, least: 1 << 19, most: 1 << 22, pieces: 8, ahead: (1 << 20, 1 << 25) }
    }
}

/// Where a process is, and what is known of that.
pub(super) struct Here {
    process: Process,
    time: u64,
    thread: usize,
    at: u64,
    regs: RegisterFile,
    hit: Option<Hit>,
    over: bool,
}

/// The conditions that cost nothing.
fn others(conditions: &Conditions) -> Conditions {
    Conditions { ranges: Vec::new(), ..conditions.clone() }
}

impl Cursor<'_> {
    /// From here on, stretches are divided into tiny pieces: for tests.
    #[doc(hidden)]
    pub fn scout_finely(&mut self) {
        self.grain = Grain { near: 70, least: 300, most: 1000, pieces: 5, ahead: (400, 10_000) };
        self.open.grain = self.grain;
    }

    /// From here on, whatever is watched is watched at each access: for tests.
    #[doc(hidden)]
    pub fn never_scout(&mut self) {
        self.grain.least = u64::MAX;
        self.open.grain = self.grain;
    }
}

impl Open {
    /// Takes a copy's place, and says where it was itself.
    pub(super) fn change_places(&mut self, time: u64, copy: Process) -> Result<Here> {
        let process = std::mem::replace(&mut self.tracked.process, copy);
        self.interrupter.follow(&self.tracked.process)?;
        let Self { thread, at, regs, hit, over, .. } = &*self;
        let here =
            Here { process, time: self.time, thread: *thread, at: *at, regs: regs.clone(), hit: *hit, over: *over };
        (self.time, self.over) = (time, false);
        Ok(here)
    }

    pub(super) fn return_to(&mut self, here: Here) -> Result<()> {
        let Here { process, time, thread, at, regs, hit, over } = here;
        self.take_copy(time, process)?;
        (self.thread, self.at, self.regs, self.hit, self.over) = (thread, at, regs, hit, over);
        Ok(())
    }

    /// Whether it is worth a glance whether these conditions can hold.
    fn can_scout(&self, conditions: &Conditions) -> bool {
        let bytes = conditions.ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len));
        self.grain.least < u64::MAX && bytes > 0 && bytes <= MAX_GLANCE
    }

    /// Looks out for accesses from here on, up to a time.
    fn begin_scouting(&mut self, conditions: &Conditions, until: u64) -> Result<()> {
        if self.threads.len() > 1 && self.patches.reach(Target::Time(until)) {
            self.patches.give(&mut self.tracked.process)?;
        }
        self.set_conditions(&others(conditions))?;
        self.looking = self.tracked.process.number();
        self.tracked.process.glance(&conditions.ranges).map(drop)
    }

    /// Whether there may have been any since this was last asked. `None` if that is not known: it would have cost as much as a watch,
    /// or another process has taken the place of the one that looked out.
    fn glance(&mut self, conditions: &Conditions) -> Result<Option<bool>> {
        let noticed = self.tracked.process.glance(&conditions.ranges)?;
        Ok(noticed.filter(|_| self.looking == self.tracked.process.number()))
    }
}
