//! Memory that the recorder has mapped itself, but for shadows and tables.

use crate::base::lock::{Mutex, MutexGuard};
use std::ffi::c_void;
use std::ops::Range;

static OWN: Mutex<Vec<Range<u64>>> = Mutex::new(Vec::new());

fn own() -> MutexGuard<'static, Vec<Range<u64>>> {
    OWN.lock()
}

/// The recorder has mapped memory.
pub fn mapped(start: *const c_void, len: usize) {
    own().push(start as u64..start as u64 + len as u64);
}

/// It is about to unmap it.
pub fn unmapped(start: *const c_void) {
    own().retain(|range| range.start != start as u64);
}

/// Whether any of it is in a range.
pub fn is_in(range: &Range<u64>) -> bool {
    own().iter().any(|own| own.start < range.end && range.start < own.end)
}

/// All of it.
pub fn all() -> Vec<Range<u64>> {
    own().clone()
}
