//! A thread of the recorded program: its position, its interval, and what happens at callouts.

mod chaos;
mod code_seq;
mod copies;
mod emulate;
mod epoch;
mod exchange;
mod limit;
mod memory;
mod ownership;
mod room;
mod serve;

use crate::borrowers;
use crate::callout::{self, Slot};
use crate::chaos::Chaos;
use crate::counter::Counter;
use crate::density::Density;
use crate::environment;
use crate::fs_base;
use crate::leave::Leave;
use crate::limits::Limits;
use crate::made_ahead::MadeAhead;
use crate::process::{self, Process};
use crate::retry::Retry;
use crate::shadow::Shadow;
use crate::signals::{self, Codes, Mask, Pending, Sent};
use crate::site::{Kind, Site};
use crate::stack_move;
use crate::syscall::SyscallState;
use crate::timers;
use crate::writer::Writer;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::{context, fpu, sys};
use bugnet_format::folder;
use bugnet_format::frame::IntervalHeader;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::{ALIGNMENT_CHECK, ARITHMETIC_FLAGS, COMPARED_FLAGS, RegisterFile};
use bugnet_format::types::{CodeSeq, Epoch, IntervalNo, Tid};
use std::ffi::c_void;
use std::ops::Range;

/// More instructions than a block of code has: see DynamoRIO's option `-max_bb_instrs`.
const MAX_BLOCK: u64 = 256;

/// Registers as the stub saves them.
#[repr(C, align(32))]
pub struct Saved {
    /// YMM0 to YMM15; only the XMM halves where the processor has no AVX.
    pub ymm: [[u8; 32]; 16],
    /// General purpose registers, in [`Gpr`]'s numbering.
    pub gpr: [u64; 16],
    /// RFLAGS
    pub rflags: u64,
}

/// A thread. The first fields are the stub's.
#[repr(C)]
pub struct Thread {
    /// What the stub saved.
    pub saved: Saved,
    /// Address of the stub.
    pub stub: usize,
    /// End of the stack that callouts run on.
    pub stack_top: u64,
    _stack: callout::Stack,
    /// The FS base of the client's own thread-local storage.
    pub own_fs: u64,
    /// The FS base while the program's code runs.
    pub running_fs: u64,
    /// The picture of the replayer's memory.
    pub shadow: Shadow,
    /// What is left until the next threshold.
    pub counter: Counter,
    /// DynamoRIO's context.
    context: *mut c_void,
    /// Whether it belongs to another process, which shares the memory.
    foreign: bool,
    ownership: Option<ownership::Ownership>,
    /// The code picture that the log has; later than any as long as there is no log.
    code_seq: CodeSeq,
    tid: Tid,
    /// The log; none before the first checkpoint, and none any more once recording has ended.
    log: Option<Writer>,
    /// Granules of the shadow that are known to be reserved.
    room: Vec<u64>,
    /// Whether the shadow has moved, so that the picture is empty and another interval has to begin.
    moved: bool,
    /// What shadows reached that the thread had earlier in the interval.
    reached: Vec<Range<u64>>,
    leave: Leave,
    /// Whether the next block is a signal handler's first, and has to set the x87 state and MXCSR that handlers begin with.
    handler_begins: bool,
    /// Which signals the program blocks.
    pub mask: Mask,
    /// What the kernel said of the signals that came to it.
    pub codes: Codes,
    /// The registers with which the last interval ended, if the log is between two.
    paused: Option<Box<RegisterFile>>,
    /// Whether recording has ended, and must not begin again.
    ended: bool,
    interval: IntervalNo,
    /// The epoch of its interval, or of the last one.
    epoch: Epoch,
    instructions_before: u64,
    /// Position up to which [`crate::epochs`] has been told what the thread executes.
    noted: u64,
    /// Position at which recording ended.
    end: u64,
    /// Position up to which the counter counts down.
    threshold: u64,
    /// How far it is from there to the next one.
    stretch: limit::Stretch,
    /// What perturbs when it runs, if something is to.
    chaos: Option<Box<Chaos>>,
    next_check: u64,
    /// Bases of FS and GS.
    pub segments: [u64; 2],
    /// The program's selectors in FS and GS, which are not in the registers.
    pub selectors: [u16; 2],
    /// Where the last first load ended, and how many before it each began where the one before ended.
    expected: u64,
    streak: u32,
    density: Density,
    made_ahead: MadeAhead,
    /// Addresses of an instruction's writes, taken before it executes.
    pending: Vec<(u64, u32)>,
    /// Registers and flags before an instruction whose results are logged.
    before: ([u64; 16], u64),
    /// RCX, RSI, RDI before a `rep` string instruction, and its direction: true for down.
    repeat: (u64, u64, u64, bool),
    /// The position of a `rep` string instruction that has begun and not ended.
    repeat_position: u64,
    /// A page that the program has jumped to and must not execute: its address and protection. It is not accessible.
    forbidden: Option<(u64, i32)>,
    /// What system calls need to remember.
    pub syscall: SyscallState,
    buffer: Vec<u8>,
}

