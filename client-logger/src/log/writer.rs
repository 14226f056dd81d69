//! Writes a thread's log: interval files, their frames, and the tails that outlive the process.
//!
//! A tail that is full is handed over to `bugnet record`, which compresses it while the thread goes on in the other one. When the
//! thread needs it again, its frame is in the file, or the thread writes it itself: see [`bugnet_handover`].

mod frames;

use crate::log::code::needed::is_kept;
use crate::log::file::{self, LogFile};
use crate::log::files;
use crate::log::handover;
use crate::log::recording;
use crate::log::spare;
use crate::log::tail::Tail;
use bugnet_format::folder::interval_file;
use bugnet_format::frame::{IntervalHeader, TailHeader};
use bugnet_format::record::{EndReason, Record, SignalStep, encode_load};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, Epoch, IntervalNo, ProcessId, Tid};
use bugnet_handover::{Handover, Job, Settled, Ticket};
use frames::Frames;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is kept free in a tail, for the records that end an interval.
const TAIL_RESERVE: usize = 64 << 10;
/// Most `REACH` records of an interval; where there would be more, there are none.
const MOST_REACH: usize = 1024;
/// Most bytes of memory in one record.
pub const CHUNK: usize = 32 << 10;
/// So long a frame that was handed over is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Fewer bytes of records than this are compressed sooner than they are handed over.
const WORTH_IT: usize = 64 << 10;

/// A frame that is handed over, whose records are in the other tail.
struct Pending {
    handover: Handover,
    ticket: Ticket,
    frame: u32,
    /// Its file, if that is the interval's before.
    before: Option<Frames>,
}

/// The log of a thread.
pub struct Writer {
    process: ProcessId,
    tid: Tid,
    folder: PathBuf,
    keep: u64,
    interval: IntervalNo,
    /// The interval's epoch.
    epoch: Epoch,
    /// The intervals that are there, with their epochs, if only the last epochs are kept.
    kept: VecDeque<(IntervalNo, Epoch)>,
    frames: Frames,
    /// The next interval's file, if it is there already.
    next: Option<LogFile>,
    /// Number of the next frame, whose records are in `tail`.
    frame: u32,
    tail: Tail,
    /// Whether there is no tail now.
    resting: bool,
    /// The other one, once there is one: with the frame that is handed over, or old.
    other: Option<Tail>,
    pending: Option<Pending>,
    /// Whether nothing is handed over any more.
    alone: bool,
    /// Position of the last record.
    last: u64,
    /// 1 if the last record stands for an instruction that counts as executed, else 0.
    executed: u64,
    /// The last record, if it is of a system call that a signal has interrupted.
    interrupted: Option<Interrupted>,
    scratch: Vec<u8>,
}

/// What there is of a thread that has ended.
pub struct Ended {
    folder: PathBuf,
    /// Its intervals, if only the last epochs are kept.
    intervals: Vec<IntervalNo>,
    /// The epoch of the last one.
    pub epoch: Epoch,
}

impl Ended {
    /// Takes it away.
    pub fn remove(self) {
        spare::remove_in(&self.folder);
        for interval in self.intervals {
            let _ = std::fs::remove_file(self.folder.join(interval_file(interval)));
        }
        let _ = std::fs::remove_dir(self.folder);
    }
}

/// The record of a system call that a signal has interrupted, and what was before it.
struct Interrupted {
    position: u64,
    last: u64,
    executed: u64,
    /// Bytes of the tail that were used; none if the record is in a frame.
    used: Option<usize>,
}

/// One of the tails of the thread with this folder, without records.
fn new_tail(folder: &Path, number: usize) -> Result<Tail, String> {
    spare::take(folder, number).map_or_else(|| Tail::create(folder, number), Ok)
}

