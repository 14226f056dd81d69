//! The place of a call among those of other threads: see [`turns`].

use super::Call;
use super::kinds::known;
use crate::base::process::threaded;
use crate::kernel::streams;
use crate::kernel::turns::{self, Turn};
use crate::run::thread::Thread;
use bugnet_format::record::OutputStream;
use bugnet_system_calls::{SystemCall, Way};

/// Which way a call goes whose place among those of other threads is recorded.
fn way(number: i64) -> Option<Way> {
    known(number).filter(|_| threaded()).and_then(SystemCall::way)
}

/// Before a call, as the last thing: gives it its place, where it has that from here on.
pub fn begins(thread: &mut Thread, call: &Call) {
    thread.syscall.order = None;
    if way(call.number) != Some(Way::Gives) {
        return;
    }
    if known(call.number).is_some_and(|known| known.sends.is_some()) && streams::of(call.args[0]) != OutputStream::None
    {
        thread.syscall.turn = Some(Turn::take(thread.tid().id(), call.drcontext));
    }
    thread.syscall.order = Some(turns::number());
}

/// Behind a call: its place, or 0 if it has none.
pub fn ends(thread: &mut Thread, number: i64) -> u64 {
    way(number).map_or(0, |_| thread.syscall.order.take().unwrap_or_else(turns::number))
}
