//! Children of `vfork`, while their parents wait for them: one that has neither executed a program nor ended by itself when its parent
//! goes on was killed by SIGKILL, of which DynamoRIO learns nothing.

use bugnet_dr::dead_child;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};

/// A child in its parent's memory.
pub struct Borrower {
    pub pid: u32,
    /// The child's context of DynamoRIO's.
    pub context: *mut c_void,
    /// That of the parent's thread that waits.
    pub lender: *mut c_void,
    /// Whether it is about to execute a program, or has done so.
    pub executes: bool,
}

// SAFETY: numbers that tell processes and contexts from each other, for whichever thread.
unsafe impl Send for Borrower {}

static BORROWERS: Mutex<Vec<Borrower>> = Mutex::new(Vec::new());

fn borrowers() -> MutexGuard<'static, Vec<Borrower>> {
    BORROWERS.lock().unwrap_or_else(|e| e.into_inner())
}

/// A child begins.
pub fn begins(child: Borrower) {
    borrowers().push(child);
}

/// DynamoRIO is about to free a context, that of a child or another one.
pub fn ends(context: *mut c_void) {
    borrowers().retain(|borrower| borrower.context != context);
}

/// The child with this context is about to execute a program, or could not. `false` if there is no such child.
pub fn executes(context: *mut c_void, executes: bool) -> bool {
    let mut borrowers = borrowers();
    let found = borrowers.iter_mut().find(|borrower| borrower.context == context);
    found.is_some_and(|borrower| {
        borrower.executes = executes;
        true
    })
}

/// The parent goes on, since its child, if there was one, has given the memory back, somehow. Whether it was about to execute a program.
pub fn gave_back(lender: *mut c_void) -> bool {
    let mut borrowers = borrowers();
    let Some(found) = borrowers.iter().position(|borrower| borrower.lender == lender) else { return false };
    let Borrower { pid, context, executes, .. } = borrowers.swap_remove(found);
    // SAFETY: a context that is there, since `ends` was not told otherwise, of a process that executes another program or is gone.
    let _ = unsafe { dead_child::mark(context, pid) };
    executes
}

/// In a process that was just forked: nobody else has its memory.
pub fn forget() {
    borrowers().clear();
}
