//! The program's signal masks and dispositions, made true in the kernel.
//!
//! DynamoRIO takes every signal and emulates masks, so that a blocked signal waits in DynamoRIO, where neither `sigwait`
//! nor `signalfd` nor `sigpending` nor another thread finds it; and an ignored one interrupts system calls. Here:
//!
//! - the kernel's mask of a thread is the program's, for all signals that are not faults;
//! - in front of DynamoRIO's handler stands one that leaves all signals blocked when it returns, until the program's
//!   handler begins with its own mask: DynamoRIO holds one signal at a time ([`Pending`]), and the others wait in the
//!   kernel, in their order. While DynamoRIO looks through those that it holds, it drops what comes, so it never does that
//!   with the mask open;
//! - signals that DynamoRIO takes for faults, wherever they arrive, wait in the kernel until the thread opens its mask in a
//!   system call of the recorder's;
//! - signals that look like faults but were sent are held until then ([`held`]), since faults cannot be blocked;
//! - what the program ignores, or what is ignored or stops by default, the kernel does by itself.

mod codes;
mod frame;
mod held;
mod left;
mod mask;
mod pending;
mod stopped;
mod suspended;
mod unborn;

use crate::base::memory::{read_memory, read_word, write_memory};
use crate::run::leave::Leave;
use crate::run::thread;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub use codes::Codes;
pub use frame::{ARGUMENTS, Frame, RAX};
pub use held::Sent;
pub use mask::Mask;
pub use pending::Pending;
pub use suspended::repeat as repeat_suspension;

/// Signals are 1 to 64.
const SIGNALS: i32 = 64;
/// Size of a signal set, which system calls want to hear.
const SET_BYTES: u64 = 8;
/// Where a signal frame, at whose `ucontext` the stack pointer points, has the mask that the return restores.
const FRAME_MASK: u64 = 296;

/// The bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << ((signal - 1) & 63)
}

/// Signals that instructions cause, and that anybody can send as well.
const FAULTS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGFPE) | bit(libc::SIGILL) | bit(libc::SIGTRAP);
/// Signals that are never blocked in the kernel: faults, with SIGILL, by which DynamoRIO stops threads, and what cannot be.
const NEVER_BLOCKED: u64 = FAULTS | UNBLOCKABLE;
/// Signals that no program can block.
const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
/// Signals that by default do nothing, or stop or continue the process.
const LEFT_TO_KERNEL: u64 = bit(libc::SIGCHLD)
    | bit(libc::SIGURG)
    | bit(libc::SIGWINCH)
    | bit(libc::SIGCONT)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU);

/// The disposition of a signal that is ignored.
const IGNORE: u64 = libc::SIG_IGN as u64;

/// `struct sigaction` as the system call has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

impl Action {
    fn read(address: u64) -> Option<Self> {
        let mut bytes = [0; 32];
        let word = |at: usize, bytes: &[u8; 32]| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        read_memory(address, &mut bytes).then(|| Self {
            handler: word(0, &bytes),
            flags: word(8, &bytes),
            restorer: word(16, &bytes),
            mask: word(24, &bytes),
        })
    }

    /// The kernel's disposition of a signal.
    fn of(signal: i32) -> Option<Self> {
        let mut action = Self::default();
        // SAFETY: asks only; the structure is the kernel's.
        let result = unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, std::ptr::null::<Self>(), &raw mut action, SET_BYTES)
        };
        (result == 0).then_some(action)
    }

    /// The same, with what DynamoRIO blocks in its handler of the signal as far as that is in [`BLOCKED`].
    fn under_mask(self, signal: i32) -> Self {
        let dynamorios = lock(&IN_FRONT).get(signal as usize).map_or(self.mask, |front| front.mask);
        let blocked = BLOCKED.load(Ordering::SeqCst) | !ASYNCHRONOUS.load(Ordering::SeqCst);
        Self { mask: dynamorios & blocked, ..self }
    }

    /// Makes it the kernel's disposition of a signal.
    fn set(&self, signal: i32) {
        // SAFETY: either a disposition without a handler, or DynamoRIO's own with the handler in front of it.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const *self, std::ptr::null_mut::<Self>(), SET_BYTES);
        }
    }
}

