//! What a replay of all epochs of a process has found: which memory each accessed and wrote, what it left there, and which code it
//! executed. With it, memory is known across epochs, and a search replays only epochs in which something can be found.
//!
//! It lies in a file beside the log ([`bugnet_format::index`]), or in the user's cache folder where the log cannot be written.
//! Whatever is wrong with such a file, it is thrown away, and the index can be made again.

mod make;
mod place;

pub use make::Progress;

use crate::error::Result;
use crate::log::Log;
use crate::tools::Tools;
use crate::verify::Verified;
use bugnet_format::index::{Block, Content, EpochTable, IndexReader};
use bugnet_format::patch::Patch;
use bugnet_format::types::ProcessId;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most pages in tables that are kept in memory.
const MOST_PAGES: usize = 1 << 21;
/// Most contents of pages that are.
const MOST_CONTENTS: usize = 1 << 13;

/// The index of a process.
#[derive(Debug)]
pub struct Index {
    reader: IndexReader,
    path: PathBuf,
    tables: HashMap<usize, Arc<EpochTable>>,
    /// Pages in the tables.
    pages: usize,
    /// By where they are.
    contents: HashMap<Block, Arc<Content>>,
}

impl Index {
    /// The index of a process, if there is one that fits the log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn find(log: &Log, pid: ProcessId) -> Result<Option<Self>> {
        let identity = place::identity(log, pid)?;
        Ok(place::find(log, pid, identity).map(|(reader, path)| Self::new(reader, path)))
    }

    /// Makes the index of a process, `jobs` epochs at a time, and keeps it. `progress` is called before the first epoch and after
    /// each.
    ///
    /// # Errors
    /// The log does not hold the process, the installation lacks something, or there is no room for the index. Epochs that cannot be
    /// replayed are no error: of them, nothing is known.
    pub fn make(
        tools: &Tools,
        log: &Log,
        pid: ProcessId,
        jobs: NonZeroUsize,
        progress: impl FnMut(Progress),
    ) -> Result<Self> {
        Self::make_verifying(tools, log, pid, jobs, &mut Verified::default(), progress)
    }

    /// As [`Self::make`]; the intervals that it finds to be exact on the way are added to `verified`, also if there is an error later.
    ///
    /// # Errors
    /// As for [`Self::make`].
    pub fn make_verifying(
        tools: &Tools,
        log: &Log,
        pid: ProcessId,
        jobs: NonZeroUsize,
        verified: &mut Verified,
        progress: impl FnMut(Progress),
    ) -> Result<Self> {
        let identity = place::identity(log, pid)?;
        let (reader, path) = place::create(log, pid, identity, |file| {
            make::make(tools, log, pid, jobs, (identity, file), verified, progress)
        })?;
        Ok(Self::new(reader, path))
    }

    fn new(reader: IndexReader, path: PathBuf) -> Self {
        Self { reader, path, tables: HashMap::new(), pages: 0, contents: HashMap::new() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many epochs it has.
    pub(crate) fn epochs(&self) -> usize {
        self.reader.epochs()
    }

    /// The table of an epoch, by its index.
    ///
    /// # Errors
    /// The file is damaged; it is gone then.
    pub(crate) fn table(&mut self, epoch: usize) -> Result<Arc<EpochTable>> {
        if let Some(table) = self.tables.get(&epoch) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(self.reader.table(epoch).inspect_err(|_| place::remove(&self.path))?);
        if self.pages + table.pages.len() > MOST_PAGES {
            (self.pages, self.tables) = (0, HashMap::new());
        }
        self.pages += table.pages.len();
        self.tables.insert(epoch, Arc::clone(&table));
        Ok(table)
    }

    /// The patches of an epoch with several threads, if they were found.
    ///
    /// # Errors
    /// As for [`Self::table`].
    pub(crate) fn patches(&mut self, epoch: usize) -> Result<Option<Vec<Patch>>> {
        let Some(block) = self.table(epoch)?.patches else { return Ok(None) };
        Ok(Some(self.reader.patches(block).inspect_err(|_| place::remove(&self.path))?))
    }

    /// What an epoch has left or found of a page, as the page's entry in its table says.
    ///
    /// # Errors
    /// As for [`Self::table`].
    pub(crate) fn content(&mut self, block: Option<Block>) -> Result<Option<Arc<Content>>> {
        let Some(block) = block else { return Ok(None) };
        if let Some(content) = self.contents.get(&block) {
            return Ok(Some(Arc::clone(content)));
        }
        let content = Arc::new(self.reader.content(block).inspect_err(|_| place::remove(&self.path))?);
        if self.contents.len() >= MOST_CONTENTS {
            self.contents.clear();
        }
        self.contents.insert(block, Arc::clone(&content));
        Ok(Some(content))
    }
}
