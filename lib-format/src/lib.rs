//! The bugnet log format: everything that stands in a log, its reader, its writer and its checker.
//!
//! `FORMAT.md` at the top of the repository specifies every byte; the modules here follow its sections:
//!
//! | FORMAT.md | module |
//! |---|---|
//! | the folder of a recording | [`folder`] |
//! | `process.json` | [`process`] |
//! | interval files, frames, the tail | [`frame`] |
//! | records | [`record`] |
//! | the register file | [`regs`] |
//! | code pages | [`code`] |
//! | invariants | [`check`] |
//! | what a log lacks | [`complete`] |
//! | opening a log's files | [`files`], [`source`], [`buffer`] |
//! | a log in one file | [`pack`] |
//! | what a replay of everything has found | [`index`] |
//! | what the replay process is handed, and what it says | [`package`], [`control`], [`trace`], [`shade`] |
//!
//! [`picture`] decides which loads are logged.
//!
//! The crate knows nothing of DynamoRIO, of running processes or of the command line, and has no unsafe code.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod buffer;
pub mod check;
pub mod code;
pub mod complete;
pub mod control;
pub mod error;
pub mod files;
pub mod folder;
pub mod frame;
pub mod index;
pub mod light;
pub mod lines;
pub mod pack;
pub mod package;
pub mod patch;
pub mod picture;
pub mod process;
pub mod record;
pub mod regs;
pub mod shade;
pub mod signal;
pub mod source;
pub mod trace;
pub mod types;
mod wire;

pub use error::{FormatError, Result};

/// Version of the log format that this crate writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 3;
