//! What is mapped where the cursor is, and the pages of which something may be known there.

use super::{Cursor, Outline};
use crate::error::Result;
use crate::index::Index;
use crate::mappings::{Mappings, Origin, Range, StackOf, State, Timeline, counts};
use crate::memory::Snapshots;
use bugnet_format::folder::Module;
use bugnet_format::regs::RSP;
use bugnet_format::types::Addr;
use std::collections::BTreeSet;

const PAGE: u64 = Addr::PAGE;
/// Most bytes of zeros that the log's snapshot may have for their pages to count; programs reserve any amount of memory.
const MOST_ZEROS: u64 = 64 << 20;

/// What is known of what is mapped.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// What records say of it, which are read when this is first asked for.
    timeline: Option<Timeline>,
    /// Nobody had asked for it, but it was tried.
    was_tried: bool,
    /// The address space at this time, and the ELF files that were mapped, by their indices.
    at: Option<(u64, State, BTreeSet<usize>)>,
}

/// In which epochs something can have changed what is mapped, as far as an index tells.
pub(super) fn epochs_with_mappings(outline: &Outline, index: Option<&mut Index>) -> Result<Vec<bool>> {
    let mut wanted = vec![true; outline.epochs()];
    if let Some(index) = index {
        for (epoch, wanted) in wanted.iter_mut().enumerate() {
            let table = index.table(epoch)?;
            *wanted = table.is_unknown || table.calls.iter().any(|number| counts(*number));
        }
    }
    Ok(wanted)
}

impl Cursor<'_> {
    /// Sees to it that it is known what is mapped: reads the records of all epochs in which, by the index, something can have changed that.
    ///
    /// # Errors
    /// The log cannot be read, or the index is damaged.
    pub fn know_mappings(&mut self) -> Result<()> {
        if self.mapped.timeline.is_none() {
            let wanted = epochs_with_mappings(&self.outline, self.elsewhere.index.as_mut())?;
            self.mapped.timeline = Some(Timeline::read(self.log, self.pid, &self.outline, &wanted)?);
        }
        Ok(())
    }

    /// The same, if there is an index or the log takes no more bytes than that. It is tried once.
    ///
    /// # Errors
    /// As for [`Self::know_mappings`].
    pub fn know_mappings_within(&mut self, bytes: u64) -> Result<()> {
        let is_quick = || self.has_index() || self.log.source().size(self.log.path()) <= bytes;
        if self.mapped.was_tried || !is_quick() {
            return Ok(());
        }
        self.mapped.was_tried = true;
        self.know_mappings()
    }

    /// The ELF files that are mapped here; none if that is not known ([`Self::know_mappings`]).
    #[must_use]
    pub fn modules(&self) -> Option<Vec<Module>> {
        let timeline = self.mapped.timeline.as_ref()?;
        let mapped = timeline.at(self.time()).modules();
        Some(mapped.into_iter().filter_map(|index| timeline.modules().get(index)).cloned().collect())
    }

    /// Whether an ELF file, by its index, may be mapped here.
    pub(super) fn may_be_mapped(&mut self, module: usize) -> bool {
        self.here().is_none_or(|(_, mapped)| mapped.contains(&module))
    }

    /// What an address is mapped to here, as far as it is known ([`Cursor::know_mappings`]).
    pub(super) fn mapped_at(&mut self, addr: u64) -> Range {
        let nothing = Range { end: u64::MAX, origin: Origin::Other };
        self.here().map_or(nothing, |(state, _)| state.origin(addr))
    }

    /// Whether the log does not have the beginning of what was mapped, as far as that is known.
    pub(super) fn mapped_is_cut(&self) -> bool {
        self.mapped.timeline.as_ref().is_none_or(|timeline| timeline.is_cut)
    }

    fn here(&mut self) -> Option<(&State, &BTreeSet<usize>)> {
        let time = self.time();
        let Mapped { timeline, at, .. } = &mut self.mapped;
        let timeline = timeline.as_ref()?;
        if at.as_ref().is_none_or(|(at, ..)| *at != time) {
            let state = timeline.at(time);
            let modules = state.modules();
            *at = Some((time, state, modules));
        }
        at.as_ref().map(|(_, state, modules)| (state, modules))
    }

    /// What is mapped here, as far as the log tells. Of stacks that the kernel made, that is what threads have used.
    ///
    /// # Errors
    /// The log cannot be read, or the replay process is lost.
    pub fn mappings(&mut self) -> Result<Mappings> {
        self.know_mappings()?;
        let own = u64::from(self.pid.pid.0);
        let mut stacks = Vec::new();
        let first = self.outline.threads().find(|(tid, _)| u64::from(tid.0) == own).map(|(tid, _)| tid);
        if let Some((tid, part)) = first.and_then(|tid| Some((tid, self.outline.parts(tid).first()?.number))) {
            stacks.push(StackOf { tid: None, pointer: self.at_start(tid, part)?.regs.gpr[RSP] });
        }
        let alive = self.alive()?;
        let other = |thread: &super::Thread| {
            let tid = thread.place.tid;
            StackOf { tid: Some(tid).filter(|tid| u64::from(tid.0) != own), pointer: thread.regs.gpr[RSP] }
        };
        stacks.extend(alive.iter().map(other));
        let used: BTreeSet<u64> = self.known_pages()?.into_iter().collect();
        let pages = self.pages()?;
        let Some(timeline) = &self.mapped.timeline else { return Ok(Mappings::default()) };
        let all = timeline.at(self.time()).mappings(&stacks, |page| used.contains(&page), |page| pages.contains(&page));
        Ok(Mappings { all, is_cut: timeline.is_cut })
    }

    /// The pages of which something may be known here, in whichever way ([`Self::read_with_origin`]) but from files.
    ///
    /// # Errors
    /// The replay process is lost, or the index is damaged.
    pub fn pages(&mut self) -> Result<BTreeSet<u64>> {
        let mut pages: BTreeSet<u64> = self.known_pages()?.into_iter().collect();
        if let Some(index) = &mut self.elsewhere.index {
            for epoch in 0..index.epochs() {
                pages.extend(index.table(epoch)?.pages.iter().map(|entry| entry.addr));
            }
        }
        if self.has_index() || self.time() >= self.outline.end {
            pages.extend(self.at_end()?.pages(MOST_ZEROS));
        }
        pages.retain(|page| *page < Addr::USER_END - PAGE);
        Ok(pages)
    }

    /// Memory at the end, as the log has it.
    pub(super) fn at_end(&mut self) -> Result<Snapshots> {
        if let Some(end) = &self.elsewhere.end {
            return Ok(end.clone());
        }
        let end = Snapshots::of_process(self.log, self.pid)?;
        Ok(self.elsewhere.end.insert(end).clone())
    }
}
