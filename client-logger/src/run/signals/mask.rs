//! A thread's signal mask: the program's, and what the kernel's is meanwhile.

use super::actions::{Action, Actions, BLOCKED, INHERITED, PROGRAMS, follow, handler, lock, place};
use super::frame::FRAME_MASK;
use super::held::{self, Sent};
use super::pending::Pending;
use super::sets::{NEVER_BLOCKED, SET_BYTES, UNBLOCKABLE, bit};
use super::{suspended, unborn};
use crate::base::memory::{read_word, write_memory};
use bugnet_dr::call as call_event;
use bugnet_format::regs::{RSP, RegisterFile};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// A thread's mask.
pub struct Mask {
    blocked: u64,
    /// The set that a system call gets in place of the program's.
    copy: u64,
    /// The same for `sigsuspend`, while it waits.
    suspended: Option<suspended::Place>,
    /// What the kernel's mask is in a system call.
    during: u64,
    /// Whether the system call waits with a mask that the kernel opens at once with the wait; it is closed around it.
    waits: bool,
    /// Whether it is closed for another reason, up to when the call is over.
    closed: bool,
    /// A mask like the program's for such a call that has none, and the kernel's description of it.
    given: (u64, [u64; 2]),
    /// The mask of a wait that a signal has just ended.
    interrupted: Option<u64>,
    /// Whether a handler runs that ended such a wait, whose mask DynamoRIO does not know.
    in_wait: bool,
    /// What DynamoRIO takes for blocked in such a handler: it has to wait in the kernel, too, where the next wait finds it.
    before_wait: u64,
    /// What a child of `vfork` has set, which has its parent's memory, but signal handlers of its own.
    own: Option<Box<Actions>>,
    /// Whether the thread has not executed anything yet.
    unborn: bool,
    /// What DynamoRIO holds.
    pub pending: Pending,
    /// Whether the mask is closed until the next block begins.
    to_open: bool,
}

/// Sets the calling thread's mask in the kernel.
pub(super) fn set(mask: u64) {
    let mask = mask & !NEVER_BLOCKED;
    // SAFETY: DynamoRIO emulates the program's mask, whatever the kernel's is.
    unsafe {
        let none = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, none, SET_BYTES);
    }
}

/// The mask that a system call has while it waits.
fn temporary(number: i64, args: &[u64; 6]) -> Option<u64> {
    read_word(given(number, args)??.mask)
}

/// A mask as a system call is given it.
#[derive(Clone, Copy)]
struct Given {
    /// Its address; 0 for none.
    mask: u64,
    /// How many bytes it has, as the call says.
    size: u64,
}

/// The mask that a system call waits with; the inner `None` if it cannot be read where it is.
fn given(number: i64, args: &[u64; 6]) -> Option<Option<Given>> {
    let [mask, size] = match number {
        libc::SYS_rt_sigsuspend => [args[0], args[1]],
        libc::SYS_ppoll => [args[3], args[4]],
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => [args[4], args[5]],
        libc::SYS_pselect6 if args[5] == 0 => [0; 2],
        libc::SYS_pselect6 => {
            return Some(read_word(args[5]).zip(read_word(args[5] + 8)).map(|(mask, size)| Given { mask, size }));
        }
        _ => return None,
    };
    Some(Some(Given { mask, size }))
}

/// The argument by which a system call that waits gets the mask that it has meanwhile, which the kernel opens at once with the wait; and that
/// by which it gets the mask's size, where the first one is not of both.
fn mask_of_wait(number: i64) -> Option<(usize, Option<usize>)> {
    match number {
        libc::SYS_ppoll => Some((3, Some(4))),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Some((4, Some(5))),
        libc::SYS_pselect6 => Some((5, None)),
        _ => None,
    }
}

