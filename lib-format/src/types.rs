//! Numbers that must not be mixed up have types of their own.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($repr:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

number!(
    /// An address in the recorded program; never an address of the tool.
    Addr(u64),
    "{:#x}"
);
number!(
    /// A position inside a checkpoint interval: the count of instructions that its thread has executed
    /// since the interval's start. A record at position `p` takes effect before instruction number `p`
    /// (counted from 0) executes.
    Position(u64),
    "{}"
);
number!(
    /// Number of a checkpoint interval within its thread, from 0.
    IntervalNo(u64),
    "{}"
);
number!(
    /// Process id in the recorded program's own pid namespace.
    Pid(u32),
    "{}"
);
number!(
    /// Thread id in the recorded program's own pid namespace.
    Tid(u32),
    "{}"
);
number!(
    /// How many records of a process's code store are in force: a page record with sequence number
    /// `n` (from 1) belongs to the code picture `CodeSeq(m)` if `n <= m`.
    CodeSeq(u64),
    "{}"
);

/// A program that a process ran: the process's id, and how many programs of the recording had this id before. `execve`
/// begins the next one, and so does another process that gets the id later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// The operating system's process id.
    pub pid: Pid,
    /// Number of the program, from 0.
    pub program: u32,
}

impl From<Pid> for ProcessId {
    fn from(pid: Pid) -> Self {
        Self { pid, program: 0 }
    }
}

impl fmt::Display for ProcessId {
    /// `4711` for the first program, `4711.1` for the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.program {
            0 => write!(f, "{}", self.pid),
            program => write!(f, "{}.{program}", self.pid),
        }
    }
}

impl FromStr for ProcessId {
    type Err = ();

    /// Takes what [`Display`](fmt::Display) prints, and nothing else.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, program) = text.split_once('.').unwrap_or((text, "0"));
        let id = Self { pid: Pid(pid.parse().map_err(drop)?), program: program.parse().map_err(drop)? };
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

impl Addr {
    /// Bytes of a page of memory and of code.
    pub const PAGE: u64 = 4096;
    /// First address above those that user code can have; an address of a log is below.
    pub const USER_END: u64 = 1 << 47;

    /// The start of the page that holds this address.
    #[must_use]
    pub fn page(self) -> Self {
        Self(self.0 & !(Self::PAGE - 1))
    }
}
