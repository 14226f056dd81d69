//! A thread of the recorded program: its position, its interval, and what happens at callouts.

mod copies;
mod exchange;
mod memory;
mod ownership;

use crate::callout::{self, Slot};
use crate::claims::{self, Claim};
use crate::code::read_memory;
use crate::density::Density;
use crate::environment;
use crate::fs_base;
use crate::leave::Leave;
use crate::process::{self, Process};
use crate::shadow::{self, Mapping, Shadow};
use crate::signals::{self, Mask};
use crate::site::{Held, Kind, Site};
use crate::special;
use crate::stack_move;
use crate::syscall::SyscallState;
use crate::writer::Writer;
use bugnet_dr::access::{Access, RegisterValues};
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::{context, fpu, sys};
use bugnet_format::cache::Picture;
use bugnet_format::folder;
use bugnet_format::frame::IntervalHeader;
use bugnet_format::record::{EndReason, Record, RegisterUpdates, SpecialKind, register_number};
use bugnet_format::regs::{ALIGNMENT_CHECK, ARITHMETIC_FLAGS, COMPARED_FLAGS, GPR_UNKNOWN, RegisterFile};
use bugnet_format::types::{Addr, CodeSeq, IntervalNo, Tid};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::ops::Range;

/// Most instructions of a block of code: DynamoRIO's option `max_bb_instrs`.
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
    /// The thread's slot [`Slot::Left`].
    left: *mut u64,
    /// DynamoRIO's context.
    context: *mut c_void,
    /// Whether it belongs to another process, which shares the memory.
    foreign: bool,
    ownership: Option<ownership::Ownership>,
    /// The thread's slot [`Slot::CodeSeq`].
    code_seq: *mut u32,
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
    /// Which signals the program blocks.
    pub mask: Mask,
    /// Whether the log is between two intervals.
    paused: bool,
    /// Whether recording has ended, and must not begin again.
    ended: bool,
    interval: IntervalNo,
    instructions_before: u64,
    /// Position at which recording ended.
    end: u64,
    /// Position up to which [`Slot::Left`] counts down.
    threshold: u64,
    next_check: u64,
    /// Bases of FS and GS.
    pub segments: [u64; 2],
    /// Where the last first load ended, and how many before it each began where the one before ended.
    expected: u64,
    streak: u32,
    density: Density,
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

/// Most instructions between two thresholds: after so many, a thread looks whether to leave the code cache. (The
/// flag-free form of the count wants the counter below 2^32.)
const STRETCH: u64 = 1 << 18;

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

/// Changes the protection of a page of the program's.
fn protect(page: u64, protection: i32) {
    // SAFETY: a page of the program's, which is given its own protection back before anything else happens to it.
    if unsafe { libc::mprotect(page as *mut c_void, Addr::PAGE as usize, protection) } != 0 {
        let why = std::io::Error::last_os_error();
        crate::die(&format!(
            "the protection of the page at {page:#x}, where the program jumped to, cannot be changed: {why}"
        ));
    }
}

impl Thread {
    /// A thread begins.
    pub fn start(context: *mut c_void) {
        let stack = callout::Stack::new();
        // SAFETY: asks for a number.
        let tid = Tid(unsafe { sys::dr_get_thread_id(context) } as u32);
        let process = process::get();
        // A child of vfork runs in its parent's memory as if it were a thread; it is not recorded.
        let foreign = process::current_pid() != process.id.pid.0;
        let own_streams = foreign.then(|| process.streams().clone());
        let own_fs = if fs_base::can_be_set() { fs_base::get() } else { 0 };
        let shadow = process.first_shadow();
        let thread = Box::new(Self {
            saved: Saved { ymm: [[0; 32]; 16], gpr: [0; 16], rflags: 0 },
            stub: callout::stub(),
            stack_top: stack.top(),
            _stack: stack,
            own_fs,
            running_fs: own_fs,
            shadow,
            left: Slot::Left.address(),
            code_seq: Slot::CodeSeq.address().cast(),
            context,
            foreign,
            ownership: None,
            tid,
            log: None,
            room: Vec::new(),
            moved: false,
            reached: Vec::new(),
            leave: Leave::new(),
            mask: Mask::inherited(),
            paused: false,
            ended: foreign || process.over(),
            interval: IntervalNo(0),
            instructions_before: 0,
            end: 0,
            threshold: 0,
            next_check: 0,
            segments: [0; 2],
            expected: 0,
            streak: 0,
            density: Density::new(),
            pending: Vec::new(),
            before: ([0; 16], 0),
            repeat: (0, 0, 0, false),
            repeat_position: u64::MAX,
            forbidden: None,
            syscall: SyscallState { own_streams, ..SyscallState::default() },
            buffer: Vec::new(),
        });
        let thread = Box::into_raw(thread);
        // SAFETY: the slots are the calling thread's, and the structure lives until the thread's end.
        unsafe {
            sys::dr_set_tls_field(context, thread.cast());
            (*thread).use_shadow(shadow);
            *Slot::Thread.address() = thread as u64;
            callout::prepare();
            // The first block calls out, and recording begins.
            *Slot::Left.address() = 0;
            // No block asks for a code picture before.
            *Slot::CodeSeq.address() = u64::MAX;
            if process.threaded() {
                (*thread).share();
            }
            if process.has_begun() {
                (*thread).mask.apply();
            }
        }
    }