/// Asynchronous signals that DynamoRIO would deliver in the middle of a block, or fail at if they interrupt a callout; unless
/// they interrupt a system call.
const WAITING: u64 =
    bit(libc::SIGABRT) | bit(libc::SIGPIPE) | bit(libc::SIGSTKFLT) | bit(libc::SIGXCPU) | bit(libc::SIGSYS);
/// `si_code` of signals that the kernel sends by itself.
const SI_KERNEL: i32 = 128;

/// `si_code` of `tgkill`.
const SI_TKILL: i32 = -6;

/// DynamoRIO's handler.
static DYNAMORIO: AtomicU64 = AtomicU64::new(0);
/// What the handler in front takes for asynchronous.
static ASYNCHRONOUS: AtomicU64 = AtomicU64::new(!NEVER_BLOCKED);
/// What it and DynamoRIO's block: those, but for what the kernel does by itself. That must not wait: the kernel keeps what is blocked for
/// whichever thread can take it, and interrupts that thread's system call, only to find that there is nothing to do.
static BLOCKED: AtomicU64 = AtomicU64::new(!NEVER_BLOCKED);
/// How many signals have come.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// DynamoRIO's disposition of each signal; its handler is the one in front.
static IN_FRONT: Mutex<Vec<Action>> = Mutex::new(Vec::new());
/// What is set for each signal.
type Actions = [Option<Action>; SIGNALS as usize + 1];
/// What the program has set.
static PROGRAMS: Mutex<Actions> = Mutex::new([None; SIGNALS as usize + 1]);
/// The mask with which the next thread begins: its creator's.
static INHERITED: AtomicU64 = AtomicU64::new(0);

std::arch::global_asm!(
    ".globl bugnet_signal_in_front",
    ".hidden bugnet_signal_in_front",
    // RDI is the signal, RSI its description, RDX the context. RAX and RCX are free.
    "bugnet_signal_in_front:",
    "lea eax, [rdi - 1]",
    "mov ecx, eax",
    "bt [rip + {asynchronous}], rax",
    "jnc 2f",
    "mov rax, [rip + {blocked}]",
    "or [rdx + {mask}], rax",
    "lock inc qword ptr [rip + {taken}]",
    "push rdi",
    "push rsi",
    "push rdx",
    "call {wait}",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test al, al",
    "jz 1f",
    "ret",
    "1: jmp [rip + {dynamorio}]",
    // What an instruction causes has a positive code.
    "2: cmp dword ptr [rsi + 8], 0",
    "jg 3f",
    "mov rax, {faults}",
    "shr rax, cl",
    "test al, 1",
    "jz 1b",
    "push rdi",
    "push rsi",
    "push rdx",
    "call {hold}",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test al, al",
    "jz 1b",
    "ret",
    "3: push rdi",
    "push rsi",
    "push rdx",
    "call {note}",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "jmp 1b",
    asynchronous = sym ASYNCHRONOUS,
    blocked = sym BLOCKED,
    dynamorio = sym DYNAMORIO,
    taken = sym TAKEN,
    wait = sym wait,
    faults = const FAULTS,
    hold = sym held::hold,
    note = sym codes::note,
    mask = const FRAME_MASK,
);

unsafe extern "C" {
    fn bugnet_signal_in_front();
}

