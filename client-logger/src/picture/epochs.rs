//! Epochs: all threads of the process end their intervals together, so that a merged replay can start where one begins.
//!
//! Whoever comes to the end of its interval starts the next epoch. It calls all other threads, as one does that takes memory from
//! them ([`crate::picture::peer`]), and waits until each *stands*: at the start of a block, or outside in the kernel. A thread that waits
//! in the middle of a block, to get hold of memory, does not stand: it has something to do in the old epoch. From where it
//! stands, a thread goes on only if nobody starts an epoch, and if its interval is of the present one ([`Epochs::admits`]); otherwise it waits at the
//! block's start, and then begins another interval. So nobody executes anything of the old epoch once the new one has a number.
//!
//! Each thread that has done anything in an epoch has an interval in it, which costs something however short it is. So an epoch goes on
//! until its threads together have executed as much as half of them do in a whole interval ([`Epochs::note`]); with many threads of
//! which few run, these have several intervals in an epoch. What is kept of all threads thus is not more than an interval of each.
//!
//! A thread that does not come to stand in time (the kernel keeps it in the middle of a block, or somebody has stopped it) does not hold up the
//! others: the epoch is not started, and whoever wanted it ends its own interval alone, within the old one.

use crate::base::options;
use crate::base::process::OfProcess;
use crate::base::waiting::{self, SLEEP};
use crate::log::recording;
use crate::picture::ending;
use crate::picture::peer::{self, Peer};
use bugnet_format::types::Epoch;
use bugnet_handover::futex;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// So many times [`SLEEP`] is waited for a thread that is not running before the epoch is given up.
const PATIENCE: u32 = 20;
/// The same for one that runs, or would if there were a processor for it.
const LONG_PATIENCE: u32 = 500;
/// As often at most as 2 to the power of this, no epoch is tried after some that were given up.
const MOST_SKIPPED: u32 = 6;
/// So long a thread sleeps at a time while another one starts an epoch.
const LONG_SLEEP: Duration = Duration::from_millis(100);

/// Those in which the process's threads have their intervals.
static EPOCHS: OfProcess<Epochs> = OfProcess::none();

/// The epochs of the process.
pub fn get() -> &'static Epochs {
    EPOCHS.get()
}

/// A process begins, or a forked child goes on: with the one of this number.
pub fn begin(first: u64) {
    let (current, first) = (AtomicU64::new(first), AtomicU64::new(first));
    EPOCHS.set(Epochs { current, first, ..Epochs::default() });
}

/// The epochs of a process.
#[derive(Default)]
pub struct Epochs {
    current: AtomicU64,
    /// The first one, or, in an expansion, the first one of the light log's epoch.
    first: AtomicU64,
    /// Instructions that its threads have executed since it began, as far as they have said.
    executed: AtomicU64,
    /// Odd while a thread starts the next one. Whoever waits for it to be even again sleeps on it.
    starts: AtomicU32,
    /// How many were given up in a row.
    failures: AtomicU32,
    /// How many ends of intervals are still to come that try none.
    skip: AtomicU32,
}

impl Epochs {
    /// The present one.
    pub fn now(&self) -> Epoch {
        Epoch(self.current.load(Ordering::SeqCst))
    }

