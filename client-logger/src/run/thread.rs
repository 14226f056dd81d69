//! A thread of the recorded program: its position, its interval, and what happens at callouts.

mod chaos;
mod code_seq;
mod copies;
mod emulate;
mod epoch;
mod exchange;
mod limit;
mod log;
mod memory;
mod ownership;
mod room;
mod serve;

use crate::base::process;
use crate::base::slots::Slot;
use crate::emitted::callout::{self, Callouts};
use crate::emitted::site::{Kind, Site};
use crate::kernel::borrowers;
use crate::kernel::environment;
use crate::kernel::limits::Limits;
use crate::kernel::streams;
use crate::kernel::timers;
use crate::log::code;
use crate::log::recording;
use crate::picture::placement;
use crate::picture::stack_move;
use crate::run::call::SyscallState;
use crate::run::chaos::Chaos;
use crate::run::retry::Retry;
use crate::run::signals::{self, Codes, Mask, OwnSignals, Pending, Sent};
use bugnet_dr::access::RegisterValues;
use bugnet_dr::fpu;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::thread::{self as dr_thread, segment_base};
use bugnet_format::regs::{ALIGNMENT_CHECK, ARITHMETIC_FLAGS, COMPARED_FLAGS, RegisterFile};
use bugnet_format::types::{CodeSeq, Tid};
use limit::Count;
use log::Log;
use memory::FirstLoads;
use room::OwnPicture;
use serve::Begun;
use std::ffi::c_void;

/// Segment registers of the program.
pub struct Segments {
    /// Bases of FS and GS.
    pub bases: [u64; 2],
    /// The selectors in FS and GS, which are not in the registers.
    pub selectors: [u16; 2],
}

/// A thread.
#[repr(C)]
pub struct Thread {
    /// What callouts need. The first field, since the stub finds it where the thread is.
    pub callouts: Callouts,
    /// The picture of the replayer's memory.
    pub picture: OwnPicture,
    /// DynamoRIO's context.
    context: *mut c_void,
    /// Whether it belongs to another process, which shares the memory.
    foreign: bool,
    tid: Tid,
    log: Log,
    count: Count,
    /// The code picture that the log has; later than any as long as there is no log.
    code_seq: CodeSeq,
    loads: FirstLoads,
    begun: Begun,
    ownership: Option<ownership::Ownership>,
    /// What there is of its signals.
    pub signals: OwnSignals,
    /// What perturbs when it runs, if something is to.
    chaos: Option<Box<Chaos>>,
    /// Its segment registers.
    pub segments: Segments,
    /// What system calls need to remember.
    pub syscall: SyscallState,
}

impl RegisterValues for Thread {
    fn gpr(&self, reg: Gpr) -> u64 {
        self.callouts.saved.gpr[usize::from(reg.0)]
    }

    fn vector(&self, number: usize) -> [u8; 32] {
        self.callouts.saved.ymm[number]
    }

