//! New processes. A fork has a log of its own. A child of `vfork` has its parent's memory, and so its log, while the parent waits: what it does until it
//! executes or ends stands in the log as if `vfork` returned twice.

use crate::calls;
use crate::end;
use crate::epoch;
use crate::folder::{self, Folder};
use crate::layout::FORKED;
use crate::log::{self, From};
use crate::members;
use crate::own;
use crate::shared;
use crate::signals::{self, Context, Own, Signals};
use crate::state;
use crate::sys;
use crate::text::say;
use crate::thread;
use crate::threads::{self, New};
use crate::trap;
use crate::turn;
use core::arch::global_asm;

pub const CLONE: u64 = 56;
pub const CLONE3: u64 = 435;
const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
pub const CLONE_CHILD_SETTID: u64 = 0x100_0000;
pub const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_PIDFD: u64 = 0x1000;
const CLONE_THREAD: u64 = 0x1_0000;
pub const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
/// What all threads share: memory, folders, descriptors, handlers.
const THREAD: u64 = CLONE_THREAD | CLONE_VM | 0x200 | 0x400 | 0x800;
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;

/// How deep children of `vfork` make others.
const DEPTH: usize = 4;

/// What has to be there again when the parent goes on.
#[derive(Clone, Copy)]
struct Lent {
    registers: [u64; 18],
    signals: Signals,
    own: Own,
    streams: [u8; 256],
    descriptors: own::Own,
    at: Folder,
    number: u64,
    pid: u32,
    tid: u32,
}

struct Lending(core::cell::UnsafeCell<[Lent; DEPTH]>);

// SAFETY: one thread at a time uses it, the one that has the turn.
unsafe impl Sync for Lending {}

static LENT: Lending = Lending(core::cell::UnsafeCell::new(
    [Lent {
        registers: [0; 18],
        signals: Signals::new(),
        own: Own::new(),
        streams: [0; 256],
        descriptors: own::Own::new(),
        at: Folder::new(),
        number: 0,
        pid: 0,
        tid: 0,
    }; DEPTH],
));

// The call is made here, with the program's registers and stack, outside of any handler, since it returns twice. Then both ask to be let go on, by an instruction
// that is none.
global_asm!(".globl bugnet_vfork, bugnet_vfork_behind", "bugnet_vfork:", "syscall", "bugnet_vfork_behind:", "ud2",);

unsafe extern "C" {
    fn bugnet_vfork();
    fn bugnet_vfork_behind();
}

/// Whether a call makes a thread or a process.
pub fn makes(number: u64) -> bool {
    matches!(number, CLONE | CLONE3 | sys::FORK | sys::VFORK)
}

/// Whether a `vfork` has returned here.
pub fn is_behind(rip: u64) -> bool {
    rip == bugnet_vfork_behind as *const () as u64
}

fn flags(number: u64, args: &[u64; 6]) -> u64 {
    match number {
        CLONE => args[0],
        CLONE3 => sys::read_word(args[0]).unwrap_or(0),
        sys::VFORK => CLONE_VM | CLONE_VFORK,
        _ => 0,
    }
}

/// `fork`, `vfork`, `clone`, `clone3`.
pub fn serve(context: &mut Context, number: u64, args: &[u64; 6]) {
    let flags = flags(number, args);
    if flags & CLONE_VM != 0 && flags & CLONE_CLEAR_SIGHAND != 0 {
        // Our handlers would go with the program's. Kernels before 5.5 do not know the flag, and libraries do without it.
        calls::made(context, number, args, -22);
    } else if flags & CLONE_VM == 0 {
        fork(context, number, args, flags);
    } else if flags & CLONE_VFORK != 0 && state::get().lent < DEPTH {
        lend(context, number);
    } else if flags & THREAD == THREAD && flags & CLONE_VFORK == 0 && state::get().lent == 0 {
        threads::create(context, number, args, &new_thread(number, args, flags));
    } else {
        end::because(context, "the program makes a process that shares its memory", true);
    }
}

