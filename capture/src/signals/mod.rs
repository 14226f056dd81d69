//! Signals: all handlers are this program's. What the program asks for is answered; a signal for which it has a handler is delivered at the end of
//! a call, with a frame as the kernel makes it.
//!
//! While the program runs, the kernel blocks what the program blocks, but for signals that instructions raise, SIGSYS, and ours. While a call is served, it blocks
//! what has a handler, too, but for the time in which the call waits.

mod context;
mod frames;
mod handlers;

use crate::calls;
use crate::state;
use crate::sys;
use crate::thread;
use core::arch::global_asm;
use handlers::{on_call, on_signal};

pub use context::Context;
pub use frames::{deliver, give_back};

pub const SIGILL: usize = 4;
pub const SIGTRAP: usize = 5;
pub const SIGBUS: usize = 7;
pub const SIGFPE: usize = 8;
pub const SIGKILL: usize = 9;
pub const SIGSEGV: usize = 11;
pub const SIGSTOP: usize = 19;
pub const SIGSYS: usize = 31;
const SIGNALS: usize = 65;

/// Bit of a signal in a set.
pub const fn bit(signal: usize) -> u64 {
    1 << (signal - 1)
}

/// Signals that instructions raise, and the one of calls.
pub const RAISED: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS);
/// The signal by which this program interrupts a thread: no processor, terminal or kernel sends it (SIGSTKFLT). It is not the one of calls: while that waits to be
/// delivered, the kernel drops another one, and with it the call.
pub const OURS: usize = 16;
/// What the kernel never blocks while the program runs.
pub const OPEN: u64 = RAISED | bit(OURS);
/// What the kernel blocks while a call is served, of which these are to be blocked: ours, too, which then interrupts no call.
pub const fn served(blocked: u64) -> u64 {
    blocked & !RAISED | bit(OURS)
}
const NEVER_BLOCKED: u64 = bit(SIGKILL) | bit(SIGSTOP);
/// What does not kill by default: SIGCHLD, SIGCONT, what stops, SIGURG, SIGWINCH; and what nobody can catch.
const NOT_DEADLY: u64 =
    NEVER_BLOCKED | bit(17) | bit(18) | bit(20) | bit(21) | bit(22) | bit(23) | bit(28) | bit(SIGSYS);

pub const SA_SIGINFO: u64 = 4;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_RESTORER: u64 = 0x0400_0000;
/// Flags that the kernel itself has to have.
const SA_OF_CHILDREN: u64 = 3;

const SS_ONSTACK: u32 = 1;
const SS_DISABLE: u32 = 2;
const SS_AUTODISARM: u32 = 1 << 31;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;
/// `si_code` of a dispatched call.
const SYS_USER_DISPATCH: i32 = 2;
/// The processor whose calls are served, in such a signal (`AUDIT_ARCH_X86_64`).
const X86_64: u32 = 0xc000_003e;

/// A signal's handling, as the kernel has it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// A stack for handlers, as the kernel has it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct AltStack {
    start: u64,
    flags: u32,
    pad: u32,
    size: u64,
}

/// A signal that has come.
#[derive(Clone, Copy)]
pub struct Arrived {
    pub signal: usize,
    info: [u8; 128],
}

impl Arrived {
    /// `si_code`: how it was sent.
    pub fn code(&self) -> i32 {
        i32::from_le_bytes(core::array::from_fn(|i| self.info[8 + i]))
    }
}

/// What the program has asked for.
#[derive(Clone, Copy)]
pub struct Signals {
    actions: [Action; SIGNALS],
    /// Signals with handlers of the program's.
    pub handled: u64,
    /// Those that kill it, as it has asked for nothing else: our handler tells the log where they did.
    pub deadly: u64,
}

impl Signals {
    pub const fn new() -> Self {
        Self { actions: [Action { handler: 0, flags: 0, restorer: 0, mask: 0 }; SIGNALS], handled: 0, deadly: 0 }
    }