impl Writer {
    /// Creates the thread's folder and begins its first interval.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(
        process: ProcessId,
        folder: PathBuf,
        keep: u64,
        header: &IntervalHeader,
        checkpoint: &Record<'_>,
    ) -> Result<Self, String> {
        files::create_folder(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let tail = new_tail(&folder, 0)?;
        let mut writer = Self {
            process,
            tid: header.tid,
            folder,
            keep,
            interval: header.interval,
            epoch: header.epoch,
            kept: VecDeque::new(),
            frames: Frames::none(),
            next: None,
            frame: 0,
            tail,
            resting: false,
            other: None,
            pending: None,
            alone: false,
            last: 0,
            executed: 0,
            interrupted: None,
            scratch: Vec::new(),
        };
        writer.begin(header, checkpoint)?;
        Ok(writer)
    }

    /// Name of an interval's file as long as it has nothing in it.
    fn new_file(&self, interval: IntervalNo) -> PathBuf {
        self.folder.join(interval_file(interval)).with_extension("new")
    }

    /// Makes sure that the next interval can begin: to be asked before the present one ends as full.
    ///
    /// # Errors
    /// A sentence: there is no room for it.
    pub fn prepare_next(&mut self, next: IntervalNo) -> Result<(), String> {
        match Frames::prepare(&self.new_file(next)) {
            Ok(next) => self.next = Some(next),
            // It is made when the present interval's file is closed, and gets its descriptor.
            Err(_) if file::descriptors_are_used_up() => {}
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// Begins an interval.
    ///
    /// # Errors
    /// A sentence.
    pub fn begin(&mut self, header: &IntervalHeader, checkpoint: &Record<'_>) -> Result<(), String> {
        (self.interval, self.epoch) = (header.interval, header.epoch);
        self.frame = 0;
        self.last = 0;
        self.executed = 0;
        self.interrupted = None;
        if std::mem::take(&mut self.resting) {
            self.tail = new_tail(&self.folder, 0)?;
        }
        self.tail.reset(TailHeader { interval: header.interval, frame: 0 });
        self.scratch.clear();
        checkpoint.encode(&mut self.scratch);
        self.tail.push(&self.scratch);
        // The file gets its name when it has its header and the tail its first record: a reader never meets an
        // interval with nothing in it.
        let path = self.folder.join(interval_file(header.interval));
        let new = self.new_file(header.interval);
        let prepared = self.next.take().map_or_else(|| Frames::prepare(&new), Ok)?;
        if let Some(pending) = &mut self.pending {
            pending.before = Some(std::mem::replace(&mut self.frames, Frames::none()));
        }
        self.frames.begin(prepared, header)?;
        std::fs::rename(&new, &path).map_err(|e| format!("{}: {e}", path.display()))?;
        if self.keep > 0 {
            while let Some((old, _)) = self.kept.pop_front_if(|(_, epoch)| !is_kept(*epoch, self.keep, header.epoch)) {
                let _ = std::fs::remove_file(self.folder.join(interval_file(old)));
            }
            self.kept.push_back((header.interval, header.epoch));
        }
        Ok(())
    }

    fn push(&mut self) -> Result<(), String> {
        self.tail.push(&self.scratch);
        if self.tail.free() < TAIL_RESERVE { self.flush() } else { Ok(()) }
    }

    /// Appends the record that `make` returns for its distance from the record before.
    ///
    /// # Errors
    /// A sentence: a frame was due, and could not be written.
    pub fn record<'a>(&mut self, position: u64, make: impl FnOnce(u64) -> Record<'a>) -> Result<(), String> {
        let record = make(position - self.last);
        let (used, last, executed) = (self.tail.used(), self.last, self.executed);
        // Some kinds have no position of their own and do not move it.
        self.last += record.delta();
        self.executed = match &record {
            Record::Syscall { .. } | Record::Special { .. } | Record::Signal { step: SignalStep::Return, .. } => 1,
            record if record.has_position() => 0,
            _ => self.executed,
        };
        self.scratch.clear();
        record.encode(&mut self.scratch);
        self.push()?;
        let interrupted = matches!(record, Record::Syscall { result, .. } if result == -i64::from(libc::EINTR));
        self.interrupted = interrupted.then(|| {
            // If the tail was full, it has been emptied.
            let used = (self.tail.used() == used + self.scratch.len()).then_some(used);
            Interrupted { position, last, executed, used }
        });
        Ok(())
    }

    /// The system call at `position`, which a signal has interrupted, never returns, since the signal kills: takes its record
    /// back. `None` if that is not the last record, `Some(false)` if it is in a frame already, and stays.
    pub fn take_back_call(&mut self, position: u64) -> Option<bool> {
        let Interrupted { last, executed, used, .. } = self.interrupted.take_if(|call| call.position == position)?;
        let Some(used) = used else { return Some(false) };
        self.tail.cut(used);
        (self.last, self.executed) = (last, executed);
        Some(true)
    }

    /// Appends a `LOAD` record.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn load(&mut self, position: u64, ordinal: u8, offset: u64, value: &[u8]) -> Result<(), String> {
        self.scratch.clear();
        encode_load(&mut self.scratch, position - self.last, ordinal, offset, value);
        self.last = position;
        self.executed = 0;
        self.interrupted = None;
        self.push()
    }

    /// The position up to which replay comes with the records that there are.
    pub fn last_position(&self) -> u64 {
        self.last + self.executed
    }

    /// The tail is full: makes room for records.
    fn flush(&mut self) -> Result<(), String> {
        self.settle()?;
        if self.hand_over() { Ok(()) } else { self.write() }
    }

    /// Hands the tail over and goes on in the other one, which is old. `false` if that is not possible.
    fn hand_over(&mut self) -> bool {
        let Some(handover) = handover::get().filter(|_| !self.alone) else { return false };
        if self.other.is_none() {
            // Where there is no room for it, there is little for the log.
            self.other = new_tail(&self.folder, 1 - self.tail.number()).ok();
        }
        let Some(other) = &mut self.other else {
            self.alone = true;
            return false;
        };
        let job = Job {
            process: self.process,
            tid: self.tid,
            tail: self.tail.number() as u32,
            interval: self.interval,
            frame: self.frame,
            bytes: self.tail.used() as u32,
            offset: self.frames.written(),
        };
        let Some(ticket) = handover.offer(&job) else { return false };
        self.pending = Some(Pending { handover, ticket, frame: self.frame, before: None });
        std::mem::swap(&mut self.tail, other);
        self.frame += 1;
        self.tail.reset(TailHeader { interval: self.interval, frame: self.frame });
        true
    }

    /// Sees to it that the frame that was handed over is in the file.
    ///
    /// # Errors
    /// A sentence; the frame's records are in the other tail.
    pub fn settle(&mut self) -> Result<(), String> {
        let Some(Pending { handover, ticket, frame, mut before }) = self.pending.take() else { return Ok(()) };
        let settled = handover.settle(ticket, PATIENCE);
        self.alone |= settled == Settled::Failed;
        let frames = before.as_mut().unwrap_or(&mut self.frames);
        let done = match (settled, &self.other) {
            (Settled::TakenBack | Settled::Failed, Some(other)) => frames.append(frame, other.records()),
            _ => frames.skip(),
        };
        if let Some(mut before) = before {
            before.close();
            if done.is_err() {
                // The other tail is needed for good.
                self.frames.give_up();
            }
        }
        done
    }

    /// Writes the tail's frame. Nothing is handed over.
    fn write(&mut self) -> Result<(), String> {
        self.frames.append(self.frame, self.tail.records())?;
        self.frame += 1;
        self.tail.reset(TailHeader { interval: self.interval, frame: self.frame });
        Ok(())
    }

    /// Ends the interval, in which memory was accessed in these parts of the address space, and which none follows, or one
    /// behind an `execve` that fails.
    ///
    /// # Errors
    /// A sentence; the interval's records are in the tail nevertheless.
    pub fn end(
        &mut self,
        position: u64,
        reason: EndReason,
        regs: RegisterFile,
        reach: &[Range<u64>],
    ) -> Result<(), String> {
        self.finish_interval(position, reason, regs, reach, false)
    }

    /// Ends the interval as [`Self::end`], where one of the epoch `next` is to follow. Its last frame may be handed over.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub fn end_full(
        &mut self,
        position: u64,
        regs: RegisterFile,
        reach: &[Range<u64>],
        next: Epoch,
    ) -> Result<(), String> {
        // What is about to be deleted is not handed over.
        let may_wait = is_kept(self.epoch, self.keep, next);
        self.finish_interval(position, EndReason::Full, regs, reach, may_wait)
    }

    fn finish_interval(
        &mut self,
        position: u64,
        reason: EndReason,
        regs: RegisterFile,
        reach: &[Range<u64>],
        may_wait: bool,
    ) -> Result<(), String> {
        let delta = position - self.last;
        self.scratch.clear();
        for part in reach.iter().filter(|_| reach.len() <= MOST_REACH) {
            Record::Reach { addr: Addr(part.start), len: part.end - part.start }.encode(&mut self.scratch);
        }
        let full = reason == EndReason::Full;
        if !full {
            self.forget_next();
        }
        let end = |reason: EndReason, regs| Record::End { delta, reason, regs: Box::new(regs) };
        end(reason, regs.clone()).encode(&mut self.scratch);
        let used = self.tail.used();
        self.tail.push(&self.scratch);
        let may_wait = may_wait && self.tail.used() >= WORTH_IT;
        let done = self.settle().and_then(|()| if may_wait && self.hand_over() { Ok(()) } else { self.write() });
        if let Err(why) = done {
            if full {
                // There will be no next interval.
                self.forget_next();
                self.scratch.clear();
                end(EndReason::LogStopped { why: why.clone() }, regs).encode(&mut self.scratch);
                self.tail.cut(used);
                self.tail.push(&self.scratch);
            }
            return Err(why);
        }
        if self.pending.is_none() {
            self.frames.close();
        }
        Ok(())
    }

    /// No interval follows.
    fn forget_next(&mut self) {
        if let Some(mut file) = self.next.take() {
            file.close();
            let _ = std::fs::remove_file(self.new_file(IntervalNo(self.interval.0 + 1)));
        }
    }

    /// The thread's tails.
    fn tails(&mut self) -> impl Iterator<Item = &mut Tail> {
        std::iter::once(&mut self.tail).chain(&mut self.other)
    }

    /// An interval has ended, and maybe none follows: takes the tails away.
    pub fn rest(&mut self) {
        self.tails().for_each(Tail::remove);
        self.other = None;
        self.resting = true;
    }

    /// The thread has ended and all is in its interval files.
    pub fn finish(self) -> Ended {
        std::iter::once(self.tail).chain(self.other).for_each(|tail| spare::keep(tail, recording::over));
        let intervals = self.kept.iter().map(|(interval, _)| *interval).collect();
        Ended { folder: self.folder, intervals, epoch: self.epoch }
    }

    /// Lets go of everything without a trace in the log: this is a forked child's copy.
    pub fn abandon(mut self) {
        self.tails().for_each(Tail::unmap);
        self.frames.abandon();
        if let Some(mut before) = self.pending.and_then(|pending| pending.before) {
            before.abandon();
        }
    }
}
