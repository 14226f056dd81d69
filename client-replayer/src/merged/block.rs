//! Instruments blocks for a merged replay.
//!
//! Each instruction that accesses memory is preceded by a call of the client, which compares and takes note; each other
//! by a check whether something is due. An instruction that replay does not execute, or of which there is no code, ends
//! its block, and the client is called in its place.

use super::site::Site;
use super::state::merged;
use bugnet_dr::access::{Action, classify};
use bugnet_dr::ir::{Block, Opnd};
use bugnet_dr::sys;
use std::ffi::{c_char, c_void};

/// DynamoRIO's event for each block that it builds.
///
/// # Safety
/// DynamoRIO's contract for the event.
pub unsafe extern "C" fn on_block(
    context: *mut c_void,
    tag: *mut c_void,
    list: *mut sys::instrlist_t,
    _for_trace: c_char,
    _translating: c_char,
) -> sys::dr_emit_flags_t {
    // Translations are stored, since the program's code may have changed by the time that one is asked for.
    const FLAGS: sys::dr_emit_flags_t = sys::dr_emit_flags_t::DR_EMIT_STORE_TRANSLATIONS;
    // SAFETY: an event of the only thread; not during a clean call, as that returns to the dispatcher before.
    let replay = unsafe { merged() };
    replay.stub.prepare(context);
    // SAFETY: the pointers of the event; the block is dropped when it returns.
    let block = unsafe { Block::new(context, list) };
    let start = tag as u64;
    block.restore_requests();
    let instrs = block.app_instrs();
    let Some(first) = instrs.first().copied() else { return FLAGS };
    if replay.is_gate(start) {
        let site = replay.add_site(Site::other(start));
        block.meta(Some(first), block.raw(&replay.stub.call(site)));
        return FLAGS;
    }
    if replay.memory.is_own(start) {
        return FLAGS;
    }
    // A jump, of no effect, makes DynamoRIO believe that the flags are live at the block's start, so that it keeps them.
    let next = block.label();
    block.meta(Some(first), block.jump_if_rcx_zero(next));
    block.meta(Some(first), next);
    let mut opaque = false;
    for instr in replay.own_instructions(&block, instrs) {
        if opaque {
            block.remove(instr);
            continue;
        }
        let pc = instr.pc();
        let action = classify(instr);
        let own = replay.decode(pc);
        opaque = own.as_ref().is_none_or(|own| !own.runs());
        let accesses = match action {
            Action::Execute { reads, writes } => !(reads.is_empty() && writes.is_empty()),
            _ => true,
        };
        let site = match own.filter(|_| accesses && !opaque) {
            Some(own) => Site::access(pc, own, replay),
            None => Site::other(pc),
        };
        let site = replay.add_site(site);
        replay.note_cached(pc, instr.len(&block));
        let code = if accesses || opaque { replay.stub.call(site) } else { replay.stub.check(site) };
        block.meta(Some(instr), block.raw(&code));
        if opaque {
            // Never executed, but a block has to end in something.
            // SAFETY: makes a value from an address.
            let target = Opnd(unsafe { sys::opnd_create_pc(pc as sys::app_pc) });
            block.app(Some(instr), block.make(sys::OP_jmp, &[], &[target]), pc);
            block.remove(instr);
        }
    }
    FLAGS
}
