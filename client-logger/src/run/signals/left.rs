//! Signals that the program before an `execve` has left behind: blocked, and not delivered yet. DynamoRIO opens the kernel's mask while
//! it starts, and keeps them to itself, where neither `sigpending` nor `sigwait` finds them. So they are taken out of the kernel before
//! that, and sent again.

use super::actions::lock;
use super::send::send_to_this_process;
use super::sets::SET_BYTES;
use crate::base::lock::Mutex;

/// Bytes of a signal's description.
const INFO: usize = 128;

/// Those taken out, in their order.
static LEFT: Mutex<Vec<(i32, [u8; INFO])>> = Mutex::new(Vec::new());

/// Takes those out that are blocked.
pub(super) fn take(blocked: u64) {
    let (mut left, at_once) = (lock(&LEFT), [0u64; 2]);
    loop {
        let mut info = [0; INFO];
        // SAFETY: a set, a description and a time, of the sizes that the kernel wants; it does not wait.
        let signal = unsafe {
            libc::syscall(libc::SYS_rt_sigtimedwait, &raw const blocked, info.as_mut_ptr(), at_once.as_ptr(), SET_BYTES)
        };
        if signal <= 0 {
            return;
        }
        left.push((signal as i32, info));
    }
}

/// The process is about to begin, with these signals blocked: it has them again.
pub(super) fn give_back() {
    for (signal, info) in std::mem::take(&mut *lock(&LEFT)) {
        // SAFETY: a description that the kernel has made.
        unsafe { send_to_this_process(signal, info.as_ptr().cast()) };
    }
}
