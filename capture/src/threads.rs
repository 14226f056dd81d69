//! How threads of the program's begin and end.
//!
//! A new one begins on a stack of its slot, with a copy of the frame that the kernel has made for its parent's call, and goes on by returning from that, once it has
//! the turn. What the kernel would write at times of its own, for the one that begins or ends, is written here, by the one that has the turn.

use crate::calls;
use crate::chaos;
use crate::end;
use crate::fork::{CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_PARENT_SETTID};
use crate::hot;
use crate::members;
use crate::signals::{self, Context};
use crate::state;
use crate::sys::{self, EAGAIN, FUTEX};
use crate::text::say;
use crate::thread::{self, MOST, Thread};
use crate::trap;
use crate::turn;
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicBool, Ordering};

/// What is done here in the kernel's place.
const OURS: u64 = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID;
pub const CLONE_SETTLS: u64 = 0x8_0000;
pub const SET_TID_ADDRESS: u64 = 218;
pub const SET_ROBUST_LIST: u64 = 273;
/// Bytes of the head of a list of robust futexes.
const ROBUST_LIST: u64 = 24;
const TIMER_DELETE: u64 = 226;
const FUTEX_WAKE: u64 = 1;
/// In a futex's word: the thread that has it, whether that has ended, and whether others wait.
const FUTEX_TID: u32 = 0x3fff_ffff;
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
const FUTEX_WAITERS: u32 = 0x8000_0000;
/// Most entries of a list of robust futexes that are looked at, as by the kernel.
const MOST_ROBUST: usize = 2048;

// `bugnet_clone(flags, stack, 0, word to clear, base of FS, where it begins)`: the new thread's id.
global_asm!(
    ".globl bugnet_clone",
    "bugnet_clone:",
    "mov r10, rcx",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "ret",
    "2:",
    "xor ebp, ebp",
    "call r9",
    "ud2",
);

unsafe extern "C" {
    pub fn bugnet_clone(
        flags: u64,
        stack: u64,
        none: u64,
        cleared: u64,
        base: u64,
        begin: unsafe extern "C" fn() -> !,
    ) -> i64;
}

/// What a call asks for that makes a thread.
pub struct New {
    pub flags: u64,
    /// Its stack pointer, or 0: its parent's.
    pub stack: u64,
    pub parent: u64,
    pub child: u64,
    pub base: u64,
}

/// Which slots are in use, which were, and which were never.
struct Slots(core::cell::UnsafeCell<[u8; MOST]>);

// SAFETY: who has the turn uses it.
unsafe impl Sync for Slots {}

/// Whether there are, or were, several threads.
static MANY: AtomicBool = AtomicBool::new(false);
const UNUSED: u8 = 0;
const LIVES: u8 = 1;
const ENDED: u8 = 2;
static SLOTS: Slots = Slots(core::cell::UnsafeCell::new([UNUSED; MOST]));

fn slots() -> &'static mut [u8; MOST] {
    // SAFETY: who has the turn uses it.
    unsafe { &mut *SLOTS.0.get() }
}

/// A slot that nobody uses.
fn free() -> Option<usize> {
    let is_free = |(index, slot): (usize, &u8)| match *slot {
        LIVES => false,
        ENDED => thread::of(index as u32).alive.load(Ordering::SeqCst) == 0,
        _ => true,
    };
    slots().iter().enumerate().position(is_free)
}

/// Whether there are, or were, several threads.
pub fn are_many() -> bool {
    MANY.load(Ordering::Relaxed)
}

/// There are several threads from here on, if there was one; whether there is room for that.
fn become_many() -> bool {
    if are_many() {
        return true;
    }
    let (state, me) = (state::get(), thread::get());
    if !turn::begin() {
        return false;
    }
    slots().fill(UNUSED);
    slots()[me.index as usize] = LIVES;
    state.threads = 1;
    // SAFETY: a word of this program's.
    unsafe { sys::call3(SET_TID_ADDRESS, me.alive.as_ptr() as u64, 0, 0) };
    MANY.store(true, Ordering::Relaxed);
    true
}

