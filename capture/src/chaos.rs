//! `--chaos`: threads have turns of random length, in an order that is random, too.
//!
//! Behind a call, or where a turn begins, a thread goes on step by step now and then, which a flag of the processor's does (`TF`): until it comes to its nth access of memory
//! that is not its stack's, as chance has it, few rather than many. Then it passes its turn on before that, as one does that was asked for it, and sometimes stays away for a while.
//! So what happens between any two accesses does so often that are close to a call, or to each other.
//!
//! In every other process, by the seed, a thread that was interrupted so comes behind all others, which are not: they do all that they can in the meantime. (With one such point,
//! that finds what one interruption makes fail: Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010.)

use crate::accesses;
use crate::end;
use crate::epoch::Place;
use crate::hot;
use crate::members;
use crate::moment;
use crate::signals::{Context, SIGTRAP};
use crate::state;
use crate::sys;
use crate::thread;
use crate::trap;
use crate::turn;

/// The flag.
const TF: u64 = 0x100;
/// R11, which has the flags as they were at a call.
const R11: usize = 3;
/// `si_code` of the signal behind a step, and of one that an instruction raises by itself (`int3`).
const TRAP_TRACE: i32 = 2;
const SI_KERNEL: i32 = 0x80;
/// While others wait for their turn, one of so many calls and turns is not followed by steps; or, where who is interrupted comes last, one of so many calls is.
const OFTEN: u64 = 32;
const RARE: u64 = 4;
/// Accesses are no more than 2 to the power of this, few as often as many; or, where who is interrupted comes last, than 2 to the power of that.
const ACCESSES: u64 = 7;
const ACCESSES_TO_LAST: u64 = 10;
/// A thread that has passed its turn on stays away for less than 2 to the power of so many microseconds, one of so many times.
const AWAY: u64 = 14;
const SELDOM: u64 = 16;
/// How many steps a process may make at its start, and how many more with each call: a step takes more than a microsecond.
const FIRST: u64 = 20_000;
const MORE: u64 = 50;
/// Who waits later may have the turn before so many others; or before all of them.
const OTHERS: u64 = 6;
const ALL: u64 = 1 << 20;

/// What chance has come to.
pub struct Chaos {
    /// What makes it this one; 0 without chaos. What another program gets that is executed here.
    pub seed: u32,
    state: u64,
    /// Steps that may be made.
    left: u64,
}

impl Chaos {
    pub const fn new() -> Self {
        Self { seed: 0, state: 0, left: FIRST }
    }

    /// The process begins.
    pub fn begin(&mut self, seed: u32, pid: u32) {
        (self.seed, self.left) = (seed, FIRST);
        // Never 0, which would stay.
        self.state = (u64::from(seed) << 32 | u64::from(pid)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        state::get().hot.is_off |= self.is_on();
    }

    pub fn is_on(&self) -> bool {
        self.seed != 0
    }

    /// A number below another one (xorshift64*, Vigna); 0 without chaos.
    pub fn below(&mut self, limit: u64) -> u64 {
        if !self.is_on() {
            return 0;
        }
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    /// Whether who is interrupted comes last.
    fn lets_all_go(&self) -> bool {
        self.seed & 1 != 0
    }

    /// How many others may have their turn before a thread that begins to wait for it. `is_interrupted`: by a step.
    pub fn others(&mut self, is_interrupted: bool) -> u64 {
        if self.lets_all_go() && is_interrupted { ALL } else { self.below(OTHERS) }
    }

    /// A number below a power of 2: of each length as often.
    fn of_any_length(&mut self, bits: u64) -> u64 {
        let length = self.below(bits);
        self.below(2 << length)
    }
}

/// A handler begins: the program's flags are as they would be without steps. Whether it made one.
pub fn interrupted(context: &mut Context) -> bool {
    let was_stepping = context.flags() & TF != 0 && state::get().chaos.is_on();
    if was_stepping {
        context.set_flags(context.flags() & !TF);
    }
    was_stepping
}

/// The same at a call, which has left the flags in R11.
pub fn interrupted_at_call(context: &mut Context) {
    interrupted(context);
    if state::get().chaos.is_on() {
        context.set_register(R11, context.register(R11) & !TF);
    }
}

/// Where a thread is about to go on, perhaps step by step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Behind a call; whether it has made a thread, or a process, that does not wait for its turn yet.
    Call(bool),
    /// At its beginning.
    Beginning,
    /// Where it has passed its turn on.
    Turn,
}

/// How many accesses it makes step by step.
pub fn draw(at: At) {
    let chaos = &mut state::get().chaos;
    if !chaos.is_on() {
        return;
    }
    if matches!(at, At::Call(_)) {
        chaos.left = (chaos.left + MORE).min(FIRST);
    }
    if thread::get().steps > 0 {
        return;
    }
    let to_last = chaos.lets_all_go();
    let wanted = match at {
        At::Beginning => chaos.below(2) == 0,
        At::Turn if to_last => false,
        At::Call(_) if to_last => chaos.below(RARE) == 0,
        _ => chaos.below(OFTEN) != 0,
    };
    let with_others = turn::is_shared() && (at == At::Call(true) || members::anybody_waits());
    let steps = if wanted && (with_others || to_last && at == At::Beginning) {
        1 + chaos.of_any_length(if to_last { ACCESSES_TO_LAST } else { ACCESSES })
    } else {
        0
    };
    thread::get().steps = if chaos.left > 0 { steps as u32 } else { 0 };
}

/// A handler is over: steps go on.
pub fn goes_on(context: &mut Context) {
    let me = thread::get();
    if me.steps == 0 {
        return;
    }
    if !state::get().on || state::get().lent > 0 || is_own(context.rip()) || shows_flags(context.rip()) {
        me.steps = 0;
    } else {
        context.set_flags(context.flags() | TF);
    }
}

fn is_own(rip: u64) -> bool {
    trap::own().contains(&rip) || hot::is_stub(rip)
}

/// Whether an instruction puts the flags where the program sees them (`pushf`).
fn shows_flags(rip: u64) -> bool {
    const PUSHF: u8 = 0x9c;
    sys::read::<2>(rip).is_none_or(|[first, second]| first == PUSHF || first == 0x66 && second == PUSHF)
}

/// Whether a signal is that of a step, which is made then. `was_stepping`: what [`interrupted`] has found. The kernel does not always say what it was.
pub fn steps(signal: usize, code: i32, context: &mut Context, was_stepping: bool) -> bool {
    let me = thread::get();
    let is_step = code == TRAP_TRACE || was_stepping && code > 0 && code != SI_KERNEL;
    if signal != SIGTRAP || !is_step || !state::get().chaos.is_on() {
        return false;
    }
    if is_own(context.rip()) {
        me.steps = 0;
        return true;
    }
    let chaos = &mut state::get().chaos;
    chaos.left = chaos.left.saturating_sub(1);
    if chaos.left == 0 {
        me.steps = 0;
    }
    let is_access = sys::read(context.rip()).is_some_and(|bytes| accesses::is_access(&bytes));
    if me.steps == 0 || !is_access || moment::cannot_be(context.rip()) {
        return true;
    }
    me.steps -= 1;
    if me.steps > 0 {
        return true;
    }
    let away = if chaos.below(SELDOM) == 0 { chaos.of_any_length(AWAY) * 1000 } else { 0 };
    if turn::is_shared() && (away > 0 || members::anybody_waits()) {
        moment::note(context);
        me.stand.is_at(Place::Between(context.address()));
        turn::step_aside(away);
        end::if_asked_for(context);
        end::leave_if_over(context);
    }
    draw(At::Turn);
    true
}