    /// No signal has a handler any more.
    pub fn forget_handlers(&mut self) {
        for action in self.actions.iter_mut().filter(|action| action.handler != SIG_IGN) {
            *action = Action { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };
        }
        self.handled = 0;
        begin_again();
    }
}

/// What one of its threads has asked for, and what has come to it.
#[derive(Clone, Copy)]
pub struct Own {
    /// What it blocks.
    pub mask: u64,
    /// What it blocked before a call that waits with another mask.
    pub suspended: Option<u64>,
    alt: AltStack,
    arrived: Arrived,
    /// Whether a signal has come.
    pub come: u8,
    /// The signal that is ours, which somebody else has sent, while the program blocks it.
    held: Option<[u8; 128]>,
}

impl Own {
    pub const fn new() -> Self {
        Self {
            mask: 0,
            suspended: None,
            alt: AltStack { start: 0, flags: SS_DISABLE, pad: 0, size: 0 },
            arrived: Arrived { signal: 0, info: [0; 128] },
            come: 0,
            held: None,
        }
    }

    /// Ours has come, and is meant for the program: whether it is to be delivered.
    fn takes(&mut self, info: [u8; 128]) -> bool {
        let is_blocked = self.mask & bit(OURS) != 0;
        if is_blocked {
            self.held = Some(info);
        }
        !is_blocked && state::get().signals.actions[OURS].handler != SIG_IGN
    }

    /// Whether one has come.
    pub fn has_come(&self) -> bool {
        // A handler may have stored it.
        // SAFETY: a field of this structure.
        unsafe { (&raw const self.come).read_volatile() != 0 }
    }

    /// What has come last.
    pub fn arrived(&self) -> &Arrived {
        &self.arrived
    }

    /// The signal that has come, which is nobody else's then.
    pub fn take_arrived(&mut self) -> Option<Arrived> {
        self.has_come().then(|| {
            self.come = 0;
            self.arrived
        })
    }

    /// Takes over what has come from another one.
    pub fn keep_arrived(&mut self, other: &mut Self) {
        if let Some(arrived) = other.take_arrived() {
            (self.arrived, self.come) = (arrived, 1);
        }
    }

    /// A signal has come. Of several, a deadly one counts: the kernel delivers no other one behind it.
    fn arrive(&mut self, signal: usize, info: [u8; 128]) {
        let is_last = self.come != 0 && state::get().signals.deadly & bit(self.arrived.signal) != 0;
        if !is_last {
            self.arrived = Arrived { signal, info };
            // SAFETY: a field, which the code that was interrupted reads.
            unsafe { (&raw mut self.come).write_volatile(1) };
        }
    }
}

global_asm!(".globl bugnet_restore", "bugnet_restore:", "mov eax, 15", "syscall", "ud2",);

unsafe extern "C" {
    fn bugnet_restore();
}

fn kernel_action(signal: usize, action: &Action, old: u64) -> i64 {
    // SAFETY: structures of the kernel's; the handlers are this program's, or the kernel's own.
    unsafe { sys::call(sys::RT_SIGACTION, [signal as u64, action as *const Action as u64, old, 8, 0, 0]) }
}

/// Our handler of a signal, with what the kernel itself has to know of the program's flags.
fn own_action(signal: usize, flags: u64) -> Action {
    let handler = if signal == SIGSYS { on_call as *const () as u64 } else { on_signal as *const () as u64 };
    let mask = if signal == SIGSYS { served(state::get().signals.handled) } else { !RAISED };
    let flags = flags & SA_OF_CHILDREN | SA_SIGINFO | SA_ONSTACK | SA_RESTORER | SA_NODEFER;
    Action { handler, flags, restorer: bugnet_restore as *const () as u64, mask }
}

/// While a call is served, what has a handler is blocked.
fn renew_dispatch() {
    kernel_action(SIGSYS, &own_action(SIGSYS, 0), 0);
}

