//! What runs: a thread's position, interval and log, what it does in callouts, its signals and faults, and how processes begin and end.

pub mod blocks;
pub mod call;
pub mod chaos;
pub mod exec;
pub mod fault;
mod leave;
pub mod lifetime;
pub mod retry;
pub mod signals;
pub mod snapshot;
mod special;
pub mod thread;
