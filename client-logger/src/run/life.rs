//! How a thread begins, goes on in a forked child, and ends.

use crate::base::descriptors;
use crate::base::light;
use crate::base::places::Places;
use crate::base::process;
use crate::base::slots::Slot;
use crate::base::turns::{self, Born};
use crate::emitted::callout::{self, Callouts};
use crate::kernel::borrowers;
use crate::kernel::exclusion;
use crate::kernel::executing;
use crate::kernel::limits::Limits;
use crate::kernel::streams;
use crate::log::code;
use crate::log::recording;
use crate::picture::placement;
use crate::run::callouts::on_callout;
use crate::run::lifetime::{self, name_thread};
use crate::run::parts::begun::Begun;
use crate::run::parts::call::SyscallState;
use crate::run::parts::code_seq;
use crate::run::parts::count::Count;
use crate::run::parts::first_loads::FirstLoads;
use crate::run::parts::log::Log;
use crate::run::parts::picture::OwnPicture;
use crate::run::signals::mask::Mask;
use crate::run::signals::own::{self, OwnSignals};
use crate::run::thread::{Segments, Thread, of};
use bugnet_dr::thread as dr_thread;
use bugnet_format::types::Tid;
use std::ffi::c_void;

impl Thread {
    /// A thread begins.
    pub fn start(context: *mut c_void) {
        // A child of vfork runs in its parent's memory as if it were a thread; it is not recorded.
        let foreign = !process::is_own();
        if foreign {
            executing::child_begins(process::identity(), context);
        }
        // Before the name: its parent waits until that is taken.
        let born = if light::expands() && !turns::is_born() { turns::newborn() } else { None };
        let (newborn, awaits_turn, first_interval) = match born {
            Some(Born::Behind(registers)) => (Some(registers), None, 0),
            Some(Born::AtEpoch(registers, is_new)) => {
                let first = if is_new { 0 } else { light::first_interval(light::first_part()) };
                (None, Some(registers), first)
            }
            None => (None, None, 0),
        };
        let tid = if foreign { Tid::default() } else { name_thread(context) };
        let own_streams = foreign.then(|| streams::of_process().clone());
        let own_limits = foreign.then(Limits::of_process);
        let places = Places::hold();
        let shadow = placement::first_shadow(foreign);
        drop(places);
        let thread = Box::new(Self {
            callouts: Callouts::new(on_callout),
            picture: OwnPicture::new(shadow),
            context,
            foreign,
            newborn,
            awaits_turn,
            flags_lost_at: None,
            tid,
            log: Log::new(foreign || recording::over(), first_interval),
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
            own::show(&raw mut (*thread).signals);
            callout::prepare();
            (*thread).begin_chaos();
            // The first block calls out, and recording begins.
            (*thread).count.counter.set(0);
            (*thread).show_code_seq();
            // Where nothing is recorded, no block asks for what is shared: those that did are gone before the thread runs.
            if process::threaded() && !recording::over() {
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
        if thread.foreign {
            exclusion::child_ends(context);
        }
        if process::is_own() {
            thread.cut_off();
        } else if let Some(log) = thread.log.writer.take() {
            // A thread of the process that this one was just forked from, where it goes on.
            log.abandon();
        }
        thread.syscall.ends();
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
            own::show(std::ptr::null_mut());
        }
        // SAFETY: the field holds null or what `start` put there, which nobody refers to: the thread does not run.
        unsafe {
            let thread = Box::from_raw(std::ptr::from_mut(thread));
            dr_thread::set_field(context, std::ptr::null_mut());
            drop(thread);
        }
    }

    /// The thread goes on in a forked child, of which nothing is recorded, since the recorder has failed: its log is the parent's.
    ///
    /// # Safety
    /// In DynamoRIO's event for that.
    pub unsafe fn leave_parents_log(context: *mut c_void) {
        // SAFETY: in the event.
        let Some(thread) = (unsafe { of(context) }) else { return };
        thread.log.forked(true);
        thread.foreign = false;
    }

    /// The thread goes on in a forked child: its log so far is the parent's.
    ///
    /// # Safety
    /// In DynamoRIO's event for that.
    pub unsafe fn forked(context: *mut c_void) {
        // SAFETY: in the event.
        let Some(thread) = (unsafe { of(context) }) else { return };
        descriptors::forget();
        thread.signals.mask.forked();
        let recorded = lifetime::forked();
        thread.log.forked(!recorded);
        if recorded {
            thread.tid = name_thread(context);
        }
        thread.syscall.own_streams = None;
        thread.syscall.own_limits = None;
        thread.foreign = false;
        thread.share_anew();
        // The next block calls out, and recording begins.
        thread.set_counter(0, 0, 0);
    }
}
