//! Processes that have the memory of another one. A child of `vfork` has it while its parent waits: one that has neither executed a program
//! nor ended by itself when its parent goes on was killed by SIGKILL, of which DynamoRIO learns nothing. An orphan is one for which nobody waits:
//! its parent was killed meanwhile, or has never waited. The kernel says whether it still has the memory.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::maps;
use bugnet_dr::dead_child;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A process in another one's memory.
struct Borrower {
    /// Its [identity](crate::base::process::identity).
    id: u32,
    /// Its context of DynamoRIO's.
    context: *mut c_void,
    /// That of the thread that waits for it; null for an orphan.
    lender: *mut c_void,
}

// SAFETY: numbers that tell processes and contexts from each other, for whichever thread.
unsafe impl Send for Borrower {}

static BORROWERS: Mutex<Vec<Borrower>> = Mutex::new(Vec::new());
/// Whose child begins next in the memory that it is lent, if one is about to: there is one at a time, so a child knows whose it is.
static LENDER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn borrowers() -> MutexGuard<'static, Vec<Borrower>> {
    BORROWERS.lock()
}

/// The thread with this context is about to lend its memory, unless another one is.
pub fn is_to_lend(context: *mut c_void) -> bool {
    LENDER.compare_exchange(std::ptr::null_mut(), context, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// It is not, if it was and no child has begun.
pub fn lends_no_more(context: *mut c_void) {
    let _ = LENDER.compare_exchange(context, std::ptr::null_mut(), Ordering::SeqCst, Ordering::SeqCst);
}

/// A process begins in the memory of another one, with a context of its own. Returns that of the thread that waits for it; null for none.
pub fn begins(id: u32, context: *mut c_void) -> *mut c_void {
    let lender = LENDER.swap(std::ptr::null_mut(), Ordering::SeqCst);
    borrowers().push(Borrower { id, context, lender });
    lender
}

/// DynamoRIO is about to free a context, that of one or another.
pub fn ends(context: *mut c_void) {
    let mut borrowers = borrowers();
    borrowers.retain(|borrower| borrower.context != context);
    leave_alone(&mut borrowers, context);
}

/// The parent goes on, since its child, if there was one, has given the memory back, somehow; `gone` is to see to it that nobody waits for
/// that.
pub fn gave_back(lender: *mut c_void, gone: impl FnOnce(*mut c_void)) {
    let mut borrowers = borrowers();
    let Some(found) = borrowers.iter().position(|borrower| borrower.lender == lender) else { return };
    let context = borrowers.swap_remove(found).context;
    leave_alone(&mut borrowers, context);
    // In this order: others may free the context from there on, but for what `ends` waits for here.
    lends_no_more(context);
    gone(context);
    // SAFETY: a context that is there, since `ends` was not told otherwise, of a process that executes another program or is gone.
    unsafe { dead_child::mark(context) };
}

/// The same for each orphan that does not have the memory any more.
pub fn look_for_orphans(mut gone: impl FnMut(*mut c_void)) {
    borrowers().retain(|borrower| {
        let there = !borrower.lender.is_null() || has_this_memory(borrower.id);
        if !there {
            lends_no_more(borrower.context);
            gone(borrower.context);
            // SAFETY: as in `gave_back`.
            unsafe { dead_child::mark(borrower.context) };
        }
        there
    });
}

/// In a process that was just forked: nobody else has its memory.
pub fn forget() {
    LENDER.store(std::ptr::null_mut(), Ordering::SeqCst);
    borrowers().clear();
}

/// Nobody waits any more for the child of the one with this context.
fn leave_alone(borrowers: &mut [Borrower], context: *mut c_void) {
    for child in borrowers.iter_mut().filter(|borrower| borrower.lender == context) {
        child.lender = std::ptr::null_mut();
    }
}

/// Whether a process has the memory that the calling one has.
fn has_this_memory(id: u32) -> bool {
    const KCMP_VM: i32 = 1;
    let Some(pid) = maps::id_here(id) else { return false };
    // SAFETY: compares what two processes have.
    unsafe { libc::syscall(libc::SYS_kcmp, libc::getpid(), pid, KCMP_VM, 0, 0) == 0 }
}
