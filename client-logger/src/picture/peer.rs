//! What a thread shows to the other threads of its process: where it is, and what it is ordered behind.
//!
//! Whoever takes something from a thread waits until the thread *departs*: until it is at a place where all that it has done
//! is visible to the others, and behind which it asks anew for whatever it accesses. It does so at the start of a block if it
//! is called: the words that each block compares at its start anyway ([`Slot::CodeSeq`]) are zeroed, and the thread comes
//! out of the code cache. A thread that is *outside* of every block, in a system call or waiting itself, has departed and need not
//! be waited for; the first block that it then executes finds those words zeroed, too.
//!
//! A thread *stands* if it has departed to where it is not in the middle of a block: see [`crate::picture::epochs`].
//!
//! All of this is told under a lock of the thread's, whose atomic instructions are barriers to its accesses.
//!
//! [`Slot::CodeSeq`]: crate::base::slots::Slot::CodeSeq

mod known;

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::process;
use crate::base::waiting::SLEEP;
use crate::log::recording;
use crate::picture::blocks::Blocks;
use crate::picture::moment::{Index, Moment};
use crate::picture::shadow::sizes::TABLE;
use crate::picture::table::Table;
use bugnet_format::types::{Epoch, Tid};
use bugnet_handover::futex;
use known::Known;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Words that blocks compare at their start with what they need: one for each kind of blocks. 4 bytes each.
#[derive(Clone, Copy)]
pub struct Bells(pub [*mut u32; 2]);

impl Bells {
    /// Lets blocks find this.
    pub fn show(self, values: [u32; 2]) {
        for (bell, value) in self.0.into_iter().zip(values) {
            // SAFETY: the thread's own words, which are there until it ends: see `Peer::end`.
            unsafe { bell.write_volatile(value) };
        }
    }
}

/// The part of a thread that changes.
struct State {
    /// None once it has ended.
    bells: Option<Bells>,
    /// What is to be found there while nobody calls.
    shown: [u32; 2],
    /// Its permissions: see [`crate::picture::coherence`]; none once it has ended.
    permissions: Option<Table>,
    /// Whether another thread wants it to depart.
    called: bool,
    outside: bool,
    /// The epoch of its interval; none while it has no log.
    epoch: Option<Epoch>,
    /// Where it was when it last departed: all that comes before has been executed.
    departed_at: Moment,
    known: Known,
}

impl State {
    /// What blocks are to find. One that stays, as that of a thread that is outside, makes the thread call out.
    fn show(&self) {
        if let Some(bells) = self.bells {
            bells.show(if self.called || self.outside { [0; 2] } else { self.shown });
        }
    }
}

// SAFETY: the pointers are used under the lock, and given up before what they point to is gone.
unsafe impl Send for State {}

/// A thread, as the others see it.
pub struct Peer {
    /// Its number.
    pub index: Index,
    /// Its id.
    pub tid: Tid,
    /// How often it has departed. Changed under the lock. Whoever has called the thread may wait for a change.
    departures: AtomicU32,
    /// Whether it stands. Changed under the lock.
    standing: AtomicBool,
    /// Its stack pointer, as it was when it last left a block for long.
    stack: AtomicU64,
    state: Mutex<State>,
}

/// What comes of a thread that is at the start of a block, or goes on elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Nobody has called it, and it was not outside.
    Uncalled,
    /// It goes on.
    Called,
    /// It stands, as it has to begin another interval first, or to wait for that.
    Held,
}

static PEERS: Mutex<Vec<Arc<Peer>>> = Mutex::new(Vec::new());

/// Threads that have not ended.
static LIVING: Mutex<BTreeMap<Index, Arc<Peer>>> = Mutex::new(BTreeMap::new());

fn living_peers() -> MutexGuard<'static, BTreeMap<Index, Arc<Peer>>> {
    LIVING.lock()
}

/// How many threads have not ended.
pub fn living_count() -> u64 {
    living_peers().len() as u64
}

/// The threads that have not ended.
pub fn living() -> Vec<Arc<Peer>> {
    living_peers().values().cloned().collect()
}

/// Threads that have ended, of which it is remembered what they knew.
static ENDED: Mutex<VecDeque<Arc<Peer>>> = Mutex::new(VecDeque::new());

/// So many are.
const MOST_ENDED: usize = 64;

/// The thread with this number.
pub fn get(index: Index) -> Option<Arc<Peer>> {
    PEERS.lock().get(index as usize).cloned()
}

