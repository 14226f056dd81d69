//! The command line, declared.

mod analyses;
mod debug;
mod keep;
mod questions;
mod record;

pub use analyses::{
    CompareArgs, DeadlocksArgs, DeltaArgs, DiffArgs, Full, MemcheckArgs, RacesArgs, SliceArgs, SliceKind, StatsArgs,
    ValueArgs, WhyArgs, WindowArgs,
};
pub use debug::DebugArgs;
pub use keep::{DoctorArgs, GenerateArgs, LsArgs, PackArgs, RmArgs, UnpackArgs};
pub use questions::{AtArgs, CodeArgs, CoreArgs, HitsArgs, LastWriteArgs, SyscallsArgs};
pub use record::{KeepOn, RecordArgs};

use crate::number;
use bugnet_format::types::Tid;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

/// The exit status of the commands that read logs.
const READER_EXIT_STATUS: &str = "\
    \n  2  wrong use: an unknown option, or a process, thread or interval that is not\
    \n     in the log\
    \n  3  no log, a damaged one, or one of another version\
    \n  4  it cannot be done here: a part of bugnet is missing, the system refused\
    \n     something, or --timeout is over";

/// One more, of those that look at all of a log.
const INCOMPLETE_EXIT_STATUS: &str = "\
    \n  5  all that the log holds is exact, but something is missing in it, or\
    \n     recording ended before the program did; a message says what";

/// Records programs and replays them exactly.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        bugnet record -- gzip -9 FILE   records gzip\n  \
        bugnet replay                   replays the latest recording, and verifies it\n  \
        bugnet info                     says what was recorded; for a crash, where and why\n\n\
        Logs lie in $BUGNET_DIR, else in $XDG_DATA_HOME/bugnet, else in ~/.local/share/bugnet."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Record(RecordArgs),
    Replay(ReplayArgs),
    Info(InfoArgs),
    Expand(ExpandArgs),
    Dump(DumpArgs),
    Code(CodeArgs),
    At(AtArgs),
    Debug(DebugArgs),
    Hits(HitsArgs),
    LastWrite(LastWriteArgs),
    Syscalls(SyscallsArgs),
    Why(WhyArgs),
    Slice(SliceArgs),
    Memcheck(MemcheckArgs),
    Races(RacesArgs),
    Deadlocks(DeadlocksArgs),
    Stats(StatsArgs),
    Diff(DiffArgs),
    Delta(DeltaArgs),
    Window(WindowArgs),
    Core(CoreArgs),
    Check(CheckArgs),
    Order(OrderArgs),
    Ps(PsArgs),
    Ls(LsArgs),
    Rm(RmArgs),
    Pack(PackArgs),
    Unpack(UnpackArgs),
    Doctor(DoctorArgs),
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// Which recording to look at.
#[derive(Debug, Args)]
pub struct LogArg {
    /// The log's folder, a file that `bugnet pack` has made of it, or the name of either where logs lie by default [default: the latest]
    #[arg(value_name = "LOG")]
    pub log: Option<PathBuf>,
    /// Open an encrypted file with an identity of this file: a key of age, or a private key of ssh
    ///
    /// [default: those of $BUGNET_IDENTITY, else of ~/.config/age/keys.txt and ~/.ssh/id_ed25519]
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,
}

/// Which of a recording's processes.
#[derive(Debug, Args)]
pub struct ProcessArg {
    /// Only this process: an id as `bugnet ps` lists it, or a program's name; of several programs that it executes, PID.0 is the first
    #[arg(short, long, value_name = "P")]
    pub process: Option<String>,
}

/// How long replay may take.
#[derive(Debug, Args)]
pub struct TimeArg {
    /// End the replay of an interval that takes longer than so many seconds [default: as long as it takes]
    ///
    /// How long an interval takes depends on the machine and on its --interval, so there is no limit by default; a log
    /// made to replay for ever does. Ctrl-C ends replay with all its processes at any time.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
}

/// Replay a recording and verify every interval
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet replay                            verifies the latest recording\n  \
        bugnet replay /tmp/log --intervals 3..5  verifies intervals 3 and 4\n  \
        bugnet replay -p cc1                     verifies the processes that ran cc1\n  \
        bugnet replay --output                   prints what the program wrote, from replayed memory\n  \
        bugnet replay --merged                   replays all threads together, in one order\n\n\
        Exit status:\n  \
        0  every interval reached its recorded end, or where a kill cut the log off\n  \
        1  an interval went another way than recorded{READER_EXIT_STATUS}{INCOMPLETE_EXIT_STATUS}"))]
pub struct ReplayArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Only the thread with this id
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    /// Only the intervals from A up to, but not including, B; A.., ..B and A alone also work
    #[arg(long, value_name = "A..B", value_parser = number::range)]
    pub intervals: Option<Range<u64>>,
    /// Intervals to replay at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Print what the program wrote to standard output and error, each to the same, or one of the two
    #[arg(long, value_name = "STREAM", num_args = 0..=1, require_equals = true, default_missing_value = "both")]
    pub output: Option<Streams>,
    /// Replay all threads together, on one memory, in one order, and verify that it explains what each of them read
    #[arg(long, conflicts_with_all = ["thread", "intervals", "jobs", "output"])]
    pub merged: bool,
    /// Also make an index of each process, with which going back in time and reading its memory need not replay all of it; slow
    #[arg(long, conflicts_with_all = ["thread", "intervals", "output", "merged"])]
    pub index: bool,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print the result as JSON
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
}

