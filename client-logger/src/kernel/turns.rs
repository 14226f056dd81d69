//! In which order the system calls of several threads come to the kernel, where nothing else tells.
//!
//! A call on descriptors gets a number, from before it is made or from behind it ([`bugnet_system_calls::Way`]). Of two calls at the same time, numbers say
//! nothing; so threads that write to the program's standard streams take turns. The kernel may keep one that has the turn, as where a
//! pipe is full: whoever has waited for it long enough takes the turn from it, unless it only lacks a processor.

use crate::base::process::runs;
use crate::base::waiting;
use bugnet_handover::futex;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So long nobody takes a thread's turn from it.
const PATIENCE: Duration = Duration::from_millis(200);
/// So long a thread sleeps at a time.
const SLEEP: Duration = Duration::from_millis(1);
/// In [`TURN`]: it is nobody's.
const NOBODY: u32 = 0;

/// The last number of a call.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Whose turn it is: the turn's own number.
static TURN: AtomicU32 = AtomicU32::new(NOBODY);
/// The thread that has got it.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The last number of a turn.
static TURNS: AtomicU32 = AtomicU32::new(0);
/// How many threads wait for theirs.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// The number of a call that is about to be made, or over.
pub fn number() -> u64 {
    CALLS.fetch_add(1, Ordering::SeqCst) + 1
}

/// A thread's turn, as long as this is there.
#[derive(Debug)]
pub struct Turn(u32);

impl Turn {
    /// Waits until it is the turn of the thread with this id and context.
    pub fn take(tid: u32, context: *mut c_void) -> Self {
        let number = loop {
            match TURNS.fetch_add(1, Ordering::Relaxed).wrapping_add(1) {
                NOBODY => {}
                number => break number,
            }
        };
        let take = |from| TURN.compare_exchange(from, number, Ordering::SeqCst, Ordering::SeqCst);
        if take(NOBODY).is_err() {
            WAITING.fetch_add(1, Ordering::SeqCst);
            // Whose turn it was when that was last new, and since when.
            let mut found = (NOBODY, Instant::now());
            let free = || take(NOBODY).ok().map(drop);
            let sleep = || {
                let now = TURN.load(Ordering::SeqCst);
                if now != NOBODY {
                    futex::wait(&TURN, now, Some(SLEEP));
                }
                None
            };
            let rarely = || {
                let now = TURN.load(Ordering::SeqCst);
                if now != found.0 {
                    found = (now, Instant::now());
                }
                let is_kept = || found.1.elapsed() >= PATIENCE && !runs(OWNER.load(Ordering::SeqCst));
                (is_kept() && take(now).is_ok()).then_some(())
            };
            waiting::until(context, free, sleep, rarely);
            WAITING.fetch_sub(1, Ordering::SeqCst);
        }
        OWNER.store(tid, Ordering::SeqCst);
        Self(number)
    }

    /// Whether nobody has taken it.
    pub fn is_kept(&self) -> bool {
        TURN.load(Ordering::SeqCst) == self.0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let kept = TURN.compare_exchange(self.0, NOBODY, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if kept && WAITING.load(Ordering::SeqCst) > 0 {
            futex::wake(&TURN, 1);
        }
    }
}

/// In a process that was just forked: of the threads, only the one that forked is there.
pub fn forget() {
    TURN.store(NOBODY, Ordering::SeqCst);
    WAITING.store(0, Ordering::SeqCst);
}
