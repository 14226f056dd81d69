//! What a thread has hold of, where there are others.

use crate::picture::coherence::Permissions;
use crate::picture::peer::Peer;
use std::sync::Arc;

/// What a thread needs once there are others.
pub struct Ownership {
    /// What it may access.
    pub permissions: Permissions,
    /// How the others see the thread; none of a process that is not recorded but shares the memory.
    pub peer: Option<Arc<Peer>>,
    /// Dependencies since the last record of one that follow from others.
    pub implied: u64,
}

/// A range of memory that an instruction accesses.
pub struct Span {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it is written.
    pub writes: bool,
}
