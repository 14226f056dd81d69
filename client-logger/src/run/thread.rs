//! A thread of the recorded program: its parts, its position, its registers. What it does is in the modules below.

mod chaos;
mod code_seq;
mod copies;
mod epoch;
pub mod first_stack;
mod log;
mod memory;
mod ownership;
mod room;
mod threshold;

use crate::emitted::callout::Callouts;
use crate::picture::epochs;
use crate::picture::moment::Moment;
use crate::picture::peer::{Passed, Peer};
use crate::run::parts::begun::Begun;
use crate::run::parts::call::SyscallState;
use crate::run::parts::chaos::Chaos;
use crate::run::parts::count::Count;
use crate::run::parts::first_loads::FirstLoads;
use crate::run::parts::log::Log;
use crate::run::parts::ownership::Ownership;
use crate::run::parts::picture::OwnPicture;
use crate::run::signals::own::OwnSignals;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::fpu;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::thread::{self as dr_thread, segment_base};
use bugnet_format::regs::{ALIGNMENT_CHECK, ARITHMETIC_FLAGS, COMPARED_FLAGS, RegisterFile};
use bugnet_format::types::{CodeSeq, Tid};
use std::ffi::c_void;
use std::sync::Arc;

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
    pub(in crate::run) context: *mut c_void,
    /// Whether it belongs to another process, which shares the memory.
    pub(in crate::run) foreign: bool,
    /// The registers with which it begins, where it was made by a call in a light log.
    pub(in crate::run) newborn: Option<[u64; 16]>,
    /// Its registers, where others go on before it does, at a moment of a light log.
    pub(in crate::run) awaits_turn: Option<Box<RegisterFile>>,
    /// Where the arithmetic flags may not be the program's, as it reads them no more.
    pub(in crate::run) flags_lost_at: Option<u64>,
    pub(in crate::run) tid: Tid,
    pub(in crate::run) log: Log,
    pub(in crate::run) count: Count,
    /// The code picture that the log has; later than any as long as there is no log.
    pub(in crate::run) code_seq: CodeSeq,
    pub(in crate::run) loads: FirstLoads,
    pub(in crate::run) begun: Begun,
    pub(in crate::run) ownership: Option<Ownership>,
    /// What there is of its signals.
    pub signals: OwnSignals,
    /// What perturbs when it runs, if something is to.
    pub(in crate::run) chaos: Option<Box<Chaos>>,
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

/// The thread that DynamoRIO's context is of.
///
/// # Safety
/// In an event on this thread, in which nobody else refers to it: DynamoRIO lets none begin while it is in another one, or in a callout, but
/// for those of faults, which come from the code cache.
pub unsafe fn of<'a>(context: *mut c_void) -> Option<&'a mut Thread> {
    // SAFETY: the field holds null or what `Thread::start` put there, and the caller's promise.
    unsafe { dr_thread::field(context).cast::<Thread>().as_mut() }
}

impl Thread {
    /// Its number in the log.
    pub fn tid(&self) -> Tid {
        self.tid
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
    pub(in crate::run) fn set_counter(&mut self, position: u64, threshold: u64, left: i64) {
        self.count.threshold = threshold;
        self.count.counter.set(left);
        self.pass(position);
    }

    /// All registers, at the callout of an instruction at `pc`.
    pub(in crate::run) fn registers(&mut self, pc: u64, flags: u64) -> RegisterFile {
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

    /// The thread as the others see it, if there are others.
    pub(in crate::run) fn peer(&self) -> Option<&Arc<Peer>> {
        self.ownership.as_ref()?.peer.as_ref()
    }

    pub(in crate::run) fn moment(&self, position: u64) -> Moment {
        Moment { interval: self.log.interval.0, position }
    }

    /// The thread accesses no memory until it executes another block, as in a system call at this position.
    pub fn leave(&self, position: u64) {
        if let Some(peer) = self.peer() {
            peer.leave(self.moment(position));
        }
    }

    /// The thread is at the start of a block, or not going to return to its block, at this position.
    pub(in crate::run) fn pass(&self, position: u64) -> Passed {
        self.peer()
            .map_or(Passed::Uncalled, |peer| peer.pass(self.moment(position), |epoch| epochs::get().admits(epoch)))
    }
}
