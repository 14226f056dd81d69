//! The turn: the program's threads run one at a time, and the log has their order. Nothing here is used as long as there is one thread.
//!
//! ```text
//!             ┌──────────────────────────── pass_on ──────────────────────────┐
//! waiting ──> has the turn ── lend (a call that may wait) ──> in a call ── take_back ──> has it still, or waits again
//!             │                                                  └─ another one takes it, if the call lasts
//!             └─ asked, as it computes for long: the moment is kept, and it is passed on
//! ```
//!
//! Of those that wait, the first one looks whether the one that has the turn is in a call, or computes for long; the others sleep until they are told something.

use crate::layout::TURN;
use crate::log::Record;
use crate::moment;
use crate::signals::{Context, OURS};
use crate::state;
use crate::sys::{self, FUTEX};
use crate::thread::{self, Thread};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const WAIT_PRIVATE: u64 = 128;
const WAKE_PRIVATE: u64 = 129;
const RT_TGSIGQUEUEINFO: u64 = 297;
/// `si_code` of the signal that asks for the turn; no kernel's.
pub const SI_ASKS: i32 = -0x626e;

/// In [`HOLDER`]: the index of the thread that has the turn, and 1; whether it is in a call; whether that surely waits; whether nobody may ask
/// for it; which of its calls.
const INDEX: u32 = 0xffff;
const IN_CALL: u32 = 1 << 16;
const IS_SURE: u32 = 1 << 17;
const IS_KEPT: u32 = 1 << 18;
const CALL: u32 = 1 << 19;
const NOBODY: u32 = 0;

/// What a waiting thread is told.
const NOTHING: u32 = 0;
const HAS_TURN: u32 = 1;
const IS_FIRST: u32 = 2;

/// How often the first one that waits looks, in nanoseconds; so long a call may last; so often it looks while another one computes, for which that one may go on.
const LOOK: u64 = 100_000;
const LOOKS: u32 = 30;

/// Whether there are, or were, several threads.
static MANY: AtomicBool = AtomicBool::new(false);
static HOLDER: AtomicU32 = AtomicU32::new(NOBODY);
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Those that wait: the index of the first and of the last one, and 1.
static FIRST: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicU32 = AtomicU32::new(0);
/// Guards both, and what follows from them: 0 free, 1 taken, 2 and somebody waits.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Whether the one that has the turn is asked for it.
static ASKED: AtomicBool = AtomicBool::new(false);
/// A thread that has ended, and may not be gone yet: its index, and 1.
static ENDS: AtomicU32 = AtomicU32::new(0);

fn wait(word: &AtomicU32, value: u32, nanoseconds: Option<u64>) -> i64 {
    let time = [0, nanoseconds.unwrap_or(0)];
    let time = nanoseconds.map_or(0, |_| time.as_ptr() as u64);
    // SAFETY: a word, and a time.
    unsafe { sys::call(FUTEX, [word.as_ptr() as u64, WAIT_PRIVATE, value.into(), time, 0, 0]) }
}

fn wake(word: &AtomicU32) {
    // SAFETY: a word.
    unsafe { sys::call3(FUTEX, word.as_ptr() as u64, WAKE_PRIVATE, 1) };
}

fn lock() {
    if LOCK.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        while LOCK.swap(2, Ordering::Acquire) != 0 {
            wait(&LOCK, 2, None);
        }
    }
}

fn unlock() {
    if LOCK.swap(0, Ordering::Release) == 2 {
        wake(&LOCK);
    }
}

fn id(thread: &Thread) -> u32 {
    thread.index + 1
}

/// Whether there are, or were, several threads.
pub fn is_shared() -> bool {
    MANY.load(Ordering::Relaxed)
}

/// The calling thread makes another one: it has the turn.
pub fn begin() {
    if !MANY.swap(true, Ordering::Relaxed) {
        HOLDER.store(id(thread::get()), Ordering::SeqCst);
    }
}

