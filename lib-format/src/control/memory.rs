//! What a replay process knows of memory.

use serde::{Deserialize, Serialize};

/// What is known of a byte of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ByteState {
    /// The package's instructions or records have said what it is.
    Known,
    /// They have not, and it may have been changed in the package by something that nobody saw.
    Changed,
    /// The kernel has made the memory in the package, as zeros, and nothing can have changed it since.
    Zero,
    /// The kernel has mapped a file there in the package, privately, and nothing can have changed it since.
    Mapped,
    /// They have not, but the code picture at the package's start has it.
    Code,
    /// Nothing: it is as it was before the package.
    Untouched,
}

/// A page of which something was accessed or executed. Bits of `u64` are its 64 lines of 64 bytes, the first one lowest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftPage {
    /// Its address.
    pub addr: u64,
    /// Lines of which something was accessed.
    pub accessed: u64,
    /// Lines of which something was written: by an instruction, or from outside after a thread had seen something else there.
    pub written: u64,
    /// Lines of which code was executed; perhaps a little more.
    pub executed: u64,
    /// A bit for each of its bytes that is known now, the first one lowest; empty where none is.
    #[serde(with = "serde_bytes")]
    pub known: Vec<u8>,
    /// Its bytes now; empty where none is known.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// What happened to memory that no instruction did, and no record tells. Ranges are start and length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// What may have been changed in the package.
    pub changed: Vec<(u64, u64)>,
    /// What others may change at any time from here on.
    pub unsteady: Vec<(u64, u64)>,
    /// What the kernel has made in the package, as zeros, and was not changed since by anything but instructions.
    pub zeros: Vec<(u64, u64)>,
    /// Where it has mapped files in the package, privately, likewise.
    pub mapped: Vec<(u64, u64)>,
    /// The end of the heap behind the first `brk`, and behind the last one.
    pub heap: Option<(u64, u64)>,
    /// Numbers of the system calls that were made, ascending.
    pub calls: Vec<u64>,
    /// Whether a signal's handler began.
    pub signals: bool,
}
