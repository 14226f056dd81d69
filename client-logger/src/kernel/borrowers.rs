//! Children of `vfork`, while their parents wait for them: one that has neither executed a program nor ended by itself when its parent
//! goes on was killed by SIGKILL, of which DynamoRIO learns nothing.

use bugnet_dr::dead_child;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};

/// A child in its parent's memory.
struct Borrower {
    pid: u32,
    context: *mut c_void,
}

// SAFETY: a number that tells contexts from each other, for whichever thread.
unsafe impl Send for Borrower {}

static BORROWERS: Mutex<Vec<Borrower>> = Mutex::new(Vec::new());

fn borrowers() -> MutexGuard<'static, Vec<Borrower>> {
    BORROWERS.lock().unwrap_or_else(|e| e.into_inner())
}

/// A child begins.
pub fn begins(pid: u32, context: *mut c_void) {
    borrowers().push(Borrower { pid, context });
}

/// DynamoRIO is about to free a context, that of a child or another one.
pub fn ends(context: *mut c_void) {
    borrowers().retain(|borrower| borrower.context != context);
}

/// The parent goes on, since the child has given its memory back, somehow.
pub fn gave_back(pid: u32) {
    let mut borrowers = borrowers();
    if let Some(found) = borrowers.iter().position(|borrower| borrower.pid == pid) {
        let Borrower { pid, context } = borrowers.swap_remove(found);
        // SAFETY: a context that is there, since `ends` was not told otherwise, of a process that executes another program or is gone.
        let _ = unsafe { dead_child::mark(context, pid) };
    }
}
