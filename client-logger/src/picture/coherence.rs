//! Which thread may access what: the directory of a simulated MSI protocol over the threads, which in the paper UserMemHash is.
//!
//! Memory is divided into coherence blocks of 64 bytes. Each thread holds a block as Modified, Shared or Invalid: a byte
//! of its own ([`crate::picture::table`]), which instrumented code compares before it accesses the block, in the same block of code. A thread that
//! lacks a permission takes it here: it locks the block's entry in the directory, lowers the permission of those that
//! hold it, and calls them. What is left are accesses whose check was before that; it waits until their threads have left
//! the block of code that they were in ([`crate::picture::peer`]). Hence no two threads access a block at the same time if one of
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

mod directory;
pub mod wants;

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::stuck::Patience;
use crate::base::waiting::{SLEEP, until};
use crate::log::recording;
use crate::picture::blocks::{BLOCK_SHIFT, Blocks, INVALID, MODIFIED, SHARED};
use crate::picture::moment::{Index, Moment};
use crate::picture::peer::{self, Awaited, Peer};
use crate::picture::shadow::sizes::TABLE;
use crate::picture::shadow::tables;
use crate::picture::table::Table;
use bugnet_format::record::DependencyKind;
use directory::{Entry, Group, Stripe, Taking, Visits};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use wants::{Want, Wants};

// There is a permission for each number of a block.
const _: () = assert!(TABLE == 1 << u32::BITS);

/// Locks of the directory.
const STRIPES: usize = 1024;

/// A thread's permissions.
pub struct Permissions {
    table: Table,
    visits: Visits,
    missing: Vec<Task>,
    lowered: Vec<Lowered>,
    found: Vec<Dependency>,
}

impl Permissions {
    /// None yet.
    pub fn new() -> Self {
        let (missing, lowered, found) = (Vec::new(), Vec::new(), Vec::new());
        // SAFETY: there until this is dropped.
        let table = unsafe { Table::new(tables::map_table()) };
        Self { table, visits: Visits::new(), missing, lowered, found }
    }

    /// What [`acquire`] has found, once it is dealt with: its memory is used again.
    pub fn give_back(&mut self, mut found: Vec<Dependency>) {
        found.clear();
        self.found = found;
    }

    /// Where they are.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The thread itself gets a permission.
    pub fn grant(&mut self, blocks: Blocks, permission: u8) {
        self.table.grant(blocks, permission);
    }

    /// The thread itself, which is `me`, takes some of the blocks that it wants; those who stood in the way have left.
    fn take(
        &mut self,
        blocks: Blocks,
        page: u64,
        how: Taking,
        group: &mut Group,
        revoked: &Revoked,
        found: &mut Vec<Dependency>,
    ) {
        if blocks.bits != 0 {
            let add = |kind, bits, other, moment| {
                found.push(Dependency { kind, page, blocks: blocks.only(bits), other, moment });
            };
            group.take(blocks.bits, how, |index| revoked.moment(index), add);
            self.grant(blocks, if how.writes { MODIFIED } else { SHARED });
        }
    }

    /// What the thread may do with a block. What it finds here in an access that it has announced, it has until that is over.
    pub fn get(&self, block: u32) -> u8 {
        self.table.get(block)
    }
}

impl Drop for Permissions {
    fn drop(&mut self) {
        // SAFETY: from there, and nobody uses it any more.
        unsafe { tables::unmap_table(self.table.address()) };
    }
}

/// What a thread is to get of a group.
struct Task {
    want: Want,
    /// Blocks that come along, for reading and for writing.
    near: [u64; 2],
}

/// Something that a thread is ordered behind.
#[derive(Clone, Copy, Debug)]
pub struct Dependency {
    /// Which accesses are ordered.
    pub kind: DependencyKind,
    /// The first address of the blocks' group.
    pub page: u64,
    /// The blocks, one or more.
    pub blocks: Blocks,
    /// The other thread.
    pub other: Index,
    /// Up to where.
    pub moment: Moment,
}

