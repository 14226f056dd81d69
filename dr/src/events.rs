//! DynamoRIO's events: what it calls, and what it tells then.

use crate::context::{Machine, View};
use crate::process::Module;
use crate::sys;
use std::ffi::{c_int, c_void};

pub use crate::ir::List;

/// C's boolean of DynamoRIO's.
pub type Bool = sys::bool_;
/// What DynamoRIO does with a block: see [`EMIT`] and [`EMIT_TRANSLATIONS`].
pub type Emit = sys::dr_emit_flags_t;
/// It builds the block once more where it has to translate an address in it.
pub const EMIT: Emit = sys::dr_emit_flags_t::DR_EMIT_DEFAULT;
/// It keeps what each of its instructions was made of: code that has changed cannot be translated anew.
pub const EMIT_TRANSLATIONS: Emit = sys::dr_emit_flags_t::DR_EMIT_STORE_TRANSLATIONS;

/// What becomes of a signal.
pub type Action = sys::dr_signal_action_t;
/// The program gets it.
pub const DELIVER: Action = sys::dr_signal_action_t_DR_SIGNAL_DELIVER;
/// Nobody does.
pub const SUPPRESS: Action = sys::dr_signal_action_t_DR_SIGNAL_SUPPRESS;
/// Execution goes on with the registers that [`Signal::machine_mut`] has.
pub const REDIRECT: Action = sys::dr_signal_action_t_DR_SIGNAL_REDIRECT;

/// A block in the code cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where its code begins.
    pub start: u64,
    /// Its tag: the program's address, or one of ours.
    pub tag: u64,
}

impl Fragment {
    fn of(info: &sys::dr_fault_fragment_info_t) -> Option<Self> {
        let (start, tag) = (info.cache_start_pc as u64, info.tag as u64);
        (start != 0).then_some(Self { start, tag })
    }
}

/// The registers that DynamoRIO tells if it says that they are valid.
///
/// # Safety
/// An event's, as long as that.
unsafe fn raw<'a>(machine: *mut sys::dr_mcontext_t, valid: Bool) -> Option<&'a View> {
    // SAFETY: the caller's promise.
    if valid != 0 { unsafe { Machine::of(machine) } } else { None }
}

/// A signal that has arrived.
#[repr(transparent)]
pub struct Signal(sys::dr_siginfo_t);

impl Signal {
    /// Its number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.0.sig
    }

    /// The address that an instruction has accessed, where that has caused it.
    #[must_use]
    pub fn access_address(&self) -> u64 {
        self.0.access_address as u64
    }

    /// Whether the program blocks it.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.0.blocked != 0
    }

    /// The block that was being executed, if one was.
    #[must_use]
    pub fn fragment(&self) -> Option<Fragment> {
        Fragment::of(&self.0.fault_fragment_info)
    }

    /// The registers as they were in the code cache, or in DynamoRIO's code, if DynamoRIO tells them: for signals that instructions cause.
    #[must_use]
    pub fn raw(&self) -> Option<&View> {
        // SAFETY: the event's.
        unsafe { raw(self.0.raw_mcontext, self.0.raw_mcontext_valid) }
    }

    /// The program's registers.
    #[must_use]
    pub fn machine(&self) -> &View {
        // SAFETY: DynamoRIO fills them in for each signal; they are there as long as the event.
        unsafe { Machine::of(self.0.mcontext) }.unwrap_or_else(|| unreachable!("a signal has registers"))
    }

    /// The same; DynamoRIO takes changes from there.
    pub fn machine_mut(&mut self) -> &mut View {
        // SAFETY: as in `machine`, and nobody else refers to them.
        unsafe { Machine::of_mut(self.0.mcontext) }.unwrap_or_else(|| unreachable!("a signal has registers"))
    }
}

/// The kernel moves a thread elsewhere.
#[repr(transparent)]
pub struct Transfer(sys::dr_kernel_xfer_info_t);

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// To a signal's handler.
    Delivery,
    /// Back from one.
    Return,
    /// Otherwise.
    Other,
}

impl Transfer {
    /// How.
    #[must_use]
    pub fn kind(&self) -> TransferKind {
        match self.0.type_ {
            sys::dr_kernel_xfer_type_t_DR_XFER_SIGNAL_DELIVERY => TransferKind::Delivery,
            sys::dr_kernel_xfer_type_t_DR_XFER_SIGNAL_RETURN => TransferKind::Return,
            _ => TransferKind::Other,
        }
    }

    /// The signal's number.
    #[must_use]
    pub fn signal(&self) -> i32 {
        self.0.sig
    }

    /// The program's registers where it comes from, if DynamoRIO tells them.
    #[must_use]
    pub fn source(&self) -> Option<&View> {
        // SAFETY: null or the event's, as long as that.
        unsafe { Machine::of(self.0.source_mcontext) }
    }
}

/// A state in the code cache is to become one of the program's.
#[repr(transparent)]
pub struct Restored(sys::dr_restore_state_info_t);

impl Restored {
    /// The block, if it is one.
    #[must_use]
    pub fn fragment(&self) -> Option<Fragment> {
        Fragment::of(&self.0.fragment_info)
    }

    /// The registers as they are in the code cache, if DynamoRIO knows them.
    #[must_use]
    pub fn raw(&self) -> Option<&View> {
        // SAFETY: the event's.
        unsafe { raw(self.0.raw_mcontext, self.0.raw_mcontext_valid) }
    }

