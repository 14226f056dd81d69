//! Why a program was not recorded.

use bugnet_format::FormatError;
use bugnet_launch::ProgramError;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

/// bugnet itself failed, as `env` and `timeout` have it.
pub const EXIT_FAILED: u8 = 125;
/// The program was found but cannot be executed.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// No run has failed, of as many as were to be.
pub const EXIT_NONE_FAILED: u8 = 123;
/// The run took too long, as `timeout` has it.
pub const EXIT_TIMED_OUT: u8 = 124;
/// There is no such program.
pub const EXIT_NOT_FOUND: u8 = 127;

/// Why a program was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program cannot be recorded.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Usage(&'static str),
    /// Whether a run has failed cannot be said.
    #[error("{why}; its recording is {log}")]
    Verdict {
        /// Why not.
        why: String,
        /// The run's recording.
        log: PathBuf,
    },
    /// `-o` names something that is there.
    #[error("{path} is there already and is not an empty folder; give -o the name of a new one")]
    LogExists {
        /// The folder or file.
        path: PathBuf,
    },
    /// `-o` names a link.
    #[error(
        "{path} is a symbolic link; bugnet puts no log where a link leads: give -o the folder itself, or the name of a new one"
    )]
    LogIsLink {
        /// The link.
        path: PathBuf,
    },
    /// `-o` names a folder of another user's.
    #[error(
        "{path} belongs to another user (user id {owner}), who could read and change the log; give -o the name of a new one"
    )]
    LogOfAnother {
        /// The folder.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// The log's folder cannot be made.
    #[error("cannot make the log folder {path}: {source}; choose another place with -o or BUGNET_DIR")]
    LogFolder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Neither BUGNET_DIR nor a home directory.
    #[error("there is no place for logs: set BUGNET_DIR or HOME, or give a folder with -o")]
    NoPlace,
    /// A path that DynamoRIO's options cannot hold.
    #[error("the path {path} {why}, so that it cannot be passed to DynamoRIO; {hint}")]
    UnusablePath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// An argument or variable with a NUL byte.
    #[error("a path or an argument has a NUL byte in it: {0:?}")]
    Nul(OsString),
    /// `fork` or `exec` of DynamoRIO failed.
    #[error("cannot start {path}: {source}")]
    Launch {
        /// What should be started.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There can be no other process.
    #[error("cannot start a process: {source}")]
    NoProcess {
        /// The system's reason.
        source: std::io::Error,
    },
    /// The program ran, but nothing was recorded.
    #[error(
        "nothing was recorded: DynamoRIO did not load {logger}; the program ran unrecorded, or ended before it started \
         ({ending})"
    )]
    NothingRecorded {
        /// The client library.
        logger: PathBuf,
        /// How the process ended.
        ending: String,
    },
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Parts of bugnet are missing.
    #[error(transparent)]
    Tools(#[from] bugnet_replay::ReplayError),
    /// The limit of the default folder's size.
    #[error(transparent)]
    Limit(#[from] crate::recordings::WrongLimit),
    /// The log.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl RecordError {
    /// Whether the disk has no room for a log. The program can run all the same.
    pub fn lacks_room(&self) -> bool {
        let Self::LogFolder { source, .. } = self else { return false };
        matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }

    /// The exit code that stands for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program(ProgramError::NotFound { .. }) => EXIT_NOT_FOUND,
            Self::Program(_) => EXIT_NOT_EXECUTABLE,
            _ => EXIT_FAILED,
        }
    }
}