/// Largest read that is checked inline, in bytes.
pub const INLINE: usize = 32;

impl RegisterValues for Thread {
    fn gpr(&self, reg: Gpr) -> u64 {
        self.saved.gpr[usize::from(reg.0)]
    }

    fn vector(&self, number: usize) -> [u8; 32] {
        self.saved.ymm[number]
    }

    fn segment_base(&self, segment: Segment) -> u64 {
        self.segments[segment as usize]
    }
}

/// Whether the calling thread, which a signal has interrupted in a system call, is in one of the logger's or of DynamoRIO's, and not of
/// the program's; for a signal handler.
pub fn is_in_own_call() -> bool {
    let thread = Slot::Thread.read() as *const Thread;
    // SAFETY: the thread's structure lives as long as the slot refers to it; this byte is read alone.
    !thread.is_null() && unsafe { !(&raw const (*thread).syscall.made).read() }
}

/// A part of the calling thread's structure, for a signal handler; null for a thread that is not the program's.
fn part<T>(of: impl FnOnce(*mut Thread) -> *mut T) -> *mut T {
    let thread = Slot::Thread.read() as *mut Thread;
    if thread.is_null() { std::ptr::null_mut() } else { of(thread) }
}

/// What the calling thread waits in, for a signal handler; null for a thread that is not the program's.
pub fn retry() -> *mut Retry {
    // SAFETY: the thread's structure lives as long as the slot refers to it.
    part(|thread| unsafe { &raw mut (*thread).syscall.retry })
}

/// What DynamoRIO holds of the calling thread's signals, for a signal handler; null for a thread that is not the program's.
pub fn pending() -> *const Pending {
    // SAFETY: as in `retry`.
    part(|thread| unsafe { &raw mut (*thread).mask.pending })
}

/// The codes of the signals that have come to the calling thread, for a signal handler; null for a thread that is not the program's.
pub fn codes() -> *const Codes {
    // SAFETY: as in `retry`.
    part(|thread| unsafe { &raw mut (*thread).codes })
}

/// The thread that DynamoRIO's context is of.
pub fn of<'a>(context: *mut c_void) -> Option<&'a mut Thread> {
    // SAFETY: the field holds null or what `Thread::start` put there, and is used on its own thread only.
    unsafe { sys::dr_get_tls_field(context).cast::<Thread>().as_mut() }
}

/// The base of the program's FS or GS.
pub fn segment_base(segment: Segment) -> u64 {
    let (id, null) = (
        match segment {
            Segment::Fs => sys::DR_SEG_FS,
            Segment::Gs => sys::DR_SEG_GS,
        },
        sys::DR_REG_NULL as sys::reg_id_t,
    );
    let mut context = context::empty();
    // SAFETY: makes an operand and asks for its address; no register takes part in it.
    unsafe {
        let opnd = sys::opnd_create_far_base_disp(id as sys::reg_id_t, null, null, 0, 0, sys::OPSZ_8 as u8);
        sys::opnd_compute_address(opnd, &raw mut *context) as u64
    }
}

/// Sets the base of the program's FS or GS, in the word from which instrumented code, DynamoRIO's own and ours, takes it.
/// `false` if there is no such word.
pub fn set_segment_base(segment: Segment, base: u64) -> bool {
    let Some(offset) = bugnet_dr::ir::segment_base_slot(segment) else { return false };
    // SAFETY: a word of the calling thread's, as far from DynamoRIO's segment base as DynamoRIO says.
    unsafe { *Slot::Thread.address().byte_sub(Slot::Thread.offset() as usize).byte_add(offset as usize) = base };
    true
}

