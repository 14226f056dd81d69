//! What the replay library and a replay process say to each other, over a stream socket.
//!
//! Each message is a `u32` length (little-endian) and that many bytes of [postcard]. The replay process inherits
//! [`PACKAGE_FD`] (a [package](crate::package), read-only) and [`CONTROL_FD`] (its end of the socket); it sends
//! [`Response::Ready`] first and then answers each request with exactly one response other than
//! [`Response::Output`] and [`Response::Ran`], of which any number may come before the answer to a
//! [`Request::RunTo`].

mod comparison;
mod memory;

use crate::lines::{AtomicAccess, PageAccesses};
use crate::patch::Patch;
use crate::record::OutputStream;
use crate::regs::RegisterFile;
use crate::shade::{Looked, Shade, Suspect, SuspectBlock};
use crate::trace::{OddAccess, TracedBlock, Turn, Wanted, Written};
use crate::types::CodeSeq;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, Read, Result, Write};

pub use comparison::{CompareCounts, Comparison, Conflict, Explanation};
pub use memory::{ByteState, LeftPage, Unseen};

/// Descriptor of the package in the replay process.
pub const PACKAGE_FD: i32 = 3;
/// Descriptor of the control socket in the replay process.
pub const CONTROL_FD: i32 = 4;
/// Most bytes of one message.
pub const MAX_MESSAGE: usize = 16 << 20;
/// Most bytes that can be watched.
pub const MAX_WATCH: u64 = 256;
/// Most bytes that one [`Request::ReadMemory`] may ask for.
pub const MAX_READ: u64 = 1 << 20;

/// Most pages of one [`Response::Pages`].
pub const MAX_LISTED: usize = 1 << 16;
/// Most pages of one [`Response::Left`].
pub const MAX_PAGES: usize = 1024;

/// Most conditions of each kind.
pub const MAX_CONDITIONS: usize = 4096;

/// Most bytes of the ranges of one [`Request::Glance`].
pub const MAX_GLANCE: u64 = 1 << 16;

/// Where execution is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// Where a thread's instruction with this number is the next one to be executed.
    Place {
        /// Index of the thread in the package.
        thread: u32,
        /// Instructions since the thread's recording began.
        at: u64,
    },
    /// Where all threads together have executed so many instructions of the package.
    Time(u64),
    /// The end of all.
    End,
}

/// What to do where a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hits {
    /// Nothing.
    Ignore,
    /// Stop there, behind where the run begins: before the instruction, but behind one that accesses a watched range.
    Stop,
    /// The same, also at what holds where the run begins.
    StopHere,
    /// Go on, and report the last one.
    Last,
    /// The same, but not of what holds at the time that is the run's target: records that come before the next instruction.
    LastBefore,
}

/// What an execution is watched for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Instructions at these addresses are executed.
    pub addresses: Vec<u64>,
    /// Memory is accessed.
    pub ranges: Vec<WatchedRange>,
    /// System calls with these numbers.
    pub calls: Vec<u64>,
    /// Any system call.
    pub all_calls: bool,
    /// A signal's handler begins.
    pub signals: bool,
    /// Another thread goes on.
    pub threads: bool,
    /// A thread leaves a piece of code.
    pub leaving: Option<Leaving>,
    /// Of some of [`Self::addresses`], ascending: that they count only where one of these expressions, gdb's agent expressions, is not zero, or
    /// cannot be told.
    pub tests: Vec<(u64, Vec<Vec<u8>>)>,
}

/// A thread that is to execute an instruction outside of a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Index of the thread.
    pub thread: u32,
    /// Address of the first instruction of the piece.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
}

impl Leaving {
    /// Whether the instruction at this address is outside.
    #[must_use]
    pub fn is_outside(&self, pc: u64) -> bool {
        !(self.start..self.end).contains(&pc)
    }
}

/// Memory whose accesses are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedRange {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether reads count.
    pub reads: bool,
    /// Whether writes count, also those of system calls as far as a thread has noticed them.
    pub writes: bool,
    /// Whether they count only if they change what is there.
    pub changes: bool,
}

/// A condition that held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// Index of the thread.
    pub thread: u32,
    /// The thread's instruction at which it held.
    pub at: u64,
    /// Instructions that all threads together had executed of the package.
    pub time: u64,
    /// Which one.
    pub what: Event,
}

/// What happened where a condition held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The instruction at this address is executed.
    Address(u64),
    /// The instruction reads from a watched range, or writes to it.
    Access {
        /// Index of the range in [`Conditions::ranges`].
        range: u32,
        /// First byte that is accessed.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Whether it writes.
        write: bool,
    },
    /// What a record brought has come from outside of the thread, into a watched range; the instruction is the first that can
    /// see it.
    Outside {
        /// Index of the range.
        range: u32,
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// A system call of this number.
    Call(u64),
    /// The handler of a signal with this number begins behind this.
    Signal(u64),
    /// The thread goes on behind another one.
    Thread,
}

