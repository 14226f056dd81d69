//! Our own handlers, where the kernel's signals come.

use super::context::{Context, MASK};
use super::frames::begin_handler;
use super::{Arrived, OPEN, OURS, RAISED, SIG_DFL, SIG_IGN, SIGBUS, SIGILL, SIGSEGV, SYS_USER_DISPATCH, X86_64, bit};
use crate::chaos;
use crate::death;
use crate::end;
use crate::fork;
use crate::hot;
use crate::layout::{AT_MOMENT, BY_FAULT};
use crate::log;
use crate::moment;
use crate::shared;
use crate::special;
use crate::state;
use crate::sys;
use crate::thread;
use crate::trap;
use crate::turn;

/// The kernel's signal in the place of a call.
pub(super) unsafe extern "C" fn on_call(signal: i32, info: *const u8, context: *mut u64) {
    // SAFETY: `siginfo_t` has the code there, and which processor's call it was.
    let (code, processor) = unsafe { (info.add(8).cast::<i32>().read(), info.add(28).cast::<u32>().read()) };
    if code == SYS_USER_DISPATCH && processor != X86_64 {
        end::because(&mut Context(context), "the program makes a system call as 32-bit programs do (int 0x80)", true);
    } else if code == SYS_USER_DISPATCH {
        let mut context = Context(context);
        chaos::interrupted_at_call(&mut context);
        let makes = fork::makes(context.rax());
        trap::serve(&mut context);
        chaos::draw(chaos::At::Call(makes));
        chaos::goes_on(&mut context);
    } else {
        // SAFETY: the same handler's arguments.
        unsafe { on_signal(signal, info, context) };
    }
}

/// Any other signal.
pub(super) unsafe extern "C" fn on_signal(signal: i32, info: *const u8, context: *mut u64) {
    let mut context = Context(context);
    let signal = signal as usize;
    // SAFETY: `siginfo_t` has 128 bytes, the code and an address among them.
    let (code, address, info) = unsafe {
        (info.add(8).cast::<i32>().read(), info.add(16).cast::<u64>().read(), info.cast::<[u8; 128]>().read())
    };
    let was_stepping = chaos::interrupted(&mut context);
    if !chaos::steps(signal, code, &mut context, was_stepping) {
        handle(&mut context, (signal, code, address), info);
    }
    chaos::goes_on(&mut context);
}

/// A signal has come: its number, `si_code` and address, and all that the kernel says of it.
fn handle(context: &mut Context, (signal, code, address): (usize, i32, u64), info: [u8; 128]) {
    let state = state::get();
    let rip = context.rip();
    let (by_timer, asks) =
        if signal == OURS { (moment::is_timer(code, address as u32), code == turn::SI_ASKS) } else { (false, false) };
    if signal == OURS && code > 0 {
        state.ends = Some(shared::OPENED);
        if !trap::own().contains(&rip) && !hot::is_stub(rip) {
            end::if_asked_for(context);
        }
        return;
    }
    if signal == OURS && !by_timer && !asks && !thread::get().signals.takes(info) {
        return;
    }
    let raised = RAISED & bit(signal) != 0 && code > 0;
    if !raised && !by_timer && !asks && state.lent > 0 && state.signals.deadly & bit(signal) != 0 {
        // The log goes on with the parent.
        death::at_once(signal);
        return;
    }
    let own = &mut thread::get().signals;
    if trap::own().contains(&rip) || hot::is_stub(rip) {
        if raised {
            in_own(context, signal, address);
            return;
        }
        if by_timer || asks {
            // A call is being served, at whose end the signal is delivered; or the timer comes again.
            return;
        }
        // A call waits; or is being served, while only deadly ones can come, or from a site that jumps.
        own.arrive(signal, info);
        if state.signals.deadly & bit(signal) != 0 || !thread::get().is_handling(context.rsp()) {
            moment::wait();
        }
        let (not_made, given_up) = sys::waiting();
        if not_made.contains(&rip) {
            context.set_rip(given_up);
        }
        // The others wait until this one is delivered.
        context.set(MASK, !OPEN);
        return;
    }
    if raised {
        if signal == SIGSEGV && special::answer(context) {
            return;
        }
        let action = state.signals.actions[signal];
        let blocked = own.mask & bit(signal) != 0;
        if action.handler == SIG_DFL || action.handler == SIG_IGN || blocked {
            death::raised(signal);
        } else {
            begin_handler(context, &Arrived { signal, info }, BY_FAULT);
        }
        return;
    }
    if asks {
        turn::is_asked(context);
        chaos::draw(chaos::At::Turn);
        if own.has_come() {
            // It came while others had the turn.
            context.set(MASK, !OPEN);
            moment::wait();
        }
        end::if_asked_for(context);
        end::leave_if_over(context);
        return;
    }
    if by_timer {
        if moment::cannot_be(rip) {
            // The timer comes again.
            return;
        }
        if let Some(arrived) = own.take_arrived() {
            moment::over();
            moment::note(context);
            begin_handler(context, &arrived, AT_MOMENT);
        }
        return;
    }
    // Between two calls: it is delivered at the next, or soon.
    own.arrive(signal, info);
    context.set(MASK, !OPEN);
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
