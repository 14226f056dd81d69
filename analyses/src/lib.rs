//! What can be found out from all that a recorded program executed.
//!
//! | what one wants | where |
//! |---|---|
//! | how much was executed, loaded and stored, and where | [`stats`] |
//! | what has made a value what it is | [`mod@slice`] |
//! | where two runs of a program part, and what only one of them did | [`diff`] |
//! | how long before its end a wrong run parts from a right one | [`window`] |
//! | two runs of a program, side by side | [`runs`] |
//! | the way of each thread through the program's own code | [`path`] |

pub mod diff;
pub mod path;
pub mod runs;
pub mod slice;
pub mod stats;
pub mod window;