impl Dependency {
    /// A thread begins behind what its parent has done.
    pub fn of_birth(parent: Index, moment: Moment) -> Self {
        let blocks = Blocks { group: 0, bits: 1 };
        Self { kind: DependencyKind::Birth, page: 0, blocks, other: parent, moment }
    }

    /// An address in the first of the blocks.
    pub fn address(&self) -> u64 {
        self.page + (u64::from(self.blocks.bits.trailing_zeros()) << BLOCK_SHIFT)
    }

    /// How many blocks it is about.
    pub fn count(&self) -> u64 {
        self.blocks.bits.count_ones().into()
    }
}

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

fn stripe_of(group: u32) -> usize {
    group as usize % STRIPES
}

fn lock(stripe: usize, context: *mut c_void) -> MutexGuard<'static, Stripe> {
    let stripe = &directory()[stripe];
    let free = || stripe.try_lock();
    // Whoever has it waits for nobody who waits for it, and many may wait.
    let sleep = || Some(stripe.lock());
    until(context, free, sleep, || None)
}

/// Why recording ends where nothing else would.
const STUCK: &str = "a thread waits in the middle of an access for memory that another thread is to supply (userfaultfd), and \
                     that one for what the first has hold of";

/// A permission that is taken away.
#[derive(Clone, Copy)]
struct Lowered {
    /// Whose, as an index of [`Revoked::peers`].
    peer: usize,
    blocks: Blocks,
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
    fn add(&mut self, index: Index, blocks: Blocks, to: u8) {
        let found = self.peers.iter().position(|peer| peer.index == index);
        let peer = found.unwrap_or_else(|| {
            self.peers.extend(peer::get(index));
            self.peers.len() - 1
        });
        self.lowered.push(Lowered { peer, blocks, to });
    }

    /// Notes those who stand in the way of a thread that reads, or writes, blocks of a group.
    fn lower(&mut self, group: &Group, blocks: Blocks, writes: bool, by: Index) {
        for (entry, bits) in group.entries(blocks.bits) {
            self.lower_entry(entry, blocks.only(bits), writes, by);
        }
    }

    fn lower_entry(&mut self, entry: &Entry, blocks: Blocks, writes: bool, by: Index) {
        for holder in entry.in_the_way(writes, by) {
            self.add(holder, blocks, if writes { INVALID } else { SHARED });
        }
    }

    /// The same of blocks that come along, if all those who stand in the way are waited for anyway. Which blocks these are.
    fn lower_along(&mut self, group: &Group, blocks: Blocks, writes: bool, by: Index) -> u64 {
        let mut along = 0;
        for (entry, bits) in group.entries(blocks.bits) {
            if entry.in_the_way(writes, by).all(|holder| self.peers.iter().any(|peer| peer.index == holder)) {
                self.lower_entry(entry, blocks.only(bits), writes, by);
                along |= bits;
            }
        }
        along
    }