/// Takes over what the process has inherited, and installs our handlers.
pub fn begin() {
    let state = state::get();
    use_stack();
    // What comes meanwhile waits: one that is ignored has our handler for a moment.
    let mask = block(u64::MAX);
    thread::get().signals.mask = mask & !bit(SIGSYS);
    for signal in 1..SIGNALS {
        let mut old = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
        // What executes a program leaves no handler: most signals are not ignored, and get ours at once.
        if NOT_DEADLY & bit(signal) & !bit(SIGSYS) == 0 {
            kernel_action(signal, &own_action(signal, 0), &raw mut old as u64);
            state.signals.actions[signal] = old;
            if RAISED & bit(signal) == 0 && old.handler == SIG_DFL {
                state.signals.deadly |= bit(signal);
            } else if OPEN & bit(signal) == 0 {
                kernel_action(signal, &old, 0);
            }
        } else {
            // SAFETY: a structure for the kernel to write.
            unsafe { sys::call(sys::RT_SIGACTION, [signal as u64, 0, &raw mut old as u64, 8, 0, 0]) };
            state.signals.actions[signal] = old;
        }
    }
    block(mask & !OPEN);
}

/// The thread's handlers run on its slot's stack from here on.
pub fn use_stack() {
    let (start, size) = thread::get().handlers();
    let stack = AltStack { start, flags: 0, pad: 0, size };
    // SAFETY: a stack of this program's.
    unsafe { sys::call3(sys::SIGALTSTACK, &raw const stack as u64, 0, 0) };
}

/// The kernel blocks these signals from here on; what it blocked before.
pub fn block(set: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: sets.
    unsafe { sys::call(sys::RT_SIGPROCMASK, [2, &raw const set as u64, &raw mut before as u64, 8, 0, 0]) };
    before
}

/// A fork begins without handlers of its parent's, also without ours.
fn begin_again() {
    for signal in 1..SIGNALS {
        if OPEN & bit(signal) != 0 {
            kernel_action(signal, &own_action(signal, 0), 0);
        }
        if RAISED & bit(signal) == 0 {
            follow_default(signal, 0);
        }
    }
}

/// The program has no handler for a signal: if it kills, it comes to ours.
fn follow_default(signal: usize, flags: u64) {
    let signals = &mut state::get().signals;
    signals.deadly &= !bit(signal);
    if signals.actions[signal].handler == SIG_DFL && NOT_DEADLY & bit(signal) == 0 {
        signals.deadly |= bit(signal);
        kernel_action(signal, &own_action(signal, flags), 0);
    }
}

/// A signal kills from here on, as it would without us.
pub fn let_kill(signal: usize) {
    kernel_action(signal, &Action { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 }, 0);
}

/// Of our own signal, what waits is gone: somebody has asked the thread for its turn, which that has no more use for.
fn drop_ours() {
    kernel_action(OURS, &Action { handler: SIG_IGN, flags: 0, restorer: 0, mask: 0 }, 0);
}

/// What another program that is executed here finds: no handlers. Back, if it is not executed: ours.
pub fn hide_handlers(hidden: bool) {
    let Signals { handled, deadly, actions, .. } = state::get().signals;
    if hidden {
        drop_ours();
    }
    for signal in (1..SIGNALS).filter(|signal| (handled | deadly) & bit(*signal) & !RAISED != 0) {
        if hidden {
            let_kill(signal);
        } else {
            kernel_action(signal, &own_action(signal, actions[signal].flags), 0);
        }
    }
    if actions[OURS].handler == SIG_IGN {
        kernel_action(OURS, &if hidden { actions[OURS] } else { own_action(OURS, 0) }, 0);
    }
}

/// The program's handlers become the kernel's: the light part is over. `is_used`: other threads' calls still lead to us.
pub fn leave(is_used: bool) {
    let signals = &state::get().signals;
    drop_ours();
    for signal in 1..SIGNALS {
        // The one of calls stays ours as long as other threads have not left.
        if signal == SIGSYS && is_used {
            continue;
        }
        if (OPEN | signals.handled | signals.deadly) & bit(signal) != 0 {
            kernel_action(signal, &signals.actions[signal], 0);
        }
    }
}

