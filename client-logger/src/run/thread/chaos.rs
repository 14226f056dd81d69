//! Where a thread is held back, if its run is to be perturbed: see [`crate::run::parts::chaos`].

use super::Thread;
use crate::base::options;
use crate::emitted::site::Site;
use crate::run::parts::chaos::{Chaos, Point, sleep};

impl Thread {
    /// The thread begins: it is perturbed if all of the recording is.
    pub(in crate::run) fn begin_chaos(&mut self) {
        let seed = options::get().chaos.filter(|_| !self.log.ended);
        self.chaos = seed.map(|seed| Box::new(Chaos::new(seed, self.tid.id().into())));
    }

    /// In a callout for an access at this position, for which the thread lacks the permission.
    pub(in crate::run) fn delay_before_taking(&mut self, position: u64) {
        let Some(delay) = self.chaos.as_mut().and_then(|chaos| chaos.delay(Point::Miss)) else { return };
        if let Some(peer) = self.peer() {
            // As one that waits for others, from here to where it does: it asks for what it accesses behind this.
            peer.wait_within(self.moment(position));
            sleep(self.context, delay);
        }
    }

    /// Plans a delay for the start of the next block, since this has happened.
    pub fn perturb(&mut self, point: Point) {
        if self.chaos.as_mut().is_some_and(|chaos| chaos.plan(point)) && self.recording() {
            self.limit_soon();
        }
    }

    /// In the limit callout that a block begins with: the planned delay, or one of a thread's beginning or the end of its time slice.
    pub(in crate::run) fn delay_at_start(&mut self, site: &Site) {
        let shares = self.peer().is_some();
        let begins = self.log.writer.is_none() && !self.log.ended;
        let Some(chaos) = &mut self.chaos else { return };
        let delay = match chaos.take_planned() {
            None if begins => chaos.delay(Point::Birth),
            None if shares => chaos.delay(Point::Slice),
            planned => planned,
        };
        if let Some(delay) = delay {
            if !self.log.ended {
                self.leave(self.counted().wrapping_sub(site.back));
            }
            sleep(self.context, delay);
        }
    }
}
