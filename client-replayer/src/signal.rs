//! Faults of the replayed thread.
//!
//! The recorded program's memory appears when it is first touched. Every other signal means that replay went another
//! way than the recording, or came to where the recorded program was killed: execution goes to the gate, where the
//! client decides which.

use crate::counter::COUNTER;
use crate::engine::Engine;
use crate::fs_base::Guard;
use crate::instruction::Instruction;
use crate::site::{Built, Span};
use crate::state;
use bugnet_dr::events::{Action, REDIRECT, SUPPRESS, Signal};
use std::ffi::c_void;

const SIGBUS: i32 = 7;
const SIGSEGV: i32 = 11;
/// `SIGCHLD`, `SIGCONT`, `SIGURG` and `SIGWINCH`, which no instruction raises, and which the kernel would ignore: who stops and continues
/// processes, as `cpulimit` does, makes it send some to them and to their parents.
const IGNORED: [i32; 4] = [17, 18, 23, 28];

/// DynamoRIO's event for each signal.
///
/// # Safety
/// DynamoRIO's contract for the event.
pub unsafe extern "C" fn on_signal(_context: *mut c_void, info: *mut Signal) -> Action {
    let _guard = Guard::new();
    // SAFETY: the pointer is valid for the event.
    if IGNORED.contains(&unsafe { &*info }.number()) {
        return SUPPRESS;
    }
    // SAFETY: an event of the only thread; the client itself raises no signals. The pointer is valid for the event.
    let (engine, info) = unsafe { (state::engine(), &mut *info) };
    let memory_fault = [SIGSEGV, SIGBUS].contains(&info.number());
    engine.machine.copy(info.machine());
    let pc = engine.machine.pc;
    let provided = memory_fault && engine.code.has(pc, 1) && provide(engine, info.access_address());
    if provided && !engine.has_conflict() {
        return SUPPRESS;
    }
    let what = match info.number() {
        _ if provided => None,
        SIGSEGV | SIGBUS if !engine.code.has(pc, 1) => {
            Some(format!("execution reached {pc:#x}, of which the log has no code"))
        }
        SIGSEGV | SIGBUS => Some(format!("the instruction at {pc:#x} accesses {:#x}", info.access_address())),
        signal => Some(format!("signal {signal} at {pc:#x}")),
    };
    let place = Place::of(engine, info, pc);
    let shared = engine.stub.shared();
    let counter = info.machine_mut().gpr_mut(COUNTER.0.into());
    if place.r11_is_counter {
        shared.left = *counter;
    } else {
        shared.lent = *counter;
    }
    engine.machine.correct(COUNTER.0.into(), shared.lent);
    *counter = shared.left;
    doubt(engine);
    engine.unknown_flags = place.unknown_flags;
    let position = engine.due.wrapping_sub(engine.stub.shared().left).wrapping_add_signed(place.ahead);
    let gate = engine.trap(what, position);
    info.machine_mut().set_pc(gate);
    REDIRECT
}

/// Maps what the instruction needs; whether that changed anything.
fn provide(engine: &mut Engine, address: u64) -> bool {
    if engine.memory.ensure_writable(address, 1).unwrap_or(false) {
        return true;
    }
    // DynamoRIO's address is not the whole truth for instructions that access several places.
    let Some(instruction) = Instruction::decode(engine.machine.pc, &engine.code) else { return false };
    let mut news = false;
    for (address, len) in instruction.touches(&engine.machine) {
        news |= engine.memory.ensure_writable(address, len).unwrap_or(false);
    }
    news
}

/// Where memory has come that marks cannot tell apart from other memory, those that the present instruction has made are in doubt.
fn doubt(engine: &mut Engine) {
    if !engine.memory.has_conflict() {
        return;
    }
    let Some(instruction) = Instruction::decode(engine.machine.pc, &engine.code) else { return };
    let touches = instruction.touches(&engine.machine);
    if let Some(touched) = &mut engine.memory.touched {
        touches.into_iter().for_each(|(at, len)| touched.doubt(at, len));
    }
}

/// What is known of the place of an instruction that has faulted.
struct Place {
    /// By how much its position is ahead of what the counter says.
    ahead: i64,
    /// Arithmetic flags that may not be the program's.
    unknown_flags: u32,
    /// Whether R11 counts, and is not the program's.
    r11_is_counter: bool,
}

impl Place {
    fn of(engine: &mut Engine, info: &Signal, pc: u64) -> Self {
        let outside = Self { ahead: 0, unknown_flags: 0, r11_is_counter: true };
        let Some(fragment) = info.fragment() else { return outside };
        let (span, counted_from, split) = match engine.sites.built(fragment.tag) {
            Some(Built::Plain(span)) => (span, 0, None),
            Some(Built::Split(id)) => {
                let split = engine.sites.split(id);
                (split.span, split.before, Some(split.borrowed.clone()))
            }
            None => return outside,
        };
        let Span { start, count, mut unknown_flags, .. } = *engine.sites.span(span);
        let (mut at, mut executed) = (start, 0);
        while at != pc && executed < count {
            let Some(instruction) = Instruction::decode(at, &engine.code) else { break };
            unknown_flags &= !instruction.overwritten_flags();
            at += instruction.len();
            executed += 1;
        }
        let borrowed = split.as_ref().unwrap_or(&engine.sites.span(span).borrowed);
        let r11_is_counter = !borrowed.contains(executed as usize);
        // Before the call of a copy, the counter still counts from the span's start.
        let ahead = if executed < counted_from { i64::from(executed) } else { -i64::from(count - executed) };
        Self { ahead, unknown_flags, r11_is_counter }
    }
}