    /// The process's only thread begins the next one.
    pub fn advance(&self) -> Epoch {
        Epoch(self.current.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The first one, or the first one of the light log's epoch: threads number their intervals from there on.
    pub fn first(&self) -> Epoch {
        Epoch(self.first.load(Ordering::SeqCst))
    }

    /// An epoch of a light log begins, and with it the one of this number: all threads but the calling one wait for their turns.
    pub fn jump(&self, first: u64) {
        self.first.store(first, Ordering::SeqCst);
        self.current.store(first, Ordering::SeqCst);
        self.executed.store(0, Ordering::Relaxed);
        self.failures.store(0, Ordering::SeqCst);
        self.skip.store(0, Ordering::SeqCst);
    }

    /// A thread has executed so many instructions more in the present epoch.
    pub fn note(&self, instructions: u64) {
        self.executed.fetch_add(instructions, Ordering::Relaxed);
    }

    /// Whether it has been long enough, with intervals of so many instructions.
    fn is_due(&self, interval: u64) -> bool {
        self.executed.load(Ordering::Relaxed) >= interval.saturating_mul(peer::living_count()) / 2
    }

    fn is_starting(&self) -> bool {
        self.starts.load(Ordering::SeqCst) % 2 == 1
    }

    /// Whether a thread may go on from where it stands, in an interval of this epoch.
    pub fn admits(&self, epoch: Epoch) -> bool {
        !self.is_starting() && self.now() == epoch
    }

    /// Waits as long as another thread starts an epoch. The calling thread stands; `context` is DynamoRIO's.
    pub fn wait(&self, context: *mut c_void) {
        let started = || (!self.is_starting()).then_some(());
        let sleep = || {
            let word = self.starts.load(Ordering::SeqCst);
            if word % 2 == 1 {
                futex::wait(&self.starts, word, Some(LONG_SLEEP));
            }
            None
        };
        waiting::until(context, started, sleep, || None);
    }

    /// The calling thread, which stands, starts the next epoch, if the present one has been long enough. `false` if it is not to begin, or if another thread was about to start one:
    /// that is over, then.
    pub fn start(&self, me: &Arc<Peer>, context: *mut c_void) -> bool {
        if !self.is_due(options::get().interval) {
            return false;
        }
        let mine =
            self.starts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n % 2 == 0).then(|| n.wrapping_add(1)));
        if mine.is_err() {
            self.wait(context);
            return false;
        }
        let due = self.skip.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err();
        let begins = due && all_stand(me, context);
        if begins {
            self.failures.store(0, Ordering::SeqCst);
            self.executed.store(0, Ordering::Relaxed);
            self.current.fetch_add(1, Ordering::SeqCst);
        } else if due {
            let failures = self.failures.fetch_add(1, Ordering::SeqCst);
            self.skip.store((1 << failures.min(MOST_SKIPPED)) - 1, Ordering::SeqCst);
        }
        self.starts.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.starts, i32::MAX);
        begins
    }
}

/// Waits until all other threads stand; `false` if one does not in time.
fn all_stand(me: &Arc<Peer>, context: *mut c_void) -> bool {
    let mut others = peer::living();
    others.retain(|other| other.index != me.index && !other.call_to_stand());
    // From here on, none of those that stand goes on.
    let (at, mut seen, mut sleeps) = (std::cell::Cell::new(0), 0, 0);
    let first = || others.get(at.get());
    let all = || {
        while first().is_some_and(|other| other.stands()) {
            at.set(at.get() + 1);
        }
        first().is_none().then_some(true)
    };
    let sleep = || {
        if let Some(other) = first() {
            other.sleep_unless_standing(SLEEP);
        }
        None
    };
    let rarely = || {
        sleeps = if at.get() == seen { sleeps + 1 } else { 0 };
        seen = at.get();
        let patience =
            if sleeps >= PATIENCE && first().is_some_and(|other| peer::runs(other)) { LONG_PATIENCE } else { PATIENCE };
        (recording::over() || ending::has_begun() || sleeps >= patience).then_some(false)
    };
    waiting::until(context, all, sleep, rarely)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_admitted_while_an_epoch_is_started() {
        let epochs = Epochs::default();
        assert!(epochs.admits(Epoch(0)));
        epochs.starts.fetch_add(1, Ordering::SeqCst);
        assert!(!epochs.admits(Epoch(0)) && !epochs.admits(Epoch(1)));
        assert_eq!(epochs.advance(), Epoch(1));
        epochs.starts.fetch_add(1, Ordering::SeqCst);
        assert!(!epochs.admits(Epoch(0)) && epochs.admits(Epoch(1)));
    }
}
