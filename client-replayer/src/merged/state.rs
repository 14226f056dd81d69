//! The one [`Merged`] replay of the process, and DynamoRIO's ways to it.

use super::{Merged, block};
use crate::stub::{Handlers, Stub};
use bugnet_dr::sys;
use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

static MERGED: AtomicPtr<Merged> = AtomicPtr::new(std::ptr::null_mut());

const SIGBUS: i32 = 7;
const SIGSEGV: i32 = 11;

/// The replay. It exists from [`start`] on and as long as the process.
///
/// # Safety
/// Only from DynamoRIO's events and clean calls of the one thread, each of which calls this once: they do not nest,
/// since the client's own code neither runs in the code cache nor raises signals that are handed to it.
pub unsafe fn merged() -> &'static mut Merged {
    // SAFETY: `start` stores a leaked allocation before it registers any event; exclusive by the caller's promise.
    unsafe { &mut *MERGED.load(Ordering::Relaxed) }
}

/// Sets up the merged replay of a package and registers the events.
pub fn start(package: &'static [u8], control: File, window: Range<u64>, gate: u64) -> Result<(), String> {
    let merged = Merged::new(package, control, window, gate, Stub::new(HANDLERS)?);
    MERGED.store(Box::into_raw(Box::new(merged)), Ordering::Relaxed);
    // SAFETY: the functions have the signatures that DynamoRIO expects, and last as long as the process.
    unsafe {
        sys::dr_register_bb_event(Some(block::on_block));
        sys::dr_register_signal_event(Some(on_signal));
    }
    Ok(())
}

const HANDLERS: Handlers = Handlers { light: on_light, clean: on_event };

/// Called from the code cache, with the registers saved; returns where to go on.
unsafe extern "C" fn on_light() -> u64 {
    // SAFETY: called from the code cache, like a clean call.
    let merged = unsafe { merged() };
    merged.called()
}

/// Called from the code cache, by way of the clean call.
unsafe extern "C" fn on_event() {
    // SAFETY: a clean call of the only thread.
    let merged = unsafe { merged() };
    merged.event().go_on();
}

/// DynamoRIO's event for each signal. What an instruction accesses is mapped before it runs, so a signal is a divergence.
unsafe extern "C" fn on_signal(_context: *mut c_void, info: *mut sys::dr_siginfo_t) -> sys::dr_signal_action_t {
    // SAFETY: an event of the only thread; the client itself raises no signals. The pointers are valid for the event,
    // and DynamoRIO fills in the program's registers for every signal.
    let (replay, info) = unsafe { (merged(), &mut *info) };
    // SAFETY: as above.
    let context = unsafe { &mut *info.mcontext };
    replay.machine.copy(context);
    let (pc, address) = (replay.machine.pc, info.access_address as u64);
    let fault = info.sig == SIGSEGV || info.sig == SIGBUS;
    let what = match info.sig {
        _ if fault && !replay.memory.is_code(pc, 1) => {
            format!("execution reached {pc:#x}, of which the log has no code")
        }
        _ if fault => format!("the instruction at {pc:#x} accesses {address:#x}"),
        signal => format!("signal {signal} at {pc:#x}"),
    };
    let executed = u64::from(!info.fault_fragment_info.cache_start_pc.is_null());
    context.__bindgen_anon_10.pc = replay.trap(what, executed) as sys::app_pc;
    sys::dr_signal_action_t_DR_SIGNAL_REDIRECT
}
