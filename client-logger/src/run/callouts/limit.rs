//! Thresholds: where an interval ends, a check is due, or signals are to be let in.

use crate::base::light;
use crate::base::options;
use crate::base::process;
use crate::emitted::by_rip;
use crate::emitted::site::Site;
use crate::kernel::environment;
use crate::kernel::timers;
use crate::log::{modules, recording};
use crate::picture::placement;
use crate::picture::stack_move;
use crate::run::dying::die;
use crate::run::expand;
use crate::run::parts::count::STRETCH;
use crate::run::signals;
use crate::run::thread::{Thread, first_stack};
use bugnet_dr::fpu;
use bugnet_dr::ir::Gpr;
use bugnet_format::record::Record;
use bugnet_format::regs::{RSP, RegisterFile};

impl Thread {
    /// The program is about to execute its first instruction.
    fn prepare_start(&mut self) {
        let rsp = &mut self.callouts.saved.gpr[usize::from(Gpr::RSP.0)];
        signals::begin();
        timers::begin();
        if light::expands() {
            modules::add_first();
            expand::confine();
        } else {
            environment::hide(*rsp);
        }
        if placement::stack_moves() {
            *rsp = stack_move::relocate(*rsp, |address| self.picture.shadow.reaches(address));
        }
        if !light::begins_at_epoch() {
            first_stack::clear_below(*rsp);
        }
    }

    /// A block of `back` instructions begins that reaches over the threshold.
    pub(super) fn limit(&mut self, site: &Site, flags: u64) {
        if light::expands() {
            self.follow_turns(site);
        }
        let handler_begins = std::mem::take(&mut self.signals.handler_begins);
        if handler_begins {
            fpu::restore(&RegisterFile::default());
        }
        if self.chaos.is_some() {
            self.delay_at_start(site);
        }
        if by_rip::is_possible() {
            // SAFETY: in the callout, and nobody else executes blocks.
            let found = unsafe { site.lies.met(by_rip::slots(self.count.counter.address())) };
            self.count.stretch.adapt(found);
        }
        self.threshold_reached(site, flags);
        self.transfer(site, flags);
        if handler_begins {
            self.begin_again(site);
            // DynamoRIO first looks whether it holds another signal.
            self.open_soon();
            self.signals.leave.go(&self.callouts.saved, site.pc);
        }
        if self.signals.leave.is_due() || self.signals.mask.is_to_open() {
            self.begin_again(site);
            if let Some(sent) = self.signals.mask.open() {
                let regs = self.registers(site.pc, flags);
                die(self, &sent, self.counted(), regs);
            }
            self.signals.leave.go(&self.callouts.saved, site.pc);
        }
    }

    /// The block will be counted when it begins again.
    fn begin_again(&mut self, site: &Site) {
        if !self.log.ended {
            self.recount(self.counted() - site.back);
        }
    }

    fn threshold_reached(&mut self, site: &Site, flags: u64) {
        let is_start = process::takes_first_instruction();
        if is_start {
            self.prepare_start();
        }
        if recording::over() {
            self.follow_end();
        }
        if self.log.ended {
            self.signals.mask.begin();
            self.set_counter(self.log.end, self.count.threshold, STRETCH as i64);
            return;
        }
        let birth = self.log.writer.is_none();
        let mut position = self.counted() - site.back;
        let options = options::get();
        let mut begin = self.log.writer.is_none() || self.log.paused.is_some();
        self.note_executed(position);
        let over = self.epoch_is_over(position);
        let full = !begin && position > 0 && position + site.back > options.interval;
        if full && !over {
            self.start_epoch(position);
        }
        let regs = self.registers(site.pc, flags);
        // Also where nothing has been executed since: there may be records.
        if !begin && (full || over || self.picture.moved) {
            if !self.end_interval(position, regs.clone()) {
                return;
            }
            begin = true;
        }
        self.picture.moved = false;
        if begin {
            if let Err(why) = self.checkpoint(regs.clone()) {
                self.give_up(&why);
                return;
            }
            self.log.paused = None;
            position = 0;
            if is_start {
                self.record_first_stack(regs.gpr[RSP]);
            }
            self.count.next_check = options.check_every;
        } else {
            self.check_if_due(position, position + site.back, &regs);
        }
        // Behind the block, however short a time slice is.
        let threshold = self.next_threshold(position + site.back);
        self.set_counter(position, threshold, threshold as i64 - (position + site.back) as i64);
        if birth {
            self.signals.mask.begin();
            self.be_born(self.callouts.saved.gpr[usize::from(Gpr::RSP.0)]);
        }
    }

    /// A `CHECK`, if one is due before a block that ends at `end`.
    fn check_if_due(&mut self, position: u64, end: u64, regs: &RegisterFile) {
        let every = options::get().check_every;
        if every > 0 && end > self.count.next_check {
            let (rflags_known, hash) = (regs.rflags_known, regs.hash(regs.rflags_known));
            self.record(position, |delta| Record::Check { delta, rflags_known, hash });
            self.count.next_check = position + every;
        }
    }
}
