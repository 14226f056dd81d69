//! Which memory system calls write.

use super::list::{Changed, Recorded};
use crate::crash::Seen;
use crate::memory::{Memory, Snapshots};
use crate::symbols::Symbolizer;

/// A system call that was made, as its record tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// What it returned.
    pub result: i64,
}

impl Made {
    fn recorded(&self) -> Recorded {
        Recorded { number: self.number, args: self.args, result: Some(self.result) }
    }

    /// Whether it takes memory, as it is when the call is made, to know where it writes.
    #[must_use]
    pub fn needs_memory(&self) -> bool {
        self.recorded().writes_where_memory_says()
    }

    /// The memory that it took and gave to somebody else, of calls that do nothing but that: first byte, and how many.
    #[must_use]
    pub fn read(&self) -> Option<(u64, u64)> {
        let gives = [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_sendto].contains(&self.number.cast_signed());
        Some((self.args[1], u64::try_from(self.result).ok()?)).filter(|_| gives)
    }

    /// The memory that it wrote, or may have written: first bytes, and how many. `None`: nobody knows.
    ///
    /// `memory` is as it was when the call was made; only [where it takes that](Self::needs_memory), it has to be there.
    pub fn written(&self, memory: Option<&mut dyn Memory>, symbols: &mut Symbolizer) -> Option<Vec<(u64, u64)>> {
        let mut nothing = Snapshots::default();
        let memory = memory.unwrap_or(&mut nothing);
        match self.recorded().changed(&mut Seen { memory, symbols }) {
            Changed::Ranges(ranges) => Some(ranges),
            Changed::Unknown => None,
        }
    }
}
