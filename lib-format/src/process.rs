//! What a log says about a process: `process.json` in its folder (FORMAT.md, "`process.json`").

use crate::error::{FormatError, Result};
use crate::files::{self, MAX_JSON_FILE};
use crate::folder::{PROCESS_FILE, json, write_json};
use crate::source::Source;
use crate::types::ProcessId;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How a program of a process came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Origin {
    /// `bugnet record` started it.
    Start,
    /// A process forked.
    Fork {
        /// The process that did.
        from: ProcessId,
        /// Pages of the other process's code store that this one's begins with.
        code_pages: u64,
    },
    /// The process executed another program, in place of the one before.
    Exec {
        /// The program before.
        from: ProcessId,
    },
    /// A process that shared its parent's memory (`vfork`, `posix_spawn`) executed a program. Up to there it is not
    /// recorded.
    Spawn {
        /// The parent.
        from: ProcessId,
    },
}

impl Origin {
    /// The process that it came from.
    #[must_use]
    pub fn from(&self) -> Option<ProcessId> {
        match *self {
            Self::Start => None,
            Self::Fork { from, .. } | Self::Exec { from } | Self::Spawn { from } => Some(from),
        }
    }
}

/// `process.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Process id of the parent when it began.
    pub parent: u32,
    /// How it began.
    pub origin: Origin,
    /// When it began: nanoseconds since the Unix epoch.
    pub began: u64,
    /// Absolute path of the ELF file that it executes.
    pub program: String,
    /// Argument vector; bytes that are not UTF-8 are replaced.
    pub args: Vec<String>,
    /// Why nothing is recorded of it; none if it is recorded.
    pub unrecorded: Option<String>,
}

impl ProcessInfo {
    /// The bytes of `process.json`.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn json(&self) -> Result<Vec<u8>> {
        json(self)
    }

    /// Writes `process.json` into the process's folder, as a whole or not at all.
    ///
    /// # Errors
    /// The operating system's.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write_json(self, &folder.join(PROCESS_FILE))
    }

    /// Reads it from the process's folder in a log; `None` if there is none.
    ///
    /// # Errors
    /// It is there, but cannot be read or is damaged.
    pub fn read(log: &Source, folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(PROCESS_FILE);
        let Some(json) = files::read_if_there(log, &path, MAX_JSON_FILE)? else { return Ok(None) };
        serde_json::from_slice(&json).map(Some).map_err(|e| FormatError::NotALog {
            path,
            what: "process.json",
            found: e.to_string(),
        })
    }
}
