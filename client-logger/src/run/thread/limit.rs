//! Thresholds: where an interval ends, a check is due, or signals are to be let in.

use super::Thread;
use crate::base::options;
use crate::base::process;
use crate::emitted::by_rip;
use crate::emitted::counter::Counter;
use crate::emitted::site::Site;
use crate::log::recording;
use crate::run::fault;
use bugnet_dr::fpu;
use bugnet_dr::ir::Gpr;
use bugnet_format::record::Record;
use bugnet_format::regs::RegisterFile;

/// Most instructions between two thresholds: after so many, a thread looks whether to leave the code cache. (The
/// flag-free form of the count wants counters below 2^32.)
const STRETCH: u64 = 1 << 18;
/// Fewest, while thresholds still meet blocks of which it is [not known](crate::emitted::by_rip) that they run often.
const SHORT_STRETCH: u64 = 1 << 15;

/// How many instructions a thread executes from one threshold to the next: where it then is, is a sample of what runs often.
pub(super) struct Stretch {
    /// About so many.
    length: u64,
    /// Makes them differ, lest loops are met at the same block each time.
    random: u64,
}

impl Stretch {
    fn new() -> Self {
        Self { length: STRETCH, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A threshold has `found` something or not: the less they find, the fewer there are.
    fn adapt(&mut self, found: bool) {
        let length = if found { self.length / 2 } else { self.length + self.length / 8 };
        self.length = length.clamp(SHORT_STRETCH, STRETCH);
    }

    /// Instructions to the next one.
    fn next(&mut self) -> u64 {
        // Marsaglia's xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.length - self.random % (self.length / 2)
    }
}

/// How far a thread is.
pub(super) struct Count {
    /// What is left until the next threshold.
    pub(super) counter: Counter,
    /// Position up to which the counter counts down.
    pub(super) threshold: u64,
    /// How far it is from there to the next one.
    pub(super) stretch: Stretch,
    /// Position of the next `CHECK`.
    pub(super) next_check: u64,
}

impl Count {
    /// Of the calling thread, which begins.
    pub(super) fn new() -> Self {
        Self { counter: Counter::of_thread(), threshold: 0, stretch: Stretch::new(), next_check: 0 }
    }
}

impl Thread {
    /// A block of `back` instructions begins that reaches over the threshold.
    pub(super) fn limit(&mut self, site: &Site, flags: u64) {
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
                fault::die(self, &sent, self.counted(), regs);
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
        if process::takes_first_instruction() {
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
        let birth = self.log.writer.is_none();
        if begin {
            if let Err(why) = self.checkpoint(regs.clone()) {
                self.give_up(&why);
                return;
            }
            self.log.paused = None;
            position = 0;
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

    /// Where the next threshold is.
    pub(super) fn next_threshold(&mut self, position: u64) -> u64 {
        let options = options::get();
        let (mut stretch, executed) = (self.count.stretch.next(), self.log.instructions_before + position);
        if self.peer().is_some()
            && let Some(chaos) = &mut self.chaos
        {
            stretch = chaos.slice(executed, stretch);
        }
        let threshold = options.interval.min(position + stretch);
        if options.check_every > 0 { threshold.min(self.count.next_check) } else { threshold }
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

    /// A handler of the program's begins with these registers: as natively, with x87 state and MXCSR as a program has them at
    /// its start. DynamoRIO leaves those of the interrupted code, or others, so they are set when its first block runs.
    pub fn begin_handler(&mut self, regs: &mut RegisterFile) {
        let RegisterFile { mxcsr, fcw, fsw, ftw, st, .. } = RegisterFile::default();
        *regs = RegisterFile { mxcsr, fcw, fsw, ftw, st, ..regs.clone() };
        self.signals.handler_begins = true;
    }

    /// The next block opens the signal mask, which is closed.
    pub fn open_soon(&mut self) {
        self.signals.mask.open_soon();
        self.limit_soon();
    }

    /// The next block begins with a limit callout; the present one goes on.
    pub fn limit_soon(&mut self) {
        self.count.threshold = self.counted();
        self.count.counter.set(0);
    }
}
