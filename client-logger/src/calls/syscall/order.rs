//! The place of a call among those of other threads: see [`turns`].

use super::kinds::known;
use crate::base::light;
use crate::base::process::threaded;
use crate::kernel::streams;
use crate::kernel::turns::{self, Turn};
use crate::run::thread::Thread;
use bugnet_format::record::OutputStream;
use bugnet_system_calls::{SystemCall, Way};
use std::ffi::c_void;

/// Which way a call goes whose place among those of other threads is recorded.
fn way(number: i64) -> Option<Way> {
    known(number).filter(|_| threaded()).and_then(SystemCall::way)
}

/// The place of a call that the kernel does not get: each has one where a light log is expanded, which has the order of all.
pub fn answered() -> u64 {
    if light::expands() && threaded() { turns::number() } else { 0 }
}

/// Before a call with this first argument, as the last thing: gives it its place, where it has that from here on.
pub fn begins(thread: &mut Thread, drcontext: *mut c_void, number: i64, first: u64) {
    thread.syscall.order = None;
    if way(number) != Some(Way::Gives) {
        return;
    }
    if known(number).is_some_and(|known| known.sends.is_some()) && streams::of(first) != OutputStream::None {
        thread.syscall.turn = Some(Turn::take(thread.tid().id(), drcontext));
    }
    thread.syscall.order = Some(turns::number());
}

/// Behind a call: its place, or 0 if it has none.
pub fn ends(thread: &mut Thread, number: i64) -> u64 {
    if light::expands() {
        return answered();
    }
    way(number).map_or(0, |_| thread.syscall.order.take().unwrap_or_else(turns::number))
}