/// What the kernel answers to a system call that waits with a mask which cannot be read; DynamoRIO would fail at it.
pub fn refused(number: i64, args: &[u64; 6]) -> Option<i64> {
    let error = match given(number, args)? {
        Some(Given { mask: 0, .. }) if number != libc::SYS_rt_sigsuspend => return None,
        Some(Given { mask, .. }) if read_word(mask).is_some() => return None,
        Some(Given { size, .. }) if size != SET_BYTES => libc::EINVAL,
        _ => libc::EFAULT,
    };
    Some(-i64::from(error))
}

/// `sigaltstack` tells whether the alternate stack is in use, which DynamoRIO leaves out: `stack_t` is at `address`.
fn show_stack_in_use(address: u64, stack: u64) {
    const FLAGS: u64 = 8;
    const SIZE: u64 = 16;
    let (Some(start), Some(flags), Some(size)) =
        (read_word(address), read_word(address + FLAGS), read_word(address + SIZE))
    else {
        return;
    };
    if flags as i32 & libc::SS_DISABLE == 0 && (start..start.saturating_add(size)).contains(&stack) {
        write_memory(address + FLAGS, &(flags as i32 | libc::SS_ONSTACK).to_le_bytes());
    }
}

/// Whether a signal that DynamoRIO gets behind such a system call comes too late: the thread blocks it by then, or there is no thread any more.
pub fn is_last_to_let_in(number: i64) -> bool {
    matches!(number, libc::SYS_rt_sigprocmask | libc::SYS_exit | libc::SYS_execve | libc::SYS_execveat)
}

/// Whether a system call makes a process or thread.
fn creates(number: i64) -> bool {
    matches!(number, libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3)
}

impl Mask {
    /// That of a thread that begins; `foreign` for a child of `vfork`.
    pub fn inherited(foreign: bool) -> Self {
        let blocked = INHERITED.load(Ordering::Relaxed);
        let own = foreign.then(|| Box::new(*lock(&PROGRAMS)));
        Self {
            blocked,
            copy: 0,
            suspended: None,
            during: blocked,
            waits: false,
            closed: false,
            given: (0, [0; 2]),
            interrupted: None,
            in_wait: false,
            before_wait: 0,
            own,
            unborn: true,
            pending: Pending::default(),
            to_open: false,
        }
    }

    /// What is set for a signal, as `sigaction` numbers it: 0 the default, 1 to ignore it, otherwise the handler's address.
    pub fn handler(&self, signal: i32) -> u64 {
        match &self.own {
            Some(own) => own[place(signal)].map_or(0, |action| action.handler),
            None => handler(signal),
        }
    }

    /// Which signals the program blocks.
    pub fn blocked(&self) -> u64 {
        self.blocked
    }

    /// The kernel's mask becomes this one; but all wait there while DynamoRIO holds a signal.
    pub fn apply(&self) {
        let mask = if self.in_wait { self.blocked | self.before_wait } else { self.blocked };
        // First, so that none comes while this looks.
        set(mask | BLOCKED.load(Ordering::SeqCst));
        if !self.pending.any() {
            set(mask);
        }
    }

    /// The thread exists, and is about to be made ready to begin.
    pub fn announce(&self) {
        self.apply();
        unborn::announce();
    }

    /// The thread is about to execute instructions: the first ones, if it has not been here.
    pub fn begin(&mut self) {
        if std::mem::take(&mut self.unborn) {
            // In this order: in between, what comes is still put off.
            self.apply();
            unborn::begin();
        }
    }

    /// The thread ends, or goes on in a forked child.
    pub fn end() {
        unborn::begin();
    }

    /// The calling thread, whose mask this is, is a forked child's only one.
    pub fn forked(&mut self) {
        self.unborn = false;
        self.pending.forget();
        unborn::forget();
        suspended::forget();
        if let Some(own) = self.own.take() {
            *lock(&PROGRAMS) = *own;
        }
    }

    /// The next block is to open the mask, which is closed.
    pub fn open_soon(&mut self) {
        self.to_open = true;
    }

