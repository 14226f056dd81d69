//! One recorded thread in a merged replay.

use super::picture::{CodePages, Picture};
use super::requests::Buffer;
use bugnet_format::merged::{MergedInterval, MergedThread};
use bugnet_format::record::{Placed, Record, Records};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{CodeSeq, Tid};
use std::rc::Rc;

/// A thread: its records, where it is in them, and what it knows of memory. Counts of instructions are those since its
/// recording began.
pub struct Thread {
    intervals: std::vec::IntoIter<MergedInterval<'static>>,
    records: Records<'static>,
    /// The record that is due next; none where the records end.
    pub next: Option<Placed<'static>>,
    /// Instructions before the present interval.
    before: u64,
    /// Instructions executed.
    pub at: u64,
    /// All registers, while another thread runs.
    pub regs: RegisterFile,
    /// The system call that is due, if it has begun: which memory it may have changed.
    pub call: Option<Vec<Buffer>>,
    /// Its id.
    pub tid: Tid,
    /// From so many instructions on, it may have seen what the log does not hold.
    pub unknown_from: u64,
    /// Address of the head of its list of robust futexes; 0 if it has none.
    pub robust: u64,
    /// Its picture of memory.
    pub picture: Picture,
    /// Whether it has ended, or its log does here.
    pub over: bool,
}

/// An interval that begins: its registers and its code picture.
pub struct Beginning {
    /// What the checkpoint says.
    pub regs: RegisterFile,
    /// The interval.
    pub interval: MergedInterval<'static>,
}

impl Thread {
    /// The thread at the start of its first interval.
    ///
    /// # Errors
    /// The interval does not begin with a checkpoint, or there is none.
    pub fn new(thread: MergedThread<'static>, code: &Rc<CodePages>) -> Result<Self, String> {
        let first = thread.intervals.first().ok_or_else(|| format!("thread {} has no interval", thread.tid))?;
        let mut new = Self {
            picture: Picture::new(Rc::clone(code), first.code_seq),
            intervals: thread.intervals.into_iter(),
            records: Records::new(&[]),
            next: None,
            before: 0,
            at: 0,
            regs: RegisterFile::default(),
            call: None,
            tid: thread.tid,
            unknown_from: thread.unknown_from,
            robust: 0,
            over: false,
        };
        let beginning = new.begin()?.ok_or("no interval")?;
        new.regs = beginning.regs;
        Ok(new)
    }

    /// Goes over to the next interval; `None` if there is none.
    ///
    /// # Errors
    /// It does not begin with a checkpoint.
    pub fn begin(&mut self) -> Result<Option<Beginning>, String> {
        let Some(interval) = self.intervals.next() else { return Ok(None) };
        self.records = interval.records();
        self.before = interval.before;
        self.at = interval.before;
        self.read()?;
        let Some(Placed { record: Record::Checkpoint { regs, .. }, .. }) = self.next.take() else {
            return Err(format!("interval {} does not begin with a checkpoint", interval.interval));
        };
        self.picture.reset(interval.code_seq);
        self.read()?;
        Ok(Some(Beginning { regs: *regs, interval }))
    }

    /// The thread has come to its end: what it knows of memory is not needed any more.
    pub fn finish(&mut self) {
        self.over = true;
        self.picture.reset(self.picture.seq());
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// It is damaged.
    pub fn read(&mut self) -> Result<(), String> {
        let damaged =
            |e: bugnet_format::record::RecordError| format!("damaged record at byte {}: {}", e.offset, e.reason);
        self.next = self.records.next().transpose().map_err(damaged)?;
        Ok(())
    }

    /// Takes the next record if it is due.
    pub fn due(&mut self) -> Option<Placed<'static>> {
        let at = self.at;
        let before = self.before;
        self.next.take_if(|next| before.saturating_add(next.position.0) <= at)
    }

    /// The code picture that comes into force behind the next instruction, if one does: see
    /// [`crate::replay::Replay::code_behind_this`].
    pub fn code_behind_this(&self) -> Option<CodeSeq> {
        match self.next.as_ref()? {
            Placed { record: Record::Code { seq, .. }, .. } if self.next_at() == Some(self.at + 1) => Some(*seq),
            _ => None,
        }
    }

    /// Instruction count at which there is something to do next: before the instruction behind which there is new code.
    pub fn wanted_at(&self) -> Option<u64> {
        let next = self.next_at()?;
        let code = matches!(self.next, Some(Placed { record: Record::Code { .. }, .. }));
        Some(next - u64::from(code && next > self.at + 1))
    }

    /// Instruction count at which the next record is due.
    pub fn next_at(&self) -> Option<u64> {
        self.next.as_ref().map(|next| self.before.saturating_add(next.position.0))
    }
}
