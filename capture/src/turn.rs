//! The turn: the program's threads run one at a time, with those of the processes that it shares memory with, and the log has their order. Nothing here is used as
//! long as there is one thread that shares nothing.
//!
//! ```text
//!             ┌──────────────────────────── pass_on ──────────────────────────┐
//! waiting ──> has the turn ── lend (a call that may wait) ──> in a call ── take_back ──> has it still, or waits again
//!             │                                                  └─ another one takes it, if the call lasts
//!             └─ asked, as it computes for long: the moment is kept, and it is passed on
//! ```
//!
//! Of those that wait, the one that does so longest looks whether the one that has the turn is in a call, computes for long, or is dead; the others sleep until
//! they are told to look.

use crate::epoch::{self, Place};
use crate::layout::TURN;
use crate::log::Record;
use crate::members::{self, Member, words};
use crate::moment;
use crate::signals::{Context, OURS};
use crate::state;
use crate::sys::{self, FUTEX};
use crate::thread::{self, Thread};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const NANOSLEEP: u64 = 35;
const RT_TGSIGQUEUEINFO: u64 = 297;
/// `si_code` of the signal that asks for the turn; no kernel's.
pub const SI_ASKS: i32 = -0x626e;

/// In the word that says who has the turn: its place among the members, and 1; whether it is in a call; whether that surely waits; whether nobody may ask for the
/// turn; whether it was given the turn, and does not know that yet; which of the calls.
const INDEX: u32 = 0xffff;
const IN_CALL: u32 = 1 << 16;
const IS_SURE: u32 = 1 << 17;
const IS_KEPT: u32 = 1 << 18;
const IS_GIVEN: u32 = 1 << 19;
const CALL: u32 = 1 << 20;
const NOBODY: u32 = 0;

/// Why the light part ends where that of another process has.
const UNRECORDED: &str = "a process that it shares memory with is not recorded any more";

/// The id of a thread that is to be.
pub const NEW: u32 = u32::MAX;

/// How often the first one that waits looks, in nanoseconds; so long a call may last; so often it looks while another one computes, for which that one may go on.
const LOOK: u64 = 100_000;
const LOOKS: u32 = 30;
/// How long others sleep at most: the first one may have died.
const FAR: u64 = 50_000_000;

/// Whether there are, or were, several threads that have turns.
static MANY: AtomicBool = AtomicBool::new(false);
/// A thread that has ended, and may not be gone yet: its index, and 1.
static ENDS: AtomicU32 = AtomicU32::new(0);
/// Whether the process is dying, and none of its threads goes on.
static DIES: AtomicBool = AtomicBool::new(false);
/// The thread that goes on without having the turn, since the light part is over for those that memory is shared with: its place, and 1. It ends that of this
/// process, while the others wait.
static LOSER: AtomicU32 = AtomicU32::new(NOBODY);
/// Whether memory is shared with other processes.
static WITH_OTHERS: AtomicBool = AtomicBool::new(false);

fn me() -> &'static Member {
    members::of(thread::get().place)
}

fn id(thread: &Thread) -> u32 {
    thread.place + 1
}

