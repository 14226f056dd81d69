//! What can be found out from all that a recorded program executed.
//!
//! | what one wants | where |
//! |---|---|
//! | how much was executed, loaded and stored, and where | [`stats`] |
//! | what has made a value what it is | [`mod@slice`] |
//! | where two runs of a program part, and what only one of them did | [`diff`] |
//! | how long before its end a wrong run parts from a right one | [`window`] |
//! | which memory the failing function used, and who accessed it, in two runs | [`mod@delta`] |
//! | accesses that nothing orders, and those that another thread tears apart | [`mod@races`] |
//! | who waits for whom at the end, and locks that are taken in different orders | [`mod@deadlocks`] |
//! | memory errors | [`mod@memcheck`] |
//! | why a run failed: the lines where one would look first | [`mod@why`] |
//! | two runs of a program, side by side | [`runs`] |
//! | the way of each thread through the program's own code | [`path`] |

pub mod deadlocks;
pub mod delta;
pub mod diff;
mod go;
pub mod locks;
pub mod memcheck;
mod names;
mod page;
pub mod path;
pub mod races;
pub mod runs;
pub mod slice;
pub mod stats;
mod touched;
pub mod why;
pub mod window;
