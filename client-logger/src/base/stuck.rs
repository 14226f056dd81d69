//! Threads that the kernel keeps in the middle of an access to memory, until somebody supplies what is there: another thread
//! that serves page faults (`userfaultfd`), or a file system of the program's own.
//!
//! Such a thread cannot leave its block of code. If the one that is to supply the memory needs what the waiting one has hold
//! of, the two would wait for each other for ever, as they do not natively.

use crate::base::descriptors::read_text;
use bugnet_format::types::Tid;
use std::time::{Duration, Instant};

/// So long a thread is waited for without a question.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// So long after a look comes the next.
const PAUSE: Duration = Duration::from_millis(100);
/// A thread that was in the same place at so many looks is stuck.
const LOOKS: u32 = 10;

/// Someone's patience with a thread that it waits for.
pub struct Patience {
    tid: Tid,
    next: Option<Instant>,
    place: String,
    looks: u32,
}

impl Patience {
    /// Waiting begins.
    pub fn new(tid: Tid) -> Self {
        Self { tid, next: None, place: String::new(), looks: 0 }
    }

    /// Whether the thread is stuck. To be asked again and again.
    pub fn is_lost(&mut self) -> bool {
        let now = Instant::now();
        if now < *self.next.get_or_insert(now + FIRST_LOOK) {
            return false;
        }
        self.next = Some(now + PAUSE);
        let place = place(self.tid).unwrap_or_default();
        if place != self.place || place.is_empty() {
            (self.place, self.looks) = (place, 0);
        }
        self.looks += 1;
        self.looks >= LOOKS && !self.place.is_empty()
    }
}

/// Stack pointer and program counter of a thread that waits in the kernel without a system call; none of others.
fn place(tid: Tid) -> Option<String> {
    let text = |file| read_text(format!("/proc/self/task/{}/{file}", tid.id())).ok();
    // `-1` in place of a system call's number.
    let place = text("syscall")?.strip_prefix("-1 ")?.to_owned();
    // A thread that is stopped waits for whoever stopped it.
    let waits = text("stat")?.rsplit_once(") ")?.1.starts_with(['S', 'D']);
    waits.then_some(place)
}
