//! What memory is here by what a run from here on finds there, before anything changes it: a copy of the replay process goes to the epoch's
//! end for that. So it is known what a system call has put into memory that the program has not looked at yet.

use super::{Conditions, Cursor, Open};
use crate::error::Result;
use bugnet_format::control::{Hits, Request, Target, Unseen};
use bugnet_format::index::{Content, known_bits};
use bugnet_format::types::Addr;
use std::collections::HashMap;

/// The bytes of a page, a bit each: a word for each line.
pub(super) type Bits = [u64; Addr::PAGE as usize / 64];

/// What was found.
#[derive(Debug)]
pub(super) struct Foreseen {
    /// Where it was: the index of the epoch, the time in it, and how often memory may have been changed by then.
    epoch: usize,
    time: u64,
    changes: u64,
    /// What is here, by page.
    pub found: HashMap<u64, Content>,
    /// What is accessed behind this place, whether or not that tells what it is here.
    pub accessed: HashMap<u64, Bits>,
    /// What may be changed behind this place by something that nobody sees: start and length of ranges, ascending; and what by others at any time.
    pub changed: Vec<(u64, u64)>,
    pub unsteady: Vec<(u64, u64)>,
}

impl Cursor<'_> {
    /// What a run from here finds, unless it was interrupted, or cannot be had.
    pub(super) fn foreseen(&mut self) -> Result<Option<&Foreseen>> {
        let changes = self.open.tracked.process.changes()?;
        let is_here = |seen: &Foreseen| {
            // Nothing was changed that nobody saw since then; what was accessed is known.
            seen.epoch == self.open.index && seen.time <= self.open.time && seen.changes == changes
        };
        if !self.elsewhere.foreseen.as_ref().is_some_and(is_here) {
            self.elsewhere.foreseen = self.open.foresee(changes)?;
        }
        Ok(self.elsewhere.foreseen.as_ref())
    }
}

impl Open {
    fn foresee(&mut self, changes: u64) -> Result<Option<Foreseen>> {
        let (time, copy) = (self.time, self.tracked.process.fork()?);
        let here = self.change_places(time, copy)?;
        let found = self.foresee_from_here(changes);
        self.return_to(here)?;
        found
    }

    fn foresee_from_here(&mut self, changes: u64) -> Result<Option<Foreseen>> {
        let (epoch, time) = (self.index, self.time);
        self.set_conditions(&Conditions::default())?;
        if self.prepare(Target::End)?.is_some() {
            return Ok(None);
        }
        self.tracked.process.foresee()?;
        self.execute(Target::End, Hits::Ignore)?;
        if !self.over {
            return Ok(None);
        }
        let process = &mut self.tracked.process;
        let (mut found, mut accessed) = (HashMap::new(), HashMap::new());
        process.each_page(
            |from| Request::Found { from },
            |page| {
                found.extend(Content::new(&page.known, &page.bytes).map(|content| (page.addr, content)));
                Ok(())
            },
        )?;
        process.each_page(
            |from| Request::Left { from },
            |page| {
                accessed.extend(known_bits(&page.known).map(|bits| (page.addr, bits)));
                Ok(())
            },
        )?;
        let Unseen { changed, unsteady, .. } = process.unseen()?;
        Ok(Some(Foreseen { epoch, time, changes, found, accessed, changed, unsteady }))
    }
}
