//! Puts memory into records.

use crate::base::memory::read_memory;
use crate::log::writer::CHUNK;
use crate::run::thread::Thread;
use bugnet_dr::space::is_tool;
use bugnet_format::record::Record;
use bugnet_format::types::Addr;
use std::ops::Range;

const PAGE: usize = Addr::PAGE as usize;

/// Appends the records of the end of a process to the log of a thread.
pub struct Keeper<'a> {
    thread: &'a mut Thread,
    position: u64,
    /// Bytes that may still be kept.
    left: u64,
    /// What has not been recorded yet, as more of it may follow.
    zeros: Range<u64>,
    omitted: Range<u64>,
    buffer: Vec<u8>,
    /// Why no more can be recorded.
    failed: Option<String>,
}

impl<'a> Keeper<'a> {
    /// For this thread, which ends at this position. At most so many bytes are kept, beside zeros.
    pub fn new(thread: &'a mut Thread, position: u64, limit: u64) -> Self {
        let (zeros, omitted, buffer) = (0..0, 0..0, Vec::with_capacity(CHUNK));
        Self { thread, position, left: limit, zeros, omitted, buffer, failed: None }
    }

    /// Keeps what can be read of whole pages.
    pub fn keep(&mut self, range: Range<u64>) {
        let mut at = range.start;
        while at < range.end && self.failed.is_none() {
            if self.left < Addr::PAGE {
                self.omit(at..range.end);
                return;
            }
            let end = range.end.min(at + CHUNK as u64);
            self.keep_chunk(at..end);
            at = end;
        }
    }

    /// Keeps a range of at most [`CHUNK`] bytes.
    fn keep_chunk(&mut self, range: Range<u64>) {
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.resize((range.end - range.start) as usize, 0);
        let all = read_memory(range.start, &mut bytes);
        // Bytes of pages that follow each other and go into one record.
        let mut run = 0..0;
        for offset in (0..bytes.len()).step_by(PAGE) {
            let (at, page) = (range.start + offset as u64, &mut bytes[offset..offset + PAGE]);
            // One that is behind the end of its file, for example, cannot be read.
            if is_tool(at) || !all && !read_memory(at, page) {
            } else if page.iter().all(|byte| *byte == 0) {
                self.zeros(at..at + Addr::PAGE);
            } else if self.left < Addr::PAGE {
                self.omit(at..at + Addr::PAGE);
            } else {
                self.left -= Addr::PAGE;
                if run.end != offset {
                    self.bytes(range.start, &bytes, std::mem::replace(&mut run, offset..offset));
                }
                run.end = offset + PAGE;
            }
        }
        self.bytes(range.start, &bytes, run);
        self.buffer = bytes;
    }

    /// Records a run of what was read from `start` on.
    fn bytes(&mut self, start: u64, read: &[u8], run: Range<usize>) {
        if !run.is_empty() {
            self.record(Record::Snapshot { addr: Addr(start + run.start as u64), bytes: &read[run] });
        }
    }

    /// These pages hold zeros.
    pub fn zeros(&mut self, range: Range<u64>) {
        if range.start == self.zeros.end {
            self.zeros.end = range.end;
        } else {
            let before = std::mem::replace(&mut self.zeros, range);
            self.part(before, |addr, len| Record::Zeros { addr, len });
        }
    }

    /// These pages are left out.
    pub fn omit(&mut self, range: Range<u64>) {
        if range.start == self.omitted.end {
            self.omitted.end = range.end;
        } else {
            let before = std::mem::replace(&mut self.omitted, range);
            self.part(before, |addr, len| Record::Omitted { addr, len });
        }
    }

    fn part(&mut self, range: Range<u64>, make: impl FnOnce(Addr, u64) -> Record<'static>) {
        if !range.is_empty() {
            self.record(make(Addr(range.start), range.end - range.start));
        }
    }

    fn record(&mut self, record: Record<'_>) {
        if self.failed.is_none() {
            self.failed = self.thread.try_record(self.position, record).err();
        }
    }

    /// Records what is left.
    ///
    /// # Errors
    /// A sentence: not all could be recorded.
    pub fn finish(mut self) -> Result<(), String> {
        self.zeros(0..0);
        self.omit(0..0);
        self.failed.map_or(Ok(()), Err)
    }
}
