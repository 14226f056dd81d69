//! gdb's remote protocol on a recorded execution: a [`Cursor`] looks like a process that can run backwards.
//!
//! | what gdb asks for | where |
//! |---|---|
//! | registers | [`registers`] |
//! | threads, memory | [`Debuggee`] |
//! | running, stepping, both ways | `resume` |
//! | breakpoints, watchpoints, `catch syscall` | `stops` |
//! | the program's files, `/proc/PID/maps` | `files` |
//! | where the program and its libraries lie | [`image`] |
//! | `monitor` commands | `monitor`, `slice` |
//! | `$_siginfo` | `siginfo` |
//! | Ctrl-C while one of these goes on | `asked` |
//!
//! The crate knows the protocol (by `gdbstub`) and the cursor. It knows neither DynamoRIO nor the log's records. It shows no byte that is
//! not known, and changes nothing.
//!
//! [`Cursor`]: bugnet_replay::cursor::Cursor

mod asked;
mod conditional;
mod debuggee;
mod files;
pub mod image;
mod monitor;
pub mod registers;
mod resume;
mod serve;
mod siginfo;
mod slice;
mod stops;

pub use debuggee::Debuggee;
pub use serve::{Client, ServeError, serve};
