//! Two kinds of system calls of which none of the one kind is made while one of the other is: as many as there are of the same kind may be.
//!
//! Who makes them is known by context, so that others can say for a child of `vfork` that it makes none any more: one that SIGKILL kills says
//! nothing, wherever it is.

use crate::base::{process, waiting};
use crate::kernel::borrowers;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// So long a thread sleeps at a time.
const SLEEP: Duration = Duration::from_micros(200);
/// So many calls of one kind are made at a time; further ones wait.
const PLACES: usize = 1024;

/// One of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No call of the other kind begins as soon as one of this is about to.
    First,
    /// It gives way.
    Second,
}

/// Who makes calls of one kind, or is about to: contexts of DynamoRIO's.
#[derive(Debug)]
struct Makers([AtomicPtr<c_void>; PLACES]);

impl Makers {
    const fn none() -> Self {
        Self([const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES])
    }

    /// Adds one, if there is a place.
    fn add(&self, context: *mut c_void) -> bool {
        let none = std::ptr::null_mut();
        self.0.iter().any(|place| place.compare_exchange(none, context, Ordering::SeqCst, Ordering::Relaxed).is_ok())
    }

    fn remove(&self, context: *mut c_void) {
        let none = std::ptr::null_mut();
        for place in &self.0 {
            if place.load(Ordering::SeqCst) == context {
                place.store(none, Ordering::SeqCst);
            }
        }
    }

    fn any(&self) -> bool {
        self.0.iter().any(|place| !place.load(Ordering::SeqCst).is_null())
    }
}

/// Those that stop all threads, and those that lend memory.
pub static LENDING: Exclusion = Exclusion::new();
/// Those that execute a program, of threads and of children; and those that make a thread or a process.
pub static EXECUTING: Exclusion = Exclusion::new();

/// Who makes calls of both kinds.
#[derive(Debug)]
pub struct Exclusion([Makers; 2]);

impl Exclusion {
    const fn new() -> Self {
        Self([Makers::none(), Makers::none()])
    }

    fn of(&self, kind: Kind) -> &Makers {
        &self.0[kind as usize]
    }

    /// A call is made without waiting for those of the other kind.
    pub fn note(&self, kind: Kind, thread: Waiter) {
        wait(thread, || self.of(kind).add(thread.context));
    }

    /// Before a call: waits until it may be made.
    pub fn begin(&self, kind: Kind, thread: Waiter) {
        self.note(kind, thread);
        match kind {
            Kind::First => wait(thread, || !self.of(Kind::Second).any()),
            Kind::Second => {
                while self.of(Kind::First).any() && !thread.is_left_alone() {
                    self.over(kind, thread.context);
                    wait(thread, || !self.of(Kind::First).any());
                    self.note(kind, thread);
                }
            }
        }
    }

    /// Behind the call; and where there was none, or it has been said that it is over.
    pub fn over(&self, kind: Kind, context: *mut c_void) {
        self.of(kind).remove(context);
    }

    /// In a process that was just forked: of the threads, only the one that forked is there.
    pub fn forget(&self) {
        self.0
            .iter()
            .flat_map(|makers| &makers.0)
            .for_each(|place| place.store(std::ptr::null_mut(), Ordering::SeqCst));
    }
}

/// A child that has had another process's memory is gone: it makes no call any more.
fn gone(context: *mut c_void) {
    for makers in LENDING.0.iter().chain(&EXECUTING.0) {
        makers.remove(context);
    }
}

/// One with this context ends by itself.
pub fn child_ends(context: *mut c_void) {
    borrowers::lends_no_more(context);
    gone(context);
}

/// The thread with this context goes on, which may have lent its memory to a child.
pub fn gave_back(lender: *mut c_void) {
    borrowers::gave_back(lender, gone);
}

/// A thread that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// DynamoRIO's context of it.
    pub context: *mut c_void,
    /// Whether it is a child of `vfork`, in its parent's memory.
    pub foreign: bool,
}

impl Waiter {
    /// Whether it is of no use to wait: somebody has killed the process whose memory the calling one has, and its threads do not go on any more.
    fn is_left_alone(self) -> bool {
        self.foreign && process::is_left_alone()
    }
}

/// Waits for something while DynamoRIO may stop this thread.
pub fn wait(thread: Waiter, mut test: impl FnMut() -> bool) {
    let sleep = || {
        // SAFETY: sleeps.
        unsafe { libc::usleep(SLEEP.as_micros() as u32) };
        None
    };
    let rarely = || {
        borrowers::look_for_orphans(gone);
        thread.is_left_alone().then_some(())
    };
    waiting::until(thread.context, || test().then_some(()), sleep, rarely);
}