/// A system call in a signal handler, which has no thread-local storage for an error number.
///
/// # Safety
/// As for the system call.
pub unsafe fn raw_syscall(number: i64, args: [u64; 5]) -> i64 {
    let result;
    // SAFETY: the caller's promise; the kernel changes these registers only.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Whether a signal that has come with this context has interrupted a system call, of the program's or not: the kernel comes back
/// behind its instruction, or to it where it makes the call again. One that DynamoRIO had stopped may be over by that.
fn is_in_call(frame: Frame) -> bool {
    // SAFETY: the thread is in no event that refers to it, if it is where this changes anything.
    if let Some(retry) = unsafe { thread::retry().as_mut() } {
        retry.end_by_signal(frame);
    }
    frame.is_behind_call() || frame.is_at_call()
}

/// An asynchronous signal has arrived; behind the handler, the thread has all of them blocked. One for a thread that has not begun is
/// sent again. One of [`WAITING`], unless it has interrupted a system call, is sent to the same thread again; [`Mask::open`] lets it
/// in. Returns whether that was done.
///
/// # Safety
/// In the signal's handler, with the kernel's pointers.
unsafe extern "C" fn wait(signal: i32, info: *mut i32, context: *mut u8) -> bool {
    const CODE: usize = 2;
    // SAFETY: the caller's promise.
    unsafe {
        let frame = Frame::new(context);
        if suspended::put_off(signal, info, frame) || unborn::put_off(signal, info) {
            return true;
        }
        codes::note(signal, info);
        let in_call = is_in_call(frame);
        if bit(signal) & WAITING != 0 {
            if !in_call && send_to_this_thread(signal, info) == 0 {
                return true;
            }
            // DynamoRIO tells by this that no instruction has caused it.
            if *info.add(CODE) == SI_KERNEL {
                *info.add(CODE) = 0;
            }
        }
        if let Some(pending) = thread::pending().as_ref() {
            pending.add(signal);
        }
        false
    }
}

/// Sends the calling thread a signal with this description; for a signal handler.
///
/// # Safety
/// The description is one of the kernel's.
unsafe fn send_to_this_thread(signal: i32, info: *const i32) -> i64 {
    // SAFETY: ask for numbers; the description is the caller's promise.
    unsafe {
        let (pid, tid) = (raw_syscall(libc::SYS_getpid, [0; 5]), raw_syscall(libc::SYS_gettid, [0; 5]));
        raw_syscall(libc::SYS_rt_tgsigqueueinfo, [pid as u64, tid as u64, signal as u64, info as u64, 0])
    }
}

/// The same for the calling process.
///
/// # Safety
/// As there.
unsafe fn send_to_this_process(signal: i32, info: *const i32) -> i64 {
    // SAFETY: as there.
    unsafe {
        // By the thread's id: the kernel takes the description of another sender only from a process that sends to the id of its own
        // thread, and the signal is for the process all the same.
        let tid = raw_syscall(libc::SYS_gettid, [0; 5]);
        raw_syscall(libc::SYS_rt_sigqueueinfo, [tid as u64, signal as u64, info as u64, 0, 0])
    }
}

/// The calling thread's id.
fn this_thread() -> u32 {
    // SAFETY: asks for a number.
    unsafe { raw_syscall(libc::SYS_gettid, [0; 5]) as u32 }
}

/// The description, at this address, that a handler gets of one of [`WAITING`], as the kernel has made it.
pub fn describe(signal: i32, description: u64) {
    const CODE: u64 = 8;
    // Not from another process, nor from this one.
    if signal == libc::SIGXCPU
        && read_word(description + CODE) == Some(0)
        && read_word(description + 2 * CODE) == Some(0)
    {
        write_memory(description + CODE, &SI_KERNEL.to_le_bytes());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The calling thread's mask in the kernel.
fn kernels_mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: asks only.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, std::ptr::null::<u64>(), &raw mut mask, SET_BYTES);
    }
    mask
}

/// The client starts, before DynamoRIO takes any signal: the mask that the program inherits, and what it ignores.
pub fn start() {
    let ignored = |signal: &i32| Action::of(*signal).is_some_and(|action| action.handler == IGNORE);
    for signal in (1..=SIGNALS).filter(ignored) {
        lock(&PROGRAMS)[signal as usize] = Some(Action { handler: IGNORE, ..Action::default() });
        held::follow(signal, IGNORE);
    }
    let blocked = kernels_mask();
    INHERITED.store(blocked, Ordering::Relaxed);
    left::take(blocked & !NEVER_BLOCKED);
}

