//! Running a process with several threads: it compares what they read, or has patches, see [`crate::patches`].
//!
//! An epoch is compared as far as nobody has been there, and what was found by that is kept. A process that compares can be given the
//! patches of what comes next, and then no longer compares; it cannot go back to that, so that copies which do are kept as well.

use super::{Conditions, Cursor, Open, Snapshots};
use crate::error::{ReplayError, Result};
use crate::patches::{self, Merging, Patches};
use bugnet_format::control::{Explanation, FEW, Hits, Request, Response, Stop, Target};
use bugnet_format::patch::Patch;
use std::collections::HashMap;

/// A shorter way is compared rather than that other code is made for it.
pub(super) const FAR: u64 = 1 << 20;
/// Most room that is taken by patches of epochs that are not open.
const MOST_KEPT: usize = 64 << 20;

/// The patches of epochs that are not open.
#[derive(Debug, Default)]
pub(super) struct Known {
    epochs: HashMap<usize, Patches>,
    room: usize,
    /// Whether all is to be compared whatever is known.
    compare_always: bool,
    /// If it is not [`FAR`].
    pub far: Option<u64>,
}

impl Known {
    /// Keeps what is known of an epoch, if there is room.
    pub fn keep(&mut self, epoch: usize, patches: Patches) {
        if self.room + patches.room() > MOST_KEPT {
            self.epochs.retain(|_, patches| patches.are_useless());
            self.room = 0;
        }
        if patches.room() <= MOST_KEPT {
            self.room += patches.room();
            self.epochs.insert(epoch, patches);
        }
    }

    fn take(&mut self, epoch: usize) -> Patches {
        let patches = self.epochs.remove(&epoch).unwrap_or_default();
        self.room -= patches.room();
        if self.compare_always { Patches::useless() } else { patches }
    }
}

impl Cursor<'_> {
    /// What is known of the patches of an epoch, also from the index.
    pub(super) fn patches_of(&mut self, epoch: usize) -> Result<Patches> {
        let known = self.known.take(epoch);
        self.with_index(epoch, known)
    }

    /// The same for the open one, of which less is known.
    pub(super) fn learn_from_index(&mut self) -> Result<()> {
        let known = std::mem::take(&mut self.open.patches);
        self.open.patches = self.with_index(self.open.index, known)?;
        if self.open.time == 0 && self.open.patches.are_whole() {
            self.open.restart()?;
        }
        Ok(())
    }

    fn with_index(&mut self, epoch: usize, known: Patches) -> Result<Patches> {
        if known.are_whole() || known.are_useless() {
            return Ok(known);
        }
        let Some(index) = &mut self.elsewhere.index else { return Ok(known) };
        // Of damage, whoever wants to know memory by the index is told; here, there is another way.
        Ok(index.patches(epoch).unwrap_or_default().map_or(known, Patches::whole))
    }

    /// From here on, everything is compared, whatever is known of earlier comparisons: for tests.
    #[doc(hidden)]
    pub fn compare_always(&mut self) {
        self.known.compare_always = true;
        self.open.distrust();
    }

    /// From here on, nothing is compared that was compared before, be the way as short as it may: for tests.
    #[doc(hidden)]
    pub fn never_compare_again(&mut self) {
        (self.known.far, self.open.far) = (Some(0), 0);
    }

    /// Goes to the start of the epoch with patches of which one does not fit: for tests.
    ///
    /// # Errors
    /// The replay process is lost.
    #[doc(hidden)]
    pub fn spoil_patches(&mut self) -> Result<()> {
        // There, the next instruction's code is certain to be in memory.
        self.open.restart()?;
        let Some(first) = self.open.runs.first() else { return Ok(()) };
        let (thread, at) = (first.thread as u32, first.from);
        self.open.patches.spoil(Patch { thread, at, addr: self.open.regs.rip, found: vec![0; 8], bytes: vec![1; 8] });
        self.open.snapshots.retain(|process| process.suits(false));
        self.open.restart()
    }

    /// Whether the replay process compares: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn is_comparing(&self) -> bool {
        self.open.tracked.process.merging == Merging::Compares
    }
}