/// Makes a thread, which goes on behind the same call.
pub fn create(context: &mut Context, number: u64, args: &[u64; 6], new: &New) {
    let me = thread::get();
    let slot = if become_many() { free() } else { None };
    let slot = slot.and_then(|index| thread::make(index).map(|thread| (index, thread)));
    let Some((index, child)) = slot else { return calls::made(context, number, args, -EAGAIN) };
    let Some(place) = members::join(state::get().pid, turn::NEW) else {
        return calls::made(context, number, args, -EAGAIN);
    };
    child.place = place;
    child.signals.mask = me.signals.mask;
    if new.flags & CLONE_CHILD_CLEARTID != 0 {
        child.cleared = new.child;
    }
    let (start, size) = child.handlers();
    let Some(frame) = context.copy(start + size) else {
        members::of(place).leave();
        return calls::made(context, number, args, -EAGAIN);
    };
    let mut copy = Context::at(frame);
    copy.set_rax(0);
    if new.stack != 0 {
        copy.set_rsp(new.stack);
    }
    copy.set_mask(child.signals.mask);
    copy.set_stack(start, size);
    child.frame = frame;
    let base = (new.flags & CLONE_SETTLS != 0).then_some(new.base);
    child.stand.begins(frame, base);
    if new.flags & CLONE_SETTLS != 0 {
        hot::has_base(child, new.base);
    } else {
        hot::turn_off();
    }
    let before = signals::block(u64::MAX);
    let flags = new.flags & !OURS | CLONE_CHILD_CLEARTID;
    // SAFETY: a stack of the child's own, below its frame, which leaves room for it.
    let result = unsafe { bugnet_clone(flags, (frame - 128) & !15, 0, child.alive.as_ptr() as u64, new.base, begin) };
    signals::block(before);
    if result <= 0 {
        members::of(place).leave();
    } else {
        child.tid = result as u32;
        members::of(place).is(state::get().pid, child.tid);
        slots()[index] = LIVES;
        state::get().threads += 1;
        let tid = (result as u32).to_le_bytes();
        if new.flags & CLONE_PARENT_SETTID != 0 {
            sys::write(new.parent, &tid);
        }
        if new.flags & CLONE_CHILD_SETTID != 0 {
            sys::write(new.child, &tid);
        }
    }
    calls::made(context, number, args, result);
}

/// A new thread begins here, with all signals blocked.
unsafe extern "C" fn begin() -> ! {
    let me = thread::get();
    // The parent says so, too, but perhaps not yet.
    // SAFETY: no arguments.
    me.tid = unsafe { sys::call3(sys::GETTID, 0, 0, 0) } as u32;
    signals::use_stack();
    trap::dispatch(true);
    let frame = me.frame;
    turn::take();
    end::if_asked_for(&mut Context::at(frame));
    end::leave_if_over(&mut Context::at(frame));
    chaos::draw(chaos::At::Beginning);
    chaos::goes_on(&mut Context::at(frame));
    // SAFETY: a frame as the kernel makes it.
    unsafe { asm!("mov rsp, {frame}", "mov eax, 15", "syscall", "ud2", frame = in(reg) frame, options(noreturn)) }
}

/// What a thread asks the kernel to know of it; the result where that is answered here.
pub fn answer(number: u64, args: &[u64; 6]) -> Option<i64> {
    let me = thread::get();
    match number {
        SET_TID_ADDRESS => {
            me.cleared = args[0];
            Some(me.tid.into())
        }
        SET_ROBUST_LIST => {
            if args[1] == ROBUST_LIST {
                me.robust = args[0];
            }
            None
        }
        _ => None,
    }
}

/// Visits the words of the robust futexes that a thread may have.
fn robust(me: &Thread, mut see: impl FnMut(u64)) {
    let head = me.robust;
    if head == 0 {
        return;
    }
    let [Some(offset), pending] = [8, 16].map(|at| sys::read_word(head + at)) else { return };
    let mut entry = sys::read_word(head).unwrap_or(head);
    for _ in 0..MOST_ROBUST {
        if entry & !1 == head || entry & !1 == 0 {
            break;
        }
        see((entry & !1).wrapping_add(offset));
        let Some(next) = sys::read_word(entry & !1) else { break };
        entry = next;
    }
    if let Some(pending) = pending.filter(|pending| *pending != 0) {
        see((pending & !1).wrapping_add(offset));
    }
}

