//! The picture of the replayer's memory: a shadow of the address space, at `address xor 2^45`.
//!
//! Pages of the shadow appear zero-filled when they are first touched, so that "never seen" and "zero" are one, as
//! the picture wants it. Granules of address space are reserved when the first access to one faults.

use crate::{die, warn};
use bitvec::prelude::{BitVec, bitvec};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The address bit in which memory and its shadow differ.
pub const SHADOW_BIT: u8 = 45;

const GRANULE_SHIFT: u32 = 30;
const GRANULE: u64 = 1 << GRANULE_SHIFT;
const ADDRESS_BITS: u32 = 47;

/// The shadow address of a program's address.
#[must_use]
pub fn of(address: u64) -> u64 {
    address ^ 1 << SHADOW_BIT
}

/// Which granules of the address space are reserved as shadow.
static GRANULES: Mutex<BitVec> = Mutex::new(BitVec::EMPTY);
static COLLISION_WARNED: AtomicBool = AtomicBool::new(false);

/// Whether the shadow address is in a granule that is reserved.
fn reserved(granules: &BitVec, shadow: u64) -> bool {
    granules.get((shadow >> GRANULE_SHIFT) as usize).is_some_and(|bit| *bit)
}

/// Reserves the granule of a shadow address, if it is not reserved. `false` if something else lies there.
pub fn reserve(shadow: u64) -> bool {
    if shadow >> ADDRESS_BITS != 0 {
        return false;
    }
    let mut granules = GRANULES.lock().unwrap_or_else(|e| e.into_inner());
    if granules.is_empty() {
        *granules = bitvec![0; 1 << (ADDRESS_BITS - GRANULE_SHIFT)];
    }
    if reserved(&granules, shadow) {
        return true;
    }
    let start = shadow & !(GRANULE - 1);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // The lowest page cannot be mapped by unprivileged programs; nor can a program have memory there.
    let start = if start == 0 { 0x10000 } else { start };
    let len = (GRANULE - (start & (GRANULE - 1))) as usize;
    // SAFETY: a new mapping that replaces nothing.
    let at = unsafe { libc::mmap(start as *mut _, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if at as u64 != start {
        if !COLLISION_WARNED.swap(true, Ordering::Relaxed) {
            warn(&format!(
                "the address space at {start:#x} is taken, where the shadow of the program's memory must lie"
            ));
        }
        return false;
    }
    granules.set((shadow >> GRANULE_SHIFT) as usize, true);
    true
}

/// Forgets everything: the picture is zero again.
pub fn clear() {
    let granules = GRANULES.lock().unwrap_or_else(|e| e.into_inner());
    for index in granules.iter_ones() {
        let start = ((index as u64) << GRANULE_SHIFT).max(0x10000);
        let len = ((index as u64 + 1) << GRANULE_SHIFT) - start;
        // SAFETY: a mapping of ours, of anonymous memory, to which no reference is held.
        if unsafe { libc::madvise(start as *mut _, len as usize, libc::MADV_DONTNEED) } != 0 {
            die("the shadow of the program's memory cannot be cleared");
        }
    }
}

/// The shadow of `len` bytes at a program's address, reserved.
fn bytes(address: u64, len: usize) -> *mut u8 {
    let first = of(address);
    let last = of(address + len as u64 - 1);
    if !reserve(first) || !reserve(last) {
        die(&format!("no room for the shadow of the program's memory at {address:#x}"));
    }
    first as *mut u8
}

/// Calls `f` on pieces of the range that are contiguous in the shadow.
fn pieces(address: u64, len: usize, mut f: impl FnMut(usize, *mut u8, usize)) {
    let mut done = 0;
    while done < len {
        let at = address + done as u64;
        let piece = ((GRANULE - (at & (GRANULE - 1))) as usize).min(len - done);
        f(done, bytes(at, piece), piece);
        done += piece;
    }
}

/// The picture takes these bytes.
pub fn write(address: u64, new: &[u8]) {
    pieces(address, new.len(), |done, shadow, len| {
        // SAFETY: reserved shadow memory, to which no reference is held.
        unsafe { std::ptr::copy_nonoverlapping(new[done..].as_ptr(), shadow, len) };
    });
}

/// Compares `actual`, the bytes at `address`, with the picture, calls `differs(offset, bytes)` for each run of 8-byte
/// words in which they differ, and makes the picture hold `actual`.
pub fn check(address: u64, actual: &[u8], mut differs: impl FnMut(usize, &[u8])) {
    pieces(address, actual.len(), |done, shadow, len| {
        let now = &actual[done..done + len];
        // SAFETY: reserved shadow memory; the program does not run meanwhile.
        let picture = unsafe { std::slice::from_raw_parts_mut(shadow, len) };
        if picture == now {
            return;
        }
        let mut start = None;
        for at in (0..len).step_by(8) {
            let end = (at + 8).min(len);
            if picture[at..end] == now[at..end] {
                if let Some(start) = start.take() {
                    differs(done + start, &now[start..at]);
                }
            } else {
                start.get_or_insert(at);
            }
        }
        if let Some(start) = start {
            differs(done + start, &now[start..]);
        }
        picture.copy_from_slice(now);
    });
}