impl Open {
    /// Runs the process.
    pub(super) fn run(&mut self, target: Target, hits: Hits) -> Result<Stop> {
        let from = self.time;
        let mut stop = match self.prepare(target)? {
            Some(stop) => stop,
            None => self.execute(target, hits)?,
        };
        if is_wrong(&stop) && self.is_patched() {
            // Whatever is wrong with them: the recording is what counts.
            self.distrust();
            self.time = from;
            stop = match self.compare_to_here()? {
                Some(stop) => stop,
                None => self.execute(target, hits)?,
            };
        }
        if let Stop::Divergence { what, .. } = stop {
            let place = self.place();
            return Err(ReplayError::OutOfRange(format!(
                "replay goes another way than the recording at {place}: {what}"
            )));
        }
        if self.tracked.process.merging == Merging::Compares {
            self.patches.learn(&mut self.tracked.process, self.time, self.over)?;
        }
        Ok(stop)
    }

    pub(super) fn execute(&mut self, target: Target, hits: Hits) -> Result<Stop> {
        self.tracked.process.begin();
        let is_short = matches!(target, Target::Time(time) if time.saturating_sub(self.time) <= FEW);
        let process = &mut self.tracked.process;
        process.observes = !process.conditions.ranges.is_empty() || process.observes && is_short;
        process.send(&Request::RunTo { target, hits, output: false })?;
        match self.tracked.process.receive()? {
            Response::Stopped { stop, thread, at, time, hit, regs, .. } => {
                if thread as usize >= self.threads.len() {
                    return Err(ReplayError::OutOfRange(format!("the replay process speaks of a thread {thread}")));
                }
                (self.time, self.thread, self.at, self.regs, self.hit) = (time, thread as usize, at, *regs, hit);
                self.over = matches!(stop, Stop::End | Stop::CutOff);
                Ok(stop)
            }
            other => Err(self.tracked.process.unexpected(&other)),
        }
    }

    /// Goes to the start with a process that can do either.
    fn restart(&mut self) -> Result<()> {
        let Some((time, snapshot)) = self.snapshots.before(0, |_| true) else { return Err(Snapshots::lost()) };
        let copy = snapshot.fork()?;
        self.take_copy(time, copy)?;
        self.run(Target::Time(0), Hits::Ignore).map(drop)
    }

    fn is_patched(&self) -> bool {
        matches!(self.tracked.process.merging, Merging::Patched { .. })
    }

    /// Makes the process one that can run to a target. What stopped it, if it did not get as far as that.
    pub(super) fn prepare(&mut self, target: Target) -> Result<Option<Stop>> {
        if self.threads.len() < 2 {
            return Ok(None);
        }
        let reach = self.patches.reach(target);
        let is_far = match target {
            Target::Time(time) => time.saturating_sub(self.time) >= self.far,
            Target::Place { .. } | Target::End => true,
        };
        let rooms = self.tracked.rooms(self.threads.len());
        let process = &mut self.tracked.process;
        match process.merging {
            Merging::Compares if !(reach && is_far) => {}
            Merging::Undecided if !reach => patches::compare(process, Explanation::None, rooms)?,
            Merging::Patched { .. } if !reach => return self.compare_to_here(),
            _ => self.patches.give(process)?,
        }
        Ok(None)
    }

    /// Patches are used no more.
    pub(super) fn distrust(&mut self) {
        self.patches = Patches::useless();
        self.snapshots.retain(|process| process.suits(false));
    }

    /// Makes the process one that compares, where it is. What stopped it, if it was interrupted on the way.
    fn compare_to_here(&mut self) -> Result<Option<Stop>> {
        let (time, conditions) = (self.time, self.tracked.process.conditions.clone());
        let Some((at, snapshot)) = self.snapshots.before(time, |process| process.suits(false)) else {
            return Err(Snapshots::lost());
        };
        let copy = snapshot.fork()?;
        self.take_copy(at, copy)?;
        if self.tracked.process.merging == Merging::Undecided {
            let rooms = self.tracked.rooms(self.threads.len());
            patches::compare(&mut self.tracked.process, Explanation::None, rooms)?;
        }
        self.set_conditions(&Conditions::default())?;
        let mut interrupted = None;
        loop {
            match self.execute(Target::Time(time), Hits::Ignore)? {
                Stop::Interrupted => interrupted = Some(Stop::Interrupted),
                stop if is_wrong(&stop) => return Ok(Some(stop)),
                _ => break,
            }
        }
        self.set_conditions(&conditions)?;
        Ok(interrupted)
    }
}

/// Whether a replay went another way than the recording.
fn is_wrong(stop: &Stop) -> bool {
    matches!(stop, Stop::Divergence { .. })
}
