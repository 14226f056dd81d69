//! Which memory instructions access, in granules of 8 bytes, as a replay process puts it together without telling each access.

use serde::{Deserialize, Serialize};

/// Most pages, and most atomic accesses, of one answer.
pub const MAX_ACCESSES: usize = 1 << 13;

/// A page of which instructions have accessed something. Bits are its 512 granules, the first one lowest in the first number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageAccesses {
    /// Its address.
    pub addr: u64,
    /// Granules that were accessed.
    pub accessed: [u64; 8],
    /// Those of them that were written to.
    pub written: [u64; 8],
}

/// What an instruction has accessed atomically, once or more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AtomicAccess {
    /// The instruction's address.
    pub pc: u64,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}