    /// Whether a block that begins is to open the mask.
    pub fn is_to_open(&self) -> bool {
        self.to_open
    }

    /// The thread is about to leave the code cache, in a callout: what waits is let in, and is delivered by then.
    /// Returns what kills the thread right there.
    #[must_use]
    pub fn open(&mut self) -> Option<Sent> {
        self.to_open = false;
        self.apply();
        held::let_in(|signal| self.handler(signal))
    }

    /// Before a system call with these registers. DynamoRIO takes bits out of the sets that it is given, and shows those
    /// that cannot be blocked as blocked: it gets a copy.
    ///
    /// # Safety
    /// In the pre-syscall event.
    pub unsafe fn before(&mut self, context: *mut c_void, number: i64, args: &[u64; 6], regs: &RegisterFile) {
        self.interrupted = None;
        self.suspended = None;
        let temporary = temporary(number, args);
        self.during = temporary.unwrap_or(self.blocked) & !NEVER_BLOCKED;
        // SAFETY: the caller's promise.
        self.waits = unsafe { self.waits(context, number, args, temporary.is_some()) };
        // What comes before one of these is delivered before it.
        self.closed = is_last_to_let_in(number);
        if self.waits || self.closed {
            set(self.blocked | BLOCKED.load(Ordering::SeqCst));
        }
        let pointer = match number {
            libc::SYS_rt_sigsuspend => 0,
            libc::SYS_rt_sigprocmask => 1,
            _ => usize::MAX,
        };
        if let Some(set) = args.get(pointer).copied().and_then(read_word) {
            self.copy = set & !UNBLOCKABLE;
            self.suspended = if pointer == 0 { suspended::Place::take(set) } else { None };
            let copy = self.suspended.as_ref().map_or(&raw mut self.copy as u64, suspended::Place::address);
            // SAFETY: the caller's promise; the copy stays where it is, and `after` restores the register.
            unsafe { call_event::set_argument(context, pointer, copy) };
        }
        match number {
            libc::SYS_rt_sigreturn => {
                self.in_wait = false;
                if let Some(mask) = read_word(regs.gpr[RSP] + FRAME_MASK) {
                    self.blocked = mask & !UNBLOCKABLE;
                    // DynamoRIO returns with the mask that it finds now, whatever comes in between.
                    set(self.blocked | BLOCKED.load(Ordering::SeqCst));
                }
            }
            _ if creates(number) => {
                INHERITED.store(self.blocked, Ordering::Relaxed);
                // DynamoRIO forgets what comes to a child before it has settled: let it wait.
                set(self.blocked | BLOCKED.load(Ordering::SeqCst));
            }
            _ if self.waits || self.closed => {}
            _ => {
                if let Some(mask) = temporary {
                    set(mask);
                }
            }
        }
    }

    /// Whether a system call waits, and the kernel opens the mask meanwhile: it is to be closed before, so that what comes before ends the wait.
    /// DynamoRIO makes the call though it holds a signal that has come after it looked, and its handler may be what the program waits for; so a
    /// call that has no mask of its own gets the program's.
    ///
    /// # Safety
    /// In the pre-syscall event.
    unsafe fn waits(&mut self, context: *mut c_void, number: i64, args: &[u64; 6], has_mask: bool) -> bool {
        if number == libc::SYS_rt_sigsuspend {
            return has_mask;
        }
        let Some((mask, size)) = mask_of_wait(number) else { return false };
        if !has_mask {
            let is_none = given(number, args).flatten().is_some_and(|given| given.mask == 0);
            if !is_none {
                // It cannot be read, and the call is refused.
                return false;
            }
            self.given = (self.blocked, [&raw const self.given.0 as u64, SET_BYTES]);
            // SAFETY: the caller's promise; what is given stays where it is, and the registers are restored behind the call.
            unsafe {
                match size {
                    Some(size) => {
                        call_event::set_argument(context, mask, &raw const self.given.0 as u64);
                        call_event::set_argument(context, size, SET_BYTES);
                    }
                    None => call_event::set_argument(context, mask, self.given.1.as_ptr() as u64),
                }
            }
        }
        true
    }

