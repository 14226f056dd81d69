//! Signals for threads that have not executed anything yet. When DynamoRIO has made a thread ready, it opens the kernel's mask, and a
//! signal that comes before the thread's first block would wait in DynamoRIO if the program blocks it, where neither `sigwait` nor
//! another thread finds it. Such a signal is sent again: the thread has all blocked by then, until it begins.

use super::send::{SI_TKILL, send_to_this_process, send_to_this_thread, this_thread};
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads that begin: more than ever do at a time. Those for which there is no place are not looked after.
static PLACES: [AtomicU32; 512] = [const { AtomicU32::new(0) }; 512];
/// How many there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The calling thread is about to be ready.
pub(super) fn announce() {
    let me = this_thread();
    let take = |place: &&AtomicU32| place.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    if PLACES.iter().find(take).is_some() {
        COUNT.fetch_add(1, Ordering::SeqCst);
    }
}

/// The calling thread begins, and has its own mask, or will never begin.
pub(super) fn begin() {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return;
    }
    let me = this_thread();
    if let Some(place) = PLACES.iter().find(|place| place.load(Ordering::SeqCst) == me) {
        place.store(0, Ordering::SeqCst);
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// In a forked child, there is but one thread, which has begun.
pub(super) fn forget() {
    PLACES.iter().for_each(|place| place.store(0, Ordering::SeqCst));
    COUNT.store(0, Ordering::SeqCst);
}

/// An asynchronous signal has come. If the thread has not begun, it is sent again, to whom it was for, and waits in the kernel. Returns
/// whether that was done.
///
/// # Safety
/// In the signal's handler, with the kernel's description, and with all signals blocked behind it.
pub(super) unsafe fn put_off(signal: i32, info: *const i32) -> bool {
    const CODE: usize = 2;
    if COUNT.load(Ordering::SeqCst) == 0 {
        return false;
    }
    let me = this_thread();
    if !PLACES.iter().any(|place| place.load(Ordering::SeqCst) == me) {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe {
        // Where it may be for the process, it is: another thread may want it.
        match info.add(CODE).read() {
            SI_TKILL => send_to_this_thread(signal, info) == 0,
            _ => send_to_this_process(signal, info) == 0,
        }
    }
}
