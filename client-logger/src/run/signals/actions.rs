//! What signals do: what the program has set for each, and what the kernel is given in its place.

use super::sets::{LEFT_TO_KERNEL, NEVER_BLOCKED, SET_BYTES, SIGNALS, bit};
use crate::base::lock::{Mutex, MutexGuard};
use bugnet_dr::actions::{self, Words};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// The disposition of a signal that is ignored.
pub const IGNORE: u64 = libc::SIG_IGN as u64;

/// `struct sigaction` as the system call has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

impl From<Words> for Action {
    fn from([handler, flags, restorer, mask]: Words) -> Self {
        Self { handler, flags, restorer, mask }
    }
}

impl Action {
    /// That by which a signal is delivered.
    ///
    /// # Safety
    /// In the event of the signal, or in that of its delivery, with the event's context.
    pub unsafe fn delivered(context: *mut c_void) -> Self {
        // SAFETY: the caller's promise.
        unsafe { actions::delivered(context) }.into()
    }

    /// The kernel's disposition of a signal.
    pub fn of(signal: i32) -> Option<Self> {
        let mut action = Self::default();
        // SAFETY: asks only; the structure is the kernel's.
        let result = unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, std::ptr::null::<Self>(), &raw mut action, SET_BYTES)
        };
        (result == 0).then_some(action)
    }

    /// The same, with what DynamoRIO blocks in its handler of the signal as far as that is in [`BLOCKED`].
    pub fn under_mask(self, signal: i32) -> Self {
        let dynamorios = lock(&IN_FRONT).get(signal as usize).map_or(self.mask, |front| front.mask);
        let blocked = BLOCKED.load(Ordering::SeqCst) | !ASYNCHRONOUS.load(Ordering::SeqCst);
        Self { mask: dynamorios & blocked, ..self }
    }

    /// Makes it the kernel's disposition of a signal.
    pub fn set(&self, signal: i32) {
        // SAFETY: either a disposition without a handler, or DynamoRIO's own with the handler in front of it.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const *self, std::ptr::null_mut::<Self>(), SET_BYTES);
        }
    }
}

/// Signals that DynamoRIO does not take where it finds code of a client.
pub const NOT_TAKEN: u64 = bit(libc::SIGSEGV) | bit(libc::SIGBUS);
/// Those of them that kill: for the handler, which must not wait for a lock.
static KILLS: AtomicU64 = AtomicU64::new(NOT_TAKEN);

/// DynamoRIO's handler.
pub static DYNAMORIO: AtomicU64 = AtomicU64::new(0);
/// What the handler in front takes for asynchronous.
pub static ASYNCHRONOUS: AtomicU64 = AtomicU64::new(!NEVER_BLOCKED);
/// What it and DynamoRIO's block: those, but for what the kernel does by itself. That must not wait: the kernel keeps what is blocked for
/// whichever thread can take it, and interrupts that thread's system call, only to find that there is nothing to do.
pub static BLOCKED: AtomicU64 = AtomicU64::new(!NEVER_BLOCKED);
/// The handler in front, once it is there.
pub static FRONT: AtomicU64 = AtomicU64::new(0);
/// DynamoRIO's disposition of each signal; its handler is the one in front.
pub static IN_FRONT: Mutex<Vec<Action>> = Mutex::new(Vec::new());
/// What is set for each signal.
pub type Actions = [Option<Action>; SIGNALS as usize + 1];
/// What the program has set.
pub static PROGRAMS: Mutex<Actions> = Mutex::new([None; SIGNALS as usize + 1]);
/// The mask with which the next thread begins: its creator's.
pub static INHERITED: AtomicU64 = AtomicU64::new(0);

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The program has set what a signal does.
pub fn follow_kills(signal: i32, handler: u64) {
    if handler == 0 {
        KILLS.fetch_or(bit(signal), Ordering::Relaxed);
    } else {
        KILLS.fetch_and(!bit(signal), Ordering::Relaxed);
    }
}

/// Whether a signal of [`NOT_TAKEN`] kills.
pub fn kills(signal: i32) -> bool {
    KILLS.load(Ordering::Relaxed) & bit(signal) != 0
}

/// The program, or a child of `vfork` with actions of its `own`, has set the disposition of a signal; or a handler that was set for one signal begins.
///
/// # Safety
/// The context of the thread that has.
pub unsafe fn follow(signal: i32, context: *mut c_void, own: Option<&mut Actions>) {
    if !(1..=SIGNALS).contains(&signal) {
        return;
    }
    let is_own = own.is_some();
    // Threads may come here in another order than that in which they have set it, so each asks what has been set last; the kernel's follows under the
    // lock, too.
    let mut programs = lock(&PROGRAMS);
    // SAFETY: the caller's promise.
    let action = Action::from(unsafe { actions::of(context, signal) });
    if let Some(own) = own {
        own[signal as usize] = Some(action);
    } else {
        programs[signal as usize] = Some(action);
        follow_kills(signal, action.handler);
    }
    let Some(front) = lock(&IN_FRONT).get(signal as usize).copied().filter(|front| front.handler != 0) else { return };
    let set = match action.handler {
        0 if bit(signal) & LEFT_TO_KERNEL == 0 => front,
        0 | 1 => {
            Action { handler: action.handler, flags: action.flags & libc::SA_NOCLDWAIT as u64, ..Action::default() }
        }
        _ => {
            // What the kernel looks at itself.
            let kept = libc::SA_NOCLDSTOP as u64 | libc::SA_NOCLDWAIT as u64;
            Action { flags: front.flags & !kept | action.flags & kept, ..front }
        }
    };
    let bit = bit(signal);
    if set.handler == front.handler {
        if BLOCKED.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
            follow_blocked();
        }
        set.under_mask(signal).set(signal);
    } else {
        set.set(signal);
        // The parent of a child of `vfork` has its own.
        if !is_own && BLOCKED.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
            follow_blocked();
        }
    }
}

/// The handlers in front, by the kernel's mask of which DynamoRIO's run as well, block no more than [`BLOCKED`].
pub fn follow_blocked() {
    let front = FRONT.load(Ordering::SeqCst);
    for signal in 1..=SIGNALS {
        let in_front = |action: &Action| action.handler == front;
        if let Some(action) = Action::of(signal).filter(in_front) {
            action.under_mask(signal).set(signal);
        }
    }
}

/// Where the actions have that of a signal.
pub fn place(signal: i32) -> usize {
    (signal & 127).min(SIGNALS) as usize
}

/// What the program has set for each signal.
pub fn programs() -> Actions {
    *lock(&PROGRAMS)
}

/// What the program has set for a signal: 0 the default, 1 to ignore it, otherwise the handler's address.
pub fn handler(signal: i32) -> u64 {
    lock(&PROGRAMS)[place(signal)].map_or(0, |action| action.handler)
}