impl Thread {
    /// A thread begins.
    pub fn start(context: *mut c_void) {
        let stack = callout::Stack::new();
        let process = process::get();
        // A child of vfork runs in its parent's memory as if it were a thread; it is not recorded.
        let foreign = process::current_pid() != process.id.pid.0;
        if foreign {
            borrowers::begins(process::current_pid(), context);
        }
        let tid = if foreign { Tid::default() } else { process.name_thread(context) };
        let own_streams = foreign.then(|| process.streams().clone());
        let own_limits = foreign.then(Limits::of_process);
        let own_fs = if fs_base::can_be_set() { fs_base::get() } else { 0 };
        let shadow = process.first_shadow(foreign);
        let thread = Box::new(Self {
            saved: Saved { ymm: [[0; 32]; 16], gpr: [0; 16], rflags: 0 },
            stub: callout::stub(),
            stack_top: stack.top(),
            _stack: stack,
            own_fs,
            running_fs: own_fs,
            shadow,
            counter: Counter::of_thread(),
            code_seq: code_seq::ANY,
            context,
            foreign,
            ownership: None,
            tid,
            log: None,
            room: Vec::new(),
            moved: false,
            reached: Vec::new(),
            leave: Leave::new(),
            handler_begins: false,
            mask: Mask::inherited(foreign),
            codes: Codes::new(),
            paused: None,
            ended: foreign || process.over(),
            interval: IntervalNo(0),
            epoch: Epoch(0),
            instructions_before: 0,
            noted: 0,
            end: 0,
            threshold: 0,
            stretch: limit::Stretch::new(),
            chaos: None,
            next_check: 0,
            segments: [0; 2],
            selectors: [0; 2],
            expected: 0,
            streak: 0,
            density: Density::new(),
            made_ahead: MadeAhead::new(),
            pending: Vec::new(),
            before: ([0; 16], 0),
            repeat: (0, 0, 0, false),
            repeat_position: u64::MAX,
            forbidden: None,
            syscall: SyscallState { own_streams, own_limits, ..SyscallState::default() },
            buffer: Vec::new(),
        });
        let thread = Box::into_raw(thread);
        // SAFETY: the slots are the calling thread's, and the structure lives until the thread's end.
        unsafe {
            sys::dr_set_tls_field(context, thread.cast());
            (*thread).use_shadow(shadow);
            *Slot::Thread.address() = thread as u64;
            callout::prepare();
            (*thread).begin_chaos();
            // The first block calls out, and recording begins.
            (*thread).counter.set(0);
            (*thread).show_code_seq();
            if process.threaded() {
                (*thread).share();
            }
            if process.has_begun() && foreign {
                (*thread).mask.apply();
            } else if process.has_begun() {
                (*thread).mask.announce();
            }
        }
    }

    /// A thread ends.
    pub fn exit(context: *mut c_void) {
        borrowers::ends(context);
        let Some(thread) = of(context) else { return };
        if process::current_pid() == process::get().id.pid.0 {
            thread.cut_off();
        } else if let Some(log) = thread.log.take() {
            // A thread of the process that this one was just forked from, where it goes on.
            log.abandon();
        }
        process::get().code().end_thread(thread.tid);
        Mask::end();
        if let Some(peer) = thread.peer() {
            peer.end(thread.moment(thread.end));
        }
        thread.shadow.release();
        if Slot::Thread.read() == std::ptr::from_mut(thread) as u64 {
            // None of the program's code runs here any more.
            // SAFETY: the calling thread's own slot.
            unsafe { *Slot::Thread.address() = 0 };
        }
        // SAFETY: the field holds null or what `start` put there, which nobody refers to: the thread does not run.
        unsafe {
            let thread = Box::from_raw(std::ptr::from_mut(thread));
            sys::dr_set_tls_field(context, std::ptr::null_mut());
            drop(thread);
        }
    }