/// In a forked child: there is one thread.
pub fn forget() {
    MANY.store(false, Ordering::Relaxed);
    ASKED.store(false, Ordering::Relaxed);
    for word in [&HOLDER, &FIRST, &LAST, &LOCK, &ENDS] {
        word.store(0, Ordering::SeqCst);
    }
}

fn tell(thread: &Thread, what: u32) {
    thread.told.store(what, Ordering::SeqCst);
    wake(&thread.told);
}

/// Takes the first one out of those that wait, under the lock; the next one is the first then.
fn pop() -> Option<&'static Thread> {
    let first = thread::of(FIRST.load(Ordering::Relaxed).checked_sub(1)?);
    let next = first.behind;
    FIRST.store(next, Ordering::SeqCst);
    if next == 0 {
        LAST.store(0, Ordering::Relaxed);
    } else {
        tell(thread::of(next - 1), IS_FIRST);
    }
    Some(first)
}

/// Puts the calling thread behind those that wait, under the lock; whether it is the first one.
fn push(me: &mut Thread) -> bool {
    me.behind = 0;
    me.told.store(NOTHING, Ordering::SeqCst);
    let last = LAST.swap(id(me), Ordering::Relaxed);
    if last == 0 {
        FIRST.store(id(me), Ordering::SeqCst);
    } else {
        // SAFETY: under the lock, which guards this field of threads that wait.
        unsafe { (&raw const thread::of(last - 1).behind).cast_mut().write(id(me)) };
    }
    last == 0
}

/// The one that has the turn passes it on to the first one that waits; whether there is one.
fn pass_on(from: u32) -> bool {
    lock();
    let passed = FIRST.load(Ordering::Relaxed) != 0
        && HOLDER.compare_exchange(from, FIRST.load(Ordering::Relaxed), Ordering::SeqCst, Ordering::SeqCst).is_ok();
    let next = if passed { pop() } else { None };
    if let Some(next) = next {
        ASKED.store(false, Ordering::SeqCst);
        tell(next, HAS_TURN);
    }
    unlock();
    passed
}

/// Waits until the calling thread has the turn, which another one had meanwhile: the log says that it goes on.
pub fn take() {
    if !state::get().on {
        return;
    }
    let me = thread::get();
    lock();
    let free = HOLDER.compare_exchange(NOBODY, id(me), Ordering::SeqCst, Ordering::SeqCst).is_ok();
    let is_first = !free && push(me);
    unlock();
    if !free {
        wait_for(me, is_first);
    }
    let ends = ENDS.swap(0, Ordering::SeqCst);
    if ends != 0 {
        let gone = &thread::of(ends - 1).alive;
        loop {
            match gone.load(Ordering::SeqCst) {
                0 => break,
                // The kernel wakes up who waits for any process's.
                // SAFETY: a word.
                alive => unsafe { sys::call3(FUTEX, gone.as_ptr() as u64, 0, alive.into()) },
            };
        }
    }
    note(me.tid);
}

/// Waits until somebody passes the turn on, or, as the first one that waits, until it can be taken.
fn wait_for(me: &Thread, mut is_first: bool) {
    let (mut seen, mut looks) = (NOBODY, 0);
    loop {
        match me.told.load(Ordering::SeqCst) {
            HAS_TURN => return,
            IS_FIRST => is_first = true,
            _ => {}
        }
        if !is_first {
            wait(&me.told, NOTHING, None);
            continue;
        }
        let now = HOLDER.load(Ordering::SeqCst);
        if now & IS_SURE != 0 || now & IN_CALL != 0 && now == seen {
            take_from(me, now);
            continue;
        }
        looks = if now == seen { looks + 1 } else { 0 };
        seen = now;
        if looks == LOOKS {
            looks = 0;
            ask(now);
        }
        let told = me.told.load(Ordering::SeqCst);
        if told != HAS_TURN {
            wait(&me.told, told, Some(LOOK));
        }
    }
}

