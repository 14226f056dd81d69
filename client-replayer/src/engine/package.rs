//! A package is opened, or takes the place of another one; and which code is in force.

use super::{Engine, Style, Trouble};
use crate::compare::MAX_THREADS;
use crate::context::Context;
use crate::fs_base;
use crate::memory::CodePage;
use bugnet_dr::fragments;
use bugnet_format::package::Package;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashSet;
use std::ops::Range;

/// So many blocks are forgotten at once.
const FORGOTTEN_AT_ONCE: usize = 256;

impl Engine {
    /// Reads the package, puts the code in place, and loads the registers.
    pub(super) fn open(&mut self) -> Result<(), String> {
        let package = Package::decode(self.package.bytes()).ok_or("the package is damaged, or of another version")?;
        if package.threads.is_empty() || package.threads.len() > MAX_THREADS {
            return Err(format!("a package of {} threads cannot be replayed", package.threads.len()));
        }
        self.code.add(package.pages());
        self.segments = Box::new(package.segments());
        self.contexts = package.threads.into_iter().map(Context::new).collect::<Result<_, _>>()?;
        if self.contexts.len() > 1 {
            self.keep_flags();
        }
        let first = self.contexts.iter().map(|context| context.code_seq).min().unwrap_or_default();
        self.fit_blocks(first);
        self.memory.reset(&self.code, first).map_err(|e| e.to_string())?;
        self.memory_seq = first;
        let later: Vec<u64> = self.code.between(first, CodeSeq(u64::MAX)).collect();
        let mut new = HashSet::new();
        let changes = |page: &u64| !new.insert(*page) || self.code.page(*page, first).is_some();
        self.changing = later.iter().copied().filter(changes).collect();
        // Those were built as if it did not change.
        self.changing.clone().into_iter().for_each(|page| self.drop_blocks(page, 0..Addr::PAGE as usize));
        for page in later {
            self.memory.anticipate_code(page).map_err(|e| e.to_string())?;
        }
        let Some(segment) = self.segments.next() else { return Err("a package without segments".into()) };
        self.until = segment.until;
        self.unknown_flags = 0;
        (self.position, self.time_base, self.is_new) = (0, 0, true);
        self.run(segment.thread).map_err(|trouble| match trouble {
            Trouble::Failed(why) => why,
            _ => "the package cannot begin".into(),
        })
    }

    /// Takes up another package, of `len` bytes, which follows on the socket.
    pub(super) fn take_up(&mut self, len: u64) -> Result<(), String> {
        // What refers to the package.
        self.contexts.clear();
        self.segments = Box::new(std::iter::empty());
        self.instructions.clear();
        (self.running, self.until, self.due, self.position) = (0, 0, 0, 0);
        (self.over, self.cut_off) = (None, false);
        // Before what it has marked would be looked for.
        let touched = self.memory.touched.take();
        self.end_comparing();
        self.patches = None;
        self.begin_shades();
        // SAFETY: nothing refers to the package any more: contexts and segments did.
        unsafe { self.package.replace(&mut self.control, len)? };
        self.open()?;
        self.executed.clear();
        if let Some(before) = touched {
            self.memory.track_again(before).map_err(|e| e.to_string())?;
            self.settle_conflict();
        }
        Ok(())
    }

    /// Where memory has come that marks cannot tell from other memory, there are others from here on, or none. Nothing of the present
    /// block may be executed then.
    pub(super) fn settle_conflict(&mut self) {
        let moved = self.move_places();
        if self.has_conflict() || moved {
            if self.memory.has_conflict() {
                self.memory.mark_otherwise();
            }
            if let Some(touched) = &mut self.memory.touched {
                touched.settle();
            }
            if let Some(compare) = &mut self.compare {
                compare.pictures.settle();
                compare.pictures.runs(self.running);
            }
            self.point_fs();
            self.style = self.wanted_style();
            self.drop_all_blocks();
        }
    }

    /// Drops all blocks if they were made to look at accesses otherwise than is needed. Before a run of a few instructions, blocks that
    /// call the client without need stay: they are sooner executed than built anew, and what comes behind such a run mostly needs them again.
    pub(super) fn fit_style(&mut self, is_short: bool) {
        let wanted = self.wanted_style();
        if is_short && self.style == Style::Calls {
            return;
        }
        if std::mem::replace(&mut self.style, wanted) != wanted {
            self.drop_all_blocks();
        }
    }

