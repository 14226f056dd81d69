//! The end of the process; and a thread that dies of a signal which somebody has sent.

use crate::kernel::{executing, lending};
use crate::run::lifetime;
use crate::run::signals::{self, held::Sent};
use crate::run::snapshot::{self, How};
use crate::run::thread::Thread;
use bugnet_format::record::EndReason;
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::Addr;
use std::ffi::c_void;

/// Waits until DynamoRIO may end the process, in a thread with this context that has left: until no child of `vfork` has its memory, and nobody
/// is about to execute a program. Neither begins any more.
pub fn wait_to_end(context: *mut c_void) {
    lending::Call::Stops.begins(context, false);
    executing::Call::Makes.begins(context, false);
}

/// The thread dies, at this position, of a signal that somebody has sent.
pub fn die(thread: &mut Thread, sent: &Sent, position: u64, regs: RegisterFile) -> ! {
    if thread.recording() {
        thread.end_others();
        snapshot::keep(thread, position, regs.gpr[RSP], How::Killed);
        let (signo, code, addr) = (sent.signal as u32, sent.code, Addr(0));
        thread.stop(position, EndReason::Signal { signo, code, addr }, regs);
    }
    if !thread.is_foreign() {
        lifetime::finish();
    }
    signals::die_by(sent.signal)
}
