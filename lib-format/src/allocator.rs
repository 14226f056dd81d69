//! What functions of allocators do, for a replay process that keeps a heap by itself ([`crate::trace::Wanted::heap`]).

use crate::shade::Looked;
use serde::{Deserialize, Serialize};

/// How many bytes a function is asked for: from its arguments, which are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Size {
    /// This one.
    Arg(u8),
    /// The product of these.
    Product(u8, u8),
}

/// What a function does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Does {
    /// Gives memory out, at the address that it returns.
    Allocate(Size),
    /// Gives memory out, at the address that it stores where its first argument points, if it returns 0.
    Store(Size),
    /// Takes memory back, at the address in this argument.
    Release(u8),
    /// Makes a block larger or smaller, which may move it: the address in this argument.
    Resize(u8, Size),
    /// Says how much of a block may be used: the address in its first argument.
    Tell,
}

/// A function of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Allocator {
    /// Its first instruction.
    pub address: u64,
    /// What it does.
    pub does: Does,
    /// Whether somebody has named it, and nothing else is known of it.
    pub is_named: bool,
}

/// The allocators of a process that has one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocators {
    /// Their functions, in ascending order.
    pub functions: Vec<Allocator>,
    /// Whether the log begins where the process does, so all blocks are known.
    pub is_whole: bool,
    /// Which code is theirs.
    pub looked: Looked,
}
