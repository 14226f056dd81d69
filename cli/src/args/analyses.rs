//! The commands that find out something from all that was executed.

use super::{LogArg, ProcessArg, READER_EXIT_STATUS, TimeArg};
use crate::number;
use bugnet_format::types::Tid;
use clap::Args;
use std::num::NonZeroUsize;
use std::ops::Range;

/// Count what was executed, loaded and stored, and list the functions and lines that executed most
///
/// LOADS and STORES are accesses of memory, with their bytes; FIRST LOADS are those whose value the log holds, since it does not follow from
/// what the interval did before; MEMORY is how much was accessed at all, in lines of 64 bytes, of each interval anew.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet stats\n  \
        bugnet stats --each --intervals 3..5 /tmp/log\n  \
        bugnet stats -p cc1 --top 30\n\n\
        This replays all that is selected.\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}"))]
pub struct StatsArgs {
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
    /// A line for each interval, not only for each thread
    #[arg(long)]
    pub each: bool,
    /// Show so many functions and lines
    #[arg(long, value_name = "N", default_value = "10")]
    pub top: usize,
    /// Intervals to replay at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
