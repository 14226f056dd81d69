//! The commands that find out something from all that was executed.

use super::{LogArg, ProcessArg, READER_EXIT_STATUS, TimeArg};
use crate::number;
use bugnet_analyses::slice::Named;
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use bugnet_replay::location::Location;
use bugnet_replay::written::Subject;
use clap::{Args, ValueEnum};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

/// One more, of those that Ctrl-C ends with what they know.
const INTERRUPTED_EXIT_STATUS: &str = "\
    \n  130  Ctrl-C came before anything was known";

/// Count what was executed, loaded and stored, and list the functions and lines that executed most
///
/// LOADS and STORES are accesses of memory, with their bytes; FIRST LOADS are those whose value the log holds, since it does not follow from
/// what the interval did before; MEMORY is how much was accessed at all, in lines of 64 bytes, of each interval anew.
/// With --slice, IN SLICE is the part of the instructions that the value follows from, and MEMORY that of the lines that these access.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet stats\n  \
        bugnet stats --each --intervals 3..5 /tmp/log\n  \
        bugnet stats -p cc1 --top 30\n  \
        bugnet stats --each --slice                   how much of it the failure follows from\n  \
        bugnet stats --html stats.html                drawn over time, for a browser\n\n\
        This replays all that is selected.\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}{INTERRUPTED_EXIT_STATUS}"))]
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
    /// How much of each is in the slice of the failure, as `bugnet slice` finds it, or of the value that is given
    #[arg(long, value_name = "thin|full", num_args = 0..=1, require_equals = true, default_missing_value = "thin")]
    pub slice: Option<SliceKind>,
    #[command(flatten)]
    pub value: ValueArgs,
    /// Make a page for a browser, too, that draws it over time
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Intervals to replay at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What a slice is about.
#[derive(Debug, Args)]
pub struct ValueArgs {
    /// The moment, as `bugnet at` takes it [default: end]
    #[arg(long, value_name = "POSITION|LINE|FUNCTION")]
    pub at: Option<Location>,
    /// This register, or this part of one
    #[arg(long, value_name = "R", group = "value")]
    pub reg: Option<Named>,
    /// N bytes at an address [default: 1 of them]
    #[arg(long, value_name = "ADDR[:N]", group = "value")]
    pub mem: Option<Subject>,
    /// A variable, or a part of one, as C writes it: in memory, in registers, or in pieces in both
    #[arg(long, value_name = "NAME", group = "value")]
    pub var: Option<Subject>,
    /// The byte with this number, from 0, of what the process wrote to its standard output and error
    #[arg(long, value_name = "BYTE", group = "value", conflicts_with = "at")]
    pub output: Option<u64>,
}

/// What a slice follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SliceKind {
    /// Values
    Thin,
    /// With addresses and decisions
    Full,
}

/// How full a full slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Full {
    /// Without the dynamic linker's work, and what functions keep of registers for their callers
    Given,
    /// With all
    All,
}

/// Show what has made a value what it is: the instructions and source lines from which it follows, and where it came from
///
/// Without a value, it is about why the process failed: the operands of the instruction that faulted, or the condition by which the program
/// ended itself. With --at alone, it is about what the instruction there takes.
///
/// A thin slice, which this is without --full, has what was computed or copied into the value. A full one has, too, what decided where in
/// memory values were, and what decided that these instructions were executed. The stack pointer is not followed.
///
/// Memory is changed by instructions of the process and by its system calls. Where a value shows that something else has changed it, another
/// process or the kernel, that is said.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet slice                                  why it crashed\n  \
        bugnet slice --at list.c:12 --var total       what total was when this line ran last\n  \
        bugnet slice --at 4711/3/123 --reg rax --full\n  \
        bugnet slice --output 17 /tmp/log             the byte 17 of what the program wrote\n  \
        bugnet slice --forward --at parse --reg rdi   what the argument of the last parse() went into\n  \
        bugnet slice --html why.html                  as a page, for a browser\n\n\
        Each position is one for `bugnet at` and the other commands. This replays backwards until all is found.\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}{INTERRUPTED_EXIT_STATUS}"))]