fn fork(context: &mut Context, number: u64, args: &[u64; 6], flags: u64) {
    let (from, program, at) = (state::get().pid, state::get().program, state::get().log.len());
    let mut given = *args;
    let mut stack = 0;
    let mut structure = [0u8; 88];
    if number == CLONE {
        stack = core::mem::take(&mut given[1]);
    } else if number == CLONE3 {
        let size = (args[1] as usize).min(structure.len());
        // SAFETY: room for as many bytes as are copied.
        if args[1] as usize > structure.len() || unsafe { sys::copy(structure.as_mut_ptr(), args[0], size) } != size {
            calls::made(context, number, args, if args[1] > 88 { -7 } else { -sys::EFAULT });
            return;
        }
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| structure[at + i]));
        if word(40) != 0 {
            stack = word(40) + word(48);
            structure[40..56].fill(0);
        }
        given[0] = structure.as_ptr() as u64;
    }
    // Both can write what is shared.
    let (place, group) = if state::get().shared.is_any() {
        state::get().shared.share();
        let Some(place) = turn::place_for_fork() else {
            return end::because(
                context,
                "there is no room for what processes know of each other that share memory",
                true,
            );
        };
        if !state::get().shared.watch_files() {
            members::of(place).leave();
            return end::because(context, shared::NO_WATCH, true);
        }
        (Some(place), log::begin_group())
    } else {
        (None, 0)
    };
    // A signal that has come is the parent's; what comes to the child finds it ready.
    let before = signals::block(u64::MAX);
    // SAFETY: the program's own call: the child goes on here, with a copy of all.
    let result = unsafe {
        let result = sys::call(number, given);
        if result == 0 {
            let _ = thread::get().signals.take_arrived();
        }
        result
    };
    signals::block(before);
    if result != 0 {
        if let Some(place) = place.filter(|_| result < 0) {
            members::of(place).leave();
        }
        calls::made(context, number, args, result);
        return;
    }
    if stack != 0 {
        context.set_register(15, stack);
    }
    if flags & CLONE_CLEAR_SIGHAND != 0 {
        state::get().signals.forget_handlers();
    }
    let state = state::get();
    if let Err(error) = log::begin(From { pid: from, program, how: FORKED, call: at as u32, group }) {
        say(format_args!("a forked process is not recorded: the log has no room for it (error {})", -error));
        // The parent's log is no longer there. Those that share memory with it stop where they are when it has its turn, and are told.
        state.full = true;
        folder::close();
        threads::forget();
        turn::begin_forked(place);
        state.on = false;
        context.set_rax(0);
        turn::over();
        end::leave(context);
        return;
    }
    threads::forget();
    epoch::forked();
    state.chaos.begin(state.chaos.seed, state.pid);
    turn::begin_forked(place);
    if flags & CLONE_CHILD_CLEARTID != 0 {
        thread::get().cleared = child_word(number, args);
    }
    trap::dispatch(true);
    calls::made(context, number, args, 0);
}

/// Where a child's id is written, or cleared.
fn child_word(number: u64, args: &[u64; 6]) -> u64 {
    if number == CLONE3 { sys::read_word(args[0] + 16).unwrap_or(0) } else { args[3] }
}

/// What a call asks for that makes a thread.
fn new_thread(number: u64, args: &[u64; 6], flags: u64) -> New {
    let field = |at: u64| sys::read_word(args[0] + at).unwrap_or(0);
    let child = child_word(number, args);
    if number == CLONE3 {
        let stack = field(40).wrapping_add(field(48));
        New { flags: flags | field(32), stack, parent: field(24), child, base: field(56) }
    } else {
        New { flags, stack: args[1], parent: args[2], child, base: args[4] }
    }
}

/// What such a call writes besides its result.
pub fn written(number: u64, args: &[u64; 6], result: i64, mut see: impl FnMut(u64, u64)) {
    let flags = flags(number, args);
    let field = |at: u64| sys::read_word(args[0] + at).unwrap_or(0);
    let (parent, child, descriptor) = match number {
        CLONE => (args[2], args[3], args[2]),
        CLONE3 => (field(24), field(16), field(8)),
        _ => return,
    };
    if result > 0 && flags & CLONE_PARENT_SETTID != 0 {
        see(parent, 4);
    }
    if result > 0 && flags & CLONE_PIDFD != 0 {
        see(descriptor, 4);
    }
    // A thread's is in its parent's memory.
    if flags & CLONE_CHILD_SETTID != 0 && (result == 0 || result > 0 && flags & CLONE_THREAD != 0) {
        see(child, 4);
    }
}

fn lend(context: &mut Context, number: u64) {
    let state = state::get();
    // SAFETY: one thread at a time uses it.
    let lent = unsafe { &mut (*LENT.0.get())[state.lent] };
    *lent = Lent {
        registers: core::array::from_fn(|n| context.register(n)),
        signals: state.signals,
        own: thread::get().signals,
        streams: state.streams,
        descriptors: state.descriptors,
        at: state.at,
        number,
        pid: state.pid,
        tid: thread::get().tid,
    };
    state.lent += 1;
    context.set_rip(bugnet_vfork as *const () as u64);
    // Nothing may come between the call and its end.
    context.set(37, !crate::signals::RAISED);
}

/// The process whose memory a child of `vfork` has.
pub fn lender() -> u32 {
    // SAFETY: one thread at a time uses it.
    unsafe { (*LENT.0.get())[0].pid }
}

/// A `vfork` has returned, in the child or in the parent.
pub fn behind(context: &mut Context) {
    let (state, me) = (state::get(), thread::get());
    let result = context.rax() as i64;
    let depth = state.lent - 1;
    // SAFETY: one thread at a time uses it.
    let lent = unsafe { &mut (*LENT.0.get())[depth] };
    if result == 0 {
        // What has come just before is the parent's.
        lent.own.keep_arrived(&mut me.signals);
        trap::dispatch(true);
        // SAFETY: no arguments.
        state.pid = unsafe { sys::call3(sys::GETPID, 0, 0, 0) } as u32;
        me.tid = state.pid;
    } else {
        state.lent = depth;
        (state.signals, me.signals) = (lent.signals, lent.own);
        (state.streams, state.descriptors, state.at) = (lent.streams, lent.descriptors, lent.at);
        (state.pid, me.tid) = (lent.pid, lent.tid);
    }
    // The child may have a stack of its own.
    let stack = context.rsp();
    for (number, value) in lent.registers.iter().enumerate() {
        context.set_register(number, *value);
    }
    if result == 0 {
        context.set_register(15, stack);
    }
    context.set_mask(me.signals.mask);
    let args = context.arguments();
    calls::made(context, lent.number, &args, result);
    if !state.on {
        // The light part has ended in the child.
        end::leave(context);
    }
}
