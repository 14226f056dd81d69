//! The log: interval files and their tails, the code store, the list of modules, the process's folder; and whether anything is recorded.

pub mod code;
pub mod ended;
pub mod file;
pub mod file_size_limit;
pub mod files;
pub mod handover;
pub mod modules;
pub mod origin;
pub mod recording;
pub mod spare;
pub mod tail;
pub mod writer;
