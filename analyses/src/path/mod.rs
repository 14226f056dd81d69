//! The path of a thread through the program's own code: where it went at each jump, call and return, without what libraries did meanwhile.
//!
//! | what one wants | where |
//! |---|---|
//! | which code is the program's own, and the same code in another log | [`objects`] |
//! | the paths of a process's threads, found on all cores | [`collect`] |
//! | the same code in another build of a program | [`builds`] |
//! | where its steps begin | [`follow`] |
//! | a path, small, and a walk along it | [`trail`] |
//! | two paths of the same program, put side by side | [`align`] |

pub mod align;
pub mod builds;
pub mod collect;
pub mod follow;
pub mod objects;
pub mod trail;
