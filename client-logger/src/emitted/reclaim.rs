//! What blocks in the code cache point to: kept as long as they may be executed, and no longer.
//!
//! DynamoRIO says that a block is gone, but not which of those that were built at its address, and a trace takes over what
//! its blocks point to. So nothing is freed by itself: once most of what was built is gone, all that is left is thrown away
//! and built anew, and everything from before is freed. Code that is generated again and again thus takes up no more and
//! more memory, neither here nor in DynamoRIO's caches.

use crate::base::fs_base::Guard;
use crate::base::lock::{Mutex, MutexGuard};
use crate::base::process;
use crate::emitted::chunk::Chunk;
use crate::emitted::map;
use crate::emitted::site::Site;
use bugnet_dr::fragments;
use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// Fewer blocks than this are not worth it.
const FEW: u64 = 5_000;

/// Blocks that DynamoRIO has deleted since everything was last thrown away.
static DELETED: AtomicU64 = AtomicU64::new(0);

/// Sites that are allocated at once.
const CHUNK: usize = 64;

/// What was made between two times that all blocks were asked to be thrown away.
struct Generation {
    /// Sites that stay where they are: each part has room for [`CHUNK`] of them from the beginning.
    sites: Vec<Vec<Site>>,
    /// Callouts [apart](crate::emitted::out_of_line) from their blocks.
    callouts: Vec<Chunk>,
}

impl Generation {
    const fn new() -> Self {
        Self { sites: Vec::new(), callouts: Vec::new() }
    }
}

struct Kept {
    /// What was made for blocks since the last time that all were asked to be thrown away.
    current: Generation,
    /// What was made before, as long as that has not happened.
    old: Generation,
    /// Whether it has been asked for.
    asked: bool,
    /// Blocks that were built since then.
    built: u64,
}

static KEPT: Mutex<Kept> =
    Mutex::new(Kept { current: Generation::new(), old: Generation::new(), asked: false, built: 0 });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock()
}

/// Keeps a site of the block that is being built; the address is valid as long as the block can be executed.
pub fn keep(site: Site) -> *const Site {
    let chunks = &mut kept().current.sites;
    if chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
        chunks.push(Vec::with_capacity(CHUNK));
    }
    // There is room for it, so none of the others moves.
    let chunk = chunks.last_mut().unwrap_or_else(|| unreachable!("just made"));
    chunk.push(site);
    &raw const chunk[chunk.len() - 1]
}

/// Room for a callout [apart](crate::emitted::out_of_line) from the block that is being built, as long as that can be executed.
pub fn room_apart() -> u64 {
    let chunks = &mut kept().current.callouts;
    if let Some(room) = chunks.last_mut().and_then(Chunk::take) {
        return room;
    }
    chunks.push(Chunk::new());
    let room = chunks.last_mut().and_then(Chunk::take);
    room.unwrap_or_else(|| unreachable!("a new chunk is empty"))
}

/// A block is about to be built. Throws everything away if most of it is of no use any more.
pub fn on_build() {
    let mut kept = kept();
    kept.built += 1;
    let deleted = DELETED.load(Ordering::Relaxed);
    // Other threads are in the middle of blocks, and a child of vfork has its parent waiting in one.
    if deleted < FEW || deleted < kept.built / 2 || kept.asked || process::threaded() {
        return;
    }
    if !process::is_own() {
        return;
    }
    kept.asked = true;
    kept.built = 0;
    kept.old = std::mem::replace(&mut kept.current, Generation::new());
    DELETED.store(0, Ordering::Relaxed);
    drop(kept);
    map::grow_old();
    fragments::flush_all_later(Some(on_thrown_away));
}

/// No block is left that was built before it was asked for.
unsafe extern "C" fn on_thrown_away(_: c_int) {
    let _own = Guard::new();
    let mut kept = kept();
    map::forget_old();
    kept.old = Generation::new();
    kept.asked = false;
    DELETED.store(0, Ordering::Relaxed);
}

/// DynamoRIO deletes a block. It may hold any of its locks here.
///
/// # Safety
/// DynamoRIO's deletion event.
pub unsafe extern "C" fn on_delete(_context: *mut c_void, _tag: *mut c_void) {
    DELETED.fetch_add(1, Ordering::Relaxed);
}
