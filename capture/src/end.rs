//! The light part ends: what cannot be kept exactly. The program goes on as if it had been started alone.

use crate::death;
use crate::layout::{END, GOES_ON, LOST};
use crate::log::{self, Record};
use crate::moment;
use crate::signals::{self, Context};
use crate::state;
use crate::text::say;
use crate::thread;
use crate::threads;
use crate::trap;
use crate::turn;
use core::sync::atomic::{AtomicBool, Ordering};

/// What is said in front of the reason.
pub const TEXT: &str = "light recording ends here, and the program goes on without it";

/// Ends the light part, with a sentence for people; `again`: the call that is being served is then made by the program itself.
pub fn because(context: &mut Context, why: &str, again: bool) {
    end(context, GOES_ON, why, again);
}

/// The same before a call, where it is not known what has come to the thread since its last record.
pub fn lost(context: &mut Context, why: &str) {
    end(context, LOST, why, true);
}

fn end(context: &mut Context, how: u16, why: &str, again: bool) {
    // Threads that have lost their turn may come here at once.
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let state = state::get();
    if !state.on || IS_OVER.swap(true, Ordering::SeqCst) {
        return;
    }
    state.on = false;
    turn::keep();
    if let Some(mut record) = Record::begin(END, how, 8 + why.len()) {
        record.word(why.len() as u64);
        record.bytes(why.as_bytes());
        record.end();
    }
    log::close();
    say(format_args!("{TEXT}: {why} (process {})", state.pid));
    if again {
        signals::call_without_us(context);
    }
    leave(context);
    state.shared.give_back();
    turn::over();
}

/// Ends it, if there is a reason to do so as soon as it can be done.
pub fn if_asked_for(context: &mut Context) {
    if let Some(why) = state::get().ends {
        because(context, why, false);
    }
}

/// The process goes on without us: the calling thread at once, others when the calls are over that they are in.
pub fn leave(context: &mut Context) {
    signals::leave(threads::are_many());
    trap::leave_code();
    leave_thread(context);
}

/// The calling thread goes on without us, if the light part has ended.
pub fn leave_if_over(context: &mut Context) {
    if !state::get().on && !thread::get().has_left {
        leave_thread(context);
    }
}

fn leave_thread(context: &mut Context) {
    let me = thread::get();
    me.has_left = true;
    signals::leave_thread(context);
    moment::over();
    // What has come meanwhile comes again, to whom it is for.
    if let Some(arrived) = me.signals.take_arrived() {
        death::send(arrived.signal);
    }
    threads::leave();
    trap::leave_thread();
}