/// From the library to the replay process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Execute up to a place. Ends earlier where the package does, and, if asked to, at what [`Request::Conditions`] says.
    RunTo {
        /// The place.
        target: Target,
        /// What to do where a condition holds.
        hits: Hits,
        /// Send what the program writes to standard output and error as [`Response::Output`].
        output: bool,
    },
    /// Stop running: answered by the [`Response::Stopped`] of the [`Request::RunTo`] that is being served; without one, not
    /// answered.
    Interrupt,
    /// What executions are watched for from here on, in place of what was said before: answered by [`Response::Ready`].
    Conditions(Conditions),
    /// Look out for what a watch over these ranges would meet from here on, without one; where such a look costs nothing while the
    /// program runs. Answered by [`Response::Glanced`], which is about the ranges of the last such request.
    Glance {
        /// At most [`MAX_GLANCE`] bytes.
        ranges: Vec<WatchedRange>,
    },
    /// Make a copy of the process that is where this one is. A message of one byte follows, with which a descriptor comes: the copy's
    /// end of a socket like this one, on which it sends [`Response::Ready`] and takes requests. This one answers
    /// [`Response::Forked`].
    Fork,
    /// The registers of a thread as it is now: answered by [`Response::Registers`].
    Registers {
        /// Index of the thread in the package.
        thread: u32,
    },
    /// Read the program's memory as it is now.
    ReadMemory {
        /// First byte.
        addr: u64,
        /// Bytes, at most [`MAX_READ`].
        len: u64,
    },
    /// Compare what each thread reads with the memory of all threads, from the start on: answered by [`Response::Ready`],
    /// and allowed before the package's first [`Request::RunTo`] only.
    Compare {
        /// How to find out where bytes come from that are not in the memory of all threads.
        explain: Explanation,
        /// Parts of the address space, of 32 GiB each and at multiples of that, in which the program has nothing, and the replay process may
        /// keep what is quicker to compare with.
        rooms: Vec<u64>,
    },
    /// The patches that were found by comparing up to here: answered by [`Response::Patches`].
    Patches {
        /// Without so many, which come first.
        from: u64,
    },
    /// Put these patches into memory where they belong, behind those of earlier such requests, instead of comparing; answered by
    /// [`Response::Ready`]. Allowed before the package's first [`Request::RunTo`], or where it was compared up to here; what belongs to
    /// instructions that have been executed is left out then.
    Patch {
        /// In the order in which they are needed, at most [`crate::patch::MAX_PATCHES`].
        patches: Vec<Patch>,
        /// With these, all are there up to the moment when all threads together have executed so many instructions of the package;
        /// `u64::MAX`: up to the end. No run may go beyond it.
        until: u64,
    },
    /// What was compared so far: answered by [`Response::Compared`].
    Compared,
    /// Watch a piece of code from the interval's start on: answered by [`Response::Watching`], and allowed before the
    /// first [`Request::RunTo`] only. The instruction at its first byte is reported whenever it is run with other bytes
    /// than the last time ([`Response::Ran`]). Such a replay is slow.
    Watch {
        /// First byte.
        addr: u64,
        /// Bytes, at most [`MAX_WATCH`].
        len: u64,
    },
    /// Keep track of which bytes of memory are known, from the interval's start on, and which code is executed: answered by
    /// [`Response::Watching`], and allowed before the first [`Request::RunTo`] only; it goes for packages that follow, too. Such a
    /// replay is slow.
    Track,
    /// The pages of which threads have accessed or executed something up to here, where that is kept track of: answered by
    /// [`Response::Left`].
    Left {
        /// Only those from this address on.
        from: u64,
    },
    /// Keep track of memory as if nothing was known of it here, and of what it is now: answered by [`Response::Ready`]. What the package says of it from
    /// here on tells that ([`Request::Found`]).
    Foresee,
    /// What memory was at the last [`Request::Foresee`], as far as anything has shown it up to here before it was changed: answered by
    /// [`Response::Left`], with nothing but what is known.
    Found {
        /// Only the pages from this address on.
        from: u64,
    },
    /// What happened to memory in the package up to here that no instruction did, and no record tells: answered by
    /// [`Response::Unseen`].
    Unseen,
    /// As [`Request::ReadMemory`], with what is known of it; answered by [`Response::Known`].
    ReadKnown {
        /// First byte.
        addr: u64,
        /// Bytes, at most [`MAX_READ`].
        len: u64,
    },
    /// Of which pages something is known: answered by [`Response::Pages`]. Of none, if nothing keeps track of that.
    KnownPages {
        /// The first address.
        from: u64,
    },
    /// What wrote the watched bytes last: answered by [`Response::Writers`].
    Writers,
    /// Write down what is executed from here on ([`crate::trace`]). A message of one byte follows, with which the descriptor of the memory
    /// for that comes, of [`crate::trace::BYTES`]: answered by [`Response::Ready`]. It goes for packages that follow, too. A run then stops with
    /// [`Stop::Reached`] where the memory is full, too, and each begins to fill it anew.
    Trace(Wanted),
    /// What goes with what the last run has written down: answered by [`Response::Traced`].
    Traced {
        /// Without so many blocks, which are known already.
        blocks: u32,
        /// Without so many odd accesses.
        odd: u32,
    },
    /// Where turns of the thread begin from here on, in ascending order; not answered.
    Turns(Vec<Turn>),
    /// Look at each access from here on whether it may be wrong ([`crate::shade`]): answered by [`Response::Ready`]. It goes for packages that
    /// follow, too, as do the shades.
    Look(Looked),
    /// What is wrong from which instruction on, behind what was said before and at instructions that are not executed yet: answered by
    /// [`Response::Ready`].
    Shade(Vec<Shade>),
    /// What may have been wrong in the last run: answered by [`Response::Suspects`].
    Suspects {
        /// Without so many, which come first.
        from: u32,
        /// Without so many blocks, which are known already.
        blocks: u32,
    },
    /// Mark from here on which lines of memory instructions access, and what they access atomically: answered by [`Response::Ready`]. Only
    /// before anything is run; it goes for packages that follow, too, each of which begins without any.
    Mark,
    /// What was marked since this was asked for last with `from` being 0: answered by [`Response::Lines`].
    Lines {
        /// Without so many pages and atomic accesses, which come first.
        from: u32,
    },
    /// Take up another package of the same recorded process, at its start. It follows the message, as so many bytes, and
    /// lacks the code pages that the packages before had already. Answered by [`Response::Ready`]. Memory that an earlier one
    /// has touched is zero again, but readable.
    Next {
        /// Bytes of the package.
        len: u64,
    },
    /// End the replay process.
    Quit,
}

