//! Interval timers, and `alarm`. DynamoRIO shares those of the program with its clients, and gets what is left of one wrong: it puts
//! down the new time before it says what was left of the old one, and a timer from before an `execve` has to run twice. No client of
//! ours has one, so the program gets the kernel's own.

use crate::kernel::arguments;
use bugnet_dr::process;

/// `ITIMER_REAL`, `ITIMER_VIRTUAL` and `ITIMER_PROF`.
const TIMERS: u32 = 3;

/// The kernel's answer, where a system call is one of these.
pub fn instead(number: i64, args: &[u64; 6]) -> Option<i64> {
    if !matches!(number, libc::SYS_alarm | libc::SYS_getitimer | libc::SYS_setitimer) {
        return None;
    }
    // SAFETY: the program's own call; the kernel checks the pointers.
    arguments::made(unsafe { libc::syscall(number, args[0], args[1], args[2]) })
}

/// The program is about to begin: DynamoRIO, which has looked at the timers that there were before, passes on when one is over.
pub fn begin() {
    for timer in 0..TIMERS {
        let mut left = [0u64; 4];
        // SAFETY: the structure of two times, four words, is the kernel's to write.
        let armed = unsafe { libc::syscall(libc::SYS_getitimer, timer, left.as_mut_ptr()) } == 0;
        if armed && left[2..] != [0; 2] {
            process::restore_timer(timer as i32);
            // SAFETY: two times, which the kernel reads.
            unsafe {
                libc::syscall(libc::SYS_setitimer, timer, left.as_ptr(), std::ptr::null_mut::<u64>());
            }
        }
    }
}
