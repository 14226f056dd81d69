//! The light part ends: what cannot be kept exactly. The program goes on as if it had been started alone.

use crate::death;
use crate::layout::{END, GOES_ON};
use crate::log::{self, Record};
use crate::moment;
use crate::signals::{self, Context};
use crate::state;
use crate::text::say;
use crate::trap;

/// What is said in front of the reason.
pub const TEXT: &str = "light recording ends here, and the program goes on without it";

/// Ends the light part, with a sentence for people; `again`: the call that is being served is then made by the program itself.
pub fn because(context: &mut Context, why: &str, again: bool) {
    let state = state::get();
    if !state.on {
        return;
    }
    state.on = false;
    if let Some(mut record) = Record::begin(END, GOES_ON, 8 + why.len()) {
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
}

/// The process goes on without us.
pub fn leave(context: &mut Context) {
    signals::leave(context);
    moment::over();
    // What has come meanwhile comes again, to whom it is for.
    if let Some(arrived) = state::get().signals.take_arrived() {
        death::send(arrived.signal);
    }
    trap::leave_code();
    trap::dispatch(false);
}
