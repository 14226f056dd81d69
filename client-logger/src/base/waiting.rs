//! How a thread waits for another one in a callout, while DynamoRIO may suspend it.

use bugnet_dr::thread as dr_thread;
use std::ffi::c_void;
use std::time::Duration;

/// So often a thread looks at what it waits for, without anything else.
const SPINS: u32 = 100;
/// So often it lets other threads go first, before it sleeps.
const YIELDS: u32 = 100;
/// So long it then sleeps at a time, and asks whether there is any use in waiting.
pub const SLEEP: Duration = Duration::from_millis(10);

/// How often that happens until it is asked.
const SLEEPS: u32 = 100;

/// Waits for something that is far away, which `test` finds, and sleeps a while where it does not: without any lock, as in [`until`]; none if there
/// is no use in that, as `is_vain` says, which is asked now and then, and may take locks.
pub fn asleep<T>(context: *mut c_void, mut test: impl FnMut() -> Option<T>, is_vain: impl Fn() -> bool) -> Option<T> {
    let suspendable = |yes| suspendable(context, yes);
    loop {
        suspendable(true);
        let found = (0..SLEEPS).find_map(|_| test());
        suspendable(false);
        if found.is_some() || is_vain() {
            return found;
        }
    }
}

/// Waits for something, which `test` finds without any lock but those of the directory, nor memory that is allocated, and so does
/// `sleep`, which waits a while: DynamoRIO may suspend the thread meanwhile. It does not while `rarely` is asked, which is done
/// after some milliseconds, again and again, and may do both.
pub fn until<T>(
    context: *mut c_void,
    mut test: impl FnMut() -> Option<T>,
    mut sleep: impl FnMut() -> Option<T>,
    mut rarely: impl FnMut() -> Option<T>,
) -> T {
    for _ in 0..SPINS {
        if let Some(found) = test() {
            return found;
        }
        std::hint::spin_loop();
    }
    let suspendable = |yes| suspendable(context, yes);
    suspendable(true);
    let mut turns = 0;
    let found = loop {
        if let Some(found) = test() {
            break found;
        }
        turns += 1;
        if turns < YIELDS {
            // SAFETY: lets others go first.
            unsafe { libc::sched_yield() };
            continue;
        }
        if let Some(found) = sleep() {
            break found;
        }
        suspendable(false);
        if let Some(found) = rarely() {
            return found;
        }
        suspendable(true);
    };
    suspendable(false);
    found
}

/// Says whether DynamoRIO may suspend the calling thread, whose context is `context`, where it waits.
fn suspendable(context: *mut c_void, yes: bool) {
    // SAFETY: the calling thread's context; it holds no lock of DynamoRIO's, and nobody waits for the locks that it holds without
    // being in here.
    unsafe { dr_thread::let_suspend(context, yes) };
}
