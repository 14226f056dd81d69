//! The FS base: while the program's code runs it is how far the shadow is away, so that `fs:[address]` is the shadow of
//! `[address]`; while the client runs it is the client's own thread-local storage.
//!
//! DynamoRIO leaves FS to the client's libraries and takes the program's FS base from a slot of its own, so that the
//! register is free. The stub of callouts switches, and so does every event of DynamoRIO's, with [`Guard`].

use crate::base::slots::Slot;
use bugnet_dr::fs_base::set;
pub use bugnet_dr::fs_base::{can_be_set, get};

/// FS bases of a thread.
#[repr(C)]
pub struct Bases {
    /// That of the client's own thread-local storage.
    pub own: u64,
    /// That while the program's code runs.
    pub running: u64,
}

/// Those of the thread whose code this is, before its thread-local storage can be relied on: what [`Slot::Thread`] points to begins with
/// them.
fn bases() -> *const Bases {
    Slot::Thread.read() as *const Bases
}

/// As long as it lives, the client's thread-local storage is there. To be the first value in every event.
pub struct Guard {
    switched: bool,
}

impl Guard {
    /// Switches to the client's thread-local storage if the program's code has been running.
    pub fn new() -> Self {
        let bases = bases();
        if bases.is_null() {
            return Self { switched: false };
        }
        // SAFETY: the thread's structure lives as long as the process; only fields are read that nobody refers to.
        let (own, running) = unsafe { ((*bases).own, (*bases).running) };
        let switched = own != running && get() != own;
        if switched {
            // SAFETY: the base that the thread had when it started.
            unsafe { set(own) };
        }
        Self { switched }
    }

    /// For an event between the program's code and itself, whatever DynamoRIO has done to the FS base meanwhile: it sets
    /// it to the client's when the program has set its own.
    pub fn between() -> Self {
        let mut guard = Self::new();
        guard.switched = !bases().is_null();
        guard
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.switched {
            leave_client();
        }
    }
}

/// The program's code goes on, behind DynamoRIO's, which has no use for FS.
pub fn leave_client() {
    let bases = bases();
    if bases.is_null() {
        return;
    }
    // SAFETY: as in `Guard::new`; this is the last thing that the event does.
    unsafe {
        if (*bases).own != (*bases).running {
            set((*bases).running);
        }
    }
}
