//! Our own handlers, where the kernel's signals come.

use super::context::{Context, MASK};
use super::frames::begin_handler;
use super::{
    Arrived, RAISED, SIG_DFL, SIG_IGN, SIGBUS, SIGILL, SIGSEGV, SIGSYS, SYS_USER_DISPATCH, X86_64, bit, is_handling,
};
use crate::death;
use crate::fork;
use crate::hot;
use crate::layout::{AT_MOMENT, BY_FAULT};
use crate::log;
use crate::moment;
use crate::special;
use crate::state;
use crate::sys;
use crate::trap;

/// The kernel's signal in the place of a call.
pub(super) unsafe extern "C" fn on_call(signal: i32, info: *const u8, context: *mut u64) {
    // SAFETY: `siginfo_t` has the code there, and which processor's call it was.
    let (code, processor) = unsafe { (info.add(8).cast::<i32>().read(), info.add(28).cast::<u32>().read()) };
    if code == SYS_USER_DISPATCH && processor != X86_64 {
        crate::end::because(
            &mut Context(context),
            "the program makes a system call as 32-bit programs do (int 0x80)",
            true,
        );
    } else if code == SYS_USER_DISPATCH {
        trap::serve(&mut Context(context));
    } else {
        // SAFETY: the same handler's arguments.
        unsafe { on_signal(signal, info, context) };
    }
}

/// Any other signal.
pub(super) unsafe extern "C" fn on_signal(signal: i32, info: *const u8, context: *mut u64) {
    let mut context = Context(context);
    let state = state::get();
    let signal = signal as usize;
    // SAFETY: `siginfo_t` has 128 bytes, the code and an address among them.
    let (code, address, info) = unsafe {
        (info.add(8).cast::<i32>().read(), info.add(16).cast::<u64>().read(), info.cast::<[u8; 128]>().read())
    };
    let rip = context.rip();
    let raised = RAISED & bit(signal) != 0 && code > 0;
    if !raised && state.lent > 0 && state.signals.deadly & bit(signal) != 0 {
        // The log goes on with the parent.
        death::at_once(signal);
        return;
    }
    if trap::own().contains(&rip) || hot::is_stub(rip) {
        if raised {
            in_own(&mut context, signal, address);
            return;
        }
        if signal == SIGSYS && code == moment::SI_TIMER {
            // A call is being served, at whose end the signal is delivered; or the timer comes again.
            return;
        }
        // A call waits; or is being served, while only deadly ones can come, or from a site that jumps.
        state.signals.arrive(signal, info);
        if state.signals.deadly & bit(signal) != 0 || !is_handling(context.rsp()) {
            moment::wait();
        }
        let (not_made, given_up) = sys::waiting();
        if not_made.contains(&rip) {
            context.set_rip(given_up);
        }
        // The others wait until this one is delivered.
        context.set(MASK, !RAISED);
        return;
    }
    if raised {
        if signal == SIGSEGV && special::answer(&mut context) {
            return;
        }
        let action = state.signals.actions[signal];
        let blocked = state.signals.mask & bit(signal) != 0;
        if action.handler == SIG_DFL || action.handler == SIG_IGN || blocked {
            death::raised(signal);
        } else {
            begin_handler(&mut context, &Arrived { signal, info }, BY_FAULT);
        }
        return;
    }
    if signal == SIGSYS && code == moment::SI_TIMER {
        if moment::is_repeated(rip) {
            // Where in its rounds the instruction is, no position says. The timer comes again.
            return;
        }
        if let Some(arrived) = state.signals.take_arrived() {
            moment::over();
            moment::note(&context);
            begin_handler(&mut context, &arrived, AT_MOMENT);
        }
        return;
    }
    // Between two calls: it is delivered at the next, or soon.
    state.signals.arrive(signal, info);
    context.set(MASK, !RAISED);
    moment::wait();
}

/// This program's own code has raised a signal.
fn in_own(context: &mut Context, signal: usize, address: u64) {
    let (at, over) = sys::copying();
    let log = log::memory();
    if signal == SIGBUS && log.contains(&address) {
        // The disk is full: what is written from here on is lost.
        let page = address & !0xfff;
        let flags = sys::MAP_PRIVATE | sys::MAP_FIXED | sys::MAP_ANONYMOUS | 0x4000;
        // SAFETY: the rest of the log.
        unsafe { sys::call(sys::MMAP, [page, log.end - page, 3, flags, u64::MAX, 0]) };
        state::get().full = true;
    } else if context.rip() == at && (signal == SIGSEGV || signal == SIGBUS) {
        context.set_rip(over);
    } else if signal == SIGILL && hot::is_delivery(context.rip()) {
        hot::deliver(context);
    } else if signal == SIGILL && fork::is_behind(context.rip()) {
        fork::behind(context);
    } else {
        crate::text::fail("internal error: a fault", -(signal as i64));
    }
}