    fn segment_base(&self, segment: Segment) -> u64 {
        self.segments.bases[segment as usize]
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
    part(|thread| unsafe { &raw mut (*thread).signals.mask.pending })
}

/// The codes of the signals that have come to the calling thread, for a signal handler; null for a thread that is not the program's.
pub fn codes() -> *const Codes {
    // SAFETY: as in `retry`.
    part(|thread| unsafe { &raw mut (*thread).signals.codes })
}

/// The thread that DynamoRIO's context is of.
///
/// # Safety
/// In an event on this thread, in which nobody else refers to it: DynamoRIO lets none begin while it is in another one, or in a callout, but
/// for those of faults, which come from the code cache.
pub unsafe fn of<'a>(context: *mut c_void) -> Option<&'a mut Thread> {
    // SAFETY: the field holds null or what `Thread::start` put there, and the caller's promise.
    unsafe { dr_thread::field(context).cast::<Thread>().as_mut() }
}

/// The Rust side of a callout.
///
/// # Safety
/// Called by the stub with the calling thread's structure, in which it has just saved the registers, and the site
/// that the inline part named.
unsafe extern "C" fn on_callout(callouts: *mut Callouts, site: *const Site) {
    // SAFETY: the caller's promise; a site is there as long as its block, and a thread's structure is used by its thread only.
    let (thread, site) = unsafe { (&mut *callouts.cast::<Thread>(), &*site) };
    if let Kind::Limit { .. } = site.kind {
        // SAFETY: in a callout, of which the slot tells where it is in the code cache.
        unsafe { site.lies.first_run(Slot::Return.read()) };
        if thread.count.counter.deal() {
            // There is no threshold yet.
            return;
        }
    }
    thread.callout(site);
    // SAFETY: in this callout; the thread's own slot.
    unsafe {
        if let Some(back) = site.lies.back() {
            Slot::Return.write(back);
        }
    }
}

impl Thread {
    /// A thread begins.
    pub fn start(context: *mut c_void) {
        // A child of vfork runs in its parent's memory as if it were a thread; it is not recorded.
        let foreign = process::current_pid() != recording::id().pid.0;
        if foreign {
            borrowers::begins(process::current_pid(), context);
        }
        let tid = if foreign { Tid::default() } else { crate::run::lifetime::name_thread(context) };
        let own_streams = foreign.then(|| streams::of_process().clone());
        let own_limits = foreign.then(Limits::of_process);
        let shadow = placement::first_shadow(foreign);
        let thread = Box::new(Self {
            callouts: Callouts::new(on_callout),
            picture: OwnPicture::new(shadow),
            context,
            foreign,
            tid,
            log: Log::new(foreign || recording::over()),
            count: Count::new(),
            code_seq: code_seq::ANY,
            loads: FirstLoads::new(),
            begun: Begun::none(),
            ownership: None,
            signals: OwnSignals::new(foreign),
            chaos: None,
            segments: Segments { bases: [0; 2], selectors: [0; 2] },
            syscall: SyscallState { own_streams, own_limits, ..SyscallState::default() },
        });
        let thread = Box::into_raw(thread);
        // SAFETY: the slots are the calling thread's, and the structure lives until the thread's end.
        unsafe {
            dr_thread::set_field(context, thread.cast());
            (*thread).use_shadow(shadow);
            *Slot::Thread.address() = thread as u64;
            callout::prepare();
            (*thread).begin_chaos();
            // The first block calls out, and recording begins.
            (*thread).count.counter.set(0);
            (*thread).show_code_seq();
            if process::threaded() {
                (*thread).share();
            }
            if process::has_begun() && foreign {
                (*thread).signals.mask.apply();
            } else if process::has_begun() {
                (*thread).signals.mask.announce();
            }
        }
    }

    /// A thread ends.
    ///
    /// # Safety
    /// In DynamoRIO's event for that.
    pub unsafe fn exit(context: *mut c_void) {
        borrowers::ends(context);
        // SAFETY: in the event.
        let Some(thread) = (unsafe { of(context) }) else { return };
        if process::current_pid() == recording::id().pid.0 {
            thread.cut_off();
        } else if let Some(log) = thread.log.writer.take() {
            // A thread of the process that this one was just forked from, where it goes on.
            log.abandon();
        }
        code::of_process().end_thread(thread.tid);
        Mask::end();
        if let Some(peer) = thread.peer() {
            peer.end(thread.moment(thread.log.end));
        }
        thread.picture.shadow.release();
        if Slot::Thread.read() == std::ptr::from_mut(thread) as u64 {
            // None of the program's code runs here any more.
            // SAFETY: the calling thread's own slot.
            unsafe { *Slot::Thread.address() = 0 };
        }
        // SAFETY: the field holds null or what `start` put there, which nobody refers to: the thread does not run.
        unsafe {
            let thread = Box::from_raw(std::ptr::from_mut(thread));
            dr_thread::set_field(context, std::ptr::null_mut());
            drop(thread);
        }
    }