    /// The program's registers, as far as DynamoRIO has restored them, which are to be put right.
    pub fn machine_mut(&mut self) -> &mut View {
        // SAFETY: the event's, as long as that, and nobody else refers to it.
        unsafe { Machine::of_mut(self.0.mcontext) }.unwrap_or_else(|| unreachable!("a state has registers"))
    }
}

/// A module that is mapped.
#[repr(transparent)]
pub struct Loaded(sys::module_data_t);

impl Loaded {
    /// What is known of it.
    #[must_use]
    pub fn module(&self) -> Module {
        // SAFETY: the event's description.
        unsafe { Module::of(&raw const self.0) }.unwrap_or_else(|| unreachable!("not null"))
    }
}

/// A thread of DynamoRIO's.
type Context = *mut c_void;
/// See [`Events::restore`].
pub type RestoreEvent = unsafe extern "C" fn(Context, Bool, *mut Restored) -> Bool;
/// See [`Events::signal`].
pub type SignalEvent = unsafe extern "C" fn(Context, *mut Signal) -> Action;
/// See [`Events::module`].
pub type ModuleEvent = unsafe extern "C" fn(Context, *const Loaded, Bool);
/// See [`Events::transfer`].
pub type TransferEvent = unsafe extern "C" fn(Context, *const Transfer);

/// What is called when. Each function is called with the context of the calling thread first, but for `exit`, on whichever stack DynamoRIO is; what
/// is pointed to is there as long as the event.
#[derive(Clone, Copy, Default)]
pub struct Events {
    /// A thread begins.
    pub thread_start: Option<unsafe extern "C" fn(Context)>,
    /// A thread ends.
    pub thread_end: Option<unsafe extern "C" fn(Context)>,
    /// The process exits.
    pub exit: Option<unsafe extern "C" fn()>,
    /// In a forked child, which goes on.
    pub fork: Option<unsafe extern "C" fn(Context)>,
    /// A block is built, of code at a tag; for a trace; to translate an address.
    pub block: Option<unsafe extern "C" fn(Context, *mut c_void, *mut List, Bool, Bool) -> Emit>,
    /// A block is gone.
    pub block_deleted: Option<unsafe extern "C" fn(Context, *mut c_void)>,
    /// A state is to be restored.
    pub restore: Option<RestoreEvent>,
    /// A signal has arrived.
    pub signal: Option<SignalEvent>,
    /// Whether the client sees the system call with a number.
    pub call_filter: Option<unsafe extern "C" fn(Context, c_int) -> Bool>,
    /// Before a system call; 0 if it is not to be made.
    pub before_call: Option<unsafe extern "C" fn(Context, c_int) -> Bool>,
    /// Behind it.
    pub after_call: Option<unsafe extern "C" fn(Context, c_int)>,
    /// A module is mapped.
    pub module: Option<ModuleEvent>,
    /// The kernel moves a thread elsewhere.
    pub transfer: Option<TransferEvent>,
}

impl Events {
    /// Lets DynamoRIO call these.
    ///
    /// # Safety
    /// In the client's entry. The functions do what DynamoRIO's documentation asks of them.
    pub unsafe fn register(self) {
        // SAFETY: the caller's promise. What the functions are given here is DynamoRIO's own under another name: the wrappers are transparent.
        unsafe {
            if self.thread_start.is_some() {
                sys::dr_register_thread_init_event(self.thread_start);
            }
            if self.thread_end.is_some() {
                sys::dr_register_thread_exit_event(self.thread_end);
            }
            if self.exit.is_some() {
                sys::dr_register_exit_event(self.exit);
            }
            if self.fork.is_some() {
                sys::dr_register_fork_init_event(self.fork);
            }
            if self.block.is_some() {
                sys::dr_register_bb_event(self.block);
            }
            if self.block_deleted.is_some() {
                sys::dr_register_delete_event(self.block_deleted);
            }
            if self.restore.is_some() {
                type Raw = unsafe extern "C" fn(Context, Bool, *mut sys::dr_restore_state_info_t) -> Bool;
                let raw = std::mem::transmute::<Option<RestoreEvent>, Option<Raw>>(self.restore);
                sys::dr_register_restore_state_ex_event(raw);
            }
            if self.signal.is_some() {
                type Raw = unsafe extern "C" fn(Context, *mut sys::dr_siginfo_t) -> Action;
                sys::dr_register_signal_event(std::mem::transmute::<Option<SignalEvent>, Option<Raw>>(self.signal));
            }
            if self.call_filter.is_some() {
                sys::dr_register_filter_syscall_event(self.call_filter);
            }
            if self.before_call.is_some() {
                sys::dr_register_pre_syscall_event(self.before_call);
            }
            if self.after_call.is_some() {
                sys::dr_register_post_syscall_event(self.after_call);
            }
            if self.module.is_some() {
                type Raw = unsafe extern "C" fn(Context, *const sys::module_data_t, Bool);
                sys::dr_register_module_load_event(std::mem::transmute::<Option<ModuleEvent>, Option<Raw>>(
                    self.module,
                ));
            }
            if self.transfer.is_some() {
                type Raw = unsafe extern "C" fn(Context, *const sys::dr_kernel_xfer_info_t);
                let raw = std::mem::transmute::<Option<TransferEvent>, Option<Raw>>(self.transfer);
                sys::dr_register_kernel_xfer_event(raw);
            }
        }
    }
}
