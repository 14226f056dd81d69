//! Where a thread's next threshold is.

use super::Thread;
use crate::base::options;
use bugnet_format::regs::RegisterFile;

impl Thread {
    /// Where the next threshold is.
    pub(in crate::run) fn next_threshold(&mut self, position: u64) -> u64 {
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
