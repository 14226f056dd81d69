//! The index that a cursor has, or makes where it needs one.

use super::Cursor;
use crate::error::{ReplayError, Result};
use crate::index::Index;
use bugnet_format::types::ProcessId;
use std::fmt;
use std::rc::Rc;

/// A process of which an index is needed.
#[derive(Clone, Copy, Debug)]
pub struct Indexed {
    /// It.
    pub pid: ProcessId,
    /// Instructions of all its threads.
    pub instructions: u64,
    /// Whether it has several.
    pub has_threads: bool,
}

/// Makes an index; none if there is none to be had.
#[derive(Clone, Default)]
pub(super) struct MakeIndex<'a>(pub Option<Rc<dyn Fn(Indexed) -> Option<Index> + 'a>>);

impl fmt::Debug for MakeIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MakeIndex").field(&self.0.is_some()).finish()
    }
}

impl<'a> Cursor<'a> {
    /// From here on, the cursor knows what the index knows.
    ///
    /// # Errors
    /// It is the index of something else.
    pub fn use_index(&mut self, index: Index) -> Result<()> {
        if index.epochs() != self.outline.epochs() {
            let (found, there) = (index.epochs(), self.outline.epochs());
            return Err(ReplayError::OutOfRange(format!("an index of {found} epochs, but the log has {there}")));
        }
        self.elsewhere.index = Some(index);
        self.learn_from_index()
    }

    /// From here on, this makes an index where a byte of memory takes one, if there is one to be had: of this process, and of those that forked it. It is
    /// asked once of each.
    pub fn make_index_by(&mut self, make: impl Fn(Indexed) -> Option<Index> + 'a) {
        self.elsewhere.make_index = MakeIndex(Some(Rc::new(make)));
        self.elsewhere.wanted_index = false;
    }

    /// Whether it has an index.
    #[must_use]
    pub fn has_index(&self) -> bool {
        self.elsewhere.index.is_some()
    }

    /// An index is needed.
    pub(super) fn want_index(&mut self) -> Result<()> {
        let Some(make) = self.elsewhere.make_index.0.clone().filter(|_| !self.elsewhere.wanted_index) else {
            return Ok(());
        };
        self.elsewhere.wanted_index = true;
        let has_threads = self.all_threads().nth(1).is_some();
        let made = make(Indexed { pid: self.pid, instructions: self.end(), has_threads });
        made.map_or(Ok(()), |index| self.use_index(index))
    }
}
