//! The heap ([`bugnet_heap`]), with which calls have made it what it is.

use super::frames::StackId;
use bugnet_replay::cursor::Place;

/// A call of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its function's first instruction.
    pub place: Place,
    /// Which function: an index.
    pub function: usize,
    /// Who called it: a stack.
    pub stack: StackId,
}

/// A piece of memory that an allocator gave out.
pub type Block = bugnet_heap::Block<Call>;
/// What is known.
pub type Heap = bugnet_heap::Heap<Call>;
