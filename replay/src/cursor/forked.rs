//! What a forked process has of the one that forked it: its memory, as it was in that moment.

use super::Cursor;
use super::foreseen::Bits;
use super::known::{Search, Source};
use crate::error::Result;
use crate::index::Index;
use crate::mappings::birth;
use crate::memory::Memory;
use bugnet_format::types::{Addr, ProcessId};

/// The process that forked one.
#[derive(Debug, Default)]
pub(super) enum Parent<'a> {
    /// Nobody has looked for it.
    #[default]
    Unasked,
    /// There is none, or nothing tells what its memory was: other threads may have written to it meanwhile.
    None,
    /// Where it was.
    There(Box<Cursor<'a>>),
}

impl<'a> Cursor<'a> {
    /// Takes what is still as the process that forked this one had it.
    pub(super) fn take_parents(&mut self, search: &mut Search<'_>, wanted: &Bits) -> Result<()> {
        let wanted = search.among(wanted, search.first(), search.end());
        if wanted.iter().all(|word| *word == 0) {
            return Ok(());
        }
        let (addr, len) = (search.page + search.first() as u64, (search.end() - search.first()) as u64);
        let Some(parent) = self.parent()? else { return Ok(()) };
        let (bytes, first) = (parent.read_known(Addr(addr), len)?, search.first());
        search.put(&wanted, Source::Parent, |at| bytes.get(at.checked_sub(first)?).copied().flatten());
        Ok(())
    }

    /// The one whose memory that is.
    pub(super) fn parent_id(&self) -> Option<ProcessId> {
        match &self.elsewhere.parent {
            Parent::There(parent) => Some(parent.pid()),
            Parent::Unasked | Parent::None => None,
        }
    }

    fn parent(&mut self) -> Result<Option<&mut Self>> {
        if matches!(self.elsewhere.parent, Parent::Unasked) {
            self.elsewhere.parent = self.find_parent()?.map_or(Parent::None, |parent| Parent::There(Box::new(parent)));
        }
        Ok(match &mut self.elsewhere.parent {
            Parent::There(parent) => Some(parent),
            Parent::Unasked | Parent::None => None,
        })
    }

    fn find_parent(&self) -> Result<Option<Self>> {
        let Some((pid, time)) = birth(self.log, self.pid)? else { return Ok(None) };
        let mut parent = Cursor::open(self.tools, self.log, pid)?;
        match Index::find(self.log, pid)? {
            Some(index) => parent.use_index(index)?,
            None => parent.share_making(&self.elsewhere.make_parents),
        }
        parent.go_to_time(time)?;
        Ok((parent.open.threads.len() == 1).then_some(parent))
    }
}