/// In a forked child: there are no threads.
pub fn forget() {
    PEERS.lock().clear();
    ENDED.lock().clear();
    living_peers().clear();
}

/// All threads.
pub fn all() -> Vec<Arc<Peer>> {
    PEERS.lock().clone()
}

/// Whether a thread runs, or would if there were a processor for it.
pub fn runs(peer: &Peer) -> bool {
    process::runs(peer.tid.id())
}

/// A thread that another one waits for.
pub struct Awaited {
    peer: Arc<Peer>,
    departures: u32,
}

impl Peer {
    /// The calling thread, whose bells and permissions these are, shows itself. It stands. `epoch`: that of its interval.
    pub fn new(tid: Tid, bells: Bells, permissions: Table, epoch: Option<Epoch>) -> Arc<Self> {
        let mut peers = PEERS.lock();
        let state = State {
            bells: Some(bells),
            shown: [0; 2],
            permissions: Some(permissions),
            called: false,
            outside: true,
            epoch,
            departed_at: Moment::default(),
            known: Known::default(),
        };
        let index = peers.len() as Index;
        let (departures, standing, stack) = (AtomicU32::new(0), AtomicBool::new(true), AtomicU64::new(0));
        let peer = Arc::new(Self { index, tid, departures, standing, stack, state: Mutex::new(state) });
        peers.push(Arc::clone(&peer));
        living_peers().insert(index, Arc::clone(&peer));
        peer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The thread itself lets blocks find this at their start.
    pub fn show(&self, values: [u32; 2]) {
        let mut state = self.state();
        state.shown = values;
        state.show();
    }

    fn depart(&self, state: &mut State, now: Moment) {
        state.departed_at = now;
        self.departures.fetch_add(1, Ordering::SeqCst);
        if state.called {
            futex::wake(&self.departures, i32::MAX);
        }
    }

    /// The thread itself is at the start of a block, or goes on elsewhere than in the block in which it was.
    /// `admits`: whether it may go on in an interval of this epoch.
    pub fn pass(&self, now: Moment, admits: impl FnOnce(Epoch) -> bool) -> Passed {
        let mut state = self.state();
        let (called, outside) = (state.called, state.outside);
        // Before the look at who starts an epoch: that one looks at this, then.
        self.standing.store(false, Ordering::SeqCst);
        let admitted = state.epoch.is_none_or(admits) || recording::over();
        state.outside = !admitted;
        self.standing.store(!admitted, Ordering::SeqCst);
        self.depart(&mut state, now);
        state.called = false;
        if called || outside || !admitted {
            state.show();
        }
        match admitted {
            false => Passed::Held,
            true if called || outside => Passed::Called,
            true => Passed::Uncalled,
        }
    }

    /// The thread itself accesses no memory until it executes another block, or [`Self::enter`]; and until it executes another
    /// block, it stands.
    pub fn leave(&self, now: Moment) {
        self.go_outside(now, true);
    }

    /// The thread itself accesses no memory until [`Self::enter`], or another block, but does not stand: it is in the middle of
    /// something.
    pub fn wait_within(&self, now: Moment) {
        self.go_outside(now, false);
    }

    fn go_outside(&self, now: Moment, stands: bool) {
        let mut state = self.state();
        state.outside = true;
        self.standing.store(stands, Ordering::SeqCst);
        self.depart(&mut state, now);
        state.show();
    }

    /// The thread itself is about to access memory again, in the block in which it has waited, and asks before whether it may.
    pub fn enter(&self) {
        let mut state = self.state();
        state.outside = false;
        state.show();
    }

    /// The thread itself is about to leave its block for long, with this stack pointer.
    pub fn note_stack(&self, pointer: u64) {
        self.stack.store(pointer, Ordering::Relaxed);
    }

    /// Where the thread's stack is, if that is known.
    pub fn stack(&self) -> Option<u64> {
        Some(self.stack.load(Ordering::Relaxed)).filter(|pointer| *pointer != 0)
    }

    /// The thread itself begins an interval of this epoch.
    pub fn begin(&self, epoch: Epoch) {
        self.state().epoch = Some(epoch);
    }

    /// The thread itself is not recorded any more, and belongs to no epoch.
    pub fn excuse(&self) {
        self.state().epoch = None;
    }

    /// Asks the thread to come to where it stands; whether it does already. To be called by one that starts an epoch.
    pub fn call_to_stand(&self) -> bool {
        let mut state = self.state();
        let stands = self.stands();
        if !stands {
            state.called = true;
            state.show();
        }
        stands
    }

    /// Whether it stands.
    pub fn stands(&self) -> bool {
        self.standing.load(Ordering::SeqCst)
    }

    /// Sleeps until the thread stands, or something else happens to it, for a moment at most.
    pub fn sleep_unless_standing(&self, most: Duration) {
        let departures = self.departures.load(Ordering::SeqCst);
        if !self.stands() {
            futex::wait(&self.departures, departures, Some(most));
        }
    }

    /// Where the thread has last departed, if that was in this interval.
    pub fn departed_in(&self, interval: u64) -> Option<u64> {
        let at = self.state().departed_at;
        (at.interval == interval).then_some(at.position)
    }

    /// The thread has ended here.
    pub fn end(self: &Arc<Self>, now: Moment) {
        let mut state = self.state();
        state.bells = None;
        state.permissions = None;
        state.outside = true;
        self.standing.store(true, Ordering::SeqCst);
        self.depart(&mut state, now);
        drop(state);
        living_peers().remove(&self.index);
        let mut ended = ENDED.lock();
        ended.push_back(Arc::clone(self));
        if ended.len() > MOST_ENDED
            && let Some(first) = ended.pop_front()
        {
            first.state().known = Known::default();
        }
    }

    /// Takes all permissions from the thread.
    pub fn revoke(&self) {
        let state = self.state();
        if let Some(permissions) = state.permissions {
            // SAFETY: a table of permissions, in memory that then is zero.
            unsafe { libc::madvise(permissions.address().cast(), TABLE, libc::MADV_DONTNEED) };
        }
    }

    /// Lowers the thread's permissions for coherence blocks to what is given, and asks it to depart, unless it has; to be
    /// called by another one, which has locked the blocks.
    pub fn call(self: &Arc<Self>, lowered: impl Iterator<Item = (Blocks, u8)>) -> Result<Moment, Awaited> {
        let mut state = self.state();
        if let Some(permissions) = state.permissions {
            lowered.for_each(|(blocks, to)| permissions.lower(blocks, to));
        }
        if state.outside {
            return Ok(state.departed_at);
        }
        state.called = true;
        state.show();
        Err(Awaited { peer: Arc::clone(self), departures: self.departures.load(Ordering::SeqCst) })
    }

    /// Where the thread is ordered behind `other` up to `moment`, and behind all that `other` was ordered behind then;
    /// `false` if that was known.
    pub fn learn(&self, other: &Peer, moment: Moment, now: Moment) -> bool {
        if self.knows(other.index, moment) {
            return false;
        }
        // What the other one has learned later than that it cannot pass on.
        let learned: SmallVec<[(Index, Moment); 8]> = other.state().known.before(moment).collect();
        let mut state = self.state();
        for (index, moment) in learned.into_iter().chain([(other.index, moment)]) {
            if index != self.index {
                state.known.add(index, moment, now);
            }
        }
        true
    }

    fn knows(&self, other: Index, moment: Moment) -> bool {
        self.state().known.has(other, moment)
    }
}

/// Waits until each thread but this one has departed or is outside; `false` if one has not come so far in time, which is longer for one
/// that runs, or would if there were a processor for it.
pub fn await_departures(me: Index, most: Duration, most_running: Duration) -> bool {
    let others = living().into_iter().filter(|peer| peer.index != me);
    let called: Vec<Awaited> = others.filter_map(|peer| peer.call(std::iter::empty()).err()).collect();
    let start = Instant::now();
    let may_come = |awaited: &Awaited| {
        let waited = start.elapsed();
        waited < most || waited < most_running && runs(&awaited.peer)
    };
    called.iter().all(|awaited| {
        while !awaited.has_departed() && may_come(awaited) {
            awaited.sleep(SLEEP);
        }
        awaited.has_departed()
    })
}

impl Awaited {
    /// Whom it is about.
    pub fn tid(&self) -> Tid {
        self.peer.tid
    }

    /// Whether the thread has departed since it was called.
    pub fn has_departed(&self) -> bool {
        self.peer.departures.load(Ordering::SeqCst) != self.departures
    }

    /// Sleeps until it has, for a moment at most.
    pub fn sleep(&self, most: Duration) {
        futex::wait(&self.peer.departures, self.departures, Some(most));
    }

    /// Where the thread was when it last departed.
    pub fn departed_at(&self) -> Moment {
        self.peer.state().departed_at
    }
}
