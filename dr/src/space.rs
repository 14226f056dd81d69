//! The address space, as far as DynamoRIO has a say in it: memory near the code cache, protection, and what may not be there.

use crate::sys;
use std::ffi::c_void;
use std::ops::{BitOr, Range};
use std::ptr::NonNull;

/// What may be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection(u32);

impl Protection {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// It may be read.
    pub const READ: Self = Self(sys::DR_MEMPROT_READ);
    /// It may be written to; for memory whose writes DynamoRIO catches, also that.
    pub const WRITE: Self = Self(sys::DR_MEMPROT_WRITE);
    /// It may be executed.
    pub const EXEC: Self = Self(sys::DR_MEMPROT_EXEC);
    /// All three.
    pub const ALL: Self = Self(sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC);

    /// Whether all of the other's is allowed.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Protection {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Fresh memory in reach of the code cache's jumps; `None` if there is none.
#[must_use]
pub fn allocate_near(len: usize, protection: Protection) -> Option<NonNull<u8>> {
    // SAFETY: asks for memory.
    NonNull::new(unsafe { sys::dr_nonheap_alloc(len, protection.0) }.cast())
}

/// Frees what [`allocate_near`] gave.
///
/// # Safety
/// From there, with this length, and nobody refers to it.
pub unsafe fn free_near(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_nonheap_free(start.as_ptr().cast(), len) };
}

/// Fresh memory wherever there is room.
#[must_use]
pub fn allocate(len: usize, protection: Protection) -> Option<NonNull<u8>> {
    // SAFETY: asks for memory.
    NonNull::new(unsafe { sys::dr_raw_mem_alloc(len, protection.0, std::ptr::null_mut()) }.cast())
}

/// Unmaps memory.
///
/// # Safety
/// Nobody refers to it.
pub unsafe fn free(start: u64, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_raw_mem_free(start as *mut c_void, len) };
}

/// Changes the protection of memory, with DynamoRIO's knowledge; whether that was possible.
///
/// # Safety
/// Whoever accesses it meanwhile expects that.
#[must_use]
pub unsafe fn protect(start: u64, len: usize, protection: Protection) -> bool {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_memory_protect(start as *mut c_void, len, protection.0) != 0 }
}

/// Where the break is.
#[must_use]
pub fn program_break() -> u64 {
    // SAFETY: asks for a number.
    unsafe { sys::dr_raw_brk(std::ptr::null_mut()) as u64 }
}

/// Whether the memory at an address is DynamoRIO's or of a library of its client's.
#[must_use]
pub fn is_tool(address: u64) -> bool {
    let start = address as *mut u8;
    // SAFETY: asks about an address.
    unsafe { sys::dr_memory_is_dr_internal(start) != 0 || sys::dr_memory_is_in_client(start) != 0 }
}

/// The region of equal protection in which an address is, and what the program may do with it; `None` where DynamoRIO cannot ask the kernel.
#[must_use]
pub fn region_of(address: u64) -> Option<(Range<u64>, Protection)> {
    let (mut base, mut size, mut bits) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: pointers to variables of ours.
    let known = unsafe { sys::dr_query_memory(address as *const u8, &raw mut base, &raw mut size, &raw mut bits) };
    let caught = if bits & sys::DR_MEMPROT_PRETEND_WRITE != 0 { sys::DR_MEMPROT_WRITE } else { 0 };
    (known != 0).then_some((base as u64..base as u64 + size as u64, Protection((bits | caught) & Protection::ALL.0)))
}

/// Reads the program's memory; `false` if not all of it is readable.
#[must_use]
pub fn read(address: u64, out: &mut [u8]) -> bool {
    let mut read = 0;
    // SAFETY: DynamoRIO's safe read catches faults at the source; the target is ours.
    unsafe { sys::dr_safe_read(address as *const _, out.len(), out.as_mut_ptr().cast(), &raw mut read) != 0 }
}

/// Writes to the program's memory; `false` if not all of it is writable.
///
/// # Safety
/// The memory is the program's, and nobody here refers to it.
pub unsafe fn write(address: u64, bytes: &[u8]) -> bool {
    let mut written = 0;
    // SAFETY: DynamoRIO's safe write catches faults at the target; the source is ours.
    unsafe { sys::dr_safe_write(address as *mut _, bytes.len(), bytes.as_ptr().cast(), &raw mut written) != 0 }
}