pub struct SliceArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub value: ValueArgs,
    /// With addresses and decisions. With `all`, also with how the dynamic linker has found functions, and how functions keep registers for their callers,
    /// of which no other slice has anything
    #[arg(long, value_name = "given|all", num_args = 0..=1, require_equals = true, default_missing_value = "given")]
    pub full: Option<Full>,
    /// What the value influenced from there on; with --full, also what was found in memory by it
    #[arg(long)]
    pub forward: bool,
    /// No more than N steps back
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Not before this position, in its thread
    #[arg(long, value_name = "POSITION")]
    pub until: Option<Place>,
    /// Count the bytes of memory that were accessed, too; with --until, up to there even if all is found before
    #[arg(long, conflicts_with = "forward")]
    pub touched: bool,
    /// Only what this thread did; of several ones at the moment, ask of this one
    #[arg(long, value_name = "T")]
    pub thread: Option<Tid>,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Show so many lines; with --json, the values of so many
    #[arg(long, value_name = "N", default_value = "30")]
    pub lines: usize,
    /// Show the instructions of each line
    #[arg(long)]
    pub instructions: bool,
    /// Make a page for a browser, too, that shows how the lines depend on each other
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Say why a run failed: the symptom, the values from which it follows, what was illegal, and the lines at which to look first
///
/// The symptom is the signal that killed the process, an exit status that is not 0, the first byte of standard output that is not as --expect
/// says, or, with --good, as a right run with the same arguments wrote it. Lines are ranked by what is known of them: memory errors and
/// races, how far they are from the wrong value and what they do for it, whether they have made right output, too, and which right runs
/// executed them. The rank is inferred: the faulty line may be another one, or one that was not executed.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet why                                   why the latest recording crashed\n  \
        bugnet why --expect right.txt /tmp/log       where the first byte of output comes from that differs\n  \
        bugnet why --wrong 'total 17' /tmp/log\n  \
        bugnet why bad.log --good good1.log --good good2.log\n  \
        bugnet why --html why.html                   as a page, for a browser\n\n\
        This replays all of the process some three times, and once more with threads and for each right run.\n\n\
        Exit status:\n  \
        0  done{READER_EXIT_STATUS}{INTERRUPTED_EXIT_STATUS}"))]
pub struct WhyArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// The log of a right run of the same program; several may be given
    #[arg(long, value_name = "LOG")]
    pub good: Vec<PathBuf>,
    /// A file with what standard output should be
    #[arg(long, value_name = "FILE", conflicts_with = "wrong")]
    pub expect: Option<PathBuf>,
    /// What is wrong in the output: the number of a byte of standard output and error, from 0, or a text, of which the first byte counts
    #[arg(long, value_name = "BYTE|TEXT")]
    pub wrong: Option<String>,
    /// Take as long as it takes. Without this, each stage (from what the failing value follows, memory errors, races, small changes) has 20 s, and 20 s
    /// more for each 1,000 million instructions of the run; a note says which ones were not done
    #[arg(long)]
    pub thorough: bool,
    /// Do not look for races
    #[arg(long)]
    pub no_races: bool,
    /// Do not try small changes of the program. With --expect, or a right run with the same arguments, the program is run on from `main`, on this
    /// machine, with one instruction after the other changed, to see whether its output is right then. No system call of such a run gets to the
    /// kernel, but for memory: it is answered as it was in the recording, and a filter (seccomp) lets the process ask for nothing else
    #[arg(long)]
    pub no_tries: bool,
    /// Show so many lines to look at
    #[arg(long, value_name = "N", default_value = "3")]
    pub top: usize,
    /// Intervals to replay at the same time, where that can be [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Make a page for a browser, too, with the source text around the lines
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Find memory errors: accesses beyond blocks of the heap and to freed ones, wrong frees, overwritten return addresses, leaks
///
/// The program is replayed as it ran, with its own allocator: malloc and the like of glibc, musl, jemalloc, tcmalloc and mimalloc, C++'s operators,
/// and functions that --allocator names. What they give out, and what they have from the kernel beside, tells what may be accessed.
/// An access that goes beyond a block into another one is not found, nor one to freed memory that somebody else has got since.
///
/// Of blocks that were given out before the log begins (--keep), nothing is known until they are given back.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet memcheck\n  \
        bugnet memcheck --allocator pools.txt /tmp/log\n  \
        bugnet memcheck --undefined --no-leaks\n  \
        bugnet memcheck --no-leaks --json -p cc1\n\n\
        Each position is one for `bugnet debug --at` and the other commands. Lines of --allocator's file:\n\n  \
        pool_get    allocate 0          the first argument says how much\n  \
        pool_table  allocate 0*1        the product of the first two\n  \
        pool_grow   resize 0 1          which block, how much\n  \
        pool_put    release 1  pool     which block; a family of functions, if there are several\n\n\
        Exit status:\n  \
        0  no errors were found; leaks do not count\n  \
        6  errors were found{READER_EXIT_STATUS}{INTERRUPTED_EXIT_STATUS}"))]