    /// The thread was ended by another one, or by a signal that another one got: its log ends at the system call in which
    /// it was; else as far as it is known to have come, which is before the block of code in which it was at the latest.
    fn cut_off(&mut self) {
        if self.paused.is_some() {
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
        let last = self.log.as_ref()?.last_position();
        let told = self.peer().and_then(|peer| peer.departed_in(self.interval.0));
        Some(told.map_or(last, |told| told.max(last)))
    }

    /// Ends recording as far as the thread is known to have come.
    pub fn stop_where_known(&mut self, reason: EndReason) {
        if let Some(position) = self.known_position() {
            self.stop(position, reason, RegisterFile::unknown());
        }
    }

    /// The thread goes on in a forked child: its log so far is the parent's.
    pub fn forked(context: *mut c_void) {
        let Some(thread) = of(context) else { return };
        thread.mask.forked();
        let recorded = process::forked();
        if let Some(log) = thread.log.take() {
            log.abandon();
        }
        thread.ended = !recorded;
        if recorded {
            thread.tid = process::get().name_thread(context);
        }
        thread.syscall.own_streams = None;
        thread.syscall.own_limits = None;
        thread.paused = None;
        thread.interval = IntervalNo(0);
        thread.epoch = Epoch(0);
        thread.instructions_before = 0;
        thread.noted = 0;
        thread.foreign = false;
        thread.share_anew();
        // The next block calls out, and recording begins.
        thread.set_counter(0, 0, 0);
    }

    /// Whether this is a child of `vfork`, in its parent's memory.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Whether the thread's execution goes into a log.
    pub fn recording(&self) -> bool {
        self.log.is_some() && self.paused.is_none()
    }

    /// Instructions that the counter says have been executed since the interval's start; in the middle of a block,
    /// those of the whole block count.
    pub fn counted(&self) -> u64 {
        self.threshold.wrapping_add_signed(-self.counter.left())
    }

    /// The thread is at this position, whatever was counted.
    pub fn recount(&mut self, position: u64) {
        self.set_counter(position, self.threshold, self.threshold as i64 - position as i64);
    }

    /// Sets the counter, which reaches 0 at the position `threshold`; all that comes before `position` has been executed.
    fn set_counter(&mut self, position: u64, threshold: u64, left: i64) {
        self.threshold = threshold;
        self.counter.set(left);
        self.pass(position);
    }

    /// All registers, at the callout of an instruction at `pc`.
    fn registers(&mut self, pc: u64, flags: u64) -> RegisterFile {
        let mut regs = RegisterFile {
            gpr: self.saved.gpr,
            rip: pc,
            rflags: self.saved.rflags,
            ymm: self.saved.ymm,
            ..RegisterFile::default()
        };
        regs.rflags_known = flags | COMPARED_FLAGS & !ARITHMETIC_FLAGS;
        self.complete(&mut regs);
        regs
    }

    /// Adds to the registers what neither the stub nor DynamoRIO saves.
    pub fn complete(&mut self, regs: &mut RegisterFile) {
        regs.rflags = regs.rflags & (COMPARED_FLAGS | ALIGNMENT_CHECK) | 0x202;
        self.segments = [segment_base(Segment::Fs), segment_base(Segment::Gs)];
        [regs.fs_base, regs.gs_base] = self.segments;
        fpu::save(regs);
    }

    /// Appends a record at a position, if the thread is recorded.
    pub fn record<'a>(&mut self, position: u64, make: impl FnOnce(u64) -> Record<'a>) {
        if let Some(log) = &mut self.log
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
        self.log.as_mut().map_or(Ok(()), |log| log.record(position, |_| record))
    }

    /// Takes back the record of a system call that never returns: see [`Writer::take_back_call`].
    pub fn take_back_call(&mut self, position: u64) -> Option<bool> {
        self.log.as_mut()?.take_back_call(position)
    }

    fn load(&mut self, position: u64, ordinal: u8, offset: u64, value: &[u8]) {
        if let Some(log) = &mut self.log
            && let Err(why) = log.load(position, ordinal, offset, value)
        {
            self.stop(position, EndReason::LogStopped { why }, RegisterFile::unknown());
        }
    }

    /// Ends recording of this thread for good; the program goes on.
    pub fn stop(&mut self, position: u64, reason: EndReason, regs: RegisterFile) {
        let Some(mut log) = self.log.take() else { return };
        self.ended = true;
        self.end = position;
        if let EndReason::LogStopped { why } | EndReason::Unsupported { why } = &reason {
            process::get().end(why);
        }
        // If this fails, the END is in the tail all the same.
        if log.end(position, reason, regs, &self.reach()).is_ok() {
            process::get().keep_for_now(log.finish());
        }
    }

    /// The log cannot be written between two intervals: what it holds is complete, and nothing is added.
    fn give_up(&mut self, why: &str) {
        self.ended = true;
        self.log = None;
        process::get().end(why);
    }

    /// Recording has ended in another thread, and this one's instrumentation is being taken away.
    pub fn follow_end(&mut self) {
        if !self.ended && self.paused.is_none() {
            let why = process::get().why_over();
            self.stop_where_known(EndReason::Unsupported { why });
        }
        self.ended = true;
    }

    /// Ends the interval before something that may or may not come back (`execve`); if it does, the next block begins
    /// the next interval.
    pub fn pause(&mut self, position: u64, reason: EndReason, regs: RegisterFile) {
        let reach = self.reach();
        let Some(log) = &mut self.log else { return };
        if let Err(why) = log.end(position, reason, regs.clone(), &reach) {
            self.give_up(&why);
            return;
        }
        log.rest();
        self.paused = Some(Box::new(regs));
        self.instructions_before += position + 1;
        self.noted = 0;
        self.interval.0 += 1;
        self.set_counter(0, 0, 0);
    }

