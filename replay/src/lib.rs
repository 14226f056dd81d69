//! Opens, replays, seeks and inspects a recording.
//!
//! | what one wants | where |
//! |---|---|
//! | open a log, list its threads and intervals | [`log::Log`] |
//! | its processes, and how each ended | [`tree`] |
//! | find the programs and libraries that replay needs | [`tools::Tools`] |
//! | run one interval, look at registers and memory | [`session::Session`] |
//! | go anywhere in the execution of all threads of a process, both ways, and look | [`cursor::Cursor`] |
//! | what people type (a line, a function, a position) to addresses and moments | [`location`] |
//! | a core file of a moment, for other debuggers | [`core`] |
//! | each time that code ran | [`hits`] |
//! | what wrote a variable last | [`written`] |
//! | what is mapped where, at any moment | [`mappings`] |
//! | know memory across epochs, and search fast | [`index::Index`] |
//! | replay everything and check it | [`verify::verify`] |
//! | one order of all threads | [`order`] |
//! | replay all threads in it, on one memory | [`merged::replay_merged`] |
//! | what an interval executes, block by block, with the addresses of its accesses | [`trace::Tracer`] |
//! | what the program wrote | [`output::write_output`] |
//! | copies of ELF files in the log; names for addresses | [`symbols`] |
//! | who called whom | [`backtrace::backtrace`] |
//! | how the code at an address has changed | [`code_history::code_history`] |
//! | the code that there is, executed or not | [`code_text::CodeText`] |
//! | all about a crash | [`crash::report`] |
//! | records, system calls and signals as text | [`describe`], [`syscall`], [`signal`] |
//!
//! The crate knows nothing of the command line, of a debugger's packets or of DynamoRIO: it hands an interval to a
//! replay process and talks to it over a socket ([`bugnet_format::control`]).

pub mod backtrace;
pub mod births;
pub mod code_history;
pub mod code_text;
pub mod core;
pub mod crash;
pub mod cursor;
pub mod describe;
pub mod disassembly;
pub mod error;
pub mod hits;
pub mod index;
pub mod lines;
pub mod location;
pub mod log;
pub mod looked;
pub mod machine;
pub mod mappings;
pub mod memory;
pub mod merged;
pub mod new_file;
pub mod order;
pub mod output;
mod package;
mod patches;
pub mod pool;
mod process;
mod ranges;
pub mod session;
pub mod signal;
mod starter;
mod stretch;
pub mod symbols;
pub mod syscall;
#[cfg(test)]
mod testing;
pub mod tools;
pub mod trace;
pub mod tree;
pub mod verify;
mod window;
pub mod work;
pub mod written;

pub use error::{ReplayError, Result};