    /// Takes the permissions away and waits until all have departed: none accesses anything by a permission that it had
    /// before. `false` if recording ends meanwhile.
    fn wait(&mut self, context: *mut c_void) -> bool {
        let of = |at| self.lowered.iter().filter(move |lowered| lowered.peer == at).map(|l| (l.blocks, l.to));
        let called: SmallVec<[Result<Moment, Awaited>; 4]> =
            self.peers.iter().enumerate().map(|(at, peer)| peer.call(of(at))).collect();
        for answer in called {
            let moment = answer.or_else(|awaited| {
                let mut patience = Patience::new(awaited.tid());
                let departed = || match awaited.has_departed() {
                    false if recording::over() => Some(false),
                    departed => departed.then_some(true),
                };
                let stuck = || {
                    patience.is_lost().then(|| {
                        recording::end(STUCK);
                        false
                    })
                };
                let sleep = || {
                    awaited.sleep(SLEEP);
                    None
                };
                let departed = until(context, departed, sleep, stuck);
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
        let mut stripes: SmallVec<[usize; 4]> = wants.iter().map(|want| stripe_of(want.group)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        Self(stripes.into_iter().map(|stripe| (stripe, lock(stripe, context))).collect())
    }

    fn stripe(&mut self, group: u32) -> &mut Stripe {
        let stripe = stripe_of(group);
        let at = self.0.partition_point(|(locked, _)| *locked < stripe);
        &mut self.0[at].1
    }

    /// What is known of a group; nothing if no thread has accessed it.
    fn group(&mut self, group: u32) -> Option<&mut Group> {
        Some(self.stripe(group).get_mut(&group)?)
    }
}

/// The calling thread, at `now` in its execution, gets all that it wants. Returns what that orders it behind; none if
/// recording of all threads ends meanwhile. `context` is DynamoRIO's.
pub fn acquire(
    me: &Arc<Peer>,
    permissions: &mut Permissions,
    wants: &Wants,
    now: Moment,
    context: *mut c_void,
) -> Option<Vec<Dependency>> {
    me.wait_within(now);
    let mut locked = Locked::new(wants.all(), context);
    let mut missing = std::mem::take(&mut permissions.missing);
    // Others have taken away what they wanted by now, and nobody can take more.
    let lacked = wants.all().iter().filter_map(|want| want.lacked(permissions.table()));
    missing.extend(lacked.map(|want| Task { want, near: [0; 2] }));
    let lowered = std::mem::take(&mut permissions.lowered);
    let mut revoked = Revoked { peers: SmallVec::new(), lowered, moments: SmallVec::new() };
    for Task { want, .. } in &missing {
        if let Some(group) = locked.group(want.group) {
            revoked.lower(group, want.written(), true, me.index);
            revoked.lower(group, want.only_read(), false, me.index);
        }
    }
    // What comes along is taken from nobody else, so that it costs no further waiting.
    for Task { want, near } in &mut missing {
        let Some(group) = locked.group(want.group) else { continue };
        let mut open = !(want.reads | want.writes);
        let streak = group.come(want.group, me.index, &mut permissions.visits);
        for (blocks, writes, permission) in [(want.written(), true, MODIFIED), (want.only_read(), false, SHARED)] {
            let around = Blocks { bits: directory::around(blocks.bits, streak) & open, ..blocks };
            let lacking = around.only(permissions.table.lacking(around, permission));
            let along = revoked.lower_along(group, lacking, writes, me.index);
            near[usize::from(writes)] = along;
            open &= !along;
        }
    }
    let mut found = revoked.wait(context).then(|| std::mem::take(&mut permissions.found));
    if let Some(found) = &mut found {
        take_all(me.index, permissions, &missing, &mut locked, &revoked, found);
    }
    missing.clear();
    permissions.missing = missing;
    permissions.lowered = revoked.lowered;
    permissions.lowered.clear();
    // Before anybody else can lock the entries: from here on, who takes something away waits for this thread's block.
    me.enter();
    found
}

/// The thread `me` takes what it wants, and then what comes along; those who stood in the way have left.
fn take_all(
    me: Index,
    permissions: &mut Permissions,
    tasks: &[Task],
    locked: &mut Locked,
    revoked: &Revoked,
    found: &mut Vec<Dependency>,
) {
    let how = |reads, writes| Taking { by: me, reads, writes };
    for Task { want: Want { group: number, address, reads, writes }, .. } in tasks {
        let blocks = |bits| Blocks { group: *number, bits };
        let Some(group) = locked.group(*number) else {
            // All of it, since no thread has accessed any.
            let written = *writes != 0;
            locked.stripe(*number).insert(*number, Box::new(Group::given(me, written)));
            permissions.grant(blocks(u64::MAX), if written { MODIFIED } else { SHARED });
            continue;
        };
        let mut take = |bits, how| permissions.take(blocks(bits), *address, how, group, revoked, found);
        take(reads & writes, how(true, true));
        take(reads & !writes, how(true, false));
        take(writes & !reads, how(false, true));
    }
    for Task { want: Want { group: number, address, .. }, near: [read, written] } in tasks {
        let blocks = |bits| Blocks { group: *number, bits };
        if read | written != 0
            && let Some(group) = locked.group(*number)
        {
            let mut take = |bits, how| permissions.take(blocks(bits), *address, how, group, revoked, found);
            take(*read, how(true, false));
            take(*written, how(false, true));
        }
    }
}