    /// In the system call that is just over: lets no signal in any more, unless the thread has taken one. Returns whether it has, or may
    /// have. The handler in front then has blocked all.
    pub fn close(&self) -> bool {
        if self.waits {
            return self.pending.any();
        }
        let all = BLOCKED.load(Ordering::SeqCst);
        if self.during & all == all {
            return true;
        }
        let mask = self.during | all;
        let mut before = 0u64;
        // SAFETY: as for `set`.
        unsafe {
            let (new, old) = (&raw const mask, &raw mut before);
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, old, SET_BYTES);
        }
        before & all == all
    }

    /// The system call that was just over is about to be made once more.
    pub fn reopen(&self) {
        // Around a wait it is closed.
        if !self.waits {
            set(self.during);
        }
    }

    /// It is not made after all.
    pub fn not_called(&mut self) {
        if std::mem::take(&mut self.closed) {
            self.apply();
        }
    }

    /// After it; `stack` is the stack pointer.
    ///
    /// # Safety
    /// In the post-syscall event, with the event's context.
    pub unsafe fn after(&mut self, context: *mut c_void, number: i64, args: &[u64; 6], result: i64, stack: u64) {
        self.suspended = None;
        if number == libc::SYS_rt_sigprocmask && self.in_wait && result == 0 && args[2] != 0 {
            write_memory(args[2], &self.blocked.to_le_bytes());
        }
        match number {
            libc::SYS_sigaltstack if result == 0 && args[1] != 0 => show_stack_in_use(args[1], stack),
            libc::SYS_rt_sigprocmask if args[1] != 0 && (result == 0 || result == -i64::from(libc::EFAULT)) => {
                let Some(set) = read_word(args[1]) else { return };
                let change = |mask: u64| match args[0] as i32 {
                    libc::SIG_BLOCK => mask | set,
                    libc::SIG_UNBLOCK => mask & !set,
                    _ => set,
                };
                self.blocked = change(self.blocked) & !UNBLOCKABLE;
                self.before_wait = change(self.before_wait);
                self.apply();
            }
            libc::SYS_rt_sigaction if result == 0 && args[1] != 0 => {
                // SAFETY: the caller's promise.
                unsafe { follow(args[0] as i32, context, self.own.as_deref_mut()) };
            }
            _ => {
                let temporary = temporary(number, args);
                self.interrupted = temporary.filter(|_| result == -i64::from(libc::EINTR));
                if creates(number) || temporary.is_some() || self.waits || self.closed {
                    self.apply();
                }
            }
        }
    }

    /// A handler of the program's is about to begin. What else waits natively interrupts it before its first instruction, so the kernel's
    /// mask stays as it is until the thread is there.
    ///
    /// # Safety
    /// In the event of the delivery, with the event's context.
    pub unsafe fn delivered(&mut self, context: *mut c_void, signal: i32) {
        self.pending.remove(signal);
        const NODEFER: u64 = libc::SA_NODEFER as u64;
        const RESETHAND: u64 = 0x8000_0000;
        if let Some(mask) = self.interrupted.take() {
            (self.before_wait, self.in_wait) = (self.blocked, true);
            self.blocked = mask & !UNBLOCKABLE;
        }
        // SAFETY: the caller's promise.
        let action = unsafe { Action::delivered(context) };
        let own = if action.flags & NODEFER == 0 { bit(signal) } else { 0 };
        self.blocked |= (action.mask | own) & !UNBLOCKABLE;
        if action.flags & RESETHAND != 0 {
            // SAFETY: as above.
            unsafe { follow(signal, context, self.own.as_deref_mut()) };
        }
    }
}
