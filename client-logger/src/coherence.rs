//! Which thread may access what: UserMemHash as the directory of a simulated MSI protocol over the threads.
//!
//! Memory is divided into coherence blocks of 64 bytes. Each thread holds a block as Modified, Shared or Invalid: a byte
//! of its own, which instrumented code compares before it accesses the block, in the same block of code. A thread that
//! lacks a permission takes it here: it locks the block's entry in the directory, lowers the permission of those that
//! hold it, and calls them. What is left are accesses whose check was before that; it waits until their threads have left
//! the block of code that they were in ([`crate::peer`]). Hence no two threads access a block at the same time if one of
//! them writes, and whoever takes a block over knows up to where the one before had it: a dependency. The common case, an
//! access that is permitted, takes no atomic instruction.
//!
//! A thread that waits is outside of every access itself, so that others may take from it what it has; it goes on when it
//! holds all that its instruction needs. Directory entries are locked in ascending order. Nobody waits while holding
//! another lock, and DynamoRIO may suspend a thread that waits.
//!
//! A thread that takes one block of a page after the other, while no other thread does, is given more along with each, up to
//! all of the page, as far as it has to wait for nobody else.
//!
//! Blocks whose addresses differ by a multiple of 256 GiB are one block here, so that 4 GiB of address space, of which
//! what is used takes up memory, have a thread's permissions.

use crate::peer::{self, Awaited, Index, Moment, Peer};
use crate::process;
use crate::shadow;
use crate::stuck::Patience;
use bugnet_dr::sys;
use bugnet_format::record::DependencyKind;
use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Bytes of a coherence block, as a power of two.
pub const BLOCK_SHIFT: u32 = 6;

/// Values of a permission byte: nothing, reading, reading and writing.
pub const INVALID: u8 = 0;
/// See [`INVALID`].
pub const SHARED: u8 = 1;
/// See [`INVALID`].
pub const MODIFIED: u8 = 2;

// There is a permission for each number of a block.
const _: () = assert!(shadow::TABLE == 1 << u32::BITS);

/// Blocks whose entries stand together: those of a page. The thread that is the first to access any of them gets them all,
/// since most pages are used by one thread only.
const GROUP_SHIFT: u32 = 6;

/// Locks of the directory.
const STRIPES: usize = 1024;

/// Number of the block of an address.
pub fn block_of(address: u64) -> u32 {
    (address >> BLOCK_SHIFT) as u32
}

/// A thread's permissions.
pub struct Permissions {
    bytes: *mut u8,
    visits: Visits,
    missing: Vec<Want>,
    lowered: Vec<Lowered>,
    found: Vec<Dependency>,
}

impl Permissions {
    /// None yet.
    pub fn new() -> Self {
        let (missing, lowered, found) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes: shadow::map_table(), visits: Visits::new(), missing, lowered, found }
    }

    /// What [`acquire`] has found, once it is dealt with: its memory is used again.
    pub fn give_back(&mut self, mut found: Vec<Dependency>) {
        found.clear();
        self.found = found;
    }

    /// Where they are.
    pub fn address(&self) -> *mut u8 {
        self.bytes
    }

    /// The thread itself gets a permission.
    pub fn grant(&mut self, block: u32, permission: u8) {
        // SAFETY: there is a byte for each number.
        unsafe { self.bytes.add(block as usize).write_volatile(permission) };
    }

    /// The thread itself gets a permission for all blocks of a group.
    fn grant_group(&mut self, block: u32, permission: u8) {
        const SIZE: usize = GROUP as usize;
        // SAFETY: there is a byte for each number; other threads change them only when they have locked the group, too.
        unsafe { self.bytes.add(block as usize / SIZE * SIZE).write_bytes(permission, SIZE) };
    }

    /// The thread itself, which is `me`, takes what it wants; those who stood in the way have left.
    fn take(&mut self, want: Want, locked: &mut Locked, me: Index, revoked: &Revoked, found: &mut Vec<Dependency>) {
        // It may have come with the group of another one.
        if self.get(want.block) >= want.permission() {
            return;
        }
        match locked.group(want.block) {
            Some(group) => {
                group.entry(want.block).take(want, me, revoked, found);
                self.grant(want.block, want.permission());
            }
            None => {
                locked.give(want.block, me, want.writes);
                self.grant_group(want.block, want.permission());
            }
        }
    }

    /// What the thread may do with a block. What it finds here in an access that it has announced, it has until that is over.
    pub fn get(&self, block: u32) -> u8 {
        // SAFETY: there is a byte for each number.
        unsafe { self.bytes.add(block as usize).read_volatile() }
    }
}

impl Drop for Permissions {
    fn drop(&mut self) {
        // SAFETY: from there, and nobody uses it any more.
        unsafe { shadow::unmap_table(self.bytes) };
    }
}