/// What wrote a byte of memory last, as far as an interval's replay knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LastWriter {
    /// Nothing that replay has seen: it was written before the interval, or before the thread first had it.
    Unknown,
    /// The thread's own instruction.
    Store {
        /// Its position.
        position: u64,
        /// Its address.
        pc: u64,
        /// The code picture that was in force.
        seq: CodeSeq,
    },
    /// Something else than the thread's instructions, after the thread had had another value there.
    Outside,
}

/// The instruction at a watched address is run with other bytes than the last time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Its position.
    pub position: u64,
    /// The code picture that is in force.
    pub seq: CodeSeq,
    /// The watched bytes, up to the end of the first instruction that transfers control or stores: what is behind
    /// that may have changed without the log knowing, as long as it is not executed.
    pub bytes: Vec<u8>,
    /// What wrote each of these bytes.
    pub writers: Vec<LastWriter>,
}

/// Why a replay process stopped executing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The asked-for position.
    Reached,
    /// A condition holds here.
    Hit,
    /// [`Request::Interrupt`] has come.
    Interrupted,
    /// The package's end, and the recorded end states of all its intervals fit.
    End,
    /// The same, but the log of a thread was cut off; all that it holds was replayed.
    CutOff,
    /// Replay went another way than the recording.
    Divergence {
        /// What differs, for people.
        what: String,
        /// The recorded registers, where a record has them.
        expected: Option<Box<RegisterFile>>,
    },
}

/// What a replay process has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions executed.
    pub instructions: u64,
    /// `LOAD` records injected.
    pub loads: u64,
    /// `CHECK` and `END` records compared, and `CHECKPOINT`s of intervals that follow another.
    pub checks: u64,
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            instructions: sum.instructions + one.instructions,
            loads: sum.loads + one.loads,
            checks: sum.checks + one.checks,
        })
    }
}

/// A run of so many instructions is one of a few, for which code that calls the client at each access need not be built anew.
pub const FEW: u64 = 1000;

/// Most conflicts that a [`Comparison`] lists.
pub const MAX_CONFLICTS: usize = 1000;

