//! Who wrote memory last.

use super::back::{Back, First};
use super::{Conditions, Cursor, Event, Hit, Place, WatchedRange};
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
        /// The last place before at which a thread wrote or found something else there, if it is known.
        since: Option<Place>,
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
    /// The search was interrupted.
    Interrupted,
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
        // What was asked for before this is none of its business.
        self.interrupter.take();
        let range = WatchedRange { addr: addr.0, len, reads: false, writes: true, changes: false };
        let conditions = Conditions { ranges: vec![range], ..Conditions::default() };
        let (back, found) = self.search_back(&conditions, 0)?;
        match back {
            Back::Hit(Hit { what: Event::Access { addr: at, len: bytes, .. }, time, .. }) => {
                self.open.go_to(time + 1)?;
                let after = self.read_known(addr, len)?;
                self.open.go_to(time)?;
                let before = self.read_known(addr, len)?;
                Ok(LastWrite::Instruction { place: self.place(), addr: at, len: bytes, before, after })
            }
            Back::Hit(Hit { time, .. }) => {
                self.open.go_to(time.saturating_sub(1))?;
                let before = self.read_known(addr, len)?;
                self.open.go_to(time)?;
                let (place, after) = (self.place(), self.read_known(addr, len)?);
                Ok(LastWrite::Outside { place, since: None, before, after })
            }
            Back::Noticed { time, since, before, after, .. } => {
                self.open.go_to(time)?;
                Ok(LastWrite::Outside { place: self.place(), since, before, after })
            }
            Back::None => Ok(match self.go_to_first(&found)? {
                First::Found(bytes) => LastWrite::Found { place: self.place(), bytes },
                First::Nowhere => LastWrite::Unknown,
                First::Interrupted => LastWrite::Interrupted,
            }),
            Back::Interrupted => Ok(LastWrite::Interrupted),
        }
    }
}
