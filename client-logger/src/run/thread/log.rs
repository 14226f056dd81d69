//! A thread's log: its records, and where its intervals begin and end.

use super::Thread;
use crate::base::options;
use crate::base::process;
use crate::log::code;
use crate::log::ended;
use crate::log::files;
use crate::log::recording;
use crate::log::spare;
use crate::log::writer::Writer;
use crate::picture::epochs;
use crate::run::parts::picture::TOO_FAR_APART;
use bugnet_format::folder;
use bugnet_format::frame::IntervalHeader;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::{COMPARED_FLAGS, RegisterFile};
use bugnet_format::types::{Epoch, IntervalNo};

/// More instructions than a block of code has: see DynamoRIO's option `-max_bb_instrs`.
const MAX_BLOCK: u64 = 256;

impl Thread {
    /// Whether the thread's execution goes into a log.
    pub fn recording(&self) -> bool {
        self.log.writer.is_some() && self.log.paused.is_none()
    }

    /// The thread was ended by another one, or by a signal that another one got: its log ends at the system call in which
    /// it was; else as far as it is known to have come, which is before the block of code in which it was at the latest.
    pub(in crate::run) fn cut_off(&mut self) {
        if self.log.paused.is_some() {
            return;
        }
        match self.syscall.before.take() {
            Some(regs) => self.stop(self.counted() - 1, EndReason::Terminated, *regs),
            None => {
                let known = self.known_position().unwrap_or_default();
                let position = known.max(self.counted().saturating_sub(MAX_BLOCK));
                self.stop(position, EndReason::Terminated, RegisterFile::unknown());
            }
        }
    }

    /// How far the thread has come for sure, if it has a log: to the last record, or where it has last told other threads
    /// that it is; their logs are ordered behind that.
    fn known_position(&self) -> Option<u64> {
        let last = self.log.writer.as_ref()?.last_position();
        let told = self.peer().and_then(|peer| peer.departed_in(self.log.interval.0));
        Some(told.map_or(last, |told| told.max(last)))
    }

    /// Ends recording as far as the thread is known to have come.
    pub fn stop_where_known(&mut self, reason: EndReason) {
        if let Some(position) = self.known_position() {
            self.stop(position, reason, RegisterFile::unknown());
        }
    }

