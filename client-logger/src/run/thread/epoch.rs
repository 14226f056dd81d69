//! What a thread does where one epoch ends and the next one begins: see [`crate::picture::epochs`].

use super::Thread;
use crate::base::options;
use crate::base::slots::Slot;
use crate::emitted::site::Site;
use crate::log::recording;
use crate::picture::epochs;
use crate::picture::peer::Passed;
use crate::run::parts::chaos::Point;
use bugnet_format::record::EndReason;
use bugnet_format::regs::{ARITHMETIC_FLAGS, RegisterFile};
use bugnet_format::types::Epoch;

impl Thread {
    /// At the start of a block, at this position: waits while another thread starts an epoch. Returns whether the epoch of the thread's
    /// interval is over.
    pub(in crate::run) fn epoch_is_over(&mut self, position: u64) -> bool {
        let epochs = epochs::get();
        let Some(peer) = self.peer() else { return false };
        if self.recording() && epochs.admits(self.log.epoch) {
            return false;
        }
        peer.leave(self.moment(position));
        epochs.wait(self.context);
        self.recording() && epochs.now() != self.log.epoch
    }

    /// Whether its interval is of the present epoch.
    pub(in crate::run) fn is_in_epoch(&self) -> bool {
        self.peer().is_none() || epochs::get().now() == self.log.epoch
    }

    /// The thread has come to this position.
    pub(in crate::run) fn note_executed(&mut self, position: u64) {
        if self.peer().is_some() {
            epochs::get().note(position.saturating_sub(self.log.noted));
            self.log.noted = position;
        }
    }

    /// At the start of a block, at this position, where the thread's interval is full: starts the next epoch. If that is not possible,
    /// the interval ends within this one.
    pub(in crate::run) fn start_epoch(&mut self, position: u64) {
        if let Some(peer) = self.peer() {
            peer.leave(self.moment(position));
            epochs::get().start(peer, self.context);
        }
    }

    /// A block has begun, and the thread must not go on before it has another interval: the limit callout that the block begins
    /// with sees to that. `flags`: whether the program's arithmetic flags are in their slot. The caller's frame is never returned to.
    fn go_to_limit(&mut self, site: &Site, flags: bool) -> ! {
        if flags {
            self.callouts.saved.rflags = self.callouts.saved.rflags & !ARITHMETIC_FLAGS | Slot::read_flags();
        }
        // The block will be counted when it begins again.
        let position = self.counted().wrapping_sub(site.back);
        self.set_counter(position, position, 0);
        self.signals.leave.go(&self.callouts.saved, site.pc)
    }

    /// As [`Self::pass`], where a block has begun; does not return where the thread is held.
    pub(in crate::run) fn pass_at_start(&mut self, site: &Site, flags: bool) -> bool {
        let position = self.counted().wrapping_sub(site.back);
        let passed = self.pass(position);
        if passed == Passed::Held {
            if self.recording() {
                self.go_to_limit(site, flags);
            }
            if let Some(peer) = self.peer() {
                peer.excuse();
            }
            return self.pass(position) != Passed::Uncalled;
        }
        if passed == Passed::Called && self.chaos.is_some() {
            self.perturb(Point::Called);
        }
        passed == Passed::Called
    }

    /// Behind a system call, with what the registers were before it: if the epoch in which it was made is over, the interval ends
    /// before the call, and the next one begins with it. Returns whether that is so.
    pub fn split_call(&mut self, before: &RegisterFile) -> bool {
        let is_over = self.peer().is_some() && epochs::get().now() != self.log.epoch;
        self.recording() && !recording::over() && is_over && self.split(before)
    }

    fn split(&mut self, before: &RegisterFile) -> bool {
        let position = self.counted() - 1;
        if !self.end_interval(position, before.clone()) {
            return false;
        }
        if let Err(why) = self.checkpoint(before.clone()) {
            self.give_up(&why);
            return false;
        }
        let options = options::get();
        self.count.next_check = options.check_every;
        // The call is counted, and others may have taken from the thread what they wanted all the time.
        self.count.threshold = self.next_threshold(1);
        self.count.counter.set(self.count.threshold as i64 - 1);
        self.leave(0);
        true
    }

    /// Ends the interval, which another one is to follow. `false` if none can: recording has ended.
    pub(in crate::run) fn end_interval(&mut self, position: u64, regs: RegisterFile) -> bool {
        let reach = self.reach();
        let (next, number) = (self.next_epoch(), self.log.following(epochs::get().first()));
        let Some(log) = &mut self.log.writer else { return true };
        if let Err(why) = log.prepare_next(number) {
            self.stop(position, EndReason::LogStopped { why }, regs);
            return false;
        }
        if let Err(why) = log.end_full(position, regs, &reach, next) {
            self.give_up(&why);
            return false;
        }
        self.log.instructions_before += position;
        self.log.noted = 0;
        self.log.next_interval(epochs::get().first());
        self.picture.moved = false;
        true
    }

    /// An epoch of the light log begins, with which the thread goes on: intervals have numbers from this one on.
    pub(in crate::run) fn begin_epoch(&mut self, first: u64) {
        epochs::get().jump(first);
        if self.peer().is_none() {
            // With one thread, each interval is an epoch.
            self.log.epoch = Epoch(first.wrapping_sub(1));
        }
    }

    /// Before a system call in an expansion: as [`Self::split_call`], if an epoch has begun since the thread's last instruction. `begins`: with this one, where the thread is the one
    /// that begins one.
    pub fn split_before_call(&mut self, before: &RegisterFile, begins: Option<u64>) {
        begins.into_iter().for_each(|first| self.begin_epoch(first));
        let is_behind = self.peer().is_some() && epochs::get().now() != self.log.epoch;
        if self.recording() && !recording::over() && (is_behind || begins.is_some()) {
            self.split(before);
        }
    }
}
