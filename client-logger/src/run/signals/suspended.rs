//! `sigsuspend`, with what it keeps blocked. DynamoRIO takes all signals out of the set that the kernel is given, so that each ends the wait,
//! also one that the program keeps blocked meanwhile: without a handler, with the mask of the wait left in place. Such a signal is
//! sent again here, and the wait goes on in the kernel with the whole set, which keeps it pending.

use super::actions::BLOCKED;
use super::frame::{Frame, RDI};
use super::send::{SI_TKILL, send_to_this_process, send_to_this_thread};
use super::sets::{NEVER_BLOCKED, UNBLOCKABLE, bit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a thread waits with. The kernel and DynamoRIO are given the address of the first field.
#[repr(C)]
struct Set {
    /// What DynamoRIO changes.
    given: AtomicU64,
    /// What the program means.
    whole: AtomicU64,
    taken: AtomicBool,
}

/// More than ever wait at a time; those for which there is none are not looked after.
static SETS: [Set; 512] =
    [const { Set { given: AtomicU64::new(0), whole: AtomicU64::new(0), taken: AtomicBool::new(false) } }; 512];

/// A set for a wait, which is free again when this is dropped.
pub struct Place(&'static Set);

impl Place {
    /// For a wait that keeps these blocked.
    pub fn take(blocked: u64) -> Option<Self> {
        let free = |set: &&Set| !set.taken.swap(true, Ordering::SeqCst);
        let set = SETS.iter().find(free)?;
        set.given.store(blocked & !UNBLOCKABLE, Ordering::SeqCst);
        // DynamoRIO stops threads by one of the others.
        set.whole.store(blocked & !NEVER_BLOCKED, Ordering::SeqCst);
        Some(Self(set))
    }

    /// What DynamoRIO and the kernel are given.
    pub fn address(&self) -> u64 {
        self.0.given.as_ptr() as u64
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::SeqCst);
    }
}

/// In a forked child, whose only thread has just forked, nobody waits.
pub(super) fn forget() {
    SETS.iter().for_each(|set| set.taken.store(false, Ordering::SeqCst));
}

/// The set for which a thread waits, or has waited, with this one, which DynamoRIO has changed.
fn of(given: u64) -> Option<&'static Set> {
    SETS.get(given.wrapping_sub(SETS.as_ptr() as u64) as usize / size_of::<Set>())
}

/// A wait that has ended without a signal of the program's goes on. Whether it is one that is looked after here.
pub fn repeat(frame: Frame) -> bool {
    let Some(set) = of(frame.word(RDI)) else { return false };
    // Nothing comes before the kernel waits with the set.
    frame.set_mask(frame.mask() | BLOCKED.load(Ordering::SeqCst));
    frame.set(RDI, set.whole.as_ptr() as u64);
    frame.repeat_call(libc::SYS_rt_sigsuspend);
    true
}

/// Sends a signal again, to whom it was for.
///
/// # Safety
/// The kernel's description.
unsafe fn send_again(signal: i32, info: *const i32) -> i64 {
    const CODE: usize = 2;
    // SAFETY: the caller's promise.
    unsafe {
        match *info.add(CODE) {
            SI_TKILL => send_to_this_thread(signal, info),
            // Where it may be for the process, it is: another thread may want it.
            _ => send_to_this_process(signal, info),
        }
    }
}

/// An asynchronous signal has come. If it has ended a wait that keeps it blocked, it is sent again, to whom it was for, and the thread goes
/// on to wait. Returns whether that was done.
///
/// # Safety
/// In the signal's handler, with the kernel's description, and with all signals blocked behind it.
pub(super) unsafe fn put_off(signal: i32, info: *const i32, frame: Frame) -> bool {
    let Some(set) = of(frame.word(RDI)) else { return false };
    if !frame.is_behind_interrupted_call() || set.whole.load(Ordering::SeqCst) & bit(signal) == 0 {
        return false;
    }
    // SAFETY: the description is the caller's promise.
    let sent = unsafe { send_again(signal, info) };
    sent == 0 && repeat(frame)
}