fn word(at: u64) -> Option<u32> {
    sys::read(at).map(u32::from_le_bytes)
}

/// What is written as a thread ends.
pub fn written_at_end(number: u64, mut see: impl FnMut(u64, u64)) {
    let me = thread::get();
    if number != sys::EXIT || !are_many() {
        return;
    }
    if me.cleared != 0 {
        see(me.cleared, 4);
    }
    robust(me, |at| see(at, 4));
}

/// The slots of those that live.
pub fn living() -> impl Iterator<Item = u32> {
    let many = if are_many() { MOST } else { 0 };
    let me = thread::get().index;
    let others = slots()[..many].iter().enumerate().filter(|(_, slot)| **slot == LIVES).map(|(index, _)| index as u32);
    core::iter::once(me).chain(others.filter(move |index| *index != me))
}

/// Whether another thread goes on if the calling one ends.
pub fn is_last() -> bool {
    !are_many() || state::get().threads == 1
}

/// The calling thread ends, which is not the last one; it does not come back, unless a signal has come to it.
pub fn end(args: &[u64; 6]) {
    let me = thread::get();
    let before = signals::block(u64::MAX);
    if me.signals.has_come() {
        signals::block(before);
        return;
    }
    robust(me, |at| {
        let Some(now) = word(at).filter(|now| now & FUTEX_TID == me.tid) else { return };
        sys::write(at, &(now & FUTEX_WAITERS | FUTEX_OWNER_DIED).to_le_bytes());
        if now & FUTEX_WAITERS != 0 {
            // SAFETY: wakes up.
            unsafe { sys::call3(FUTEX, at, FUTEX_WAKE, 1) };
        }
    });
    if me.cleared != 0 {
        sys::write(me.cleared, &[0; 4]);
    }
    calls::note_made(sys::EXIT, args, 0);
    // SAFETY: wakes up; nothing of the program's is written by the kernel from here on.
    unsafe {
        if me.cleared != 0 {
            sys::call3(FUTEX, me.cleared, FUTEX_WAKE, 1);
        }
        sys::call3(SET_ROBUST_LIST, 0, ROBUST_LIST, 0);
        if let Some(timer) = me.timer {
            sys::call3(TIMER_DELETE, timer.into(), 0, 0);
        }
    }
    slots()[me.index as usize] = ENDED;
    state::get().threads -= 1;
    me.borrowed.end();
    turn::end();
    loop {
        // SAFETY: ends the thread.
        unsafe { sys::call3(sys::EXIT, args[0], 0, 0) };
    }
}

/// The last thread ends, and the process with it, as the log says: those go on that it shares memory with.
pub fn end_last() {
    let me = thread::get();
    if !turn::is_with_others() {
        return;
    }
    let mut is_owner = false;
    robust(me, |at| is_owner |= word(at).is_some_and(|now| now & FUTEX_TID == me.tid));
    if is_owner {
        say(format_args!(
            "{}: a process ends that has locked a mutex which others share (process {})",
            end::TEXT,
            state::get().pid
        ));
        turn::over();
    } else {
        turn::end_process();
    }
}

/// The light part has ended: what the kernel is to clear at the thread's end is the program's.
pub fn leave() {
    let me = thread::get();
    if state::get().threads > 1 || me.cleared != 0 {
        // SAFETY: as the program has asked for.
        unsafe { sys::call3(SET_TID_ADDRESS, me.cleared, 0, 0) };
    }
}

/// In a forked child, which has one thread: this one.
pub fn forget() {
    MANY.store(false, Ordering::Relaxed);
    let me = thread::get();
    me.tid = state::get().pid;
    (me.timer, me.robust, me.cleared) = (None, 0, 0);
}
