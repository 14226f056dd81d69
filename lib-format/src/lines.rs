//! Which lines of memory instructions access, as a replay process puts it together without telling each access.

use serde::{Deserialize, Serialize};

/// Most pages, and most atomic accesses, of one answer.
pub const MAX_LINES: usize = 1 << 15;

/// A page of which instructions have accessed something. Bits are its 64 lines of 64 bytes, the first one lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLines {
    /// Its address.
    pub addr: u64,
    /// Lines that were accessed.
    pub accessed: u64,
    /// Those of them that were written to.
    pub written: u64,
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
