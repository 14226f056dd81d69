//! The heap of a recorded program: which blocks its allocators have given out, and which memory nobody may access, as their calls and those of the
//! kernel make it.
//!
//! Whoever checks a program keeps one, and so does a replay process that looks at accesses by itself: both have to find the same memory wrong.

mod heap;
mod outcome;
mod shadow;

use serde::Serialize;

pub use heap::{Block, Heap, Relation};
pub use outcome::{Given, Outcome, maps, may_be_older};
pub use shadow::{Set, Shadow, Wrong, settle};

/// Functions that belong together: what one gives out, only those of the same family may take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `malloc`, `free` and the like.
    C,
    /// `operator new` and `operator delete`.
    New,
    /// `operator new[]` and `operator delete[]`.
    NewArray,
    /// Others, by a name.
    Named(String),
}
