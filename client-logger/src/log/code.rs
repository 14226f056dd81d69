//! The code picture: which pages of code the replayer has, and the code store that it gets them from.

pub mod needed;

use crate::base::descriptors;
use crate::base::lock::{Mutex, MutexGuard};
use crate::base::memory::read_memory;
use crate::base::process::OfProcess;
use crate::log::file::LogFile;
use bugnet_format::code::{self, CodePage, CodeStore, PAGE};
use bugnet_format::folder::CODE_FILE;
use bugnet_format::frame::{Packer, stored_frame};
use bugnet_format::types::{Addr, CodeSeq, Epoch, Tid};
use hashbrown::HashMap;
use needed::Needed;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// The store is written anew once it has so many pages more than twice what it had then.
const TRIM: u64 = 256;
/// zstd's level.
const LEVEL: i32 = 1;
/// So many pages are not compressed when they come: each program's start has them, and most programs are short.
const STORED: u32 = 64;
/// Pages in a frame of a store that is written anew.
const PAGES_OF_FRAME: usize = 64;

/// The code picture of the process.
pub struct Code {
    /// The newest version of each page, and its number.
    pages: HashMap<u64, (CodeSeq, Box<[u8; PAGE]>)>,
    /// The address of each version of a page behind the first `forgotten`, in the order of their numbers.
    history: VecDeque<u64>,
    forgotten: u64,
    needed: Needed,
    /// Where this process's own store is.
    path: PathBuf,
    store: Store,
    /// Pages in it.
    stored: u64,
    /// With more pages than this, it is written anew.
    most: u64,
    closed: bool,
}

/// The process's.
static CODE: OfProcess<Mutex<Code>> = OfProcess::none();

/// The code picture of the process.
pub fn of_process() -> MutexGuard<'static, Code> {
    CODE.get().lock()
}

/// A process begins, or a forked child goes on, with this code picture.
pub fn begin(code: Code) {
    CODE.set(Mutex::new(code));
}

/// The code store's file.
struct Store {
    file: LogFile,
    /// Once it is needed.
    packer: Option<Packer>,
    frames: u32,
}

impl Store {
    fn create(path: &Path) -> Result<Self, String> {
        let mut file = LogFile::create(path)?;
        file.write(&code::encode_header())?;
        Ok(Self { file, packer: None, frames: 0 })
    }

    fn none() -> Self {
        Self { file: LogFile::none(), packer: None, frames: 0 }
    }

    /// Appends a page.
    fn append(&mut self, seq: CodeSeq, address: u64, bytes: &[u8; PAGE]) -> Result<(), String> {
        if self.frames >= STORED {
            return self.append_packed([(seq, address, bytes)]);
        }
        let (mut raw, mut frame) = (Vec::new(), Vec::new());
        code::encode_page(seq, Addr(address), bytes, &mut raw);
        stored_frame(self.frames, &raw, &mut frame);
        self.write(&frame)
    }

    /// Appends a frame of pages.
    fn append_packed<'a>(
        &mut self,
        pages: impl IntoIterator<Item = (CodeSeq, u64, &'a [u8; PAGE])>,
    ) -> Result<(), String> {
        let (mut raw, mut frame) = (Vec::new(), Vec::new());
        for (seq, address, bytes) in pages {
            code::encode_page(seq, Addr(address), bytes, &mut raw);
        }
        let packer = match &mut self.packer {
            Some(packer) => packer,
            none => none.insert(Packer::new(LEVEL).map_err(|e| e.to_string())?),
        };
        packer.frame(self.frames, &raw, &mut frame).map_err(|e| e.to_string())?;
        self.write(&frame)
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), String> {
        self.file.write(frame)?;
        self.frames += 1;
        Ok(())
    }

    fn close(&mut self) {
        self.file.close();
        self.packer = None;
    }

    fn abandon(&mut self) {
        self.file.abandon();
        self.packer = None;
    }
}

