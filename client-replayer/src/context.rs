//! One recorded thread: its records, where it is in them, and its registers while another one runs.

use bugnet_format::control::Counts;
use bugnet_format::package::{PackageInterval, PackageThread};
use bugnet_format::record::{Placed, Record, Records};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{CodeSeq, Position, Tid};

/// A thread. Counts of instructions are those since its recording began.
pub struct Context {
    /// Its id.
    pub tid: Tid,
    /// From so many instructions on, it may have seen what the log does not hold.
    pub unknown_from: u64,
    intervals: std::vec::IntoIter<PackageInterval<'static>>,
    records: Records<'static>,
    /// The record that is due next; none where the records end, or are damaged.
    pub next: Option<Placed<'static>>,
    /// Instruction count at which it is due; none is due at `u64::MAX`.
    pub next_at: u64,
    /// What is wrong with the log behind the last record that could be read.
    pub damage: Option<String>,
    /// Instructions before the present interval.
    before: u64,
    /// Instructions executed, while another thread runs.
    pub at: u64,
    /// Instructions executed before the first interval.
    pub start: u64,
    /// Counters, but for the instructions.
    pub counts: Counts,
    /// All registers, while another thread runs.
    pub regs: RegisterFile,
    /// The code picture that is in force for it.
    pub code_seq: CodeSeq,
    /// Whether it has ended, or its log does here.
    pub over: bool,
}

/// An interval that begins: its registers and its code picture.
pub struct Beginning {
    /// What the checkpoint says.
    pub regs: RegisterFile,
    /// The code picture.
    pub code_seq: CodeSeq,
}

impl Context {
    /// The thread at the start of its first interval.
    ///
    /// # Errors
    /// There is none, or it does not begin with a checkpoint.
    pub fn new(thread: PackageThread<'static>) -> Result<Self, String> {
        let mut new = Self {
            tid: thread.tid,
            unknown_from: thread.unknown_from,
            intervals: thread.intervals.into_iter(),
            records: Records::new(&[]),
            next: None,
            next_at: u64::MAX,
            damage: None,
            before: 0,
            at: 0,
            start: 0,
            counts: Counts::default(),
            regs: RegisterFile::default(),
            code_seq: CodeSeq(0),
            over: false,
        };
        let first = new.begin()?.ok_or_else(|| format!("thread {} has no interval", new.tid))?;
        new.regs = first.regs;
        new.start = new.at;
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
        self.read();
        let Some(Placed { record: Record::Checkpoint { regs, .. }, .. }) = self.next.take() else {
            return Err("the interval does not begin with a checkpoint".into());
        };
        self.code_seq = interval.code_seq;
        self.read();
        Ok(Some(Beginning { regs: *regs, code_seq: interval.code_seq }))
    }

    /// Its counters, after `at` instructions.
    pub fn counts(&self, at: u64) -> Counts {
        Counts { instructions: at - self.start, ..self.counts }
    }

    /// The system call with which the next interval begins, if it does.
    pub fn call_of_next_interval(&self) -> Option<Record<'static>> {
        let records = self.intervals.as_slice().first()?.records().map_while(Result::ok);
        let mut first = records.take_while(|placed| placed.position == Position(0)).map(|placed| placed.record);
        first.find(|record| matches!(record, Record::Syscall { .. }))
    }

    /// Reads the next record.
    pub fn read(&mut self) {
        self.next = match self.records.next() {
            Some(Ok(placed)) => Some(placed),
            Some(Err(e)) => {
                self.damage = Some(format!("damaged record at byte {} of the interval: {}", e.offset, e.reason));
                None
            }
            None => None,
        };
        self.next_at = self.next.as_ref().map_or(u64::MAX, |next| self.before.saturating_add(next.position.0));
    }

    /// Takes the next record if it is due after `at` instructions.
    #[inline]
    pub fn due(&mut self, at: u64) -> Option<Placed<'static>> {
        if self.next_at <= at { self.next.take() } else { None }
    }

    /// The code picture that comes into force behind the instruction that is next after `at` others, if one does.
    ///
    /// It is put in place before that instruction: when that has been executed, DynamoRIO looks at what is there before
    /// the client is asked. Where that is no code, it makes it a signal, and x87 exception flags are lost on the way.
    pub fn code_behind(&self, at: u64) -> Option<CodeSeq> {
        match self.next.as_ref()? {
            Placed { record: Record::Code { seq, .. }, .. } if self.next_at == at + 1 => Some(*seq),
            _ => None,
        }
    }

    /// Instruction count at which there is something to do next, after `at` instructions: before the instruction behind which
    /// there is new code.
    pub fn wanted_at(&self, at: u64) -> u64 {
        let early = self.next_at > at + 1 && matches!(self.next, Some(Placed { record: Record::Code { .. }, .. }));
        self.next_at - u64::from(early)
    }
}
