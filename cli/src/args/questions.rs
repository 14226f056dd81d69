//! The commands that answer questions about an execution.

use super::{LogArg, ProcessArg, READER_EXIT_STATUS, TimeArg};
use crate::number;
use bugnet_format::types::{Addr, Tid};
use bugnet_replay::location::{Location, Name};
use bugnet_replay::written::Subject;
use clap::Args;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// An address, with or without `0x`, or another location; or what points at one.
fn instruction(text: &str) -> Result<Location, String> {
    match number::address(text) {
        Ok(address) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            Ok(Location::Code(Name::Address(Addr(address))))
        }
        _ => text.parse().or_else(|why| match text.strip_prefix('*') {
            Some(_) => Ok(Location::Code(Name::Function { file: None, name: text.to_owned(), offset: None })),
            None => Err(why),
        }),
    }
}

/// List the versions of the code at an address: where each was first run, and what wrote it
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet code --at 0x7f3a20001000\n  \
        bugnet code --at sum\n  \
        bugnet code --at 'table[2]'        the function at which this points in the end\n  \
        bugnet code --at 4711/3/123\n  \
        bugnet code --at 0x7f3a20001000 --length 64 --json /tmp/log\n\n\
        This replays the intervals that can have run code there, slowly.\n\n\
        Exit status:\n  \
        0  done\n  \
        1  an interval went another way than recorded{READER_EXIT_STATUS}"))]
pub struct CodeArgs {
    #[command(flatten)]
    pub log: LogArg,
    /// Address of an instruction, or a function, a line, or a position, which means the instruction there; or a variable that points
    /// at a function at the end: handler, *table, ops->add
    #[arg(long, value_name = "WHERE", value_parser = instruction)]
    pub at: Location,
    /// Bytes from there on that make a version; fewer up to the end of an instruction that jumps or stores
    #[arg(long, value_name = "N", default_value = "16", value_parser = number::positive)]
    pub length: u64,
    #[command(flatten)]
    pub process: ProcessArg,
    #[command(flatten)]
    pub time: TimeArg,
    /// Only as the thread with this id ran it
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    /// Intervals to replay at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Show what there is to see at a moment: instructions, registers and what they point at, the stack with variables, source text
///
/// A moment is a position: THREAD/INTERVAL/INSTRUCTION, as 4711/3/123, the instruction with this number being the next one; @TIME, the
/// number of instructions that all threads of the process have executed; start; or end. Or it is a source line, a function or an
/// instruction, as debuggers take them: main.c:12, sum, list::sum, list.c:sum, sum+0x1c, 0x401136. That means the last time it
/// ran, as one comes to it from the end with a debugger that goes backwards, or --first the first time. Of a function it
/// is where it begins; where its code was not optimized, behind the instructions that put its arguments where they belong.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet at end                 where the process ended; of several, the one that crashed\n  \
        bugnet at 4711/3/123\n  \
        bugnet at list.c:12           the last time that this line ran\n  \
        bugnet at --first sum         the first call of sum\n  \
        bugnet at @5000000 --thread 4712 --json /tmp/log\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct AtArgs {
    /// Where
    #[arg(value_name = "POSITION|LINE|FUNCTION")]
    pub location: Location,
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// What this thread did: when it ran that code; at a position, where it was then
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    /// The first time that the code ran, not the last
    #[arg(long)]
    pub first: bool,
    /// Print all that there is to see: instructions, registers and what they point at, the values of all frames, other threads
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Show what wrote a variable or some bytes of memory last
///
/// A variable is named as in C: `total`, `list->next->value`, `table[3].name`, `*argv[1]`. Names mean what they mean at that position: in the
/// innermost frames, up to the first of the program's own; then everywhere; then in the frames outside.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet last-write total                              a global variable\n  \
        bugnet last-write 'list->next->value'                of the variables where the process ended\n  \
        bugnet last-write item->value --before list.c:12     where this line ran last\n  \
        bugnet last-write 0x7ffd1000:8 --before 4711/3/123 /tmp/log\n\n\
        This replays backwards from there until something writes one of the bytes.\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct LastWriteArgs {
    /// A variable; or the address of the first byte, and how many bytes there are [default: 1 of them]
    #[arg(value_name = "VARIABLE|ADDR[:N]")]
    pub subject: Subject,
    #[command(flatten)]
    pub log: LogArg,
    /// Before this position, line or function, as `bugnet at` takes it [default: end]
    #[arg(long, value_name = "WHERE")]
    pub before: Option<Location>,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Before this thread ran that line or function
    #[arg(long, value_name = "T", requires = "before")]
    pub thread: Option<Tid>,
    /// Print all that there is to see: instructions, registers and what they point at, the values of all frames, other threads
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// List each time that a line, function or instruction ran, with arguments
///
/// The position at the start of each line is one for `bugnet at` and the other commands. The function's arguments are as they were there,
/// and behind them is who called it.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet hits sum                  each call of sum\n  \
        bugnet hits --last 3 list.c:12   the last three times that this line ran\n  \
        bugnet hits 0x401136 --json /tmp/log\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct HitsArgs {
    /// What ran, as `bugnet at` takes it
    #[arg(value_name = "LINE|FUNCTION|ADDRESS")]
    pub name: Name,
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Only as this thread ran it
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    /// No more than the first N times
    #[arg(long, value_name = "N", value_parser = number::positive, conflicts_with = "last")]
    pub limit: Option<u64>,
    /// No more than the last N times
    #[arg(long, value_name = "N", value_parser = number::positive)]
    pub last: Option<u64>,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print a JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// List the system calls, as strace does
///
/// The position at the start of each line is one for `bugnet at` and the other commands. What arguments point at is shown as far as it is
/// known: what a call has written is known where the program read it before its next call. `?` stands for what is not known, `...` for
/// more than is shown, and an address for what is not known at all.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet syscalls\n  \
        bugnet syscalls -e openat,read -p cc1\n  \
        bugnet syscalls --records          of a long recording, at once\n\n\
        This replays the process; --records does not.\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct SyscallsArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Only those of this thread
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    /// Only calls with these names
    #[arg(short = 'e', long = "only", value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// From the records alone, without a replay: thread by thread, with addresses in place of what they point at, but for paths
    #[arg(long)]
    pub records: bool,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print a JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Make a core file of a moment, for gdb and other tools
///
/// It holds all threads with their registers, and memory as far as it is known: pages of which nothing is known are left out. In a page of
/// which only a part is known, the rest is zero, since core files cannot say that something is not known; how much that is
/// is printed.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet core -o core                    of the end, or of the crash\n  \
        bugnet core --at list.c:12 -o core     of the last time that this line ran\n  \
        gdb -c core PROGRAM\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct CoreArgs {
    #[command(flatten)]
    pub log: LogArg,
    /// The file, which must not be there yet
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// When, as `bugnet at` takes it [default: end]
    #[arg(long, value_name = "WHERE")]
    pub at: Option<Location>,
    #[command(flatten)]
    pub process: ProcessArg,
    /// The thread that debuggers show first; with a line or function, as this thread ran it
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print what it holds as JSON
    #[arg(long)]
    pub json: bool,
}
