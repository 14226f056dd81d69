//! Signals such as SIGSEGV that somebody has sent. DynamoRIO would take them for faults of the instruction at which they arrive, and
//! they cannot wait in the kernel, where a fault of the thread must not be blocked. So they wait here, until the thread is where it
//! can take them.
//!
//! SIGSEGV and SIGBUS DynamoRIO does not take from there either. If they kill, the thread dies of them by itself; those for which
//! there is a handler are left to DynamoRIO where they arrive.

use super::actions::NOT_TAKEN;
use super::send::{send_to_this_thread, this_thread};
use super::sets::bit;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A signal that kills where it is let in.
pub struct Sent {
    /// The signal.
    pub signal: i32,
    /// Its `si_code`.
    pub code: i32,
}

/// Bytes of a signal's description.
const INFO: usize = 128;
/// A place that somebody is about to fill.
const FILLING: u32 = u32::MAX;

/// A signal that is held.
struct Place {
    /// The thread; 0 for none.
    tid: AtomicU32,
    signal: AtomicU32,
    info: UnsafeCell<[u8; INFO]>,
}

// SAFETY: the description is accessed by whoever has taken the place, by `tid`.
unsafe impl Sync for Place {}

/// More than any program has of these at a time.
static PLACES: [Place; 32] =
    [const { Place { tid: AtomicU32::new(0), signal: AtomicU32::new(0), info: UnsafeCell::new([0; INFO]) } }; 32];
/// How many are held.
static HELD: AtomicU64 = AtomicU64::new(0);

/// A signal that looks like a fault has come, and is to be held. Returns whether it is: there may be no place.
///
/// # Safety
/// In the signal's handler, with the kernel's description.
pub(super) unsafe fn keep(signal: i32, info: *const u8) -> bool {
    let take = |place: &&Place| place.tid.compare_exchange(0, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let Some(place) = PLACES.iter().find(take) else { return false };
    // SAFETY: the place is this thread's, and the description is as long.
    unsafe { std::ptr::copy_nonoverlapping(info, place.info.get().cast(), INFO) };
    place.signal.store(signal as u32, Ordering::Relaxed);
    place.tid.store(this_thread(), Ordering::Release);
    HELD.fetch_add(1, Ordering::Release);
    true
}

/// The calling thread is where it can take signals: it gets those that are held for it. `handler` says what is set for a signal, as
/// [`super::mask::Mask::handler`] does. Returns the signal that kills the thread right there, if one does, and its code.
pub(super) fn let_in(handler: impl Fn(i32) -> u64) -> Option<Sent> {
    if HELD.load(Ordering::Acquire) == 0 {
        return None;
    }
    let me = this_thread();
    for place in PLACES.iter().filter(|place| place.tid.load(Ordering::Acquire) == me) {
        // SAFETY: the place is this thread's until it is given back.
        let info = unsafe { *place.info.get() };
        let signal = place.signal.load(Ordering::Relaxed) as i32;
        place.tid.store(0, Ordering::Release);
        HELD.fetch_sub(1, Ordering::Release);
        if bit(signal) & NOT_TAKEN != 0 {
            let code = i32::from_ne_bytes([info[8], info[9], info[10], info[11]]);
            match handler(signal) {
                0 => return Some(Sent { signal, code }),
                // It has been ignored since.
                _ => continue,
            }
        }
        // SAFETY: a description that the kernel has made. The handler finds that it interrupts this very call.
        unsafe { send_to_this_thread(signal, info.as_ptr().cast()) };
    }
    None
}