/// Which of the program's outputs to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Streams {
    /// Standard output to standard output, standard error to standard error
    Both,
    /// Standard output only
    Stdout,
    /// Standard error only
    Stderr,
}

/// Say what was recorded and how it ended; for a crash, where and why
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet info\n  \
        bugnet info --json /tmp/log\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct InfoArgs {
    #[command(flatten)]
    pub log: LogArg,
    /// Show the threads: instructions, dependencies, who waited for whom
    #[arg(long)]
    pub threads: bool,
    #[command(flatten)]
    pub process: ProcessArg,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Make the log of a program that was recorded with --light
///
/// Other commands do so themselves, the first time that they need it.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet record --light -- make -j2 && bugnet expand\n  \
        bugnet expand -p cc1\n\n\
        Exit status:\n  \
        0  done\n  \
        1  a program, executed again, does not do what was captured of it{READER_EXIT_STATUS}"))]
pub struct ExpandArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
}

/// Print every record of a log, one line each
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet dump | grep 'system call'\n  \
        bugnet dump --interval 3 --json /tmp/log\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct DumpArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Only the thread with this id
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    /// Only this interval
    #[arg(long, value_name = "K")]
    pub interval: Option<u64>,
    /// Print the threads' dependencies instead, in the order in which the threads pass them
    #[arg(long, conflicts_with_all = ["thread", "interval"])]
    pub order: bool,
    /// Print a JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Check that a log is whole and keeps the rules of its format, without replaying it
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet check\n  \
        bugnet check --json /tmp/log\n  \
        bugnet check -p cc1          only the processes that ran cc1\n\n\
        Exit status:\n  \
        0  the log keeps all rules; a kill may have cut it off\n  \
        1  a rule is broken{READER_EXIT_STATUS}{INCOMPLETE_EXIT_STATUS}"))]
pub struct CheckArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Print one order of all threads that agrees with all their dependencies
///
/// A line is a stretch of one thread. A thread runs as long as it need not wait for another.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet order | head\n  \
        bugnet order --json /tmp/log\n\n\
        Exit status:\n  \
        0  done\n  \
        1  the dependencies contradict each other{READER_EXIT_STATUS}"))]
pub struct OrderArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Print a JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// List the processes of a recording: what each ran, and how it ended
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet ps\n  \
        bugnet info -p 4711.1    says more about one of them\n\n\
        A process has a line for each program that it executed: 4711, then 4711.1 and so on.\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct PsArgs {
    #[command(flatten)]
    pub log: LogArg,
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kept;
    use clap::CommandFactory;

    #[test]
    fn declaration_is_sound() {
        Cli::command().debug_assert();
    }

    fn record(line: &[&str]) -> RecordArgs {
        match Cli::try_parse_from([&["bugnet", "record"], line].concat()).unwrap().command {
            Command::Record(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_the_program_are_not_ours() {
        let args = record(&["--keep", "2", "ls", "--keep", "3", "-o", "x", "--", "-j"]);
        assert_eq!(args.keep, Kept::Last(2));
        assert_eq!(args.output, None);
        assert_eq!(args.command, ["ls", "--keep", "3", "-o", "x", "--", "-j"]);
        assert_eq!(record(&["--", "-odd-name", "--", "a"]).command, ["-odd-name", "--", "a"]);
        assert!(Cli::try_parse_from(["bugnet", "record", "--no-such-option", "ls"]).is_err());
        assert!(Cli::try_parse_from(["bugnet", "record"]).is_err());
    }

    #[test]
    fn counts() {
        let args = record(&["--interval", "2k", "--check-every=1M", "ls"]);
        assert_eq!((args.interval, args.check_every, args.keep), (2_000, 1_000_000, Kept::Last(0)));
        assert_eq!(record(&["ls"]).interval, 100_000_000);
        assert!(Cli::try_parse_from(["bugnet", "record", "--interval", "0", "ls"]).is_err());
    }

    #[test]
    fn memory_at_the_end() {
        let snapshot = |line: &[&str]| {
            let args = record(&[line, &["ls"]].concat());
            (args.snapshot, args.no_snapshot)
        };
        assert_eq!(snapshot(&[]), (None, false));
        assert_eq!(snapshot(&["--snapshot"]), (Some(1 << 30), false));
        assert_eq!(snapshot(&["--snapshot=16M"]), (Some(16 << 20), false));
        assert_eq!(snapshot(&["--no-snapshot"]), (None, true));
        for wrong in [&["--snapshot", "--no-snapshot"][..], &["--snapshot=3G"], &["--snapshot="]] {
            assert!(Cli::try_parse_from([&["bugnet", "record"], wrong, &["ls"]].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn output_takes_its_stream_after_an_equals_sign_only() {
        let replay = |line: &[&str]| match Cli::try_parse_from([&["bugnet", "replay"], line].concat()).unwrap().command
        {
            Command::Replay(args) => (args.output, args.log.log),
            other => panic!("{other:?}"),
        };
        assert_eq!(replay(&["--output", "stderr"]), (Some(Streams::Both), Some("stderr".into())));
        assert_eq!(replay(&["--output=stderr"]), (Some(Streams::Stderr), None));
        assert_eq!(replay(&[]), (None, None));
    }
}
