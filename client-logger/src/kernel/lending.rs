//! Threads that fork or end the process and threads that lend their memory to a child of `vfork` keep out of each other's way.
//!
//! For a fork and for the end, DynamoRIO stops all threads, and holds a lock meanwhile. It cannot stop a thread whose child has its memory, for the
//! kernel keeps that thread until the child executes a program; and the child, as it begins, waits for that lock. So it waits
//! until no memory is lent, and nobody lends any while it waits, or goes on.

use crate::base::waiting;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How many threads lend their memory now.
static LENDERS: AtomicU32 = AtomicU32::new(0);
/// How many fork or end the process, or wait for that.
static STOPPERS: AtomicU32 = AtomicU32::new(0);
/// So long a thread sleeps at a time.
const SLEEP: Duration = Duration::from_micros(500);

/// A system call of one kind or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It lends memory to a child.
    Lends,
    /// It makes a process with memory of its own, or ends this one: all threads are stopped.
    Stops,
}

impl Call {
    fn count(self) -> &'static AtomicU32 {
        match self {
            Self::Lends => &LENDERS,
            Self::Stops => &STOPPERS,
        }
    }

    /// Before the call: waits until it may be made. One that a child makes in memory that it was lent, `foreign`, waits for nobody: others
    /// may wait for that child.
    pub fn begins(self, context: *mut c_void, foreign: bool) {
        self.count().fetch_add(1, Ordering::SeqCst);
        if foreign {
            return;
        }
        match self {
            Self::Stops => wait(context, || nobody(&LENDERS)),
            Self::Lends => {
                while !nobody(&STOPPERS) {
                    self.over();
                    wait(context, || nobody(&STOPPERS));
                    LENDERS.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// Behind the call.
    pub fn over(self) {
        // In a child, there is nobody left: see `forget`.
        let less = |count: u32| count.checked_sub(1);
        let _ = self.count().fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

/// In a process that was just forked: of the threads, only the one that forked is there.
pub fn forget() {
    LENDERS.store(0, Ordering::SeqCst);
    STOPPERS.store(0, Ordering::SeqCst);
}

fn nobody(count: &AtomicU32) -> bool {
    count.load(Ordering::SeqCst) == 0
}

/// Waits while DynamoRIO may stop this thread.
fn wait(context: *mut c_void, mut test: impl FnMut() -> bool) {
    let sleep = || {
        // SAFETY: sleeps.
        unsafe { libc::usleep(SLEEP.as_micros() as u32) };
        None
    };
    waiting::until(context, || test().then_some(()), sleep, || None);
}