    /// How blocks have to look at accesses.
    fn wanted_style(&self) -> Style {
        let compares =
            self.compare.as_ref().and_then(|compare| Some((compare.places()?, compare.pictures.marks_reads())));
        match (compares, self.memory.marks()) {
            _ if self.observes_accesses() => Style::Calls,
            _ if self.shades.is_some() => {
                let style = if self.tells_shaded() { Style::Tells } else { Style::Shades };
                self.shades.as_ref().map_or(Style::Plain, |shades| style(shades.places()))
            }
            (Some((places, marks)), _) => Style::Compares(places, marks),
            (None, Some(places)) => Style::Marks(places),
            (None, None) => Style::Plain,
        }
    }

    /// What FS is to be in the code cache, and how places are found from there.
    pub fn point_fs(&mut self) {
        let compared = self.compare.as_ref().map(|compare| compare.places());
        if compared == Some(None) {
            fs_base::end();
        }
        self.point_at_picture();
        self.point_at_shades();
        let shaded = self.shades.as_ref().map(|shades| shades.places());
        if let Some(places) = compared.flatten().or_else(|| self.memory.marks()).or(shaded) {
            self.stub.shared().marked_by = places.mask();
        }
    }

    /// The code picture `seq` comes into force for the running thread.
    pub(super) fn take_code(&mut self, seq: CodeSeq) -> Result<(), Trouble> {
        let context = self.context();
        context.code_seq = context.code_seq.max(seq);
        let seq = context.code_seq;
        self.note_code(seq);
        self.show_picture(seq)?;
        self.fit_blocks(seq);
        Ok(())
    }

    /// Puts the code pages up to `seq` into memory, unless they are.
    pub(super) fn show_picture(&mut self, seq: CodeSeq) -> Result<(), Trouble> {
        if seq <= self.memory_seq {
            return Ok(());
        }
        let is_merged = self.is_merged();
        let Self { code, memory, compare, memory_seq, .. } = self;
        let mut pages: Vec<u64> = code.between(*memory_seq, seq).collect();
        pages.sort_unstable();
        pages.dedup();
        for addr in pages {
            let (Some(bytes), Some(seq)) = (code.page(addr, seq), code.page_seq(addr, seq)) else { continue };
            if let Some(compare) = &mut *compare {
                compare.code_comes(memory, addr, bytes)?;
            }
            memory.install_code(&[CodePage { addr, seq, bytes }])?;
            // Where other threads may have written there meanwhile, that says what one of them is going to execute, and no more.
            if is_merged && let Some(mut touched) = memory.touched.take() {
                touched.forget(memory, addr, Addr::PAGE);
                memory.touched = Some(touched);
            }
        }
        self.memory_seq = seq;
        Ok(())
    }

    /// The code picture `seq` is in force: drops the blocks that were made from other code.
    pub(super) fn fit_blocks(&mut self, seq: CodeSeq) {
        let old = self.code.set_seq(seq);
        let mut pages: Vec<u64> = self.code.between(old.min(seq), old.max(seq)).collect();
        if pages.is_empty() {
            return;
        }
        pages.sort_unstable();
        pages.dedup();
        let Self { code, sites, forgotten, .. } = self;
        pages.into_iter().for_each(|page| forgotten.extend(sites.take_stale(page, code)));
        self.instructions.clear();
    }

    /// Makes DynamoRIO forget the blocks that have some of these bytes on a page.
    fn drop_blocks(&mut self, page: u64, bytes: Range<usize>) {
        self.forgotten.extend(self.sites.take_blocks(page, bytes));
    }

    /// The same for blocks with the instruction at `pc`.
    pub(crate) fn drop_blocks_with(&mut self, pc: u64) {
        let page = Addr(pc).page().0;
        let at = (pc - page) as usize;
        self.drop_blocks(page, at..at + 1);
    }

    /// The same for all blocks.
    pub(crate) fn drop_all_blocks(&mut self) {
        self.forgotten = self.sites.take_all_blocks();
    }

    /// Lets DynamoRIO know some of the blocks that it is to forget; whether these were the last ones. A flush of its code would take along
    /// whatever lies near.
    ///
    /// It forgets them when control next leaves a clean call. Up to then they stand in a list, to the end of which it goes for each.
    pub(super) fn forget_blocks(&mut self) -> bool {
        let rest = self.forgotten.len().saturating_sub(FORGOTTEN_AT_ONCE);
        for tag in self.forgotten.drain(rest..) {
            // SAFETY: within a clean call, holding no lock, in the only thread, whose blocks are its own (`-thread_private`).
            // The block in which it was called may be the one; it is not returned to, since a clean call ends in a redirection.
            unsafe { fragments::delete(tag) };
        }
        rest == 0
    }
}
