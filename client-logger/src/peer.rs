//! What a thread shows to the other threads of its process: where it is, and what it is ordered behind.
//!
//! A thread announces each block that it executes by a plain store: the one to its counter [`Slot::Left`], which every
//! block makes anyway. Whoever needs to know that a thread has left a block waits until the counter changes, or until
//! the thread says that it is *outside* of every block's accesses: in a system call, or waiting itself.
//!
//! [`Slot::Left`]: crate::callout::Slot::Left

use crate::shadow;
use bugnet_format::types::Tid;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// A number for each thread that the process ever had; never used twice.
pub type Index = u32;

/// A place in a thread's execution: what comes before it has been executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Number of an interval.
    pub interval: u64,
    /// Instructions executed in it.
    pub position: u64,
}

/// A moment of another thread that a thread is ordered behind, and since when.
#[derive(Clone, Copy, Debug)]
struct Known {
    moment: Moment,
    since: Moment,
}

/// The part of a thread that changes.
struct State {
    /// The thread's counter; null once it has ended.
    left: *const u64,
    /// Its permission bytes: see [`crate::coherence`].
    permissions: *mut u8,
    /// The interval, and the position in it at which the counter reaches 0.
    interval: u64,
    threshold: u64,
    /// How often the counter was changed otherwise than by executing a block, and where the thread was then.
    resets: u64,
    reset_at: Moment,
    /// What the thread had counted when it was outside of every block, and where that is.
    outside: Option<(u64, Moment)>,
    known: HashMap<Index, Known>,
}

impl State {
    /// Instructions that the thread has counted since its interval's start. (The counter is not null.)
    fn counted(&self) -> u64 {
        // SAFETY: not null, hence the counter is still there.
        self.threshold.wrapping_sub(unsafe { self.left.read_volatile() })
    }
}

// SAFETY: the pointers are used under the lock, and nulled before what they point to is gone.
unsafe impl Send for State {}

/// A thread, as the others see it.
pub struct Peer {
    /// Its number.
    pub index: Index,
    /// Its id.
    pub tid: Tid,
    state: Mutex<State>,
}

static PEERS: RwLock<Vec<Arc<Peer>>> = RwLock::new(Vec::new());

/// The thread with this number.
pub fn get(index: Index) -> Option<Arc<Peer>> {
    PEERS.read().unwrap_or_else(|e| e.into_inner()).get(index as usize).cloned()
}

/// In a forked child: there are no threads.
pub fn forget() {
    PEERS.write().unwrap_or_else(|e| e.into_inner()).clear();
}

/// All threads.
pub fn all() -> Vec<Arc<Peer>> {
    PEERS.read().unwrap_or_else(|e| e.into_inner()).clone()
}

/// A thread that was seen in a block, which it may not have left yet.
pub struct Sighting {
    peer: Arc<Peer>,
    counted: u64,
    resets: u64,
}

impl Peer {
    /// The calling thread, whose counter and permissions these are, shows itself.
    pub fn new(tid: Tid, left: *const u64, permissions: *mut u8) -> Arc<Self> {
        let mut peers = PEERS.write().unwrap_or_else(|e| e.into_inner());
        let state = State {
            left,
            permissions,
            interval: 0,
            threshold: 0,
            resets: 0,
            reset_at: Moment::default(),
            outside: None,
            known: HashMap::new(),
        };
        let peer = Arc::new(Self { index: peers.len() as Index, tid, state: Mutex::new(state) });
        peers.push(Arc::clone(&peer));
        peer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The thread itself sets its counter, at a moment before which all is executed; the counter reaches 0 at
    /// `threshold`.
    pub fn reset(&self, now: Moment, threshold: u64, set: impl FnOnce()) {
        let mut state = self.state();
        state.resets += 1;
        state.reset_at = now;
        state.interval = now.interval;
        state.threshold = threshold;
        state.outside = None;
        set();
    }

    /// The thread itself makes its counter reach 0 at another position, wherever it is.
    pub fn aim(&self, threshold: u64, set: impl FnOnce()) {
        let mut state = self.state();
        state.threshold = threshold;
        set();
    }

    /// The thread itself accesses no memory until its counter changes, or [`Self::enter`].
    pub fn leave(&self, now: Moment) {
        let mut state = self.state();
        state.outside = Some((state.counted(), now));
    }

    /// The thread itself is about to access memory again.
    pub fn enter(&self) {
        self.state().outside = None;
    }

    /// The thread has ended here.
    pub fn end(&self, now: Moment) {
        let mut state = self.state();
        state.left = std::ptr::null();
        state.permissions = std::ptr::null_mut();
        state.resets += 1;
        state.reset_at = now;
    }

    /// Lowers the thread's permission for a coherence block. To be called by another thread.
    pub fn lower(&self, block: u32, to: u8) {
        let state = self.state();
        if !state.permissions.is_null() {
            // SAFETY: there is a byte for each number, and they are there as long as the pointer is. The thread raises one only
            // when it has locked the block, which the caller has.
            unsafe {
                let permission = state.permissions.add(block as usize);
                permission.write_volatile(permission.read_volatile().min(to));
            }
        }
    }

    /// Takes all permissions from the thread.
    pub fn revoke(&self) {
        let state = self.state();
        if !state.permissions.is_null() {
            // SAFETY: a table of permissions, in memory that then is zero.
            unsafe { libc::madvise(state.permissions.cast(), shadow::TABLE, libc::MADV_DONTNEED) };
        }
    }

    /// The thread as it is now; to be called by another one.
    pub fn sight(self: &Arc<Self>) -> Sighting {
        let state = self.state();
        let counted = if state.left.is_null() { 0 } else { state.counted() };
        Sighting { peer: Arc::clone(self), counted, resets: state.resets }
    }

    /// Where the thread is ordered behind `other` up to `moment`, and behind all that `other` was ordered behind then;
    /// `false` if that was known.
    pub fn learn(&self, other: &Peer, moment: Moment, now: Moment) -> bool {
        if self.knows(other.index, moment) {
            return false;
        }
        // What the other one has learned later than that it cannot pass on.
        let learned: Vec<(Index, Moment)> =
            other.state().known.iter().filter(|(_, k)| k.since < moment).map(|(i, k)| (*i, k.moment)).collect();
        let mut state = self.state();
        for (index, moment) in learned.into_iter().chain([(other.index, moment)]) {
            if index != self.index && state.known.get(&index).is_none_or(|known| known.moment < moment) {
                state.known.insert(index, Known { moment, since: now });
            }
        }
        true
    }

    fn knows(&self, other: Index, moment: Moment) -> bool {
        self.state().known.get(&other).is_some_and(|known| moment <= known.moment)
    }
}

impl Sighting {
    /// Whether the thread has left the block it was in when it was seen: a moment before which lies all that it had
    /// done by then, and before which all is done.
    pub fn departed(&self) -> Option<Moment> {
        let state = self.peer.state();
        if state.left.is_null() {
            return Some(state.reset_at);
        }
        let counted = state.counted();
        if let Some((outside, moment)) = state.outside
            && outside == counted
        {
            return Some(moment);
        }
        if state.resets != self.resets {
            return Some(state.reset_at);
        }
        // It counted the block in which it was seen when it began that, and has begun another one since.
        (counted != self.counted).then_some(Moment { interval: state.interval, position: self.counted })
    }
}
