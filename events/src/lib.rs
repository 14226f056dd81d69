//! What a recorded program executed, as a stream that analyses read.
//!
//! | what one wants | where |
//! |---|---|
//! | parts of the registers and flags, and sets of them | [`atoms`] |
//! | what was executed, decoded | [`code`] |
//! | an analysis of all of it, on all cores | [`stream`] |
//! | an interval backwards | [`backward`], in stretches ([`stretch`]) |
//! | calls of functions that one wants to know of | [`calls`] |
//! | all threads backwards, in their order | [`walk`] |
//! | and forwards | [`onward`] |
//! | what an instruction reads and writes, and what follows from what | [`effects`] |
//!
//! The crate knows nothing of DynamoRIO: it decodes what [`bugnet_replay::trace`] says was executed.

mod ahead;
pub mod atoms;
pub mod backward;
pub mod calls;
pub mod code;
pub mod effects;
pub mod looking;
pub mod onward;
pub mod stream;
pub mod stretch;
pub mod walk;
