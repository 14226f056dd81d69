//! How the program dies of a signal: as it would alone, with the log's last record in front of it. The signal is sent once more, to the kernel's own handling, and
//! kills the program where it is, with its registers: a core file shows nothing of ours but memory.

use crate::calls;
use crate::layout::{DIES, DIES_IN_CALL, END, KILLED};
use crate::log::Record;
use crate::moment;
use crate::signals::{self, Arrived, Context, SIGTRAP, bit};
use crate::state;
use crate::sys;
use crate::thread;
use crate::trap;
use crate::turn;

/// Sends the calling thread a signal.
pub fn send(signal: usize) {
    // SAFETY: no arguments; a signal.
    unsafe {
        let [pid, tid] = [sys::GETPID, sys::GETTID].map(|number| sys::call3(number, 0, 0, 0) as u64);
        sys::call3(sys::TGKILL, pid, tid, signal as u64);
    }
}

/// The instruction at which the program is has raised a signal: it does so again, and kills.
pub fn raised(signal: usize) {
    if let Some(mut record) = Record::begin(END, DIES, 8) {
        record.word(signal as u64);
        record.end();
    }
    turn::end_process();
    signals::let_kill(signal);
    trap::dispatch(false);
    if signal == SIGTRAP {
        // INT3 is behind itself already; the signal is blocked until the handler is over.
        send(signal);
    }
}

/// A signal that has come kills the program where it is: behind the call, or at the moment, that the log had last.
pub fn killed(context: &mut Context, arrived: &Arrived) {
    if let Some(mut record) = Record::begin(END, KILLED, 16) {
        record.word(arrived.signal as u64);
        record.word(arrived.code() as u64);
        record.end();
    }
    kill(context, arrived.signal);
}

/// A signal that has come kills the program at a call, which was not made, or is not over.
pub fn in_call(context: &mut Context, arrived: &Arrived, number: u64) {
    note_in_call(arrived.signal as u64, arrived.code(), number, &context.arguments());
    kill(context, arrived.signal);
}

/// The log's last record, of a program that dies in a call.
pub fn note_in_call(signal: u64, code: i32, number: u64, args: &[u64; 6]) {
    calls::note_unfinished(DIES_IN_CALL, &[signal, code as u64], number, args);
}

fn kill(context: &mut Context, signal: usize) {
    turn::end_process();
    moment::over();
    signals::let_kill(signal);
    let only = bit(signal);
    // SAFETY: a set.
    unsafe { sys::call(sys::RT_SIGPROCMASK, [0, &raw const only as u64, 0, 8, 0, 0]) };
    send(signal);
    let mask = thread::get().signals.mask;
    context.set_mask(mask & !only);
}

/// A child of `vfork` dies; the log is its parent's.
pub fn at_once(signal: usize) {
    signals::let_kill(signal);
    let only = bit(signal);
    send(signal);
    // SAFETY: a set.
    unsafe { sys::call(sys::RT_SIGPROCMASK, [1, &raw const only as u64, 0, 8, 0, 0]) };
}

/// Whether a signal that has come kills the program.
pub fn is_of(arrived: &Arrived) -> bool {
    state::get().signals.deadly & bit(arrived.signal) != 0
}

/// Whether one has come that does.
pub fn has_come() -> bool {
    let signals = &thread::get().signals;
    signals.has_come() && is_of(signals.arrived())
}

/// Whether the call at which such a signal has come was not made, or will not come to its end: it is the one that sends it, or would be made again.
pub fn is_in_call(arrived: &Arrived, number: u64, args: &[u64; 6], result: i64) -> bool {
    let again = [crate::layout::MADE_AGAIN, -sys::EINTR].contains(&result);
    is_of(arrived) && (again || calls::sends_to_itself(number, args) == Some(arrived.signal as u64))
}