fn change(from: u32, to: u32) -> bool {
    words().holder.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Whether there are, or were, several threads that have turns.
pub fn is_shared() -> bool {
    MANY.load(Ordering::Relaxed)
}

/// The calling thread makes another one, or a process that it shares memory with: it has the turn. Whether there is room for that.
pub fn begin() -> bool {
    if is_shared() {
        return true;
    }
    let place = if members::make() { members::join(state::get().pid, thread::get().tid) } else { None };
    if let Some(place) = place {
        epoch::begin_with_others();
        thread::get().place = place;
        words().holder.store(id(thread::get()), Ordering::SeqCst);
        MANY.store(true, Ordering::Relaxed);
    }
    place.is_some()
}

/// A place for the process that the calling thread is about to fork, and to share memory with.
pub fn place_for_fork() -> Option<u32> {
    let place = if begin() { members::join(state::get().pid, NEW) } else { None };
    WITH_OTHERS.fetch_or(place.is_some(), Ordering::Relaxed);
    place
}

/// In a forked child: it goes on when it has the turn, if it has a place, which means that it shares memory with its parent.
pub fn begin_forked(place: Option<u32>) {
    ENDS.store(0, Ordering::Relaxed);
    let me = thread::get();
    if let Some(place) = place {
        me.place = place;
        members::of(place).is(state::get().pid, me.tid);
        me.stand.is_at(Place::Beginning(0));
        take();
    } else {
        MANY.store(false, Ordering::Relaxed);
        WITH_OTHERS.store(false, Ordering::Relaxed);
    }
}

/// The number of the turn that goes on.
pub fn number() -> u32 {
    if is_shared() { words().number.load(Ordering::SeqCst) } else { 0 }
}

/// Whether memory is shared with other processes.
pub fn is_with_others() -> bool {
    WITH_OTHERS.load(Ordering::Relaxed)
}

/// Gives the one that waits longest the turn of the one that has it so; whether there is one.
fn pass_on(from: u32) -> bool {
    let Some(next) = members::anybody_waits().then(members::first).flatten() else { return false };
    words().asked.store(0, Ordering::SeqCst);
    let given = next + 1;
    let passed = change(from, given | IS_GIVEN);
    if passed {
        members::of(next).tell();
    }
    passed
}

/// Waits until the calling thread has the turn, which another one had meanwhile: the log says that it goes on.
pub fn take() {
    take_behind(false);
}

/// The same; `is_interrupted`: between two instructions, which chaos may have let all others go first for.
fn take_behind(is_interrupted: bool) {
    if !state::get().on {
        return;
    }
    let mine = id(thread::get());
    if is_lost() {
        return wait_until_over();
    }
    if DIES.load(Ordering::SeqCst) || !change(NOBODY, mine) {
        let chaos = &mut state::get().chaos;
        let (others, hurry) =
            (chaos.others(is_interrupted), if is_interrupted { 0 } else { chaos.below(LOOKS.into()) });
        me().begins_to_wait(others);
        let has_it = wait(mine, LOOKS - hurry as u32);
        me().stops_waiting();
        if members::anybody_waits()
            && let Some(first) = members::first()
        {
            members::of(first).tell();
        }
        if !has_it {
            return;
        }
    }
    if words().is_over.load(Ordering::SeqCst) != 0 {
        lose(UNRECORDED);
        return;
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
    note(thread::get().tid);
    if is_with_others() {
        epoch::follow();
    }
}

/// Waits until somebody passes the turn on, or, as the first one that waits, until it can be taken, which is asked for after so many looks; whether the thread has it.
fn wait(mine: u32, patience: u32) -> bool {
    let words = words();
    let (mut seen, mut looks) = (NOBODY, 0);
    loop {
        if DIES.load(Ordering::SeqCst) {
            me().stops_waiting();
            sleep_for_ever();
        }
        let told = me().seen();
        let now = words.holder.load(Ordering::SeqCst);
        if now == mine | IS_GIVEN {
            words.holder.store(mine, Ordering::SeqCst);
            return true;
        }
        if !state::get().on {
            return false;
        }
        if words.is_over.load(Ordering::SeqCst) != 0 {
            lose(UNRECORDED);
            return false;
        }
        let first = members::first();
        if first != Some(mine - 1) {
            me().sleep(told, FAR);
            if me().seen() == told
                && let Some(first) = first.map(members::of)
                && first.is_gone()
            {
                first.stops_waiting();
            }
            continue;
        }
        if now == NOBODY || now & IS_SURE != 0 || now & IN_CALL != 0 && now == seen {
            words.asked.store(0, Ordering::SeqCst);
            if change(now, mine) {
                return true;
            }
            continue;
        }
        looks = if now & INDEX == seen & INDEX { looks + 1 } else { 0 };
        seen = now;
        if looks == patience {
            looks = 0;
            let holder = members::of((now & INDEX).wrapping_sub(1));
            if now & IN_CALL == 0 && holder.is_gone() && change(now, mine) {
                if now & (IS_GIVEN | IS_KEPT) == 0 {
                    // Where it was when it was killed, nothing says, nor what it has written since its last call.
                    words.is_over.store(1, Ordering::SeqCst);
                    lose("a process that it shares memory with was killed while it computed");
                }
                return !is_lost();
            }
            ask(now, holder);
        }
        me().sleep(told, LOOK);
    }
}

/// The process is dying.
fn sleep_for_ever() -> ! {
    const LONG: [u64; 2] = [1 << 30, 0];
    loop {
        // SAFETY: a time.
        unsafe { sys::call3(NANOSLEEP, LONG.as_ptr() as u64, 0, 0) };
    }
}

/// Asks the one that has the turn for it: one that computes by a signal, one that makes one call after the other gives way before the next.
fn ask(holder: u32, member: &Member) {
    if holder & (IS_KEPT | IS_GIVEN) != 0 {
        return;
    }
    words().asked.store(1, Ordering::SeqCst);
    if holder & IN_CALL != 0 {
        return;
    }
    let (pid, tid) = member.ids();
    let mut info = [0u32; 32];
    (info[0], info[2]) = (OURS as u32, SI_ASKS as u32);
    let args = [pid, tid, OURS as u32].map(u64::from);
    // SAFETY: a structure of the kernel's.
    unsafe { sys::call(RT_TGSIGQUEUEINFO, [args[0], args[1], args[2], info.as_ptr() as u64, 0, 0]) };
}

/// The log goes on with what another thread does.
fn note(tid: u32) {
    let Some(mut record) = Record::begin(TURN, 0, 16) else {
        // What comes behind would stand for another thread.
        state::get().full = true;
        return;
    };
    record.word(tid.into());
    record.word((words().number.fetch_add(1, Ordering::SeqCst) + 1).into());
    record.end();
}

/// Before a call that may wait, or surely does: others may have the turn meanwhile.
pub fn lend(is_sure: bool) -> u32 {
    if !is_shared() || state::get().lent > 0 {
        return NOBODY;
    }
    epoch::wait();
    let call = words().calls.fetch_add(1, Ordering::Relaxed).wrapping_mul(CALL);
    let lent = id(thread::get()) | IN_CALL | if is_sure { IS_SURE } else { 0 } | call;
    words().holder.store(lent, Ordering::SeqCst);
    if is_sure {
        pass_on(lent);
    }
    lent
}

/// The call, for which the turn is lent, surely waits: who waits for the turn has it at once.
pub fn lend_surely(lent: u32) -> u32 {
    let sure = lent | IS_SURE;
    if lent == NOBODY || lent == sure || !change(lent, sure) {
        return lent;
    }
    pass_on(sure);
    sure
}

/// Behind such a call: the thread has the turn again. Whether others have had it.
pub fn take_back(lent: u32) -> bool {
    let is_taken = lent != NOBODY && !change(lent, id(thread::get()));
    if is_taken {
        take();
    }
    is_taken
}

/// Others that wait have their turn first.
pub fn give_way() {
    if !is_shared() || state::get().lent > 0 {
        return;
    }
    epoch::wait();
    if pass_on(id(thread::get())) {
        take();
    }
}

/// The thread is between two instructions: others have their turn, if they want it, for so many nanoseconds at least. The log has a turn in any case.
pub fn step_aside(nanoseconds: u64) {
    let mine = id(thread::get());
    if !is_shared() || state::get().lent > 0 {
        return;
    }
    epoch::wait();
    if !pass_on(mine) && !change(mine, NOBODY) {
        return;
    }
    if nanoseconds > 0 {
        let time = [0, nanoseconds];
        // SAFETY: a time of less than a second.
        unsafe { sys::call3(NANOSLEEP, time.as_ptr() as u64, 0, 0) };
    }
    take_behind(true);
}

/// As [`give_way`], if somebody has asked for it.
pub fn give_way_if_asked() {
    if is_shared() && words().asked.load(Ordering::Relaxed) != 0 {
        give_way();
    }
}

/// The thread computes, and is asked for its turn: it passes it on where it is.
pub fn is_asked(context: &Context) {
    let can = is_shared()
        && state::get().lent == 0
        && words().asked.load(Ordering::SeqCst) != 0
        && words().holder.load(Ordering::SeqCst) == id(thread::get())
        && members::anybody_waits();
    if !can || !state::get().on || moment::cannot_be(context.rip()) {
        return;
    }
    moment::note(context);
    thread::get().stand.is_at(Place::Between(context.address()));
    step_aside(0);
}

/// The light part is over: threads run as they like, and so do those of other processes that share memory.
pub fn over() {
    if is_shared() {
        words().is_over.store(1, Ordering::SeqCst);
        words().holder.store(NOBODY, Ordering::SeqCst);
        MANY.store(false, Ordering::SeqCst);
        members::tell_all();
    }
}

/// The thread goes on without having the turn: the light part ends as soon as it can.
fn lose(why: &'static str) {
    if LOSER.compare_exchange(NOBODY, id(thread::get()), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        state::get().ends = Some(why);
    } else {
        wait_until_over();
    }
}

/// Another thread ends the light part: nobody else executes code meanwhile that becomes again what it was.
fn wait_until_over() {
    while LOSER.load(Ordering::SeqCst) != id(thread::get()) && state::get().on {
        me().sleep(me().seen(), LOOK);
    }
}

/// Whether a thread goes on without having the turn: nothing more is kept of what the process does.
pub fn is_lost() -> bool {
    LOSER.load(Ordering::SeqCst) != NOBODY
}

/// Nobody asks the calling thread for its turn, which may not come back from the call that it makes, or is about to end the light part.
pub fn keep() {
    let mine = || words().holder.load(Ordering::SeqCst) & INDEX == id(thread::get());
    if is_shared() && state::get().lent == 0 && mine() {
        words().holder.fetch_or(IS_KEPT, Ordering::SeqCst);
    }
}

/// The log says that it does not come back: other processes that it shares memory with go on. It has one thread, or dies.
pub fn leave_to_others() {
    if is_shared() && is_with_others() {
        lend(true);
    }
}

/// It has come back.
pub fn keep_on() {
    if !is_shared() || state::get().lent > 0 {
        return;
    }
    let mine = id(thread::get());
    let now = words().holder.load(Ordering::SeqCst);
    if now & INDEX != mine || !change(now, mine) {
        take();
    }
}

/// The calling thread ends, and has the turn: others of its process go on when it is gone.
pub fn end() {
    let me = thread::get();
    ENDS.store(me.index + 1, Ordering::SeqCst);
    give_up(me);
}

fn give_up(me: &Thread) {
    let mine = id(me);
    if !pass_on(mine) {
        change(mine, NOBODY);
        // Somebody may have begun to wait since: it takes it.
    }
    members::of(me.place).leave();
}

/// The process ends, as its log says: others go on, and none of its threads.
pub fn end_process() {
    if !is_with_others() || state::get().lent > 0 {
        return;
    }
    DIES.store(true, Ordering::SeqCst);
    members::none_waits_of(state::get().pid);
    give_up(thread::get());
}