    /// A thread ends.
    pub fn exit(context: *mut c_void) {
        let Some(thread) = of(context) else { return };
        if process::current_pid() == process::get().id.pid.0 {
            thread.cut_off();
        } else if let Some(log) = thread.log.take() {
            // A thread of the process that this one was just forked from, where it goes on.
            log.abandon();
        }
        process::get().code().end_thread(thread.tid);
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
    /// it was; else with the last record, or before the block of code in which it was at the latest.
    fn cut_off(&mut self) {
        if self.paused {
            return;
        }
        match self.syscall.before.take() {
            Some(regs) => self.stop(self.counted() - 1, EndReason::Terminated, *regs),
            None => {
                let last = self.log.as_ref().map_or(0, Writer::last_position);
                let position = last.max(self.counted().saturating_sub(MAX_BLOCK));
                self.stop(position, EndReason::Terminated, RegisterFile::unknown());
            }
        }
    }

    /// Ends recording at the last record, since the thread's position is not known.
    pub fn stop_at_last_record(&mut self, reason: EndReason) {
        if let Some(position) = self.log.as_ref().map(Writer::last_position) {
            self.stop(position, reason, RegisterFile::unknown());
        }
    }

    /// The thread goes on in a forked child: its log so far is the parent's.
    pub fn forked(context: *mut c_void) {
        let recorded = process::forked();
        let Some(thread) = of(context) else { return };
        if let Some(log) = thread.log.take() {
            log.abandon();
        }
        thread.ended = !recorded;
        // SAFETY: asks for a number.
        thread.tid = Tid(unsafe { sys::dr_get_thread_id(context) } as u32);
        thread.syscall.own_streams = None;
        thread.paused = false;
        thread.interval = IntervalNo(0);
        thread.instructions_before = 0;
        thread.foreign = false;
        thread.share_anew();
        // The next block calls out, and recording begins.
        thread.set_counter(0, 0, 0);
    }

    /// Whether the thread's execution goes into a log.
    pub fn recording(&self) -> bool {
        self.log.is_some() && !self.paused
    }

    /// Instructions that the counter says have been executed since the interval's start; in the middle of a block,
    /// those of the whole block count.
    pub fn counted(&self) -> u64 {
        self.threshold.wrapping_add_signed(-self.left())
    }

    fn left(&self) -> i64 {
        // SAFETY: the thread's own slot.
        unsafe { self.left.read() as i64 }
    }

    /// The thread is at this position, whatever was counted.
    pub fn recount(&mut self, position: u64) {
        self.set_counter(position, self.threshold, self.threshold as i64 - position as i64);
    }

    /// Sets the counter, which reaches 0 at the position `threshold`; all that comes before `position` has been executed.
    fn set_counter(&mut self, position: u64, threshold: u64, left: i64) {
        self.threshold = threshold;
        // SAFETY: the thread's own slot.
        let set = || unsafe { self.left.write_volatile(left as u64) };
        match self.peer() {
            Some(peer) => peer.reset(self.moment(position), threshold, set),
            None => set(),
        }
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
            log.finish();
        }
    }

    /// The parts of the address space in which the interval may have accessed memory.
    fn reach(&mut self) -> Vec<Range<u64>> {
        let mut reach = std::mem::take(&mut self.reached);
        reach.extend(self.shadow.reach());
        reach
    }