    /// Begins the next interval behind [`Self::pause`] without a block, if none has begun. `now`: the registers but for those of
    /// the x87 and vector units, which the call has left as they were.
    pub fn resume(&mut self, now: &RegisterFile) {
        let Some(before) = self.paused.take() else { return };
        let mut regs = RegisterFile { gpr: now.gpr, rip: now.rip, rflags: now.rflags, ..*before };
        regs.rflags = regs.rflags & COMPARED_FLAGS | 0x202;
        if let Err(why) = self.checkpoint(process::get(), regs) {
            self.give_up(&why);
            return;
        }
        self.next_check = process::get().options.check_every;
        // Nothing is left of the call.
        self.syscall.before = None;
    }

    /// The thread is about to forbid itself system calls: nothing of its log is handed over then.
    pub fn take_back_log(&mut self) {
        if let Some(log) = &mut self.log {
            // If this fails, so does the next frame, and the log ends there.
            let _ = log.settle();
        }
    }

    fn checkpoint(&mut self, process: &Process, regs: RegisterFile) -> Result<(), String> {
        self.shadow.clear_for(self.interval, process.threaded());
        self.density.clear();
        self.made_ahead.clear();
        if !self.picture_code() {
            return Err(room::TOO_FAR_APART.to_owned());
        }
        let epoch = self.next_epoch();
        if self.peer().is_none() && epoch != self.epoch {
            process.epochs.advance();
        }
        let code = process.code();
        let header = IntervalHeader {
            pid: process.id.pid,
            tid: self.tid,
            interval: self.interval,
            sequence: process.next_checkpoint(),
            code_seq: code.seq(),
            instructions_before: self.instructions_before,
            epoch,
            epoch_before: if self.interval == IntervalNo(0) { epoch } else { self.epoch },
        };
        drop(code);
        self.epoch = epoch;
        if let Some(peer) = self.peer() {
            peer.begin(epoch);
        }
        self.set_code_seq(header.code_seq);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // SAFETY: RDTSC is in every x86-64 processor.
        let tsc = unsafe { std::arch::x86_64::_rdtsc() };
        let first = Record::Checkpoint { tsc, unix_nanos: now.as_nanos() as u64, regs: Box::new(regs) };
        match &mut self.log {
            Some(log) => log.begin(&header, &first)?,
            None => {
                let folder = process.folder.join(folder::thread_folder(self.tid));
                let log = Writer::create(process.id, folder.clone(), process.options.keep, &header, &first);
                self.log = Some(log.inspect_err(|_| drop(std::fs::remove_dir_all(folder)))?);
                process.note_begun();
            }
        }
        process.code().begin_interval(self.tid, epoch, header.code_seq);
        process.remove_ended(epoch);
        Ok(())
    }

    /// The epoch of an interval that would begin now. As long as there is one thread, each begins another one.
    fn next_epoch(&self) -> Epoch {
        match self.peer() {
            None if self.log.is_some() => Epoch(self.epoch.0 + 1),
            _ => process::get().epochs.now(),
        }
    }

    /// The program is about to execute its first instruction.
    fn prepare_start(&mut self, process: &Process) {
        let rsp = &mut self.saved.gpr[usize::from(Gpr::RSP.0)];
        signals::begin();
        timers::begin();
        environment::hide(*rsp);
        if process.stack_moves() {
            *rsp = stack_move::relocate(*rsp, self.shadow);
        }
    }

    /// What the stub leads to.
    pub fn callout(&mut self, site: &Site) {
        if process::get().over() {
            self.follow_end();
        }
        if let Some(chaos) = &mut self.chaos {
            chaos.come_to(site.pc);
        }
        if let Kind::Limit { flags, saved } = site.kind {
            if saved {
                self.saved.rflags = self.saved.rflags & !ARITHMETIC_FLAGS | Slot::read_flags();
            }
            self.limit(site, flags);
            return;
        }
        // By far the most frequent one.
        if matches!(site.kind, Kind::Differs { .. }) && self.recording() {
            self.differs(self.counted() - site.back, site);
        } else {
            self.serve(site);
        }
        if self.leave.is_urgent() && self.counter.left() > 0 {
            self.limit_soon();
        }
    }

    /// In a system call, what may wait for the mask to be opened is let in. Returns what kills the thread before the call.
    #[must_use]
    pub fn let_signals_in(&mut self) -> Option<Sent> {
        if self.leave.is_urgent() { self.mask.open() } else { None }
    }
}
