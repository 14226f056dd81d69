//! What runs: a thread's position, interval and log, what it does in callouts, its signals and faults, and how processes begin and end.

pub mod blocks;
mod callouts;
pub mod dying;
pub mod expand;
pub mod fault;
mod hidden;
mod life;
pub mod lifetime;
pub mod parts;
pub mod signals;
pub mod snapshot;
mod special;
pub mod thread;
