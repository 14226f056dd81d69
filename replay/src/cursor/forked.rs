//! What a forked process has of the one that forked it: its memory, as it was in that moment; and what it shares with others since.

use super::Cursor;
use super::foreseen::Bits;
use super::known::{Search, Slot, Source};
use super::mapped::epochs_with_mappings;
use crate::error::Result;
use crate::index::Index;
use crate::mappings::{Birth, birth};
use crate::memory::Memory;
use bugnet_format::types::{Addr, ProcessId};

/// How a process began.
#[derive(Debug, Default)]
pub(super) enum Parent<'a> {
    /// Nobody has asked.
    #[default]
    Unasked,
    /// Not by a fork that the log has.
    None,
    /// So, and what is known of the one that forked it.
    Of(Birth, Known<'a>),
}

/// What is known of the process that forked one.
#[derive(Debug)]
pub(super) enum Known<'a> {
    /// Nobody has asked.
    Unasked,
    /// Nothing: other threads of its own may have written meanwhile.
    Nothing,
    /// What a cursor in that moment knows.
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

    /// Nothing is known of memory that a forked process shares with others since its start: no call of its own says that they may write there.
    pub(super) fn forget_shared(&mut self, at: u64, slots: &mut [Slot]) -> Result<()> {
        self.ask_for_parent()?;
        let Parent::Of(birth, _) = &self.elsewhere.parent else { return Ok(()) };
        let len = slots.len();
        let offset = |addr: u64| usize::try_from(addr.saturating_sub(at)).map_or(len, |offset| offset.min(len));
        for (start, end) in &birth.shared {
            slots[offset(*start)..offset(*end)].iter_mut().for_each(Slot::forget);
        }
        Ok(())
    }

    /// The one whose memory that is.
    pub(super) fn parent_id(&self) -> Option<ProcessId> {
        match &self.elsewhere.parent {
            Parent::Of(birth, _) => Some(birth.from),
            Parent::Unasked | Parent::None => None,
        }
    }

    fn ask_for_parent(&mut self) -> Result<()> {
        if matches!(self.elsewhere.parent, Parent::Unasked) {
            let found = birth(self.log, self.pid, |from, outline| {
                epochs_with_mappings(outline, Index::find(self.log, from)?.as_mut())
            })?;
            self.elsewhere.parent = found.map_or(Parent::None, |birth| Parent::Of(birth, Known::Unasked));
        }
        Ok(())
    }

    fn parent(&mut self) -> Result<Option<&mut Self>> {
        self.ask_for_parent()?;
        let (tools, log, make) = (self.tools, self.log, self.elsewhere.make_index.clone());
        let Parent::Of(birth, known) = &mut self.elsewhere.parent else { return Ok(None) };
        if matches!(known, Known::Unasked) {
            let mut parent = Cursor::open(tools, log, birth.from)?;
            match Index::find(log, birth.from)? {
                Some(index) => parent.use_index(index)?,
                None => parent.elsewhere.make_index = make,
            }
            parent.go_to_time(birth.time)?;
            let is_alone = parent.open.threads.len() == 1;
            *known = if is_alone { Known::There(Box::new(parent)) } else { Known::Nothing };
        }
        Ok(match known {
            Known::There(parent) => Some(parent),
            Known::Unasked | Known::Nothing => None,
        })
    }
}