    /// Appends a record at a position, if the thread is recorded.
    pub fn record<'a>(&mut self, position: u64, make: impl FnOnce(u64) -> Record<'a>) {
        if let Some(log) = &mut self.log.writer
            && let Err(why) = log.record(position, make)
        {
            self.stop(position, EndReason::LogStopped { why }, RegisterFile::unknown());
        }
    }

    /// Appends a record, if the thread is recorded; the log does not end where that fails.
    ///
    /// # Errors
    /// A sentence: what is appended from here on is in the log only as far as there is room in its tail.
    pub fn try_record(&mut self, position: u64, record: Record<'_>) -> Result<(), String> {
        self.log.writer.as_mut().map_or(Ok(()), |log| log.record(position, |_| record))
    }

    /// Takes back the record of a system call that never returns: see [`Writer::take_back_call`].
    pub fn take_back_call(&mut self, position: u64) -> Option<bool> {
        self.log.writer.as_mut()?.take_back_call(position)
    }

    pub(in crate::run) fn load(&mut self, position: u64, ordinal: u8, offset: u64, value: &[u8]) {
        if let Some(log) = &mut self.log.writer
            && let Err(why) = log.load(position, ordinal, offset, value)
        {
            self.stop(position, EndReason::LogStopped { why }, RegisterFile::unknown());
        }
    }

    /// Ends recording of this thread for good; the program goes on.
    pub fn stop(&mut self, position: u64, reason: EndReason, regs: RegisterFile) {
        let Some(mut log) = self.log.writer.take() else { return };
        self.log.ended = true;
        self.log.end = position;
        if let EndReason::LogStopped { why } | EndReason::Unsupported { why } = &reason {
            recording::end(why);
        }
        // If this fails, the END is in the tail all the same.
        if log.end(position, reason, regs, &self.reach()).is_ok() {
            ended::keep_for_now(log.finish());
        }
    }

    /// The log cannot be written between two intervals: what it holds is complete, and nothing is added.
    pub(in crate::run) fn give_up(&mut self, why: &str) {
        self.log.ended = true;
        self.log.writer = None;
        recording::end(why);
    }

    /// Recording has ended in another thread, and this one's instrumentation is being taken away.
    pub fn follow_end(&mut self) {
        if !self.log.ended && self.log.paused.is_none() {
            let why = recording::why_over();
            self.stop_where_known(EndReason::Unsupported { why });
        }
        self.log.ended = true;
    }

    /// Ends the interval before something that may or may not come back (`execve`); if it does, the next block begins
    /// the next interval.
    pub fn pause(&mut self, position: u64, reason: EndReason, regs: RegisterFile) {
        let reach = self.reach();
        let Some(log) = &mut self.log.writer else { return };
        if let Err(why) = log.end(position, reason, regs.clone(), &reach) {
            self.give_up(&why);
            return;
        }
        log.rest();
        // Where the call succeeds, nobody else does.
        spare::remove_all();
        self.log.paused = Some(Box::new(regs));
        self.log.instructions_before += position + 1;
        self.log.noted = 0;
        self.log.next_interval(epochs::get().first());
        self.set_counter(0, 0, 0);
    }

    /// Begins the next interval behind [`Self::pause`] without a block, if none has begun. `now`: the registers but for those of
    /// the x87 and vector units, which the call has left as they were.
    pub fn resume(&mut self, now: &RegisterFile) {
        let Some(before) = self.log.paused.take() else { return };
        let mut regs = RegisterFile { gpr: now.gpr, rip: now.rip, rflags: now.rflags, ..*before };
        regs.rflags = regs.rflags & COMPARED_FLAGS | 0x202;
        if let Err(why) = self.checkpoint(regs) {
            self.give_up(&why);
            return;
        }
        self.count.next_check = options::get().check_every;
        // Nothing is left of the call.
        self.syscall.before = None;
    }

    /// The thread is about to forbid itself system calls: nothing of its log is handed over then.
    pub fn take_back_log(&mut self) {
        if let Some(log) = &mut self.log.writer {
            // If this fails, so does the next frame, and the log ends there.
            let _ = log.settle();
        }
    }

    pub(in crate::run) fn checkpoint(&mut self, regs: RegisterFile) -> Result<(), String> {
        let code_pages: Vec<u64> = code::of_process().pages().map(|(address, _)| address).collect();
        self.picture.shadow.clear_for(self.log.interval, process::threaded(), code_pages.into_iter());
        self.loads.density.clear();
        self.loads.populated.clear();
        if !self.picture_code() {
            return Err(TOO_FAR_APART.to_owned());
        }
        if self.log.writer.is_none() {
            self.log.first_interval(epochs::get().first());
        }
        let epoch = self.next_epoch();
        if self.peer().is_none() && epoch != self.log.epoch {
            epochs::get().advance();
        }
        let code = code::of_process();
        let header = IntervalHeader {
            pid: recording::id().pid,
            tid: self.tid,
            interval: self.log.interval,
            sequence: recording::next_checkpoint(),
            code_seq: code.seq(),
            instructions_before: self.log.instructions_before,
            epoch,
            epoch_before: if self.log.interval == IntervalNo(0) { epoch } else { self.log.epoch },
        };
        drop(code);
        self.log.epoch = epoch;
        if let Some(peer) = self.peer() {
            peer.begin(epoch);
        }
        self.set_code_seq(header.code_seq);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // SAFETY: RDTSC is in every x86-64 processor.
        let tsc = unsafe { std::arch::x86_64::_rdtsc() };
        let first = Record::Checkpoint { tsc, unix_nanos: now.as_nanos() as u64, regs: Box::new(regs) };
        match &mut self.log.writer {
            Some(log) => log.begin(&header, &first)?,
            None => {
                let folder = recording::folder().join(folder::thread_folder(self.tid));
                let log = Writer::create(recording::id(), folder.clone(), options::get().keep, &header, &first);
                self.log.writer = Some(log.inspect_err(|_| files::remove_folder(&folder))?);
                recording::note_begun();
            }
        }
        code::of_process().begin_interval(self.tid, epoch, header.code_seq);
        ended::remove_old(epoch);
        Ok(())
    }

    /// The epoch of an interval that would begin now. As long as there is one thread, each begins another one.
    pub(in crate::run) fn next_epoch(&self) -> Epoch {
        match self.peer() {
            None if self.log.writer.is_some() => Epoch(self.log.epoch.0 + 1),
            _ => epochs::get().now(),
        }
    }
}
