//! Thresholds: where an interval ends, a check is due, or signals are to be let in.

use super::Thread;
use crate::by_rip;
use crate::fault;
use crate::process;
use crate::site::Site;
use bugnet_dr::fpu;
use bugnet_dr::ir::Gpr;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::RegisterFile;

/// Most instructions between two thresholds: after so many, a thread looks whether to leave the code cache. (The
/// flag-free form of the count wants the counter below 2^32.)
const STRETCH: u64 = 1 << 18;
/// Fewest, while thresholds still meet blocks of which it is [not known](crate::by_rip) that they run often.
const SHORT_STRETCH: u64 = 1 << 15;

/// How many instructions a thread executes from one threshold to the next: where it then is, is a sample of what runs often.
pub struct Stretch {
    /// About so many.
    length: u64,
    /// Makes them differ, lest loops are met at the same block each time.
    random: u64,
}

impl Stretch {
    pub fn new() -> Self {
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

impl Thread {
    /// A block of `back` instructions begins that reaches over the threshold.
    pub(super) fn limit(&mut self, site: &Site, flags: u64) {
        let handler_begins = std::mem::take(&mut self.handler_begins);
        if handler_begins {
            fpu::restore(&RegisterFile::default());
        }
        if by_rip::is_possible() {
            // SAFETY: in the callout, and nobody else executes blocks.
            let found = unsafe { site.lies.met(by_rip::slots(self.left_slot())) };
            self.stretch.adapt(found);
        }
        self.threshold_reached(site, flags);
        if self.leave.is_due() || handler_begins {
            if !self.ended {
                // The block will be counted when it begins again.
                self.recount(self.counted() - site.back);
            }
            if let Some(sent) = self.mask.open() {
                let regs = self.registers(site.pc, flags);
                fault::die(self, &sent, self.counted(), regs);
            }
            self.leave.go(&self.saved, site.pc);
        }
    }

    fn threshold_reached(&mut self, site: &Site, flags: u64) {
        let process = process::get();
        if process.takes_first_instruction() {
            self.prepare_start(process);
        }
        if process.over() {
            self.follow_end();
        }
        if self.ended {
            self.set_counter(self.end, self.threshold, STRETCH as i64);
            return;
        }
        let position = self.counted() - site.back;
        let options = &process.options;
        // Also where nothing has been executed since: there may be records.
        let full = self.paused.is_none() && (self.moved || position > 0 && position + site.back > options.interval);
        let mut begin = self.log.is_none() || self.paused.is_some();
        let regs = self.registers(site.pc, flags);
        let mut position = position;
        let reach = if full { self.reach() } else { Vec::new() };
        if full && let Some(log) = &mut self.log {
            let next = log.prepare_next();
            if let Err(why) = next {
                self.stop(position, EndReason::LogStopped { why }, regs);
                return;
            }
            if let Err(why) = log.end(position, EndReason::Full, regs.clone(), &reach) {
                self.give_up(&why);
                return;
            }
            self.instructions_before += position;
            self.interval.0 += 1;
            begin = true;
        }
        self.moved = false;
        let birth = self.log.is_none();
        if begin {
            if let Err(why) = self.checkpoint(process, regs.clone()) {
                self.give_up(&why);
                return;
            }
            self.paused = None;
            position = 0;
            self.next_check = options.check_every;
        } else if options.check_every > 0 && position + site.back > self.next_check {
            let (rflags_known, hash) = (regs.rflags_known, regs.hash(regs.rflags_known));
            self.record(position, |delta| Record::Check { delta, rflags_known, hash });
            self.next_check = position + options.check_every;
        }
        let mut threshold = options.interval.min(position + self.stretch.next());
        if options.check_every > 0 {
            threshold = threshold.min(self.next_check);
        }
        self.set_counter(position, threshold, threshold as i64 - (position + site.back) as i64);
        if birth {
            self.mask.begin();
            self.be_born(self.saved.gpr[usize::from(Gpr::RSP.0)]);
        }
    }

    /// A handler of the program's begins with these registers: as natively, with x87 state and MXCSR as a program has them at
    /// its start. DynamoRIO leaves those of the interrupted code, or others, so they are set when its first block runs.
    pub fn begin_handler(&mut self, regs: &mut RegisterFile) {
        let RegisterFile { mxcsr, fcw, fsw, ftw, st, .. } = RegisterFile::default();
        *regs = RegisterFile { mxcsr, fcw, fsw, ftw, st, ..regs.clone() };
        self.handler_begins = true;
    }

    /// The next block begins with a limit callout; the present one goes on.
    pub fn limit_soon(&mut self) {
        self.threshold = self.counted();
        // SAFETY: the thread's own slot.
        unsafe { self.left.write(0) };
    }
}
