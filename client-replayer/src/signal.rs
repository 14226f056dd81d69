//! Faults of the replayed thread.
//!
//! The recorded program's memory appears when it is first touched. Every other signal means that replay went another
//! way than the recording, or came to where the recorded program was killed: execution goes to the gate, where the
//! client decides which.

use crate::instruction::Instruction;
use crate::replay::Replay;
use crate::site::{Built, Span};
use crate::state;
use bugnet_dr::sys;
use std::ffi::c_void;

const SIGBUS: i32 = 7;
const SIGSEGV: i32 = 11;

/// DynamoRIO's event for each signal.
///
/// # Safety
/// DynamoRIO's contract for the event.
pub unsafe extern "C" fn on_signal(_context: *mut c_void, info: *mut sys::dr_siginfo_t) -> sys::dr_signal_action_t {
    // SAFETY: an event of the only thread; the client itself raises no signals. The pointer is valid for the event.
    let (replay, info) = unsafe { (state::replay(), &mut *info) };
    // SAFETY: DynamoRIO fills in the program's registers for every signal.
    let context = unsafe { &mut *info.mcontext };
    let memory_fault = info.sig == SIGSEGV || info.sig == SIGBUS;
    replay.machine.copy(context);
    let pc = replay.machine.pc;
    if memory_fault && replay.memory.is_code(pc, 1) && provide(replay, info.access_address as u64) {
        return sys::dr_signal_action_t_DR_SIGNAL_SUPPRESS;
    }
    let what = match info.sig {
        SIGSEGV | SIGBUS if !replay.memory.is_code(pc, 1) => {
            format!("execution reached {pc:#x}, of which the log has no code")
        }
        SIGSEGV | SIGBUS => format!("the instruction at {pc:#x} accesses {:#x}", info.access_address as u64),
        signal => format!("signal {signal} at {pc:#x}"),
    };
    let position = position(replay, info, pc);
    let gate = replay.trap(what, position);
    context.__bindgen_anon_10.pc = gate as sys::app_pc;
    sys::dr_signal_action_t_DR_SIGNAL_REDIRECT
}

/// Maps what the instruction needs; whether that changed anything.
fn provide(replay: &mut Replay, address: u64) -> bool {
    if replay.memory.ensure_writable(address, 1).unwrap_or(false) {
        return true;
    }
    // DynamoRIO's address is not the whole truth for instructions that access several places.
    let Some(instruction) = Instruction::decode(replay.machine.pc, &replay.memory) else { return false };
    let mut news = false;
    for (address, len) in instruction.touches(&replay.machine) {
        news |= replay.memory.ensure_writable(address, len).unwrap_or(false);
    }
    news
}

/// The position of the instruction at `pc`, which has faulted.
fn position(replay: &mut Replay, info: &sys::dr_siginfo_t, pc: u64) -> u64 {
    let zero = replay.due.wrapping_sub(replay.stub.shared().left);
    let fragment = info.fault_fragment_info;
    if fragment.cache_start_pc.is_null() {
        return zero;
    }
    let (span, counted_from) = match replay.sites.built(fragment.tag as u64) {
        Some(Built::Plain(span)) => (span, 0),
        Some(Built::Split(split)) => (replay.sites.split(split).span, replay.sites.split(split).before),
        None => return zero,
    };
    let Span { start, count, .. } = *replay.sites.span(span);
    let (mut at, mut executed) = (start, 0);
    while at != pc && executed < count {
        let Some(instruction) = Instruction::decode(at, &replay.memory) else { break };
        at += instruction.len();
        executed += 1;
    }
    if executed < counted_from {
        // `left` still counts from the span's start.
        zero.wrapping_add(u64::from(executed))
    } else {
        zero.wrapping_sub(u64::from(count - executed))
    }
}
