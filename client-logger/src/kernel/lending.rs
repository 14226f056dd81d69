//! Threads that fork or end the process and threads that lend their memory to a child of `vfork` keep out of each other's way.
//!
//! For a fork and for the end, DynamoRIO stops all threads, and holds a lock meanwhile. It cannot stop a thread whose child has its memory, for the
//! kernel keeps that thread until the child executes a program; and the child, as it begins, waits for that lock. So it waits
//! until no memory is lent, and nobody lends any while it waits, or goes on.

use crate::kernel::exclusion::{Kind, LENDING, Waiter};
use std::ffi::c_void;

/// A system call of one kind or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It lends memory to a child.
    Lends,
    /// It makes a process with memory of its own, or ends this one: all threads are stopped.
    Stops,
}

impl Call {
    fn kind(self) -> Kind {
        match self {
            Self::Stops => Kind::First,
            Self::Lends => Kind::Second,
        }
    }

    /// Before the call: waits until it may be made. One that a child makes in memory that it was lent, `foreign`, waits for nobody: others
    /// may wait for that child.
    pub fn begins(self, context: *mut c_void, foreign: bool) {
        let thread = Waiter { context, foreign };
        if foreign {
            LENDING.note(self.kind(), thread);
        } else {
            LENDING.begin(self.kind(), thread);
        }
    }

    /// Behind the call, of the thread with this context.
    pub fn over(self, context: *mut c_void) {
        LENDING.over(self.kind(), context);
    }
}

/// In a process that was just forked: of the threads, only the one that forked is there.
pub fn forget() {
    LENDING.forget();
}