/// What an instruction wants of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    /// Number of the block.
    pub block: u32,
    /// An address in it.
    pub address: u64,
    /// Whether the instruction reads it.
    pub reads: bool,
    /// Whether the instruction writes it.
    pub writes: bool,
}

/// Something that a thread is ordered behind.
#[derive(Clone, Copy, Debug)]
pub struct Dependency {
    /// Which accesses are ordered.
    pub kind: DependencyKind,
    /// An address in the block.
    pub address: u64,
    /// The other thread.
    pub other: Index,
    /// Up to where.
    pub moment: Moment,
}

/// What the directory knows of a block.
#[derive(Clone, Default)]
struct Entry {
    /// The last thread that wrote, and up to where it may have done so; the moment is not known yet while it is the
    /// only one that holds the block.
    writer: Option<(Index, Moment)>,
    /// Whether the only holder may write.
    modified: bool,
    holders: SmallVec<[Index; 4]>,
}

/// Blocks of a group.
const GROUP: u32 = 1 << GROUP_SHIFT;

/// Entries of blocks that stand next to each other.
struct Group {
    entries: [Entry; GROUP as usize],
    /// The thread that was the last to take something in here, and how often it has done so since another one did.
    taker: Index,
    streak: u32,
}

/// Groups that a thread has taken something of, with their streaks; where several share an entry, the last one.
struct Visits(Box<[(u32, u32); 1 << Visits::SHIFT]>);

impl Visits {
    const SHIFT: u32 = 9;

    fn new() -> Self {
        Self(Box::new([(0, 0); 1 << Self::SHIFT]))
    }

    fn entry(&mut self, group: u32) -> &mut (u32, u32) {
        // Groups at regular distances get entries of their own.
        &mut self.0[(group.wrapping_mul(0x9e37_79b1) >> (u32::BITS - Self::SHIFT)) as usize]
    }

    fn set(&mut self, group: u32, streak: u32) {
        *self.entry(group) = (group, streak);
    }

    /// The streak of the group before or behind one.
    fn beside(&mut self, group: u32) -> u32 {
        let streak = |(found, streak): (u32, u32), wanted| if found == wanted { streak } else { 0 };
        let (before, behind) = (group.wrapping_sub(1), group.wrapping_add(1));
        streak(*self.entry(before), before).max(streak(*self.entry(behind), behind))
    }
}

impl Group {
    fn entry(&mut self, block: u32) -> &mut Entry {
        &mut self.entries[(block % GROUP) as usize]
    }

    /// A thread comes to take a block: the blocks around it that it should be given along with it. One that comes again and
    /// again, and no other meanwhile, gets more each time, up to the whole group, and then likewise of the next group.
    fn come(&mut self, block: u32, taker: Index, visits: &mut Visits) -> Range<u32> {
        let group = block >> GROUP_SHIFT;
        self.streak = if self.taker == taker { self.streak.saturating_add(1) } else { visits.beside(group) };
        visits.set(group, self.streak);
        self.taker = taker;
        let size = 1 << self.streak.min(GROUP_SHIFT);
        let start = block & !(size - 1);
        start..start + size
    }
}

type Stripe = HashMap<u32, Box<Group>>;

type Directory = [Mutex<Stripe>; STRIPES];

/// The directory; null before the first access. Never freed.
static DIRECTORY: AtomicPtr<Directory> = AtomicPtr::new(std::ptr::null_mut());

fn directory() -> &'static Directory {
    let mut directory = DIRECTORY.load(Ordering::Acquire);
    if directory.is_null() {
        let new = Box::into_raw(Box::new(std::array::from_fn(|_| Mutex::default())));
        let first = DIRECTORY.compare_exchange(directory, new, Ordering::AcqRel, Ordering::Acquire);
        directory = first.map_or_else(|other| other, |_| new);
    }
    // SAFETY: not null, and never freed.
    unsafe { &*directory }
}

/// In a forked child: nobody holds anything. Locks that other threads held when the process forked stay locked, so that
/// there has to be another directory.
pub fn forget() {
    DIRECTORY.store(std::ptr::null_mut(), Ordering::Release);
}

fn stripe_of(block: u32) -> usize {
    (block >> GROUP_SHIFT) as usize % STRIPES
}

/// So often a thread looks at what it waits for, without anything else.
const SPINS: u32 = 100;
/// So often it lets other threads go first, and then sleeps.
const YIELDS: u32 = 900;

/// So often it sleeps, and then asks whether there is any use in waiting.
const SLEEPS: u32 = 100;

