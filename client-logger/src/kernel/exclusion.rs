//! Two kinds of system calls of which none of the one kind is made while one of the other is: as many as there are of the same kind may be.

use crate::base::waiting;
use crate::log::recording;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// So long a thread sleeps at a time.
const SLEEP: Duration = Duration::from_micros(200);

/// One of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No call of the other kind begins as soon as one of this is about to.
    First,
    /// It gives way.
    Second,
}

/// How many calls of both kinds are made, or are about to be.
#[derive(Debug)]
pub struct Exclusion {
    counts: [AtomicU32; 2],
}

impl Exclusion {
    /// None are.
    pub const fn new() -> Self {
        Self { counts: [AtomicU32::new(0), AtomicU32::new(0)] }
    }

    fn of(&self, kind: Kind) -> &AtomicU32 {
        &self.counts[kind as usize]
    }

    fn is_made(&self, kind: Kind) -> bool {
        self.of(kind).load(Ordering::SeqCst) != 0
    }

    /// A call is made without waiting.
    pub fn count(&self, kind: Kind) {
        self.of(kind).fetch_add(1, Ordering::SeqCst);
    }

    /// Before a call: waits until it may be made.
    pub fn begin(&self, kind: Kind, thread: Waiter) {
        self.count(kind);
        match kind {
            Kind::First => wait(thread, || !self.is_made(Kind::Second)),
            Kind::Second => {
                while self.is_made(Kind::First) {
                    self.over(kind);
                    wait(thread, || !self.is_made(Kind::First));
                    self.count(kind);
                }
            }
        }
    }

    /// Behind the call.
    pub fn over(&self, kind: Kind) {
        // In a forked child, there is nobody left: see `forget`.
        let _ = self.of(kind).fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }

    /// In a process that was just forked: of the threads, only the one that forked is there.
    pub fn forget(&self) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::SeqCst));
    }
}

/// A thread that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// DynamoRIO's context of it.
    pub context: *mut c_void,
    /// Whether it is a child of `vfork`, in its parent's memory.
    pub foreign: bool,
}

/// Waits for something while DynamoRIO may stop this thread.
pub fn wait(Waiter { context, foreign }: Waiter, mut test: impl FnMut() -> bool) {
    let sleep = || {
        // SAFETY: sleeps.
        unsafe { libc::usleep(SLEEP.as_micros() as u32) };
        None
    };
    waiting::until(context, || test().then_some(()), sleep, || (foreign && is_left_alone()).then_some(()));
}

/// Whether somebody has killed the process whose memory the calling one has: its threads do not go on any more.
fn is_left_alone() -> bool {
    // SAFETY: sends nothing.
    let there = unsafe { libc::kill(recording::id().pid.0 as i32, 0) } == 0;
    !there && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}
