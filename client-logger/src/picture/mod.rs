//! The picture of the replayer's memory, and who of the threads may look at it: the shadow of the address space, where first loads crowd, what may
//! be executed or changed by others, permissions, and where threads are ordered behind each other.

pub mod blocks;
pub mod claims;
pub mod coherence;
pub mod creation;
pub mod density;
pub mod ending;
pub mod epochs;
pub mod moment;
pub mod peer;
pub mod placement;
pub mod populate;
pub mod protections;
pub mod shadow;
pub mod shared_code;
pub mod stack;
pub mod stack_move;
pub mod table;
pub mod writable_code;
