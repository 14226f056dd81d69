//! Leaves the code cache now and then.
//!
//! A signal that arrives while the program is in a callout is taken by DynamoRIO, but delivered only when control comes
//! back to its dispatcher; a loop whose blocks are linked never does. So limit callouts send it there after a while, and
//! a callout during which a signal has come, to whichever thread, sees to it that the next block begins with a limit
//! callout.

use crate::base::failure;
use crate::emitted::callout::Saved;
use bugnet_dr::context::Machine;
use std::arch::x86_64::_rdtsc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cycles of the time stamp counter after which the code cache is left: some milliseconds.
const PERIOD: u64 = 1 << 23;

/// How many signals have come to the process, other than faults.
pub(super) static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The same.
fn taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// When a thread last left the code cache because of this, and the context with which it comes back.
pub struct Leave {
    last: u64,
    /// [`taken`] when the code cache was left.
    taken: u64,
    context: Box<Machine>,
}

impl Leave {
    /// For a thread that begins.
    pub fn new() -> Self {
        Self { last: 0, taken: 0, context: Machine::empty() }
    }

    /// Whether a signal may wait for the code cache to be left.
    pub fn is_urgent(&self) -> bool {
        self.taken != taken()
    }

    /// Whether it is time.
    pub fn is_due(&mut self) -> bool {
        // SAFETY: RDTSC is in every x86-64 processor, and the process may execute it: the program cannot forbid it.
        let now = unsafe { _rdtsc() };
        let due = self.is_urgent() || now.wrapping_sub(self.last) > PERIOD;
        if due {
            self.last = now;
            self.taken = taken();
        }
        due
    }

    /// Goes on with the program at `pc`, by way of DynamoRIO's dispatcher. The caller's frame is never returned to: it
    /// must not own anything.
    pub fn go(&mut self, saved: &Saved, pc: u64) -> ! {
        for (number, value) in saved.gpr.iter().enumerate() {
            *self.context.gpr_mut(number) = *value;
        }
        self.context.set_flags(saved.rflags);
        self.context.set_pc(pc);
        self.context.set_vectors(&saved.ymm);
        failure::leave();
        crate::base::fs_base::leave_client();
        // SAFETY: in a callout, which is left for good.
        unsafe { self.context.redirect() };
        crate::base::die("DynamoRIO did not redirect execution")
    }
}