/// The thread's mask and stack become the kernel's.
pub fn leave_thread(context: &mut Context) {
    context.set(context::MASK, thread::get().signals.mask);
    context.leave_stack();
}

/// `rt_sigaction`.
pub fn action(number: usize, new: u64, old: u64, size: u64) -> i64 {
    let signals = &mut state::get().signals;
    if size != 8 || number == 0 || number >= SIGNALS {
        return -22;
    }
    let wanted = match (new != 0).then(|| sys::read::<32>(new)) {
        None => None,
        Some(None) => return -sys::EFAULT,
        Some(Some(bytes)) => {
            let word = |i: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[8 * i + n]));
            Some(Action { handler: word(0), flags: word(1), restorer: word(2), mask: word(3) & !NEVER_BLOCKED })
        }
    };
    if wanted.is_some() && NEVER_BLOCKED & bit(number) != 0 {
        return -22;
    }
    let before = signals.actions[number];
    if let Some(wanted) = wanted {
        signals.actions[number] = wanted;
        let handled = wanted.handler != SIG_DFL && wanted.handler != SIG_IGN;
        signals.handled = signals.handled & !bit(number) | if handled { bit(number) } else { 0 };
        if RAISED & bit(number) == 0 {
            let given = if handled { own_action(number, wanted.flags) } else { Action { mask: 0, ..wanted } };
            if number != OURS {
                kernel_action(number, &given, 0);
            }
            follow_default(number, wanted.flags);
            renew_dispatch();
        }
    }
    if old != 0 {
        let words = [before.handler, before.flags, before.restorer, before.mask];
        if !sys::write(old, words.map(u64::to_le_bytes).as_flattened()) {
            return -sys::EFAULT;
        }
    }
    0
}

/// `rt_sigprocmask`.
pub fn mask(context: &mut Context, how: u64, new: u64, old: u64, size: u64) -> i64 {
    let signals = &mut thread::get().signals;
    if size != 8 {
        return -22;
    }
    let before = signals.mask;
    if new != 0 {
        let Some(set) = sys::read_word(new) else { return -sys::EFAULT };
        let set = set & !NEVER_BLOCKED;
        signals.mask = match how as i32 {
            0 => before | set,
            1 => before & !set,
            2 => set,
            _ => return -22,
        };
        context.set_mask(signals.mask);
        if before & !signals.mask & (state::get().signals.handled | bit(OURS)) != 0 {
            let_in();
        }
    }
    if old != 0 && !sys::write(old, &before.to_le_bytes()) { -sys::EFAULT } else { 0 }
}

/// Whether an address is on the program's stack for handlers.
fn on_alt_stack(alt: &AltStack, rsp: u64) -> bool {
    alt.flags & (SS_DISABLE | SS_AUTODISARM) == 0 && rsp > alt.start && rsp - alt.start <= alt.size
}

/// `sigaltstack`.
pub fn alt_stack(rsp: u64, new: u64, old: u64) -> i64 {
    let signals = &mut thread::get().signals;
    let before = signals.alt;
    let on = on_alt_stack(&before, rsp);
    let wanted = match (new != 0).then(|| sys::read::<24>(new)) {
        None => None,
        Some(None) => return -sys::EFAULT,
        Some(Some(bytes)) => Some(bytes),
    };
    if let Some(bytes) = wanted {
        let word = |i: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[8 * i + n]));
        let flags = word(1) as u32;
        let mode = flags & !SS_AUTODISARM;
        // The smallest stack is as the kernel's own frame: what programs find in `AT_MINSIGSTKSZ`.
        let smallest = 2048;
        if on {
            return -1;
        }
        if mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE {
            return -22;
        }
        signals.alt = if mode == SS_DISABLE {
            AltStack { start: 0, flags, pad: 0, size: 0 }
        } else if word(2) < smallest {
            return -12;
        } else {
            AltStack { start: word(0), flags: flags & SS_AUTODISARM, pad: 0, size: word(2) }
        };
    }
    if old != 0 {
        let shown = if before.size == 0 { SS_DISABLE } else { u32::from(on) } | before.flags & SS_AUTODISARM;
        let words = [before.start, shown.into(), before.size];
        if !sys::write(old, words.map(u64::to_le_bytes).as_flattened()) {
            return -sys::EFAULT;
        }
    }
    0
}

