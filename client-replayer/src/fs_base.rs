//! The FS base: the place of the marks ([`crate::marks`]) while the code cache runs, the client's own thread-local storage while the
//! client does. Without marks, it is the client's all the time.
//!
//! Whatever the code cache or DynamoRIO calls switches, by [`Guard`].

use bugnet_dr::fs_base::{get, set};
use std::sync::atomic::{AtomicU64, Ordering};

/// The client's own, and that of the code cache; 0 where nothing is switched. Only one thread uses them.
static OWN: AtomicU64 = AtomicU64::new(0);
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// From when control goes back to the code cache, FS has this base there.
///
/// # Safety
/// `bugnet_dr::fs_base::can_be_set` is true, and the client runs.
pub unsafe fn begin(running: u64) {
    if RUNNING.load(Ordering::Relaxed) == 0 {
        OWN.store(get(), Ordering::Relaxed);
    }
    RUNNING.store(running, Ordering::Relaxed);
}

/// From when control goes back to the code cache, FS stays the client's.
pub fn end() {
    RUNNING.store(0, Ordering::Relaxed);
}

/// As long as it lives, the client's thread-local storage is there. To be the first value in whatever is called.
pub struct Guard(());

impl Guard {
    /// Switches to the client's thread-local storage.
    #[inline]
    pub fn new() -> Self {
        if RUNNING.load(Ordering::Relaxed) != 0 {
            // SAFETY: the base that FS had when the client set another one, which it can.
            unsafe { set(OWN.load(Ordering::Relaxed)) };
        }
        Self(())
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        leave();
    }
}

/// Control goes to the code cache, from the client itself.
#[inline]
pub fn leave() {
    let running = RUNNING.load(Ordering::Relaxed);
    if running != 0 {
        // SAFETY: as above; it is the last thing that the client does.
        unsafe { set(running) };
    }
}