impl Code {
    /// Creates the code store in the process's folder, for a log in which so many intervals of each thread are kept; 0
    /// for all.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(folder: &Path, keep: u64) -> Result<Self, String> {
        let path = folder.join(CODE_FILE);
        let store = Store::create(&path)?;
        Ok(Self { path, store, needed: Needed::new(keep), closed: false, ..Self::closed() })
    }

    /// The code picture of a forked child, whose store has the pages that come from now on; `self`, which the child
    /// has from its parent, is empty afterwards.
    ///
    /// # Errors
    /// A sentence.
    pub fn fork(&mut self, folder: &Path) -> Result<Self, String> {
        let fresh = Self::create(folder, self.needed.keep())?;
        let (pages, history) = (std::mem::take(&mut self.pages), std::mem::take(&mut self.history));
        Ok(Self { pages, history, forgotten: self.forgotten, ..fresh })
    }

    /// A code picture that stays empty, without a store.
    pub fn closed() -> Self {
        Self {
            pages: HashMap::new(),
            history: VecDeque::new(),
            forgotten: 0,
            needed: Needed::default(),
            path: PathBuf::new(),
            store: Store::none(),
            stored: 0,
            most: TRIM,
            closed: true,
        }
    }

    /// The newest code picture.
    pub fn seq(&self) -> CodeSeq {
        CodeSeq(self.forgotten + self.history.len() as u64)
    }

    /// Every page of the newest code picture: address and bytes.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[u8; PAGE])> {
        self.pages.iter().map(|(address, (_, bytes))| (*address, &**bytes))
    }

    /// The pages by which the newest code picture differs from an older one: address and bytes.
    pub fn pages_since(&self, seq: CodeSeq) -> impl Iterator<Item = (u64, &[u8; PAGE])> {
        let known = seq.0.saturating_sub(self.forgotten).min(self.history.len() as u64);
        self.history.range(known as usize..).filter_map(|address| Some((*address, &*self.pages.get(address)?.1)))
    }

    /// Code at these addresses is about to run: makes sure that the picture has it. Returns the oldest picture that
    /// has it.
    ///
    /// # Errors
    /// The code store cannot be written.
    pub fn observe(&mut self, start: u64, len: u64) -> Result<CodeSeq, String> {
        let mut needed = CodeSeq(0);
        if self.closed {
            return Ok(needed);
        }
        let mut now = [0; PAGE];
        let first = Addr(start).page().0;
        let last = Addr(start + len.max(1) - 1).page().0;
        for page in (first..=last).step_by(PAGE) {
            let from = start.max(page);
            let to = (start + len).min(page + PAGE as u64);
            let range = (from - page) as usize..(to - page) as usize;
            let part = &mut now[range.clone()];
            if !read_memory(from, part) {
                continue;
            }
            if let Some((seq, known)) = self.pages.get(&page)
                && known[range.clone()] == *part
            {
                needed = needed.max(*seq);
                continue;
            }
            if !read_memory(page, &mut now) {
                continue;
            }
            let seq = CodeSeq(self.seq().0 + 1);
            self.store.append(seq, page, &now)?;
            self.stored += 1;
            self.history.push_back(page);
            self.pages.insert(page, (seq, Box::new(now)));
            needed = seq;
        }
        Ok(needed)
    }

    /// A thread has begun an interval of this epoch with the code picture `seq`, and those of epochs that are not kept are gone. Pages of
    /// which the log has no need any more leave the store now and then.
    pub fn begin_interval(&mut self, tid: Tid, epoch: Epoch, seq: CodeSeq) {
        if self.needed.keep() == 0 || self.closed {
            return;
        }
        self.needed.begin(tid, epoch, seq);
        if let Some(oldest) = self.needed.oldest() {
            let old = oldest.0.saturating_sub(self.forgotten).min(self.history.len() as u64);
            self.history.drain(..old as usize);
            self.forgotten += old;
        }
        if self.stored > self.most {
            // Where that fails (a full disk), the store stays as it is.
            if self.trim().is_err() {
                let _ = std::fs::remove_file(self.path.with_extension("bnc.new"));
            }
            self.most = 2 * self.stored + TRIM;
        }
    }

    /// A thread has ended.
    pub fn end_thread(&mut self, tid: Tid) {
        let now = self.seq();
        self.needed.end(tid, now);
    }

    /// A process may be forked.
    pub fn before_fork(&mut self) {
        let now = self.seq();
        self.needed.before_fork(now);
    }

    /// It has been, or has not.
    pub fn after_fork(&mut self) {
        let now = self.seq();
        self.needed.after_fork(now);
    }

    /// Writes the store anew without pages that are not needed, and puts that into its place.
    fn trim(&mut self) -> Result<(), String> {
        let failed = |e: std::io::Error| e.to_string();
        let bytes = descriptors::read(&self.path).map_err(failed)?;
        let mut pages = CodeStore::decode(&bytes, Vec::new(), &self.path).map_err(|e| e.to_string())?.pages;
        drop(bytes);
        let mut next = HashMap::new();
        let mut needed = |page: &CodePage| self.needed.has(page.seq, next.insert(page.addr, page.seq));
        let keep: Vec<bool> = pages.iter().rev().map(&mut needed).collect();
        let mut keep = keep.into_iter().rev();
        pages.retain(|_| keep.next().unwrap_or(true));
        let new = self.path.with_extension("bnc.new");
        let mut store = Store::create(&new)?;
        for part in pages.chunks(PAGES_OF_FRAME) {
            store.append_packed(part.iter().map(|page| (page.seq, page.addr.0, &*page.bytes)))?;
        }
        std::fs::rename(&new, &self.path).map_err(failed)?;
        self.store.close();
        (self.store, self.stored) = (store, pages.len() as u64);
        Ok(())
    }

    /// Lets go of the other process's store, in a child that was just forked.
    pub fn abandon(&mut self) {
        self.store.abandon();
        self.closed = true;
    }

    /// Closes the code store; code is no longer observed.
    pub fn close(&mut self) {
        self.store.close();
        self.closed = true;
    }
}