/// `rt_sigpending`: what is blocked only as a call is served does not wait.
pub fn pending(set: u64, size: u64) -> i64 {
    let mut found = 0u64;
    // SAFETY: room for a set.
    let result = unsafe { sys::call3(127, &raw mut found as u64, size, 0) };
    found &= thread::get().signals.mask;
    if result == 0 && !sys::write(set, &found.to_le_bytes()[..size as usize]) { -sys::EFAULT } else { result }
}

/// What waits in the kernel, and is not blocked by the program, comes now, and is delivered at the end of the call that is being served.
pub fn let_in() {
    let own = &mut thread::get().signals;
    if let Some(info) = own.held.take()
        && own.takes(info)
    {
        own.arrive(OURS, info);
    }
    let (mask, handled) = (thread::get().signals.mask, state::get().signals.handled);
    if handled & !mask != 0 {
        block(served(mask));
        block(served(mask | handled));
    }
}

/// Makes a call that may wait, with what the program blocks blocked meanwhile.
pub fn waiting(number: u64, args: &[u64; 6]) -> i64 {
    let (signals, handled) = (&thread::get().signals, state::get().signals.handled);
    let mask = signals.mask;
    // Deadly ones may come at any time; who asks for a file that is the program's own is not to wait for the call's end.
    let is_leased = state::get().shared.has_files();
    let opens = handled & !mask != 0 || is_leased;
    if opens {
        block(if is_leased { mask & !OPEN } else { served(mask) });
    }
    let result = loop {
        // SAFETY: the program's own call.
        let result = unsafe { sys::wait(number, args, &raw const signals.come) };
        let is_ours = is_leased && result == -sys::EINTR && !signals.has_come();
        // Ours came for something that is over.
        if !is_ours || state::get().ends.is_some() {
            break result;
        }
    };
    if opens {
        block(served(mask | state::get().signals.handled));
    }
    result
}

/// Makes a call that waits with a mask of its own, which is at the address in an argument.
pub fn suspended(number: u64, args: &[u64; 6], argument: usize, mask: u64) -> i64 {
    let kept = served(mask);
    let mut given = *args;
    given[argument] = &raw const kept as u64;
    suspended_in(number, &given, mask)
}

/// The same, where the arguments lead to a set of this program's already.
pub fn suspended_in(number: u64, given: &[u64; 6], mask: u64) -> i64 {
    let signals = &mut thread::get().signals;
    // SAFETY: the program's own call, with a set of this program's in the place of the program's.
    let result = unsafe { sys::wait(number, given, &raw const signals.come) };
    // SAFETY: a field.
    if unsafe { (&raw const signals.come).read_volatile() } != 0 {
        signals.suspended = Some(signals.mask);
        signals.mask = mask & !NEVER_BLOCKED;
    }
    result
}

/// Whether a call that a signal has interrupted is made again behind its handler.
pub fn restarts(number: u64) -> bool {
    // Those that never are: waits with a time of their own, or for a signal.
    const NEVER: [u64; 17] = [7, 23, 34, 35, 65, 69, 70, 128, 130, 208, 220, 230, 232, 270, 271, 281, 441];
    state::get().signals.actions[thread::get().signals.arrived.signal].flags & SA_RESTART != 0
        && !NEVER.contains(&number)
}

/// The light part ends at a call that is being served, which is then made without us.
pub fn call_without_us(context: &mut Context) {
    context.set_rip(context.rip() - calls::BYTES);
}
