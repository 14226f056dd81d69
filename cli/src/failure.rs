//! Why a command that reads logs failed, and the exit status that stands for it.

use crate::record;
use crate::terminal;
use bugnet_debugger::ServeError;
use bugnet_format::FormatError;
use bugnet_replay::ReplayError;
use bugnet_replay::work::Over;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Replay went another way than the recording, or a log breaks a rule.
pub const EXIT_WRONG: u8 = 1;
/// Wrong use of the command line.
pub const EXIT_USAGE: u8 = 2;
/// No log, a damaged one, or one of another version.
pub const EXIT_BAD_LOG: u8 = 3;
/// All that the log holds is exact, but it does not hold all.
pub const EXIT_INCOMPLETE: u8 = 5;
/// The program has done something wrong.
pub const EXIT_ERRORS: u8 = 6;
/// It cannot be done here.
pub const EXIT_IMPOSSIBLE: u8 = 4;
/// Ctrl-C came before anything was known: what shells give for SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Why a command that reads logs failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The log, the replay, or the installation.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The log.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The session with gdb.
    #[error(transparent)]
    Debugger(#[from] ServeError),
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// The log of a light one cannot be made.
    #[error("the log cannot be made of the light one: {0}")]
    Expand(#[from] crate::record::RecordError),
    /// The default place of logs is unknown.
    #[error("there is no default place for logs: set BUGNET_DIR or HOME, or name a log")]
    NoPlace,
    /// No identity opens an encrypted file.
    #[error(
        "{} is encrypted, and {}; give one that opens it with --identity FILE",
        .path.display(), none_fits(.tried, .unusable)
    )]
    NoIdentity {
        /// The file.
        path: PathBuf,
        /// The files with identities that were tried.
        tried: Vec<PathBuf>,
        /// What is wrong with those that cannot be used.
        unusable: Vec<String>,
    },
    /// What the user named as an identity is none.
    #[error("the identity file {} {why}", .path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// A log is not yet what it will be.
    #[error("{} is still being recorded; it can be packed when that is over", .0.display())]
    BeingRecorded(PathBuf),
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The latest log was taken away.
    #[error("no log given, and the latest one, {}, is not there any more", .0.display())]
    LatestGone(PathBuf),
    /// There is no latest log.
    #[error("no log given, and none is in {}; record one with: bugnet record PROG", .0.display())]
    NoLatest(PathBuf),
}

impl Failure {
    /// The exit status that stands for this failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Replay(ReplayError::Diverged { .. } | ReplayError::Contradiction { .. }) => EXIT_WRONG,
            Self::Replay(ReplayError::Over(Over::Interrupted)) => EXIT_INTERRUPTED,
            Self::Replay(ReplayError::OutOfRange(_) | ReplayError::NotTraced { .. })
            | Self::NoPlace
            | Self::Identity { .. }
            | Self::Usage(_) => EXIT_USAGE,
            Self::Replay(ReplayError::Format(error)) | Self::Format(error) if error.is_refusal() => EXIT_IMPOSSIBLE,
            Self::Replay(ReplayError::Format(_)) | Self::Format(_) | Self::NoLatest(_) | Self::LatestGone(_) => {
                EXIT_BAD_LOG
            }
            _ => EXIT_IMPOSSIBLE,
        }
    }

    /// Wraps the system's reason with what was tried.
    pub fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what: what.into(), source }
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
        match self {
            Self::Replay(ReplayError::Over(over)) => {
                complain(&format!("{over}, before anything was known of what was asked"));
            }
            _ => complain(self),
        }
        ExitCode::from(self.exit_code())
    }
}

/// Why no identity opens a file.
fn none_fits(tried: &[PathBuf], unusable: &[String]) -> String {
    let tried: Vec<_> = tried.iter().map(|path| path.display().to_string()).collect();
    let none = match &tried[..] {
        [] => "there is no identity here (looked for $BUGNET_IDENTITY, ~/.config/age/keys.txt and ~/.ssh/id_ed25519)"
            .into(),
        tried => format!("no identity in {} opens it", tried.join(" or ")),
    };
    unusable.iter().fold(none, |none, why| format!("{none} ({why})"))
}

/// Prints a message to standard error. Unlike `eprintln!` it does not panic where that is not possible.
pub fn complain(message: &dyn std::fmt::Display) {
    use io::Write;
    let message = message.to_string();
    let _ = writeln!(io::stderr(), "bugnet: {}", terminal::plain(&message));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ctrl_c_ends_with_the_status_of_its_signal() {
        let over = |why| Failure::Replay(ReplayError::Over(why)).exit_code();
        assert_eq!(i32::from(over(Over::Interrupted)), 128 + libc::SIGINT);
        assert_eq!(over(Over::Late(Duration::ZERO)), EXIT_IMPOSSIBLE);
    }
}
