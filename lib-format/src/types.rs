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
    /// Number of an epoch of a process, from 0. All threads of the process end their intervals where one begins: what any of
    /// them does in an epoch comes after nothing that another one does in a later epoch.
    Epoch(u64),
    "{}"
);
number!(
    /// Process id in the recorded program's own pid namespace.
    Pid(u32),
    "{}"
);
number!(
    /// How many records of a process's code store are in force: a page record with sequence number
    /// `n` (from 1) belongs to the code picture `CodeSeq(m)` if `n <= m`.
    CodeSeq(u64),
    "{}"
);

/// A thread of a program that a process ran: the thread's id in the recorded program's own pid namespace, which is below
/// 2^22, and from that bit on how many threads of the program had this id before. The operating system gives the ids of
/// threads that have ended to later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tid(pub u32);

impl Tid {
    /// Bits of an id of the operating system's: the largest `pid_max` is 2^22.
    const ID_BITS: u32 = 22;

    /// The thread with this id where `before` others had it before; none if there is no number for it.
    #[must_use]
    pub fn new(id: u32, before: u32) -> Option<Self> {
        let fits = id >> Self::ID_BITS == 0 && before <= u32::MAX >> Self::ID_BITS;
        fits.then_some(Self(before << Self::ID_BITS | id))
    }

    /// The operating system's thread id.
    #[must_use]
    pub fn id(self) -> u32 {
        self.0 & ((1 << Self::ID_BITS) - 1)
    }

    /// How many threads of the program had this id before.
    #[must_use]
    pub fn before(self) -> u32 {
        self.0 >> Self::ID_BITS
    }
}

impl fmt::Display for Tid {
    /// `4712` for the first thread with this id, `4712.1` for the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before() {
            0 => write!(f, "{}", self.id()),
            before => write!(f, "{}.{before}", self.id()),
        }
    }
}

impl FromStr for Tid {
    type Err = String;

    /// Takes what [`Display`](fmt::Display) prints, and nothing else.
    fn from_str(text: &str) -> Result<Self, String> {
        let (id, before) = text.split_once('.').unwrap_or((text, "0"));
        let tid = id.parse().ok().zip(before.parse().ok()).and_then(|(id, before)| Self::new(id, before));
        tid.filter(|tid| tid.to_string() == text).ok_or_else(|| {
            format!("{text} is no thread: a thread is its id, as 4712, or 4712.1 for the second one with this id")
        })
    }
}

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

impl ProcessId {
    /// Whether a user means it by this: `4711` for all programs of a process, `4711.0` for the first one alone, `4711.1` for the second.
    #[must_use]
    pub fn is_meant_by(self, name: &str) -> bool {
        let Self { pid, program } = self;
        name == pid.to_string() || name == format!("{pid}.{program}")
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

#[cfg(test)]
mod tests {
    use super::Tid;

    #[test]
    fn threads_with_the_same_id_differ() {
        for (id, before, name) in [(4712, 0, "4712"), (4712, 1, "4712.1"), ((1 << 22) - 1, 1023, "4194303.1023")] {
            let tid = Tid::new(id, before).unwrap();
            assert_eq!((tid.id(), tid.before(), tid.to_string().as_str()), (id, before, name));
            assert_eq!(name.parse(), Ok(tid));
        }
        assert_eq!(Tid::new(4712, 0), Some(Tid(4712)));
        assert_eq!(Tid::new(1 << 22, 0), None);
        assert_eq!(Tid::new(1, 1024), None);
        for name in ["", "x", "04712", "4712.", "4712.0", "4712.01", "4712.1024", "4194304", "-1", ".1"] {
            assert!(name.parse::<Tid>().is_err(), "{name}");
        }
    }
}