/// Waits for something, which `test` finds without any lock but those of the directory, nor memory that is allocated:
/// DynamoRIO may suspend the thread meanwhile. It does not while `rarely` is asked, which is done after some milliseconds, again
/// and again, and may do both.
fn until<T>(context: *mut c_void, mut test: impl FnMut() -> Option<T>, mut rarely: impl FnMut() -> Option<T>) -> T {
    for _ in 0..SPINS {
        if let Some(found) = test() {
            return found;
        }
        std::hint::spin_loop();
    }
    let suspendable = |yes: bool| {
        // SAFETY: the calling thread's context; it holds no lock of DynamoRIO's, and nobody waits for the locks that it holds
        // without being in here.
        unsafe { sys::dr_mark_safe_to_suspend(context, yes.into()) };
    };
    suspendable(true);
    let mut turns = 0;
    let found = loop {
        if let Some(found) = test() {
            break found;
        }
        turns += 1;
        // SAFETY: they wait.
        unsafe {
            if turns < YIELDS {
                libc::sched_yield()
            } else {
                libc::usleep(100)
            };
        }
        if turns == YIELDS + SLEEPS {
            turns = YIELDS;
            suspendable(false);
            if let Some(found) = rarely() {
                return found;
            }
            suspendable(true);
        }
    };
    suspendable(false);
    found
}

fn lock(stripe: usize, context: *mut c_void) -> MutexGuard<'static, Stripe> {
    let free = || match directory()[stripe].try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    until(context, free, || None)
}

/// Why recording ends where nothing else would.
const STUCK: &str = "a thread waits in the middle of an access for memory that another thread is to supply (userfaultfd), and \
                     that one for what the first has hold of";

/// A permission that is taken away.
#[derive(Clone, Copy)]
struct Lowered {
    /// Whose, as an index of [`Revoked::peers`].
    peer: usize,
    block: u32,
    /// What is left of it.
    to: u8,
}

/// The threads that stand in the way, what they must not have any more, and where they have left their blocks.
struct Revoked {
    peers: SmallVec<[Arc<Peer>; 4]>,
    lowered: Vec<Lowered>,
    moments: SmallVec<[Moment; 4]>,
}

impl Revoked {
    fn add(&mut self, index: Index, block: u32, to: u8) {
        let found = self.peers.iter().position(|peer| peer.index == index);
        let peer = found.unwrap_or_else(|| {
            self.peers.extend(peer::get(index));
            self.peers.len() - 1
        });
        self.lowered.push(Lowered { peer, block, to });
    }

    /// Notes those who stand in the way of what a thread wants of a block.
    fn lower(&mut self, entry: &Entry, want: Want, by: Index) {
        for holder in entry.in_the_way(want, by) {
            self.add(holder, want.block, if want.writes { INVALID } else { SHARED });
        }
    }

    /// Whether all those who stand in the way are waited for anyway.
    fn stands_for(&self, entry: &Entry, want: Want, by: Index) -> bool {
        entry.in_the_way(want, by).all(|holder| self.peers.iter().any(|peer| peer.index == holder))
    }

    /// Takes the permissions away and waits until all have departed: none accesses anything by a permission that it had
    /// before. `false` if recording ends meanwhile.
    fn wait(&mut self, context: *mut c_void) -> bool {
        let of = |at| self.lowered.iter().filter(move |lowered| lowered.peer == at).map(|l| (l.block, l.to));
        let called: SmallVec<[Result<Moment, Awaited>; 4]> =
            self.peers.iter().enumerate().map(|(at, peer)| peer.call(of(at))).collect();
        for answer in called {
            let moment = answer.or_else(|awaited| {
                let mut patience = Patience::new(awaited.tid());
                let departed = || match awaited.has_departed() {
                    false if process::get().over() => Some(false),
                    departed => departed.then_some(true),
                };
                let stuck = || {
                    patience.is_lost().then(|| {
                        process::get().end(STUCK);
                        false
                    })
                };
                let departed = until(context, departed, stuck);
                departed.then(|| awaited.departed_at()).ok_or(())
            });
            match moment {
                Ok(moment) => self.moments.push(moment),
                Err(()) => return false,
            }
        }
        true
    }

    fn moment(&self, index: Index) -> Option<Moment> {
        let at = self.peers.iter().position(|peer| peer.index == index)?;
        self.moments.get(at).copied()
    }
}

