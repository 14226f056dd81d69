//! Memory that must not be accessed, and the accesses of it that a replay process meets.
//!
//! Whoever knows what is wrong with which memory says so for each thread ahead of its execution ([`Shade`]), and the replay process looks at
//! each access as it is executed. It tells all that are wrong ([`Suspect`]), and some that are not: memory that is also wrong by what the
//! process keeps for it, and frames that have been left as far as the stack pointer tells.

use serde::{Deserialize, Serialize};

/// Most changes of one request.
pub const MAX_SHADES: usize = 1 << 16;
/// Most accesses of one answer.
pub const MAX_SUSPECTS: usize = 1 << 14;
/// How far below the end of a frame that was left an access is told, in bytes.
pub const LEFT_REACH: u64 = 1 << 20;

/// From an instruction of a thread on, a range of memory must not be accessed, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shade {
    /// Instructions of the interval that are executed before.
    pub at: u64,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it must not be accessed.
    pub wrong: bool,
}

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Code that may access anything: addresses from one up to another, in ascending order.
    pub trusted: Vec<(u64, u64)>,
}

/// An access that may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// Instructions of the interval that are executed before the one that accesses.
    pub at: u64,
    /// Address of that.
    pub pc: u64,
    /// The number of the block in which that is.
    pub block: u32,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it reads.
    pub reads: bool,
    /// Whether all of these bytes are accessed for sure; else, some of them.
    pub whole: bool,
    /// Whether it is told for a shade; else for a frame that was left.
    pub shaded: bool,
}

/// Instructions that are executed one after the other, one of which has accessed what may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectBlock {
    /// Address of the first.
    pub pc: u64,
    /// Their bytes.
    #[serde(with = "serde_bytes")]
    pub code: Vec<u8>,
}
