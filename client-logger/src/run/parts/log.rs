//! What a thread writes.

use crate::log::writer::Writer;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Epoch, IntervalNo};

/// What a thread writes, and where it is in that.
pub struct Log {
    /// None before the first checkpoint, and none any more once recording has ended.
    pub writer: Option<Writer>,
    pub interval: IntervalNo,
    /// The epoch from whose number on its intervals have theirs.
    pub first: Epoch,
    /// The epoch of its interval, or of the last one.
    pub epoch: Epoch,
    pub instructions_before: u64,
    /// Position up to which [`crate::picture::epochs`] has been told what the thread executes.
    pub noted: u64,
    /// Position at which recording ended.
    pub end: u64,
    /// The registers with which the last interval ended, if the log is between two.
    pub paused: Option<Box<RegisterFile>>,
    /// Whether recording has ended, and must not begin again.
    pub ended: bool,
}

impl Log {
    /// None yet; the first interval has this number.
    pub fn new(ended: bool, first: u64) -> Self {
        let (interval, epoch, paused) = (IntervalNo(first), Epoch(0), None);
        let first = Epoch(first);
        Self { writer: None, interval, first, epoch, instructions_before: 0, noted: 0, end: 0, paused, ended }
    }

    /// The first interval, which is in the epochs that have begun with this one; of a thread that did something before what is known, not interval 0.
    pub fn first_interval(&mut self, first: Epoch) {
        if self.interval.0 > 0 {
            self.interval = IntervalNo(first.0);
        }
        self.first = first;
    }

    /// The next interval, which is in the epochs that have begun with this one.
    pub fn next_interval(&mut self, first: Epoch) {
        (self.interval, self.first) = (self.following(first), first);
    }

    /// The number of that.
    pub fn following(&self, first: Epoch) -> IntervalNo {
        IntervalNo(if first > self.first { first.0 } else { self.interval.0 + 1 })
    }

    /// In a forked child: there is none yet. The one so far is the parent's.
    pub fn forked(&mut self, ended: bool) {
        if let Some(writer) = self.writer.take() {
            writer.abandon();
        }
        *self = Self { end: self.end, ..Self::new(ended, 0) };
    }
}
