//! The command line, declared.

use crate::number;
use crate::record::CpuLevel;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

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
}

/// Run a program and record it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bugnet record ls -l\n  \
        bugnet record -o /tmp/log --interval 1M -- ./server --port 80\n  \
        bugnet record --keep 10 ./long-running    keeps the last 10 intervals only\n\n\
        N may end in k, M or G.\n\n\
        Exit status: the program's; if a signal kills it, bugnet dies by the same signal.\n  \
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
    /// Keep only the last N intervals of each thread; 0 for all
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::count)]
    pub keep: u64,
    /// Record a hash of all registers every N instructions, which replay compares; 0 for none
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::count)]
    pub check_every: u64,
    /// What to show the program of the processor
    #[arg(long, value_name = "LEVEL", default_value = "default", value_enum)]
    pub cpu: CpuLevel,
    /// Put no copies of the program's ELF files into the log; symbols then come from files with the same build id
    #[arg(long)]
    pub no_pack: bool,
    /// Do not print a summary at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROG")]
    pub command: Vec<OsString>,
}
