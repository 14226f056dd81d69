//! What is true of the process, and not of one of its threads.

use crate::base::die;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Something that a process has one of, from its start on. A forked child replaces what it has of its parent; nothing is ever freed.
pub struct OfProcess<T>(AtomicPtr<T>);

impl<T: Sync + 'static> OfProcess<T> {
    /// None yet.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The process's.
    pub fn get(&self) -> &'static T {
        // SAFETY: null or a value that is never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }.unwrap_or_else(|| die("the logger was not started"))
    }

    /// The process begins with this.
    pub fn set(&self, value: T) {
        self.0.store(Box::into_raw(Box::new(value)), Ordering::SeqCst);
    }

    /// A forked child goes on with what this makes of its parent's.
    pub fn fork(&self, child: impl FnOnce(&T) -> T) {
        self.set(child(self.get()));
    }
}

/// Whether the program's first instruction is still to come.
static NEW_PROGRAM: AtomicBool = AtomicBool::new(true);

/// Whether there is, or was, more than one thread: blocks then have what threads need.
static THREADED: AtomicBool = AtomicBool::new(false);

/// The calling process's id, which in a child of `vfork` is not that of the process whose memory it has.
pub fn current_pid() -> u32 {
    // Asks the system, and not DynamoRIO, which remembers.
    std::process::id()
}

/// Whether a thread of the process runs, or would if there were a processor for it.
pub fn runs(tid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
}

/// Whether there is, or was, more than one thread.
pub fn threaded() -> bool {
    THREADED.load(Ordering::SeqCst)
}

/// From here on, there is more than one thread; whether that is new.
pub fn become_threaded() -> bool {
    !THREADED.swap(true, Ordering::SeqCst)
}

/// Whether the program's first instruction is about to be executed: true once.
pub fn takes_first_instruction() -> bool {
    NEW_PROGRAM.swap(false, Ordering::Relaxed)
}

/// Whether it has been.
pub fn has_begun() -> bool {
    !NEW_PROGRAM.load(Ordering::Relaxed)
}