pub struct MemcheckArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// A file that names functions of other allocators
    #[arg(long, value_name = "FILE")]
    pub allocator: Option<PathBuf>,
    /// Do not look for blocks that are lost at the end
    #[arg(long)]
    pub no_leaks: bool,
    /// Find uses of values that nothing has set, too: of fresh blocks and of the stack
    #[arg(long)]
    pub undefined: bool,
    /// Follow each access here, and not in the replay processes: slower, and the same is found; for comparison
    #[arg(long, hide = true)]
    pub follow: bool,
    /// Show blocks, too, that were not given back, but at which something points at the end
    #[arg(long, conflicts_with = "no_leaks")]
    pub reachable: bool,
    /// Show so many errors and leaks
    #[arg(long, value_name = "N", default_value = "20")]
    pub top: usize,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What the commands that compare two runs have in common.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Open encrypted files with an identity of this file: a key of age, or a private key of ssh
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Count this library as the program's own: its path, or its file name
    #[arg(long, value_name = "FILE")]
    pub own: Vec<String>,
    /// The right run may be of another build of the program, such as one that is repaired: functions of the same names are compared
    /// instruction by instruction. Where an optimising compiler has put code in another order, they seem to part there
    #[arg(long)]
    pub other_build: bool,
    /// Intervals to replay at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Say where a wrong run of a program parts from a right one, and what only one of them did
///
/// Both logs are of the same program, run with other input, at other times or with other luck. What counts is the way of each thread through
/// the program's own code: its file, libraries that are not the system's, and code that was made while it ran. Where the runs part and come
/// together again (in the same call, or in one around it), that is counted; where they do not, they part for good. Threads belong together that
/// begin with the same function, in the order in which they were made.
///
/// Of several processes of BAD, the one is meant that crashed, or else the program that was recorded, not one that it started; of GOOD, the one
/// that ran the same program.
///
/// Values are compared that this code stores from registers (of vectors, the lowest 8 bytes), in what both runs do. Pointers to the same place
/// of a file, and all pointers into stacks, and into other memory, count as the same.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet diff good.log bad.log\n  \
        bugnet diff good.log bad.log -p cc1 --top 30\n  \
        bugnet diff good.log bad.log --own libsqlite3.so.0.8.6\n\n\
        Positions are of GOOD or of BAD: bugnet at POSITION GOOD shows all that there is to see there,\n\
        bugnet debug --at POSITION BAD goes there in gdb.\n\n\
        Exit status:\n  \
        0  done, whether they differ or not{READER_EXIT_STATUS}{INTERRUPTED_EXIT_STATUS}"))]
pub struct DiffArgs {
    /// The log of a run that went right
    #[arg(value_name = "GOOD")]
    pub good: PathBuf,
    /// The log of one that went wrong
    #[arg(value_name = "BAD")]
    pub bad: PathBuf,
    /// Show so many places at which the runs part, lines and functions
    #[arg(long, value_name = "N", default_value = "8")]
    pub top: usize,
    #[command(flatten)]
    pub compare: CompareArgs,
}

/// Compare which memory the failing function used in a wrong run and in a right one, and who else accessed it in which order
///
/// That are the global variables and the blocks of the heap that instructions of the function accessed, in either run (delta analysis). Of each, it
/// shows which lines read and wrote it how often, and conflicts: RW, WR and WW are accesses of two threads, or of a thread and a signal's
/// handler, one after the other, of which one writes; RWR, WWR, RWW and WRW are two accesses in a call of a function, with another thread's or a
/// handler's in between. Those that only the wrong run has come first, with their positions in it. Blocks belong together that the same line
/// asked for. What the C library does for itself is left out.
///
/// A conflict is no fault as such: locked accesses are conflicts, too. What only the wrong run did may be chance; several right runs tell more.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet delta good.log bad.log                      what the function used in which BAD ended\n  \
        bugnet delta good.log bad.log --function save      what save() used\n\n\
        `bugnet record --until-fail` makes both logs. This replays all of both processes, twice.\n\n\
        Exit status:\n  \
        0  done, whether they differ or not{READER_EXIT_STATUS}"))]
