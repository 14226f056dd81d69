//! The command line of `bugnet record`, declared.

use crate::number;
use crate::record::{Condition, CpuLevel, Kept, Seed};
use clap::{Args, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// When a recording outlives its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeepOn {
    /// However the program ends
    Always,
    /// If it fails; otherwise the recording is removed
    Fail,
}

/// Run a program and record it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bugnet record ls -l\n  \
        bugnet record -o /tmp/log --interval 1M -- ./server --port 80\n  \
        bugnet record --keep 10 ./long-running    keeps the last 10 intervals only\n  \
        bugnet record --light --keep 30s ./server keeps its last 30 seconds\n  \
        bugnet record make                        records make and all that it starts\n  \
        bugnet record --until-fail --chaos ./test records runs of it until one fails\n  \
        bugnet record --until-fail --fail-if timeout:60 ./test     or until one takes longer than a minute\n  \
        bugnet record --until-fail --fail-if 'cmd:! grep -q ERROR \"$BUGNET_STDERR\"' ./test\n\n\
        N may end in k, M or G.\n\n\
        Where BUGNET_MAX_SIZE is set, to 20G for example, the oldest recordings in the default folder go until it is\n\
        no larger than that.\n\n\
        Exit status: the program's; if a signal kills it, bugnet dies by the same signal.\n  \
        With --until-fail, that of the run that failed; 1 where that is 0, as it may be with --fail-if.\n  \
        123  with --until-fail, no run failed\n  \
        124  --fail-if timeout: the run took too long\n  \
        125  bugnet itself failed\n  \
        126  PROG was found but cannot be executed or recorded\n  \
        127  PROG was not found")]
pub struct RecordArgs {
    /// Put the log into this folder, which must be new or empty
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Instructions of a checkpoint interval
    #[arg(long, value_name = "N", default_value = "100M", value_parser = number::positive)]
    pub interval: u64,
    /// Keep only the last N intervals, with threads what all of them did in the last N epochs; 0 for all. With --light, the last N epochs of 5 seconds, or a
    /// time: 30s, 5m, 2h
    ///
    /// With --light, an epoch begins with the program's memory, which a fork of it writes while it goes on. What failed stays, the last 20 processes.
    #[arg(long, value_name = "N|TIME", default_value = "0", value_parser = Kept::parse)]
    pub keep: Kept,
    /// Record a hash of all registers every N instructions, which replay compares; 0 for none
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::count)]
    pub check_every: u64,
    /// What to show the program of the processor
    #[arg(long, value_name = "LEVEL", default_value = "x86-64-v3", value_enum)]
    pub cpu: CpuLevel,
    /// Keep the memory of each process as it is at its end, up to LIMIT bytes [default: 1G]; without this, only where a signal kills it, up to 64M
    ///
    /// Zeros do not count, nor do pages of files that the process has not changed. LIMIT may end in K, M or G, and is 2G at most.
    #[arg(long, value_name = "LIMIT", num_args = 0..=1, require_equals = true, default_missing_value = "1G",
          value_parser = number::kept_memory, hide_default_value = true)]
    pub snapshot: Option<u64>,
    /// Keep no memory at the end, also where a signal kills a process
    #[arg(long, conflicts_with = "snapshot")]
    pub no_snapshot: bool,
    /// Record the first process alone: its children run unrecorded, and so does a program that takes its place
    #[arg(long)]
    pub no_follow: bool,
    /// Put no copies of the program's ELF files into the log; symbols then come from files with the same build id
    #[arg(long)]
    pub no_pack: bool,
    /// Run it again and again, and record each run, until one fails: until a signal kills it, or its exit status is not 0
    ///
    /// The recording of the run that failed is kept, and those of the last runs before it. With -o DIR, they are DIR/failing, DIR/passing-1
    /// (the last one before it), DIR/passing-2 and so on. Each run gets the same standard input: a file is read from where it is, what comes by a
    /// pipe is read to its end before the first run.
    #[arg(long)]
    pub until_fail: bool,
    /// With --until-fail: give up after so many runs
    #[arg(long, value_name = "N", value_parser = number::positive, requires = "until_fail")]
    pub runs: Option<u64>,
    /// With --until-fail: keep the recordings of the last N runs that did not fail
    #[arg(long, value_name = "N", default_value = "3", value_parser = number::count, requires = "until_fail")]
    pub passing: u64,
    /// Keep the recording only where the program fails
    #[arg(long, value_name = "WHEN", default_value = "always", value_enum, conflicts_with = "until_fail")]
    pub keep_on: KeepOn,
    /// What a failure is: status:N, status:nonzero, signal:NAME, signal:any, timeout:SECONDS or cmd:COMMAND; may be given several times
    ///
    /// Without it, status:nonzero and signal:any. With timeout, a run that takes longer fails, too, and is ended by SIGTERM, and five seconds later
    /// by SIGKILL; what else is a failure is as without it, unless that is given as well. COMMAND is run by sh behind each run, and judges it by its
    /// exit status, as for `git bisect run`: 0, it is well; 1 to 124, it has failed; 125, neither, and the recording is not kept; with any
    /// other, bugnet stops. It finds BUGNET_LOG (the recording), BUGNET_STATUS (the exit status, 128 and its number for a signal), BUGNET_SIGNAL
    /// (a name, or nothing), BUGNET_RUN (the run's number), and BUGNET_STDOUT and BUGNET_STDERR, files with what the program printed: with cmd, its output goes
    /// there first, and is printed when the run is over.
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    pub fail_if: Vec<Condition>,
    /// Perturb when threads run: hold them back at random, where they begin, where they access what others have changed, behind system calls and anywhere else
    ///
    /// What is rare without it comes sooner. With --light, threads have turns of random length instead, which takes much less time. SEED says how it is perturbed: for how long, how often and where. With --until-fail, each run has the next
    /// one. The same seed does not give the same run again, but one of the same kind [default: a new one each time]
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, default_missing_value = "random",
          value_parser = Seed::parse)]
    pub chaos: Option<Seed>,
    /// Let the program run natively, and keep what comes to it from outside: the log is made afterwards, by the first command that needs it
    ///
    /// Its threads, and processes that share memory by forks, run one at a time, in turns. Where memory is shared with strangers, a process's log ends,
    /// with a sentence. Where the system lacks what it takes, the program is recorded as without this, and a line says why.
    #[arg(long, conflicts_with_all = ["no_follow", "snapshot"])]
    pub light: bool,
    /// Do not print a summary at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROG", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
