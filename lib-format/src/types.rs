//! Numbers that must not be mixed up have types of their own.

use serde::{Deserialize, Serialize};
use std::fmt;

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
