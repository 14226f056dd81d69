//! Waiting for a word in memory that processes share.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits until somebody wakes those who wait for the word, if it is as expected. May return earlier: look again.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a word, and null or a time, which are there throughout the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, timeout) };
}

/// Wakes so many of those who wait for the word.
pub fn wake(word: &AtomicU32, most: i32) {
    // SAFETY: a word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, most) };
}
