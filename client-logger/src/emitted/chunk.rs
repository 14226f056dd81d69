//! Memory for callouts that lie [apart](super::out_of_line) from their blocks.

use crate::base::failure::fail;
use crate::emitted::site::CALLOUT;
use bugnet_dr::space::{self, Protection};
use std::ptr::NonNull;

/// Bytes of a chunk of callouts.
const CHUNK: usize = 64 << 10;

/// Memory for callouts, so near to the code cache that its jumps reach it.
pub struct Chunk {
    start: NonNull<u8>,
    used: usize,
}

impl Chunk {
    /// An empty one.
    pub fn new() -> Self {
        let Some(start) = space::allocate_near(CHUNK, Protection::ALL) else {
            fail("there is no memory left near the code cache")
        };
        Self { start, used: 0 }
    }

    /// Room for a callout, if there is any left.
    pub fn take(&mut self) -> Option<u64> {
        let room = self.start.as_ptr() as u64 + self.used as u64;
        self.used += CALLOUT;
        (self.used <= CHUNK).then_some(room)
    }
}

// SAFETY: memory that nobody else has.
unsafe impl Send for Chunk {}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this size, and dropped when no block is left that jumps there.
        unsafe { space::free_near(self.start, CHUNK) };
    }
}
