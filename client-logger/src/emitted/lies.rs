//! Where callouts lie: in their block or [apart](super::out_of_line) from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// Where a block is in the code cache.
#[derive(Default)]
pub struct Home {
    /// Where its checks begin; 0 before it has first run.
    pub start: AtomicU64,
    /// How many thresholds have met it, up to as many as make it one that runs often.
    pub met: AtomicU8,
}

/// How a block comes to its callout for thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a conditional jump; behind the callout is the jump back to what follows that.
    Jump,
    /// It jumps over it by `jrcxz`.
    Over,
}

/// Where a callout lies, and where it returns to.
pub enum Where {
    /// In its block, which goes on behind it.
    InBlock,
    /// The same, at the start of a block with callouts apart, which makes it when it first runs.
    AtStart {
        /// The block.
        home: Arc<Home>,
        /// How it comes there.
        way: Way,
        /// Bytes of the instrumentation's code before its home.
        before: usize,
    },
    /// Apart from its block.
    Apart {
        /// Its block.
        home: Arc<Home>,
        /// Its own address.
        entry: u64,
        /// How many jumps lead to it; it returns behind the last of them.
        jumps: u32,
        /// Where that is; 0 before it is first used.
        back: AtomicU64,
    },
}
