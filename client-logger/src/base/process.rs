//! What is true of the process, and not of one of its threads.

use crate::base::descriptors::read_text;
use crate::base::failure::fail;
use crate::base::maps;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

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
        unsafe { self.0.load(Ordering::Acquire).as_ref() }.unwrap_or_else(|| fail("the logger was not started"))
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

/// What tells the process from others: see [`identity`].
static IDENTITY: AtomicU32 = AtomicU32::new(0);

/// The calling process's id, as it knows it itself. Other processes may have the same one in namespaces of their own, its parent and its children
/// among them.
pub fn current_pid() -> u32 {
    // Asks the system, and not DynamoRIO, which remembers.
    std::process::id()
}

/// What tells the calling process from its parent, its children, and all others that there are: its id where the first one of them began, whatever
/// namespace it is in itself.
pub fn identity() -> u32 {
    maps::id_at_start().unwrap_or_else(current_pid)
}

/// A process begins, or a forked child goes on.
pub fn begin() {
    IDENTITY.store(identity(), Ordering::SeqCst);
}

/// Whether the calling thread is one of the process whose memory it has: not so in a child of `vfork`, nor in a forked child before [`begin`].
pub fn is_own() -> bool {
    identity() == IDENTITY.load(Ordering::SeqCst)
}

/// Whether the process whose memory the calling thread has is gone.
pub fn is_left_alone() -> bool {
    maps::is_gone(IDENTITY.load(Ordering::SeqCst))
}

/// Whether a thread of the process runs, or would if there were a processor for it.
pub fn runs(tid: u32) -> bool {
    let stat = read_text(format!("/proc/self/task/{tid}/stat"));
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
