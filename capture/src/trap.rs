//! The signal that comes in the place of each system call of the program's, and what its handler does.
//!
//! ```text
//! program: syscall ──> SIGSYS ──> serve ──> call made, kept ──┬─ no signal has come ──> behind the call
//!                                                             └─ one has ──> its handler's frame ──> the program's handler
//! ```

use crate::calls;
use crate::cpuid;
use crate::death;
use crate::end;
use crate::epoch::{self, Place};
use crate::hot;
use crate::log;
use crate::moment;
use crate::signals::{self, Context};
use crate::state;
use crate::sys;
use crate::thread;
use crate::turn;

const PR_SET_TSC: u64 = 26;
const PR_TSC_ENABLE: u64 = 1;
const PR_TSC_SIGSEGV: u64 = 2;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const ARCH_CPUID: u64 = 0x1012;

unsafe extern "C" {
    /// Where the linker has put this program's code.
    static __executable_start: u8;
    static etext: u8;
}

/// This program's own code, from which calls are made.
pub fn own() -> core::ops::Range<u64> {
    &raw const __executable_start as u64..&raw const etext as u64
}

/// What the kernel blocks all calls by but our own: one byte, which says that it does.
static SELECTOR: u8 = 1;

/// The thread's calls lead to the handler, or do no more. After `fork`, this has to be asked for again.
pub fn dispatch(on: bool) {
    let Range { start, end } = own();
    let args = if on {
        [PR_SET_SYSCALL_USER_DISPATCH, 1, start, end - start, &raw const SELECTOR as u64, 0]
    } else {
        [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]
    };
    // SAFETY: the range and the byte are this program's.
    let done = unsafe { sys::call(sys::PRCTL, args) };
    if done < 0 && on {
        crate::text::fail("this kernel has no syscall user dispatch", done);
    }
}

use core::ops::Range;

/// Whether the program may read the time stamp counter by itself; whether that could be set.
pub fn allow_tsc(allowed: bool) -> bool {
    // SAFETY: a setting of the calling thread's.
    unsafe { sys::call3(sys::PRCTL, PR_SET_TSC, if allowed { PR_TSC_ENABLE } else { PR_TSC_SIGSEGV }, 0) == 0 }
}

/// The same of the processor's features.
pub fn allow_cpuid(allowed: bool) -> bool {
    // SAFETY: as above.
    unsafe { sys::call3(sys::ARCH_PRCTL, ARCH_CPUID, u64::from(allowed), 0) == 0 }
}

/// The program's code is what it was.
pub fn leave_code() {
    hot::forget();
    if !cpuid::traps() {
        cpuid::show();
    }
}

/// The thread makes its calls, and asks the processor, by itself from now on.
pub fn leave_thread() {
    allow_tsc(true);
    if cpuid::traps() {
        allow_cpuid(true);
    }
    dispatch(false);
}

/// All that the program does leads here from now on.
pub fn begin() {
    signals::begin();
    if !allow_tsc(false) || cpuid::traps() && !allow_cpuid(false) {
        crate::text::fail("the kernel does not let RDTSC be hidden", 0);
    }
    state::get().on = true;
    dispatch(true);
}

/// A system call of the program's.
pub fn serve(context: &mut Context) {
    let state = state::get();
    let number = context.rax();
    if !state.on {
        signals::call_without_us(context);
        end::leave_if_over(context);
        dispatch(false);
        return;
    }
    if let Some(arrived) = thread::get().signals.take_arrived() {
        // It came since the last call: before this one, which is made behind its handler.
        moment::over();
        if death::is_of(&arrived) {
            context.set_rip(context.rip() - calls::BYTES);
            return death::in_call(context, &arrived, number);
        }
        calls::made_again(context, number);
        signals::deliver(context, &arrived);
        return;
    }
    thread::get().stand.is_at(Place::Call(context.address()));
    if let Some(why) = state.shared.stranger() {
        return end::lost(context, why);
    }
    turn::give_way_if_asked();
    epoch::begin_if_due();
    hot::count(context.rip(), number);
    calls::serve(context, number);
    if state.full {
        end::because(context, log::why_full(), false);
    }
    end::if_asked_for(context);
    end::leave_if_over(context);
}
