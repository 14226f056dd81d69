//! The code picture: which pages of code the replayer has, and the code store that it gets them from.

use crate::writer::LogFile;
use bugnet_dr::sys;
use bugnet_format::code::{self, PAGE};
use bugnet_format::folder::CODE_FILE;
use bugnet_format::frame::encode_frame;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashMap;
use std::path::Path;

/// The code picture of the process.
pub struct Code {
    /// The newest version of each page, and its number.
    pages: HashMap<u64, (CodeSeq, Box<[u8; PAGE]>)>,
    /// The address of each version of a page, in the order of their numbers, from 1.
    history: Vec<u64>,
    /// Frames in this process's own store.
    frames: u32,
    file: LogFile,
    closed: bool,
}

/// Reads the program's memory; `false` if not all of it is readable.
pub fn read_memory(address: u64, out: &mut [u8]) -> bool {
    let mut read = 0;
    // SAFETY: DynamoRIO's safe read catches faults at the source; the target is ours.
    unsafe { sys::dr_safe_read(address as *const _, out.len(), out.as_mut_ptr().cast(), &raw mut read) != 0 }
}

fn create_file(folder: &Path) -> Result<LogFile, String> {
    let mut file = LogFile::create(&folder.join(CODE_FILE))?;
    file.write(&code::encode_header())?;
    Ok(file)
}

impl Code {
    /// Creates the code store in the process's folder.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(folder: &Path) -> Result<Self, String> {
        Ok(Self { file: create_file(folder)?, closed: false, ..Self::closed() })
    }

    /// The code picture of a forked child, whose store has the pages that come from now on; `self`, which the child
    /// has from its parent, is empty afterwards.
    ///
    /// # Errors
    /// A sentence.
    pub fn fork(&mut self, folder: &Path) -> Result<Self, String> {
        let file = create_file(folder)?;
        let (pages, history) = (std::mem::take(&mut self.pages), std::mem::take(&mut self.history));
        Ok(Self { pages, history, frames: 0, file, closed: false })
    }

    /// A code picture that stays empty, without a store.
    pub fn closed() -> Self {
        Self { pages: HashMap::new(), history: Vec::new(), frames: 0, file: LogFile::none(), closed: true }
    }

    /// The newest code picture.
    pub fn seq(&self) -> CodeSeq {
        CodeSeq(self.history.len() as u64)
    }

    /// Every page of the newest code picture: address and bytes.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[u8; PAGE])> {
        self.pages.iter().map(|(address, (_, bytes))| (*address, &**bytes))
    }

    /// The pages by which the newest code picture differs from an older one: address and bytes.
    pub fn pages_since(&self, seq: CodeSeq) -> impl Iterator<Item = (u64, &[u8; PAGE])> {
        let addresses = self.history.get(seq.0 as usize..).unwrap_or_default();
        addresses.iter().filter_map(|address| Some((*address, &*self.pages.get(address)?.1)))
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
            let mut raw = Vec::with_capacity(code::CODE_PAGE_SIZE);
            code::encode_page(seq, Addr(page), &now, &mut raw);
            let mut frame = Vec::new();
            encode_frame(self.frames, &raw, 1, &mut frame).map_err(|e| e.to_string())?;
            self.file.write(&frame)?;
            self.frames += 1;
            self.history.push(page);
            self.pages.insert(page, (seq, Box::new(now)));
            needed = seq;
        }
        Ok(needed)
    }

    /// Closes the code store; code is no longer observed.
    pub fn close(&mut self) {
        self.file.close();
        self.closed = true;
    }
}