/// The first one that waits takes the turn from one that is in a call.
fn take_from(me: &Thread, holder: u32) {
    lock();
    let mine = FIRST.load(Ordering::Relaxed) == id(me)
        && HOLDER.compare_exchange(holder, id(me), Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if mine {
        pop();
        ASKED.store(false, Ordering::SeqCst);
        me.told.store(HAS_TURN, Ordering::SeqCst);
    }
    unlock();
}

/// Asks the one that has the turn for it.
fn ask(holder: u32) {
    let Some(index) = (holder & INDEX).checked_sub(1) else { return };
    if holder & (IN_CALL | IS_KEPT) != 0 {
        return;
    }
    ASKED.store(true, Ordering::SeqCst);
    let mut info = [0u32; 32];
    (info[0], info[2]) = (OURS as u32, SI_ASKS as u32);
    let args = [state::get().pid, thread::of(index).tid, OURS as u32].map(u64::from);
    // SAFETY: a structure of the kernel's.
    unsafe { sys::call(RT_TGSIGQUEUEINFO, [args[0], args[1], args[2], info.as_ptr() as u64, 0, 0]) };
}

/// The log goes on with what another thread does.
fn note(tid: u32) {
    if let Some(mut record) = Record::begin(TURN, 0, 8) {
        record.word(tid.into());
        record.end();
    }
}

/// Before a call that may wait, or surely does: others may have the turn meanwhile.
pub fn lend(is_sure: bool) -> u32 {
    if !is_shared() || state::get().lent > 0 {
        return NOBODY;
    }
    let me = id(thread::get());
    let call = CALLS.fetch_add(1, Ordering::Relaxed).wrapping_mul(CALL);
    let lent = me | IN_CALL | if is_sure { IS_SURE } else { 0 } | call;
    HOLDER.store(lent, Ordering::SeqCst);
    if is_sure && FIRST.load(Ordering::SeqCst) != 0 {
        pass_on(lent);
    }
    lent
}

/// Behind such a call: the thread has the turn again.
pub fn take_back(lent: u32) {
    if lent == NOBODY {
        return;
    }
    let me = id(thread::get());
    if HOLDER.compare_exchange(lent, me, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        take();
    }
}

/// Others that wait have their turn first.
pub fn give_way() {
    if is_shared() && state::get().lent == 0 && pass_on(id(thread::get())) {
        take();
    }
}

/// The same, if somebody has asked for it.
pub fn give_way_if_asked() {
    if ASKED.load(Ordering::Relaxed) {
        give_way();
    }
}

/// The thread computes, and is asked for its turn: it passes it on where it is.
pub fn is_asked(context: &Context) {
    let can =
        is_shared() && state::get().lent == 0 && ASKED.load(Ordering::SeqCst) && FIRST.load(Ordering::SeqCst) != 0;
    if !can || !state::get().on || moment::is_repeated(context.rip()) {
        return;
    }
    moment::note(context);
    give_way();
}

/// The light part is over: threads run as they like.
pub fn over() {
    MANY.store(false, Ordering::SeqCst);
    lock();
    HOLDER.store(NOBODY, Ordering::SeqCst);
    while let Some(thread) = pop() {
        tell(thread, HAS_TURN);
    }
    unlock();
}

/// Nobody asks the one for its turn that has it, and executes another program; or it may be asked again.
pub fn keep(kept: bool) {
    if is_shared() && kept {
        HOLDER.fetch_or(IS_KEPT, Ordering::SeqCst);
    } else if is_shared() {
        HOLDER.fetch_and(!IS_KEPT, Ordering::SeqCst);
    }
}

/// The calling thread ends, and has the turn: others go on when it is gone.
pub fn end() {
    ENDS.store(id(thread::get()), Ordering::SeqCst);
    lock();
    HOLDER.store(FIRST.load(Ordering::Relaxed), Ordering::SeqCst);
    ASKED.store(false, Ordering::SeqCst);
    if let Some(next) = pop() {
        tell(next, HAS_TURN);
    }
    unlock();
}