    /// The thread goes on in a forked child: its log so far is the parent's.
    ///
    /// # Safety
    /// In DynamoRIO's event for that.
    pub unsafe fn forked(context: *mut c_void) {
        // SAFETY: in the event.
        let Some(thread) = (unsafe { of(context) }) else { return };
        thread.signals.mask.forked();
        let recorded = crate::run::lifetime::forked();
        thread.log.forked(!recorded);
        if recorded {
            thread.tid = crate::run::lifetime::name_thread(context);
        }
        thread.syscall.own_streams = None;
        thread.syscall.own_limits = None;
        thread.foreign = false;
        thread.share_anew();
        // The next block calls out, and recording begins.
        thread.set_counter(0, 0, 0);
    }

    /// Whether this is a child of `vfork`, in its parent's memory.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Instructions that the counter says have been executed since the interval's start; in the middle of a block,
    /// those of the whole block count.
    pub fn counted(&self) -> u64 {
        self.count.threshold.wrapping_add_signed(-self.count.counter.left())
    }

    /// The thread is at this position, whatever was counted.
    pub fn recount(&mut self, position: u64) {
        self.set_counter(position, self.count.threshold, self.count.threshold as i64 - position as i64);
    }

    /// Sets the counter, which reaches 0 at the position `threshold`; all that comes before `position` has been executed.
    fn set_counter(&mut self, position: u64, threshold: u64, left: i64) {
        self.count.threshold = threshold;
        self.count.counter.set(left);
        self.pass(position);
    }

    /// All registers, at the callout of an instruction at `pc`.
    fn registers(&mut self, pc: u64, flags: u64) -> RegisterFile {
        let mut regs = RegisterFile {
            gpr: self.callouts.saved.gpr,
            rip: pc,
            rflags: self.callouts.saved.rflags,
            ymm: self.callouts.saved.ymm,
            ..RegisterFile::default()
        };
        regs.rflags_known = flags | COMPARED_FLAGS & !ARITHMETIC_FLAGS;
        self.complete(&mut regs);
        regs
    }

    /// Adds to the registers what neither the stub nor DynamoRIO saves.
    pub fn complete(&mut self, regs: &mut RegisterFile) {
        regs.rflags = regs.rflags & (COMPARED_FLAGS | ALIGNMENT_CHECK) | 0x202;
        self.segments.bases = [segment_base(Segment::Fs), segment_base(Segment::Gs)];
        [regs.fs_base, regs.gs_base] = self.segments.bases;
        fpu::save(regs);
    }

    /// The program is about to execute its first instruction.
    fn prepare_start(&mut self) {
        let rsp = &mut self.callouts.saved.gpr[usize::from(Gpr::RSP.0)];
        signals::begin();
        timers::begin();
        environment::hide(*rsp);
        if placement::stack_moves() {
            *rsp = stack_move::relocate(*rsp, self.picture.shadow);
        }
    }

    /// What the stub leads to.
    pub fn callout(&mut self, site: &Site) {
        if recording::over() {
            self.follow_end();
        }
        if let Some(chaos) = &mut self.chaos {
            chaos.come_to(site.pc);
        }
        if let Kind::Limit { flags, saved } = site.kind {
            if saved {
                self.callouts.saved.rflags = self.callouts.saved.rflags & !ARITHMETIC_FLAGS | Slot::read_flags();
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
        if self.signals.leave.is_urgent() && self.count.counter.left() > 0 {
            self.limit_soon();
        }
    }

    /// In a system call, what may wait for the mask to be opened is let in. Returns what kills the thread before the call.
    #[must_use]
    pub fn let_signals_in(&mut self) -> Option<Sent> {
        if self.signals.leave.is_urgent() { self.signals.mask.open() } else { None }
    }
}
