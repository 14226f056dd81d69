//! Calls that execute a program and calls that make a thread or a process keep out of each other's way.
//!
//! DynamoRIO marks a thread that is about to execute a program as gone, and whoever makes a thread or a process next, or ends the process, frees
//! what there is of those that are marked, their stacks too. It takes it that nobody does while one of them is still on its way into the kernel: the parent of a
//! child of `vfork` waits. But its other threads do not, and a thread that executes a program itself is not alone either.
//!
//! So a program is executed once all calls that make something are over, as far as DynamoRIO has to do with them, and no such call begins
//! until the program is there, or could not be executed. The latter a thread finds out behind its call; that a child's program is there, its parent,
//! which goes on then, as it does where the child has died. For a child whose parent was killed meanwhile, whoever waits for it asks the kernel.

use crate::kernel::borrowers;
use crate::kernel::exclusion::{EXECUTING, Kind, Waiter, wait};
use std::ffi::c_void;

/// A system call of one kind or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It executes a program.
    Executes,
    /// It makes a thread, or a process with memory of its own, or ends this one.
    Makes,
    /// It makes a process that is lent the memory until it executes a program.
    Lends,
}

impl Call {
    /// Before the call: waits until it may be made. It is that of the calling thread, which has this context of DynamoRIO's, of a process that
    /// has another one's memory if `foreign`.
    pub fn begins(self, context: *mut c_void, foreign: bool) {
        let thread = Waiter { context, foreign };
        if self == Self::Lends {
            wait(thread, || borrowers::is_to_lend(context));
        }
        EXECUTING.begin(self.kind(), thread);
    }

    /// Behind the call, in the thread that made it, also where it has failed.
    pub fn over(self, context: *mut c_void) {
        if self == Self::Lends {
            borrowers::lends_no_more(context);
        }
        EXECUTING.over(self.kind(), context);
    }

    fn kind(self) -> Kind {
        match self {
            Self::Executes => Kind::First,
            Self::Makes | Self::Lends => Kind::Second,
        }
    }
}

/// A process begins in the memory of another one, with a context of its own.
pub fn child_begins(id: u32, context: *mut c_void) {
    let lender = borrowers::begins(id, context);
    if !lender.is_null() {
        EXECUTING.over(Kind::Second, lender);
    }
}

/// In a process that was just forked: of the threads, only the one that forked is there.
pub fn forget() {
    EXECUTING.forget();
    borrowers::forget();
}
