//! What callouts of blocks lead to.

mod emulate;
mod exchange;
mod limit;
mod serve;

use crate::base::failure::attempt;
use crate::base::slots::Slot;
use crate::emitted::callout::Callouts;
use crate::emitted::site::{Kind, Site};
use crate::log::recording;
use crate::run::signals::held::Sent;
use crate::run::thread::Thread;
use bugnet_format::regs::ARITHMETIC_FLAGS;

/// The Rust side of a callout.
///
/// # Safety
/// Called by the stub with the calling thread's structure, in which it has just saved the registers, and the site
/// that the inline part named.
pub(in crate::run) unsafe extern "C" fn on_callout(callouts: *mut Callouts, site: *const Site) {
    // SAFETY: the caller's promise; a site is there as long as its block, and a thread's structure is used by its thread only.
    let (thread, site) = unsafe { (&mut *callouts.cast::<Thread>(), &*site) };
    if let Kind::Limit { .. } = site.kind {
        // SAFETY: in a callout, of which the slot tells where it is in the code cache.
        unsafe { site.lies.first_run(Slot::Return.read()) };
        if thread.count.counter.deal() {
            // There is no threshold yet.
            return;
        }
    }
    let thread = std::ptr::from_mut(thread);
    // SAFETY: as above. Where the recorder fails, nobody refers to the thread any more.
    attempt(|| unsafe { &mut *thread }.callout(site));
    // SAFETY: in this callout; the thread's own slot.
    unsafe {
        if let Some(back) = site.lies.back() {
            Slot::Return.write(back);
        }
    }
}

impl Thread {
    /// What the stub leads to.
    pub fn callout(&mut self, site: &Site) {
        if recording::over() {
            self.follow_end();
        }
        if let Some(chaos) = &mut self.chaos {
            chaos.come_to(site.pc);
        }
        if let Kind::Limit { flags, saved } = site.kind {
            if saved {
                self.callouts.saved.rflags = self.callouts.saved.rflags & !ARITHMETIC_FLAGS | Slot::read_flags();
            }
            self.limit(site, flags);
            return;
        }
        // By far the most frequent one.
        if matches!(site.kind, Kind::Differs { .. }) && self.recording() {
            self.differs(self.counted() - site.back, site);
        } else {
            self.serve(site);
        }
        if self.signals.leave.is_urgent() && self.count.counter.left() > 0 {
            self.limit_soon();
        }
    }

    /// In a system call, what may wait for the mask to be opened is let in. Returns what kills the thread before the call.
    #[must_use]
    pub fn let_signals_in(&mut self) -> Option<Sent> {
        if self.signals.leave.is_urgent() { self.signals.mask.open() } else { None }
    }
}