    /// Before a system call: what it claims of the address space is cleared of shadows. `false` if it must not be made, since
    /// something of ours lies there that cannot move.
    pub fn make_way(&mut self, number: i64, args: &[u64; 6]) -> bool {
        claims::of(number, args).into_iter().all(|claim| {
            if self.shadow.overlaps(&claim.range) {
                let position = self.counted() - 1;
                self.move_shadow(position, position, Some(&claim));
            }
            shadow::make_room(&claim.range) || claim.yields
        })
    }

    /// The program has mapped memory: sees to it that there is room for its shadow before the program touches it.
    pub fn mapped(&mut self, address: u64, len: u64) {
        if !self.shadow.reserve_range(address, len) {
            let counted = self.counted();
            self.move_shadow(counted - 1, counted, None);
        }
    }

    /// Another shadow takes the place of the thread's, out of the way of what is about to come. The picture is empty from here
    /// on, and a new interval begins before anything is compared with it. All before `position` has been executed, and
    /// if there is no room, recording ends at `end`.
    fn move_shadow(&mut self, position: u64, end: u64, coming: Option<&Claim>) {
        self.reached.extend(self.shadow.reach());
        self.shadow.discard();
        self.room.clear();
        let counted = self.counted();
        match process::get().place_shadow(coming) {
            Some(shadow) => {
                self.use_shadow(shadow);
                self.moved = true;
                self.set_counter(position, counted, 0);
            }
            None => {
                self.use_shadow(Shadow::none());
                let why = "the program's memory lies too far apart for the shadow of this thread".to_owned();
                self.stop(end, EndReason::Unsupported { why }, RegisterFile::unknown());
            }
        }
    }

    /// Whether there is, or now is made, room for the shadow of accesses. Another thread may have mapped their memory.
    fn has_room(&mut self, accesses: &[(Access, bool)]) -> bool {
        if !self.recording() {
            return true;
        }
        let addresses: SmallVec<[u64; 4]> = accesses.iter().filter_map(|(access, _)| access.address(self)).collect();
        addresses.into_iter().all(|address| {
            let granule = Shadow::granule(self.shadow.of(address));
            if self.room.contains(&granule) {
                return true;
            }
            let room = self.shadow.reserve(self.shadow.of(address));
            if room {
                self.room.push(granule);
            }
            // An access to what is not there faults anyway.
            room || !read_memory(address, &mut [0; 1])
        })
    }

    /// Gets another shadow, in a callout before an instruction, with which a new interval begins. The caller's frame is never
    /// returned to.
    fn begin_elsewhere(&mut self, site: &Site, held: Held) -> ! {
        for n in (0..16).filter(|n| held.spilled >> n & 1 != 0) {
            self.saved.gpr[n] = Slot::Spill(Gpr(n as u8)).read();
        }
        if held.flags {
            self.saved.rflags = self.saved.rflags & !ARITHMETIC_FLAGS | Slot::read_flags();
        }
        let position = self.counted() - site.back;
        self.recount(position);
        self.move_shadow(position, position, None);
        self.leave.go(&self.saved, site.pc)
    }

    /// There will be other threads, whose shadows are all of the kind that always finds room.
    pub fn leave_fs(&mut self) {
        if self.running_fs != self.own_fs {
            let position = self.counted() - 1;
            self.move_shadow(position, position, None);
        }
    }