pub struct DeltaArgs {
    /// The log of a run that went right
    #[arg(value_name = "GOOD")]
    pub good: PathBuf,
    /// The log of one that went wrong
    #[arg(value_name = "BAD")]
    pub bad: PathBuf,
    /// Look at what this function used; several may be given [default: the innermost one of the program's own in which BAD ended]
    #[arg(long, value_name = "NAME")]
    pub function: Vec<String>,
    /// Show so many variables and kinds of blocks
    #[arg(long, value_name = "N", default_value = "8")]
    pub top: usize,
    /// Open encrypted files with an identity of this file: a key of age, or a private key of ssh
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,
    #[command(flatten)]
    pub process: ProcessArg,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Say how long before its end a wrong run of a program parts from a right one
///
/// That is how much of it a log has to hold for the cause to be in it: the replay window. It begins with the first value that the program's own
/// code stores and that is another one, or where control goes another way, whichever comes first. Beside it stands the window from the first
/// 10,000 instructions on in which more than 30 stores differ. What is compared, `bugnet diff --help` says.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet window --good good.log --bad bad.log\n\n\
        Exit status:\n  \
        0  done, whether they differ or not{READER_EXIT_STATUS}{INTERRUPTED_EXIT_STATUS}"))]
pub struct WindowArgs {
    /// The log of a run that went right
    #[arg(long, value_name = "LOG")]
    pub good: PathBuf,
    /// The log of one that went wrong
    #[arg(long, value_name = "LOG")]
    pub bad: PathBuf,
    #[command(flatten)]
    pub compare: CompareArgs,
}

/// Find data races and atomicity violations: what threads did to the same memory without anything that orders it
///
/// Two accesses race if one of them writes, and nothing in the recording orders them: no lock, no condition, no atomic instruction, no beginning
/// or end of a thread. Each race is shown with both accesses, the first that raced; those of the same two lines count together. Which one came
/// first is chance; whether the other order would have given another value is said. An atomicity violation is a pair of accesses in one call of
/// a function, with another thread's access of the same memory in between (locked or not), of which no order with the two next to each other
/// gives the same: RWR, WWR, RWW, WRW. Signal handlers count as threads there.
///
/// Atomic are instructions with a lock prefix, and xchg; plain loads and stores of words that these access anywhere in the recording count as
/// atomic, too. What the source says weaker is not seen, nor atomic words that are loaded and stored plainly alone. Accesses of the C library
/// itself are not looked at, except by functions that copy and compare memory for their callers. What threads tell each other through
/// descriptors (pipes, sockets, files, eventfd) counts as no order, and neither do calls of the C library that lock something inside.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet races\n  \
        bugnet races --top 100 --json /tmp/log\n\n\
        Each position is one for `bugnet debug --at` and the other commands. This replays all of the process, twice.\n\n\
        Exit status:\n  \
        0  done, whether there are any or not{READER_EXIT_STATUS}{INTERRUPTED_EXIT_STATUS}"))]
pub struct RacesArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    /// Show so many races, and so many atomicity violations
    #[arg(long, value_name = "N", default_value = "20")]
    pub top: usize,
    /// Intervals to replay at the same time, the first time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Follow each access here, and not in the replay processes: slower, and the same is found; for comparison
    #[arg(long, hide = true)]
    pub follow: bool,
    /// Look for the order of segments first, also where few accesses are shared; what is found is the same
    #[arg(long, hide = true)]
    pub segments: bool,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Say who waits for whom at the end of a recording, and which locks are taken in different orders
///
/// A thread waits if its last call of a function that locks or waits has not come back. A circle of threads of which each waits for what the next
/// one holds, or for its end, is a deadlock. Locks that one thread takes while it holds another one, and another thread the other way round, may
/// be a deadlock another time: such cycles are shown unless a lock that both hold keeps them apart, all only read, or one thread was made behind
/// what the other one did. Locks are those of pthread_mutex_*, pthread_rwlock_* and pthread_spin_*, of which those of C++ are made; at the end of the
/// recording, also Mutex and RwLock of Rust's standard library and of parking_lot, whose holders are inferred from the changes of the lock's word.
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  \
        bugnet deadlocks\n  \
        bugnet deadlocks -p server --json /tmp/log\n\n\
        Each position is one for `bugnet debug --at` and the other commands. This replays all of the process.\n\n\
        Exit status:\n  \
        0  done, whether there are any or not{READER_EXIT_STATUS}"))]
pub struct DeadlocksArgs {
    #[command(flatten)]
    pub log: LogArg,
    #[command(flatten)]
    pub process: ProcessArg,
    #[command(flatten)]
    pub time: TimeArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
