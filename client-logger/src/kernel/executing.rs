//! Calls that execute a program and calls that make a thread or a process keep out of each other's way.
//!
//! DynamoRIO marks a thread that is about to execute a program as gone, and whoever makes a thread or a process next, or ends the process, frees
//! what there is of those that are marked, their stacks too. It takes it that nobody does while one of them is still on its way into the kernel: the parent of a
//! child of `vfork` waits. But its other threads do not, and a thread that executes a program itself is not alone either.
//!
//! So a program is executed once all calls that make something are over, as far as DynamoRIO has to do with them, and no such call begins
//! until the program is there, or could not be executed. The latter a thread finds out behind its call; that a child's program is there, its parent,
//! which goes on then, as it does where the child has died.

use crate::base::waiting;
use crate::kernel::borrowers::{self, Borrower};
use crate::log::recording;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// How many threads and children are about to execute a program.
static EXECUTING: AtomicU32 = AtomicU32::new(0);
/// How many threads are about to make a thread or a process.
static MAKING: AtomicU32 = AtomicU32::new(0);
/// Whose child begins next in the memory that it is lent, if one is about to: there is one at a time, so a child knows whose it is.
static LENDER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// So long a thread sleeps at a time.
const SLEEP: Duration = Duration::from_micros(200);

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
        match self {
            Self::Executes => {
                // What is not lent the memory for a while has nobody who would tell when it is gone.
                if foreign && !borrowers::executes(context, true) {
                    return;
                }
                EXECUTING.fetch_add(1, Ordering::SeqCst);
                wait((context, foreign), || is_zero(&MAKING));
            }
            Self::Makes | Self::Lends => {
                if self == Self::Lends {
                    let none = std::ptr::null_mut();
                    let is_it = || LENDER.compare_exchange(none, context, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                    wait((context, foreign), is_it);
                }
                MAKING.fetch_add(1, Ordering::SeqCst);
                while !is_zero(&EXECUTING) {
                    less(&MAKING);
                    wait((context, foreign), || is_zero(&EXECUTING));
                    MAKING.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// Behind the call, in the thread that made it, also where it has failed.
    pub fn over(self, context: *mut c_void, foreign: bool) {
        match self {
            Self::Executes if foreign && !borrowers::executes(context, false) => {}
            Self::Executes => less(&EXECUTING),
            Self::Makes => less(&MAKING),
            Self::Lends => {
                if lender_is_over(context) {
                    less(&MAKING);
                }
                if borrowers::gave_back(context) {
                    less(&EXECUTING);
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
        less(&MAKING);
    }
}

/// In a process that was just forked: of the threads, only the one that forked is there.
pub fn forget() {
    EXECUTING.store(0, Ordering::SeqCst);
    MAKING.store(0, Ordering::SeqCst);
    LENDER.store(std::ptr::null_mut(), Ordering::SeqCst);
    borrowers::forget();
}

/// Whether the calling thread, whose context this is, was about to lend its memory, and no child has begun in it.
fn lender_is_over(context: *mut c_void) -> bool {
    LENDER.compare_exchange(context, std::ptr::null_mut(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

fn is_zero(count: &AtomicU32) -> bool {
    count.load(Ordering::SeqCst) == 0
}

fn less(count: &AtomicU32) {
    // In a forked child, there is nobody left: see `forget`.
    let _ = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
}

/// Waits while DynamoRIO may stop this thread.
fn wait((context, foreign): (*mut c_void, bool), mut test: impl FnMut() -> bool) {
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
