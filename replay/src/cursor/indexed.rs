//! The index that a cursor has, or makes where it needs one.

use super::Cursor;
use crate::error::{ReplayError, Result};
use crate::index::Index;
use std::fmt;

/// Makes an index, once; none if there is none to be had.
#[derive(Default)]
pub(super) struct MakeIndex<'a>(pub Option<Box<dyn FnOnce() -> Option<Index> + 'a>>);

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

    /// From here on, this makes an index where a byte of memory takes one, if there is one to be had. It is asked once.
    pub fn make_index_by(&mut self, make: impl FnOnce() -> Option<Index> + 'a) {
        self.elsewhere.make_index = MakeIndex(Some(Box::new(make)));
    }

    /// Whether it has an index.
    #[must_use]
    pub fn has_index(&self) -> bool {
        self.elsewhere.index.is_some()
    }

    /// An index is needed.
    pub(super) fn want_index(&mut self) -> Result<()> {
        let made = self.elsewhere.make_index.0.take().and_then(|make| make());
        made.map_or(Ok(()), |index| self.use_index(index))
    }
}
