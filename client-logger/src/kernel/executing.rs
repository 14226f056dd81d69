//! Calls that execute a program and calls that make a thread or a process keep out of each other's way.
//!
//! DynamoRIO marks a thread that is about to execute a program as gone, and whoever makes a thread or a process next, or ends the process, frees
//! what there is of those that are marked, their stacks too. It takes it that nobody does while one of them is still on its way into the kernel: the parent of a
//! child of `vfork` waits. But its other threads do not, and a thread that executes a program itself is not alone either.
//!
//! So a program is executed once all calls that make something are over, as far as DynamoRIO has to do with them, and no such call begins
//! until the program is there, or could not be executed. The latter a thread finds out behind its call; that a child's program is there, its parent,
//! which goes on then, as it does where the child has died.

use crate::kernel::borrowers::{self, Borrower};
use crate::kernel::exclusion::{Exclusion, Kind, Waiter, wait};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// First, those that execute a program, of threads and of children; second, those that make a thread or a process.
static CALLS: Exclusion = Exclusion::new();
/// Whose child begins next in the memory that it is lent, if one is about to: there is one at a time, so a child knows whose it is.
static LENDER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

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
    /// Before the call: waits until it may be made. It is that of the calling thread, which has this context of DynamoRIO's, of a child of
    /// `vfork` if `foreign`.
    pub fn begins(self, context: *mut c_void, foreign: bool) {
        let thread = Waiter { context, foreign };
        // What is not lent the memory for a while has nobody who would tell when it is gone.
        if self == Self::Executes && foreign && !borrowers::executes(context, true) {
            return;
        }
        if self == Self::Lends {
            let none = std::ptr::null_mut();
            wait(thread, || LENDER.compare_exchange(none, context, Ordering::SeqCst, Ordering::SeqCst).is_ok());
        }
        CALLS.begin(if self == Self::Executes { Kind::First } else { Kind::Second }, thread);
    }

    /// Behind the call, in the thread that made it, also where it has failed.
    pub fn over(self, context: *mut c_void, foreign: bool) {
        match self {
            Self::Executes if foreign && !borrowers::executes(context, false) => {}
            Self::Executes => CALLS.over(Kind::First),
            Self::Makes => CALLS.over(Kind::Second),
            Self::Lends => {
                if lender_is_over(context) {
                    CALLS.over(Kind::Second);
                }
                if borrowers::gave_back(context) {
                    CALLS.over(Kind::First);
                }
            }
        }
    }
}

/// A child begins in the memory of its parent, with a context of its own.
pub fn child_begins(pid: u32, context: *mut c_void) {
    let lender = LENDER.swap(std::ptr::null_mut(), Ordering::SeqCst);
    if !lender.is_null() {
        borrowers::begins(Borrower { pid, context, lender, executes: false });
        CALLS.over(Kind::Second);
    }
}

/// In a process that was just forked: of the threads, only the one that forked is there.
pub fn forget() {
    CALLS.forget();
    LENDER.store(std::ptr::null_mut(), Ordering::SeqCst);
    borrowers::forget();
}

/// Whether the calling thread, whose context this is, was about to lend its memory, and no child has begun in it.
fn lender_is_over(context: *mut c_void) -> bool {
    LENDER.compare_exchange(context, std::ptr::null_mut(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
}