    /// The thread's shadow is this from now on.
    fn use_shadow(&mut self, shadow: Shadow) {
        self.shadow = shadow;
        match shadow.mapping {
            Mapping::Plus(by) => self.running_fs = by,
            Mapping::Xor(key) => {
                self.running_fs = self.own_fs;
                // SAFETY: the thread's own slot.
                unsafe { *Slot::Key.address() = key };
            }
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
        if !self.ended && !self.paused {
            let why = process::get().why_over();
            self.stop_at_last_record(EndReason::Unsupported { why });
        }
        self.ended = true;
    }

    /// Ends the interval before something that may or may not come back (`execve`); if it does, the next block begins
    /// the next interval.
    pub fn pause(&mut self, position: u64, reason: EndReason, regs: RegisterFile) {
        let reach = self.reach();
        let Some(log) = &mut self.log else { return };
        if let Err(why) = log.end(position, reason, regs, &reach) {
            self.give_up(&why);
            return;
        }
        log.rest();
        self.paused = true;
        self.instructions_before += position + 1;
        self.interval.0 += 1;
        self.set_counter(0, 0, 0);
    }

    /// Code at these addresses is about to run. Returns the oldest code picture that has it.
    pub fn observe_code(&mut self, start: u64, len: u64) -> CodeSeq {
        let process = process::get();
        let observed = process.code().observe(start, len);
        match observed {
            Ok(needed) => {
                // SAFETY: the thread's own slot.
                if unsafe { u64::from(*self.code_seq) } < needed.0 {
                    self.catch_up(self.counted());
                }
                needed
            }
            Err(why) => {
                let position = self.counted();
                self.stop(position, EndReason::LogStopped { why }, RegisterFile::unknown());
                CodeSeq(0)
            }
        }
    }

    /// Brings the code picture in the thread's log up to date.
    fn catch_up(&mut self, position: u64) {
        let process = process::get();
        let code = process.code();
        // SAFETY: the thread's own slot.
        let old = CodeSeq(unsafe { *self.code_seq }.into());
        for (address, bytes) in code.pages_since(old) {
            self.shadow.write(Addr(address), bytes);
        }
        let seq = code.seq();
        drop(code);
        self.set_code_seq(seq);
        self.record(position, |delta| Record::Code { delta, seq });
    }

    fn set_code_seq(&mut self, seq: CodeSeq) {
        // SAFETY: the thread's own slot.
        unsafe { *self.code_seq = seq.0 as u32 };
    }

    fn checkpoint(&mut self, process: &Process, regs: RegisterFile) -> Result<(), String> {
        self.shadow.clear();
        self.density = Density::new();
        let code = process.code();
        for (address, bytes) in code.pages() {
            self.shadow.write(Addr(address), bytes);
        }
        let header = IntervalHeader {
            pid: process.id.pid,
            tid: self.tid,
            interval: self.interval,
            sequence: process.next_checkpoint(),
            code_seq: code.seq(),
            instructions_before: self.instructions_before,
        };
        drop(code);
        self.set_code_seq(header.code_seq);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // SAFETY: RDTSC is in every x86-64 processor.
        let tsc = unsafe { std::arch::x86_64::_rdtsc() };
        let first = Record::Checkpoint { tsc, unix_nanos: now.as_nanos() as u64, regs: Box::new(regs) };
        match &mut self.log {
            Some(log) => log.begin(&header, &first)?,
            None => {
                let folder = process.folder.join(folder::thread_folder(self.tid));
                self.log = Some(Writer::create(folder, process.options.keep, &header, &first)?);
            }
        }
        process.code().begin_interval(self.tid, header.code_seq);
        Ok(())
    }

    /// The program is about to execute its first instruction.
    fn prepare_start(&mut self, process: &Process) {
        let rsp = &mut self.saved.gpr[usize::from(Gpr::RSP.0)];
        signals::begin();
        environment::hide(*rsp);
        if process.stack_moves() {
            *rsp = stack_move::relocate(*rsp, self.shadow);
        }
    }

    /// A block of `back` instructions begins that reaches over the threshold.
    fn limit(&mut self, site: &Site, flags: u64) {
        self.threshold_reached(site, flags);
        if self.leave.is_due() {
            if !self.ended {
                // The block will be counted when it begins again.
                self.recount(self.counted() - site.back);
            }
            self.mask.open();
            self.leave.go(&self.saved, site.pc);
        }
    }

    fn threshold_reached(&mut self, site: &Site, flags: u64) {
        let process = process::get();
        if process.over() {
            self.follow_end();
        }
        if self.ended {
            self.set_counter(self.end, self.threshold, STRETCH as i64);
            return;
        }
        let position = self.counted() - site.back;
        let options = &process.options;
        let full = position > 0 && (position + site.back > options.interval || self.moved);
        let mut begin = self.log.is_none() || self.paused || self.moved;
        if begin && process.takes_first_instruction() {
            self.prepare_start(process);
        }
        let regs = self.registers(site.pc, flags);
        let mut position = position;
        let reach = if full { self.reach() } else { Vec::new() };
        if full && let Some(log) = &mut self.log {
            if let Err(why) = log.end(position, EndReason::Full, regs.clone(), &reach) {
                self.give_up(&why);
                return;
            }
            self.instructions_before += position;
            self.interval.0 += 1;
            begin = true;
        }
        self.moved = false;
        let birth = self.log.is_none();
        if begin {
            if let Err(why) = self.checkpoint(process, regs.clone()) {
                self.give_up(&why);
                return;
            }
            self.paused = false;
            position = 0;
            self.next_check = options.check_every;
        } else if options.check_every > 0 && position + site.back > self.next_check {
            let (rflags_known, hash) = (regs.rflags_known, regs.hash(regs.rflags_known));
            self.record(position, |delta| Record::Check { delta, rflags_known, hash });
            self.next_check = position + options.check_every;
        }
        let mut threshold = options.interval.min(position + STRETCH);
        if options.check_every > 0 {
            threshold = threshold.min(self.next_check);
        }
        self.set_counter(position, threshold, threshold as i64 - (position + site.back) as i64);
        if birth {
            self.mask.apply();
            self.be_born(self.saved.gpr[usize::from(Gpr::RSP.0)]);
        }
    }

    fn emulate(&mut self, kind: SpecialKind, reg: Option<(Gpr, u32)>) {
        special::emulate(kind, reg, &mut self.saved, process::get().options.cpu);
    }

    fn special(&mut self, position: u64, kind: SpecialKind, reg: Option<(Gpr, u32)>, written: u16) {
        let before = (self.saved.gpr, self.saved.rflags);
        self.emulate(kind, reg);
        self.results(position, kind, before, special::writes_flags(kind), written);
    }

    /// Instead of `wrfsbase` or `wrgsbase`.
    fn change_segment_base(&mut self, site: &Site, segment: Segment, reg: Gpr, bytes: u32) {
        let value = if bytes == 4 { self.gpr(reg) & 0xffff_ffff } else { self.gpr(reg) };
        let position = self.counted().wrapping_sub(site.back);
        if !matches!(value >> 47, 0 | 0x1_ffff) || !set_segment_base(segment, value) {
            if self.recording() {
                let why = format!("the base of a segment at {value:#x}, which is no address, set at {:#x}", site.pc);
                let regs = self.registers(site.pc, 0);
                self.stop(position, EndReason::Unsupported { why }, regs);
            }
            return;
        }
        if self.recording() {
            let number = match segment {
                Segment::Fs => register_number::FS_BASE,
                Segment::Gs => register_number::GS_BASE,
            };
            let (kind, updates) = (SpecialKind::SegmentBase, RegisterUpdates { values: vec![(number, value)] });
            self.record(position, |delta| Record::Special { delta, kind, updates });
        }
    }

    /// Logs what an instruction has done to registers and flags since `before`, and the registers that are `written`.
    fn results(&mut self, position: u64, kind: SpecialKind, before: ([u64; 16], u64), flags: bool, written: u16) {
        let mut updates = RegisterUpdates::default();
        for (number, (new, old)) in self.saved.gpr.iter().zip(before.0).enumerate() {
            if *new != old || written & Gpr(number as u8).bit() != 0 {
                updates.values.push((number as u8, *new));
            }
        }
        if flags || (self.saved.rflags ^ before.1) & COMPARED_FLAGS != 0 {
            let flags = self.saved.rflags & COMPARED_FLAGS | 0x202;
            updates.values.push((bugnet_format::record::register_number::RFLAGS, flags));
        }
        self.record(position, |delta| Record::Special { delta, kind, updates });
    }

    /// The program has jumped to memory that is not executable. The instruction behind the callout, which reads at `pc`,
    /// faults as the jump would.
    fn forbid(&mut self, pc: u64) {
        let page = Addr(pc).page().0;
        let protection = process::get().protections.of(pc);
        if protection & libc::PROT_EXEC != 0 {
            // It has become executable since the block was built.
            // SAFETY: may be asked for anywhere.
            unsafe { sys::dr_delay_flush_region(page as *mut u8, Addr::PAGE as usize, 0, None) };
            self.leave.go(&self.saved, pc);
        }
        self.forbidden = Some((page, protection));
        protect(page, libc::PROT_NONE);
    }

    /// Gives the page of [`Self::forbid`] back, once it has faulted.
    pub fn allow(&mut self) {
        if let Some((page, protection)) = self.forbidden.take() {
            protect(page, protection);
        }
    }

    /// What the stub leads to.
    pub fn callout(&mut self, site: &Site) {
        if process::get().over() {
            // The block may be one that does not count any more.
            self.follow_end();
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
        if self.leave.is_urgent() && self.left() > 0 {
            self.limit_soon();
        }
    }

    /// In a system call, what may wait for the mask to be opened is let in.
    pub fn let_signals_in(&self) {
        if self.leave.is_urgent() {
            self.mask.open();
        }
    }

    /// The next block begins with a limit callout; the present one goes on.
    fn limit_soon(&mut self) {
        self.threshold = self.counted();
        // SAFETY: the thread's own slot.
        let set = || unsafe { self.left.write_volatile(0) };
        match self.peer() {
            Some(peer) => peer.aim(self.threshold, set),
            None => set(),
        }
    }

    fn serve(&mut self, site: &Site) {
        if let Kind::NotExecutable = site.kind {
            self.forbid(site.pc);
            return;
        }
        match &site.kind {
            Kind::Exchange(access, routine) => {
                self.exchange(self.counted().wrapping_sub(site.back), access, *routine);
                return;
            }
            Kind::Own(accesses, held) => {
                if !self.has_room(accesses) {
                    self.begin_elsewhere(site, *held);
                }
                self.own(self.counted().wrapping_sub(site.back), accesses);
                return;
            }
            Kind::OwnRepeat(op, while_different) => {
                self.own_repeat(self.counted().wrapping_sub(site.back), *op, *while_different);
                return;
            }
            _ => {}
        }
        if let Kind::CodeBehind = site.kind {
            if self.recording() {
                self.catch_up(self.counted() - site.back);
            } else {
                self.set_code_seq(CodeSeq(u64::MAX));
            }
            return;
        }
        if let Kind::SegmentBase(segment, reg, bytes) = site.kind {
            let before = (self.saved.gpr, self.saved.rflags);
            special::set(&mut self.saved, reg, bytes, segment_base(segment));
            if self.recording() {
                let position = self.counted() - site.back;
                self.results(position, SpecialKind::SegmentBase, before, false, reg.bit());
            }
            return;
        }
        if let Kind::SetSegmentBase(segment, reg, bytes) = site.kind {
            self.change_segment_base(site, segment, reg, bytes);
            return;
        }
        if let Kind::Special(kind, reg, written) = &site.kind {
            let position = self.counted().wrapping_sub(site.back);
            if !self.recording() {
                self.emulate(*kind, *reg);
                return;
            }
            self.special(position, *kind, *reg, *written);
            return;
        }
        if !self.recording() {
            // Nothing is logged, but the instruction may read the shadow in place of the memory.
            if let Kind::Differs { bytes, target, .. } = site.kind {
                self.mirror(self.address(target), bytes.into());
            }
            return;
        }
        let position = self.counted() - site.back;
        match &site.kind {
            Kind::Reads(accesses) => self.reads(position, accesses),
            Kind::WriteAddresses(accesses) => self.write_addresses(accesses),
            Kind::Writes(accesses) => self.writes(accesses),
            Kind::RepeatBefore(op) => self.repeat_before(position, *op),
            Kind::RepeatAfter(op) => self.repeat_after(position, *op),
            Kind::ResultBefore => self.before = (self.saved.gpr, self.saved.rflags),
            Kind::ResultAfter(kind, written) => self.results(position, *kind, self.before, true, *written),
            Kind::OpaqueBefore(access, kind) => {
                self.write_addresses(std::slice::from_ref(access));
                let updates = RegisterUpdates::default();
                self.record(position, |delta| Record::Special { delta, kind: *kind, updates });
            }
            Kind::OpaqueAfter => {
                for (address, len) in std::mem::take(&mut self.pending) {
                    self.supply(position + 1, address, len.into());
                }
            }
            Kind::Unsupported { why, dead } => {
                let mut regs = self.registers(site.pc, 0);
                regs.rflags_known |= u64::from(*dead) * GPR_UNKNOWN;
                let why = format!("{why} at {:#x} cannot be recorded exactly", site.pc);
                self.stop(position, EndReason::Unsupported { why }, regs);
            }
            Kind::Differs { .. }
            | Kind::NotExecutable
            | Kind::Limit { .. }
            | Kind::CodeBehind
            | Kind::Own(..)
            | Kind::OwnRepeat(..)
            | Kind::Exchange(..)
            | Kind::Special(..)
            | Kind::SegmentBase(..)
            | Kind::SetSegmentBase(..) => {}
        }
    }
}
