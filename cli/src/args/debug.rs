//! `bugnet debug`: what it takes.

use super::{LogArg, ProcessArg, READER_EXIT_STATUS, TimeArg};
use bugnet_format::types::Tid;
use bugnet_replay::location::Location;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Start gdb on a recording: forwards, backwards, to any position
///
/// gdb begins where the process ended: for a crash, there. Its own commands go both ways (step and reverse-step, continue and
/// reverse-continue), and these are new: `when` says where this is, `seek POSITION` goes to a position, and `last-write EXPRESSION` says
/// what wrote a variable last; `monitor help` lists more. Nothing can be changed, and no function of the program be called. Memory that the recording does not
/// know cannot be accessed.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet debug\n  \
        bugnet debug --at 4711/3/123 /tmp/log\n  \
        bugnet debug /tmp/log -- -batch -x script\n  \
        bugnet debug --serve :1234      for another gdb, or an IDE: target remote :1234\n\n\
        Exit status:\n  \
        gdb's own{READER_EXIT_STATUS}"))]
pub struct DebugArgs {
    #[command(flatten)]
    pub log: LogArg,
    /// Begin at this position, or where this code ran last, as `bugnet at` takes it [default: end]
    #[arg(long, value_name = "POSITION|LINE|FUNCTION")]
    pub at: Option<Location>,
    /// Begin at the start
    #[arg(long, conflicts_with = "at")]
    pub start: bool,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Begin with the thread of this id
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    /// Start no gdb, but wait for some at HOST:PORT, at a PORT of this machine, or at the PATH of a socket
    #[arg(long, value_name = "HOST:PORT|:PORT|PATH", conflicts_with_all = ["gdb", "gdb_args"])]
    pub serve: Option<String>,
    /// Be a debug adapter: an editor speaks the Debug Adapter Protocol on stdin and stdout (takes gdb 14 or newer)
    #[arg(long, conflicts_with = "serve")]
    pub dap: bool,
    /// The gdb to start
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    pub gdb: PathBuf,
    #[command(flatten)]
    pub time: TimeArg,
    /// Arguments for gdb
    #[arg(last = true, value_name = "GDB ARGS")]
    pub gdb_args: Vec<OsString>,
}
