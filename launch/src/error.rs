//! Why a program cannot be recorded.

use std::ffi::OsString;
use std::path::PathBuf;

/// Why a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No such program.
    #[error("no such program: {}{}", name.display(), path_hint(name))]
    NotFound {
        /// As the user gave it.
        name: OsString,
    },
    /// A folder.
    #[error("{path} is a directory, not a program")]
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// No permission to execute it.
    #[error("{path} cannot be executed: it has no execute permission for you, or its file system is mounted noexec")]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// No permission to read it, or worse.
    #[error("{path} cannot be read, which recording needs: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Not an ELF file for this architecture.
    #[error("{path} is {found}; bugnet records ELF programs for 64-bit x86, and scripts that name one after #!")]
    WrongFormat {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// `#!` without an interpreter.
    #[error("{script}: its first line begins with #! but names no interpreter, or is longer than the kernel reads")]
    BadInterpreterLine {
        /// The script.
        script: PathBuf,
    },
    /// The interpreter does not exist.
    #[error("{script} is a script for {interpreter}, which does not exist")]
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// The missing file.
        interpreter: PathBuf,
    },
    /// Scripts interpreted by scripts, too often.
    #[error("{script}: too many interpreters in a row that are scripts themselves")]
    InterpreterLoop {
        /// The script.
        script: PathBuf,
    },
    /// It would gain rights.
    #[error(
        "{path} is {what}: recorded, it would run without the rights that it gains that way, and so take another path; \
         record it as the user whose rights it needs"
    )]
    Privileged {
        /// The file.
        path: PathBuf,
        /// setuid, setgid or file capabilities.
        what: &'static str,
    },
}

fn path_hint(name: &OsString) -> &'static str {
    match name.as_encoded_bytes() {
        bytes if bytes.contains(&b'/') => "",
        b"" => " (the name is empty)",
        _ => " (not in any folder of PATH)",
    }
}