/// From the replay process to the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// The package is set up, at its start; what was asked for is prepared.
    Ready,
    /// It cannot be set up or go on, and it is not the log's fault: what is wrong, for people.
    Failed(String),
    /// Execution stopped.
    Stopped {
        /// Why.
        stop: Stop,
        /// Index of the thread that is there.
        thread: u32,
        /// Instructions of that thread since its recording began.
        at: u64,
        /// Instructions that all threads together have executed of the package.
        time: u64,
        /// The condition that holds here; where the last one was asked for, that one.
        hit: Option<Hit>,
        /// Its registers.
        regs: Box<RegisterFile>,
        /// Counters.
        counts: Counts,
        /// What was written down in the run, if anything is.
        written: Option<Written>,
    },
    /// Answer to [`Request::Glance`]: whether a watch may have met something since the request before. Nothing where a look costs as much
    /// as a watch.
    Glanced(Option<bool>),
    /// Answer to [`Request::Fork`].
    Forked,
    /// Answer to [`Request::Registers`].
    Registers {
        /// Instructions of the thread since its recording began.
        at: u64,
        /// Whether it has ended, or its log has.
        over: bool,
        /// Its registers.
        regs: Box<RegisterFile>,
        /// Its counters.
        counts: Counts,
    },
    /// Answer to [`Request::Compared`].
    Compared(Box<Comparison>),
    /// Answer to [`Request::Patches`]: the next ones, at most [`crate::patch::MAX_PATCHES`], and none if there are no more; nothing if there
    /// are more than anybody keeps.
    Patches(Option<Vec<Patch>>),
    /// What was asked for is not possible, for this reason; everything is as it was.
    Refused(String),
    /// Answer to [`Request::ReadMemory`]: the bytes from the address up to the first that replay has no page for.
    Memory(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Answer to [`Request::ReadKnown`].
    Known {
        /// As in [`Response::Memory`].
        bytes: Vec<u8>,
        /// One for each byte that was asked for. Empty where nothing keeps track of that.
        states: Vec<ByteState>,
        /// How often something may have been changed in the package that nobody saw.
        changes: u64,
    },
    /// Answer to [`Request::KnownPages`]: their addresses, ascending, at most [`MAX_LISTED`] of them.
    Pages(Vec<u64>),
    /// Answer to [`Request::Left`].
    Left {
        /// Pages, ascending; at most [`MAX_PAGES`].
        pages: Vec<LeftPage>,
        /// From where on there are more.
        next: Option<u64>,
    },
    /// Answer to [`Request::Unseen`].
    Unseen(Unseen),
    /// Answer to [`Request::Watch`] and [`Request::Track`].
    Watching,
    /// Answer to [`Request::Traced`].
    Traced {
        /// The next blocks, at most [`crate::trace::MAX_TRACED`], which keep their numbers: the first one has number 0.
        blocks: Vec<TracedBlock>,
        /// The next odd accesses, at most [`crate::trace::MAX_TRACED`].
        odd: Vec<OddAccess>,
    },
    /// Answer to [`Request::Suspects`].
    Suspects {
        /// The next ones in the order of execution, at most [`crate::shade::MAX_SUSPECTS`].
        suspects: Vec<Suspect>,
        /// The next blocks, at most as many, which keep their numbers: the first one has number 0.
        blocks: Vec<SuspectBlock>,
    },
    /// Answer to [`Request::Lines`].
    Lines {
        /// The next pages, at most [`crate::lines::MAX_ACCESSES`], in no order.
        pages: Vec<PageAccesses>,
        /// The next atomic accesses, at most as many, in no order.
        atomic: Vec<AtomicAccess>,
        /// Whether marks of some memory may have been taken for those of other memory since the package's start: it is not known what was accessed.
        doubtful: bool,
    },
    /// What is watched was run with new bytes; comes before the answer to a [`Request::RunTo`].
    Ran(Ran),
    /// Answer to [`Request::Writers`]: one for each watched byte.
    Writers(Vec<LastWriter>),
    /// The program wrote this to standard output or error. A write of more than [`MAX_READ`] bytes comes in pieces.
    Output {
        /// Which of the two.
        stream: OutputStream,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Sends a message.
///
/// # Errors
/// The writer's, or the message is longer than [`MAX_MESSAGE`].
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> Result<()> {
    let body = postcard::to_allocvec(message).map_err(|e| Error::new(ErrorKind::InvalidData, e))?;
    if body.len() > MAX_MESSAGE {
        return Err(Error::new(ErrorKind::InvalidInput, "message too long"));
    }
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    to.write_all(&frame)
}

/// Receives a message.
///
/// # Errors
/// The reader's, or the bytes are no such message.
pub fn receive<T: for<'a> Deserialize<'a>>(from: &mut impl Read) -> Result<T> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_MESSAGE {
        return Err(Error::new(ErrorKind::InvalidData, "message too long"));
    }
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    postcard::from_bytes(&body).map_err(|e| Error::new(ErrorKind::InvalidData, e))
}
