//! Patches: what a replay of several threads on one memory has to put there, beside what the records of the log say.
//!
//! A read without a `LOAD` found what its thread knew of memory when it was recorded, which nearly always is what the memory of all
//! threads holds in their order. Where it is not, since the kernel has written there between two threads' accesses, a replay that compares
//! the two has found a patch. A replay that has all patches need not compare.

use crate::types::Addr;
use serde::{Deserialize, Serialize};

/// Most bytes of one patch: a page's.
pub const MAX_PATCH: usize = Addr::PAGE as usize;
/// Most patches of one message.
pub const MAX_PATCHES: usize = 1024;
/// Most room of all patches of a package, by [`Patch::room`]. A package that needs more is always compared.
pub const MOST_ROOM: usize = 32 << 20;

/// Bytes that are put into memory before a thread's instruction, behind its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// Index of the thread.
    pub thread: u32,
    /// Instructions that it has executed before, since its recording began.
    pub at: u64,
    /// Address of the first byte.
    pub addr: u64,
    /// What memory holds there before: otherwise the patch does not fit.
    pub found: Vec<u8>,
    /// What it is to hold; as many bytes.
    pub bytes: Vec<u8>,
}

impl Patch {
    /// About how many bytes it takes in memory.
    #[must_use]
    pub fn room(&self) -> usize {
        size_of::<Self>() + self.found.len() + self.bytes.len()
    }

    /// Whether its parts agree with each other.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.bytes.is_empty() && self.bytes.len() <= MAX_PATCH && self.found.len() == self.bytes.len()
    }
}