/// The locked entries of some blocks.
struct Locked(SmallVec<[(usize, MutexGuard<'static, Stripe>); 4]>);

impl Locked {
    fn new(wants: &[Want], context: *mut c_void) -> Self {
        let mut stripes: SmallVec<[usize; 4]> = wants.iter().map(|want| stripe_of(want.block)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        Self(stripes.into_iter().map(|stripe| (stripe, lock(stripe, context))).collect())
    }

    fn stripe(&mut self, block: u32) -> &mut Stripe {
        let stripe = stripe_of(block);
        let at = self.0.partition_point(|(locked, _)| *locked < stripe);
        &mut self.0[at].1
    }

    /// The group of a block; none if no thread has accessed it.
    fn group(&mut self, block: u32) -> Option<&mut Group> {
        Some(self.stripe(block).get_mut(&(block >> GROUP_SHIFT))?)
    }

    /// A group that no thread has accessed becomes a thread's.
    fn give(&mut self, block: u32, to: Index, modified: bool) {
        let writer = modified.then(|| (to, Moment::default()));
        let entry = Entry { writer, modified, holders: smallvec![to] };
        let group = Group { entries: std::array::from_fn(|_| entry.clone()), taker: to, streak: 0 };
        self.stripe(block).insert(block >> GROUP_SHIFT, Box::new(group));
    }
}

/// The calling thread, at `now` in its execution, gets all that it wants. Returns what that orders it behind; none if
/// recording of all threads ends meanwhile. `context` is DynamoRIO's.
pub fn acquire(
    me: &Arc<Peer>,
    permissions: &mut Permissions,
    wants: &[Want],
    now: Moment,
    context: *mut c_void,
) -> Option<Vec<Dependency>> {
    me.leave(now);
    let mut locked = Locked::new(wants, context);
    let mut missing = std::mem::take(&mut permissions.missing);
    // Others have taken away what they wanted by now, and nobody can take more.
    missing.extend(wants.iter().filter(|want| permissions.get(want.block) < want.permission()));
    let lowered = std::mem::take(&mut permissions.lowered);
    let mut revoked = Revoked { peers: SmallVec::new(), lowered, moments: SmallVec::new() };
    for want in &missing {
        if let Some(group) = locked.group(want.block) {
            revoked.lower(group.entry(want.block), *want, me.index);
        }
    }
    // What comes along is taken from nobody else, so that it costs no further waiting.
    for at in 0..missing.len() {
        let want = missing[at];
        let Some(group) = locked.group(want.block) else { continue };
        let near = group.come(want.block, me.index, &mut permissions.visits);
        for near in near.filter(|near| *near != want.block).map(|block| want.near(block)) {
            let entry = group.entry(near.block);
            if permissions.get(near.block) < near.permission() && revoked.stands_for(entry, near, me.index) {
                revoked.lower(entry, near, me.index);
                missing.push(near);
            }
        }
    }
    let mut found = revoked.wait(context).then(|| std::mem::take(&mut permissions.found));
    if let Some(found) = &mut found {
        for want in &missing {
            permissions.take(*want, &mut locked, me.index, &revoked, found);
        }
    }
    missing.clear();
    permissions.missing = missing;
    permissions.lowered = revoked.lowered;
    permissions.lowered.clear();
    // Before anybody else can lock the entries: from here on, who takes something away waits for this thread's block.
    me.enter();
    found
}

impl Want {
    /// The same of another block of the group.
    fn near(self, block: u32) -> Self {
        let away = u64::from(block).wrapping_sub(u64::from(self.block));
        let address = self.address.wrapping_add(away << BLOCK_SHIFT);
        Self { block, address, reads: !self.writes, writes: self.writes }
    }

    /// What it takes.
    pub fn permission(self) -> u8 {
        if self.writes { MODIFIED } else { SHARED }
    }
}

impl Entry {
    /// Other threads that have what they must not have if a thread gets what it wants.
    fn in_the_way(&self, want: Want, by: Index) -> impl Iterator<Item = Index> {
        let all = want.writes || self.modified;
        self.holders.iter().copied().filter(move |holder| all && *holder != by)
    }

    /// `me` takes what it wants; those who stood in the way have left.
    fn take(&mut self, want: Want, me: Index, revoked: &Revoked, found: &mut Vec<Dependency>) {
        let mut add = |kind, other, moment| found.push(Dependency { kind, address: want.address, other, moment });
        if let Some((writer, moment)) = &mut self.writer
            && *writer != me
        {
            if self.modified
                && let Some(left) = revoked.moment(*writer)
            {
                *moment = left;
            }
            let kind = if want.reads { DependencyKind::Raw } else { DependencyKind::Waw };
            add(kind, *writer, *moment);
        }
        if want.writes {
            if !self.modified {
                for reader in self.holders.iter().filter(|holder| **holder != me) {
                    if let Some(moment) = revoked.moment(*reader) {
                        add(DependencyKind::War, *reader, moment);
                    }
                }
            }
            self.holders.clear();
            self.writer = Some((me, Moment::default()));
        }
        self.modified = want.writes;
        if !self.holders.contains(&me) {
            self.holders.push(me);
        }
    }
}
