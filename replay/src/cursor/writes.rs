//! Who wrote memory last.

use super::{Conditions, Cursor, Direction, Event, Place, Seek, Stopped, WatchedRange};
use crate::error::Result;
use crate::memory::Memory;
use bugnet_format::types::Addr;
use serde::Serialize;

/// What wrote some bytes last, before a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum LastWrite {
    /// An instruction; the cursor is before it.
    Instruction {
        /// Where it is.
        place: Place,
        /// First byte that it writes.
        addr: u64,
        /// Bytes that it writes.
        len: u64,
        /// What was there, and what it left; nothing of a byte that is not known.
        before: Vec<Option<u8>>,
        /// See there.
        after: Vec<Option<u8>>,
    },
    /// Something else than an instruction of the process: a system call, or another process. A thread found other bytes than
    /// had been there; the cursor is where it did.
    Outside {
        /// Where it did.
        place: Place,
        /// The last place before at which a thread wrote or found something else there.
        since: Place,
        /// What was there, and what it found.
        before: Vec<Option<u8>>,
        /// See there.
        after: Vec<Option<u8>>,
    },
    /// No instruction in the recording: it was there before, or came from outside. The cursor is where a thread found it first.
    Found {
        /// Where it did.
        place: Place,
        /// What it found.
        bytes: Vec<Option<u8>>,
    },
    /// Nothing in the recording, and no thread looked there.
    Unknown,
}

/// Bytes that a thread found, which nothing that is known yet has written.
struct Noticed {
    time: u64,
    place: Place,
    bytes: Vec<Option<u8>>,
}

/// Whether no byte that is known in both is another one.
fn agree(a: &[Option<u8>], b: &[Option<u8>]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.is_none() || b.is_none() || a == b)
}

impl Cursor<'_> {
    /// Goes back to what wrote one of these bytes last, before where the cursor is.
    ///
    /// Where a thread finds bytes that it did not know, they may have been written long before, by an instruction; if what was written
    /// last before that is something else, they came from outside.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn last_write(&mut self, addr: Addr, len: u64) -> Result<LastWrite> {
        let range = WatchedRange { addr: addr.0, len, reads: false, writes: true, changes: false };
        let conditions = Conditions { ranges: vec![range], ..Conditions::default() };
        let mut noticed: Option<Noticed> = None;
        loop {
            let (found, place, time) = (self.run(Direction::Backward, &conditions)?, self.place(), self.time());
            let (write, before, after) = match found {
                Stopped::Condition(Event::Access { addr: at, len: bytes, .. }) => {
                    let before = self.read_known(addr, len)?;
                    self.step(Direction::Forward)?;
                    let after = self.read_known(addr, len)?;
                    self.seek(Seek::Time(time))?;
                    (Some((at, bytes)), before, after)
                }
                Stopped::Condition(_) => (None, Vec::new(), self.read_known(addr, len)?),
                Stopped::Start => {
                    let Some(first) = noticed else { return Ok(LastWrite::Unknown) };
                    self.seek(Seek::Time(first.time))?;
                    return Ok(LastWrite::Found { place: first.place, bytes: first.bytes });
                }
                _ => return Ok(LastWrite::Unknown),
            };
            if let Some(later) = noticed.take_if(|later| !agree(&after, &later.bytes)) {
                self.seek(Seek::Time(later.time))?;
                let (before, after) = (after, later.bytes);
                return Ok(LastWrite::Outside { place: later.place, since: place, before, after });
            }
            if let Some((addr, len)) = write {
                return Ok(LastWrite::Instruction { place, addr, len, before, after });
            }
            noticed = Some(Noticed { time, place, bytes: after });
        }
    }
}
