//! Why a command that reads logs failed, and the exit status that stands for it.

use crate::record;
use crate::terminal;
use bugnet_format::FormatError;
use bugnet_replay::ReplayError;
use std::io;
use std::process::ExitCode;

/// Replay went another way than the recording, or a log breaks a rule.
pub const EXIT_WRONG: u8 = 1;
/// Wrong use of the command line.
pub const EXIT_USAGE: u8 = 2;
/// No log, a damaged one, or one of another version.
pub const EXIT_BAD_LOG: u8 = 3;
/// All that the log holds is exact, but it does not hold all.
pub const EXIT_INCOMPLETE: u8 = 5;
/// It cannot be done here.
pub const EXIT_IMPOSSIBLE: u8 = 4;

/// Why a command that reads logs failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The log, the replay, or the installation.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The log.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// The default place of logs is unknown.
    #[error("there is no default place for logs: set BUGNET_DIR or HOME, or name a log")]
    NoPlace,
    /// The latest log was taken away.
    #[error("no log given, and the latest one, {}, is not there any more", .0.display())]
    LatestGone(std::path::PathBuf),
    /// There is no latest log.
    #[error("no log given, and none is in {}; record one with: bugnet record PROG", .0.display())]
    NoLatest(std::path::PathBuf),
}

impl Failure {
    /// The exit status that stands for this failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Replay(ReplayError::Diverged { .. } | ReplayError::Contradiction { .. }) => EXIT_WRONG,
            Self::Replay(ReplayError::OutOfRange(_)) | Self::NoPlace => EXIT_USAGE,
            Self::Replay(ReplayError::Format(error)) | Self::Format(error) if error.is_refusal() => EXIT_IMPOSSIBLE,
            Self::Replay(ReplayError::Format(_)) | Self::Format(_) | Self::NoLatest(_) | Self::LatestGone(_) => {
                EXIT_BAD_LOG
            }
            _ => EXIT_IMPOSSIBLE,
        }
    }

    /// Whether the reader of the result has gone away.
    pub fn is_broken_pipe(&self) -> bool {
        let (Self::Output(error) | Self::Replay(ReplayError::Sink(error))) = self else { return false };
        error.kind() == io::ErrorKind::BrokenPipe
    }

    /// Says what is wrong, and gives the exit status. A broken pipe is nothing to talk about: this process then ends
    /// by SIGPIPE, as other tools do.
    pub fn report(&self) -> ExitCode {
        if self.is_broken_pipe() {
            let _ = record::die_by(libc::SIGPIPE);
            return ExitCode::from(EXIT_IMPOSSIBLE);
        }
        complain(self);
        ExitCode::from(self.exit_code())
    }
}

/// Prints a message to standard error. Unlike `eprintln!` it does not panic where that is not possible.
pub fn complain(message: &dyn std::fmt::Display) {
    use io::Write;
    let message = message.to_string();
    let _ = writeln!(io::stderr(), "bugnet: {}", terminal::plain(&message));
}