/// How many signals have come to the process, other than faults.
pub fn taken() -> u64 {
    TAKEN.load(Ordering::Relaxed)
}

/// The program's first instruction is about to be executed; DynamoRIO's handlers are there.
pub fn begin() {
    let Some(dynamorio) = Action::of(libc::SIGUSR1) else { return };
    DYNAMORIO.store(dynamorio.handler, Ordering::SeqCst);
    let mut in_front = lock(&IN_FRONT);
    in_front.push(Action::default());
    for signal in 1..=SIGNALS {
        let mut action = Action::of(signal).unwrap_or_default();
        if action.handler == dynamorio.handler && bit(signal) & NEVER_BLOCKED == 0 {
            action.handler = bugnet_signal_in_front as *const () as u64;
            let set = match handler(signal) {
                IGNORE => Action { handler: IGNORE, ..Action::default() },
                _ if bit(signal) & LEFT_TO_KERNEL != 0 => Action::default(),
                _ => action,
            };
            if set.handler != action.handler {
                BLOCKED.fetch_and(!bit(signal), Ordering::SeqCst);
            }
            set.set(signal);
        } else if action.handler == dynamorio.handler && bit(signal) & FAULTS != 0 {
            let in_front = Action { handler: bugnet_signal_in_front as *const () as u64, ..action };
            in_front.set(signal);
            // The program's disposition changes nothing in the kernel.
            action.handler = 0;
        } else {
            // Not to be touched.
            action.handler = 0;
        }
        in_front.push(action);
    }
    drop(in_front);
    follow_blocked();
    mask::set(INHERITED.load(Ordering::Relaxed));
    left::give_back();
}

/// What there is of a thread's signals.
pub struct OwnSignals {
    /// Which the program blocks.
    pub mask: Mask,
    /// What the kernel said of those that came to it.
    pub codes: Codes,
    /// When it looks whether there are any.
    pub leave: Leave,
    /// Whether the next block is a signal handler's first, and has to set the x87 state and MXCSR that handlers begin with.
    pub handler_begins: bool,
}

impl OwnSignals {
    /// Of a thread that begins; `foreign`: of a process that shares its parent's memory.
    pub fn new(foreign: bool) -> Self {
        Self { mask: Mask::inherited(foreign), codes: Codes::new(), leave: Leave::new(), handler_begins: false }
    }
}

/// The program, or a child of `vfork` with actions of its `own`, has set the disposition of a signal.
fn follow(signal: i32, action: Action, own: Option<&mut Actions>) {
    if !(1..=SIGNALS).contains(&signal) {
        return;
    }
    let is_own = own.is_some();
    if let Some(own) = own {
        own[signal as usize] = Some(action);
    } else {
        lock(&PROGRAMS)[signal as usize] = Some(action);
        held::follow(signal, action.handler);
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
fn follow_blocked() {
    for signal in 1..=SIGNALS {
        let in_front = |action: &Action| action.handler == bugnet_signal_in_front as *const () as u64;
        if let Some(action) = Action::of(signal).filter(in_front) {
            action.under_mask(signal).set(signal);
        }
    }
}

/// Where the actions have that of a signal.
fn place(signal: i32) -> usize {
    (signal & 127).min(SIGNALS) as usize
}

/// What the program has set for a signal: see [`Mask::handler`].
fn handler(signal: i32) -> u64 {
    lock(&PROGRAMS)[place(signal)].map_or(0, |action| action.handler)
}

/// Sends the calling thread a signal that kills it as soon as it is not blocked any more, which it is, as all are.
pub fn leave_pending(signal: i32) {
    Action::default().set(signal);
    let all = u64::MAX;
    // SAFETY: the program does not come to run again.
    unsafe {
        let none = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, none, SET_BYTES);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
    }
}

/// Ends the process by a signal, as the signal would without DynamoRIO.
pub fn die_by(signal: i32) -> ! {
    Action::default().set(signal);
    let all = 0u64;
    // SAFETY: the process ends here.
    unsafe {
        let none = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, none, SET_BYTES);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
    }
    bugnet_dr::process::abort(128 + signal)
}
