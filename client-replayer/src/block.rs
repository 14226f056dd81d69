//! Instruments blocks so that the client is called at each position at which something is due.
//!
//! A raw thread-local slot, `left`, holds the number of instructions up to the next thing that is due. A block of `n`
//! instructions becomes:
//!
//! ```text
//!            left -= n
//!            if left is negative: call the client (Crossing)
//!            the instructions
//! ```
//!
//! Nothing else stands between two records. A block that would run past the next position at which something is due,
//! `k` of its instructions on, is left for its *split copy* for `k`, which is made when it is first needed, and from
//! then on jumped to:
//!
//! ```text
//!            call the client (Entry), the first time
//!            k instructions
//!            call the client (Due)
//!            the other instructions
//! ```
//!
//! DynamoRIO knows a split copy as a block at an address of its own, at which nothing but a tag lies. Its instructions
//! are those of the original, so faults, calls and jumps are the original's.
//!
//! Flags are not touched: `lea` counts and `jecxz` tests, with RCX in another slot meanwhile. An instruction that
//! replay does not execute (a system call, `rdtsc`...), or of which the log has no code, ends its block: the client is
//! called instead of it.

use crate::instruction;
use crate::memory::Memory;
use crate::replay::Replay;
use crate::site::{Built, Site, Sites, SpanId, SplitId};
use crate::state;
use crate::stub::Stub;
use crate::tags;
use crate::watch;
use bugnet_dr::access::classify;
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd};
use bugnet_dr::liveness;
use bugnet_dr::sys;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Cuts the program's instructions behind the first that replay does not execute; whether there is such a one.
fn cut(block: &Block, instrs: &mut Vec<Instr>, memory: &Memory) -> bool {
    let end = instrs.iter().position(|instr| !runs(block, *instr, memory));
    let Some(end) = end else { return false };
    instrs.drain(end + 1..).for_each(|instr| block.remove(instr));
    true
}

/// Whether replay executes the instruction.
fn runs(block: &Block, instr: Instr, memory: &Memory) -> bool {
    memory.is_code(instr.pc(), instr.len(block)) && instruction::runs(&classify(instr))
}

fn jump_to(block: &Block, at: Option<Instr>, target: *mut sys::byte) {
    // SAFETY: makes a value from an address.
    let target = Opnd(unsafe { sys::opnd_create_pc(target) });
    block.meta(at, block.make(sys::OP_jmp, &[], &[target]));
}

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
    let replay = unsafe { state::replay() };
    replay.stub.prepare(context);
    // SAFETY: the pointers of the event; the block is dropped when it returns.
    let block = unsafe { Block::new(context, list) };
    let start = tag as u64;
    block.restore_requests();
    let mut instrs = block.app_instrs();
    let Some(first) = instrs.first().copied() else { return FLAGS };

    if replay.is_gate(start) {
        let site = replay.sites.add(Site::Instead(start));
        call(&block, &replay.stub, Some(first), site);
        return FLAGS;
    }
    if let Some(Built::Split(split)) = replay.sites.built(start) {
        let copies = copy_span(&block, replay.sites.split(split).span, &replay.sites);
        instrs.into_iter().for_each(|instr| block.remove(instr));
        instrument_split(&block, replay, split, &copies);
        return FLAGS;
    }
    if replay.memory.is_own(start) {
        return FLAGS;
    }

    let opaque = cut(&block, &mut instrs, &replay.memory);
    let count = instrs.len() - usize::from(opaque);
    let last = instrs.last().map_or(start, |last| last.pc() + last.len(&block) - 1);
    let span = replay.sites.add_block(start, last, count as u32, opaque);
    if count > 0 {
        count_down(&block, replay, first, &instrs[..count], span);
    }
    if opaque {
        instead(&block, replay, instrs[count]);
    }
    if let Some(watch) = &replay.memory.watch {
        let ahead = (0..count as i64).map(|index| index - count as i64);
        watch::instrument(&block, watch, instrs[..count].iter().copied().zip(ahead));
    }
    FLAGS
}

/// The start of a block: subtracts its `instrs` from `left`, and calls the client if that is negative then.
fn count_down(block: &Block, replay: &mut Replay, first: Instr, instrs: &[Instr], span: SpanId) {
    let site = replay.sites.add(Site::Crossing(span));
    let crossing = replay.stub.crossing(site);
    let stub = &replay.stub;
    block.meta(Some(first), block.raw(&stub.count_down(instrs.len() as u32)));
    jump_to(block, Some(first), crossing);
    if liveness::analyse(instrs)[0].gprs & Gpr::RCX.bit() != 0 {
        block.meta(Some(first), block.raw(&stub.restore_rcx()));
    }
}

/// Calls the client instead of the block's last instruction.
fn instead(block: &Block, replay: &mut Replay, last: Instr) {
    let pc = last.pc();
    let site = replay.sites.add(Site::Instead(pc));
    call(block, &replay.stub, Some(last), site);
    // Executed only once there is code that replay executes.
    // SAFETY: makes a value from an address.
    let target = Opnd(unsafe { sys::opnd_create_pc(pc as sys::app_pc) });
    block.app(Some(last), block.make(sys::OP_jmp, &[], &[target]), pc);
    block.remove(last);
}

/// The copies of a span's instructions.
struct Copies {
    instrs: Vec<Instr>,
    /// Where they end early, if they do.
    cut: Option<u64>,
}

fn call(block: &Block, stub: &Stub, at: Option<Instr>, site: u32) {
    block.meta(at, block.raw(&stub.call(site)));
}

/// Puts copies of a span's instructions into a block, the one that replay does not execute included.
///
/// The plain block was built from these bytes. Where stores of the program's have changed some since, a `CODE` record is due
/// before they are executed: what is there now is copied only as far as it makes a block.
fn copy_span(block: &Block, span: SpanId, sites: &Sites) -> Copies {
    let span = sites.span(span);
    let total = span.count + u32::from(span.opaque);
    let mut pc = span.start;
    let mut instrs = Vec::new();
    for number in 1..=total {
        // SAFETY: code of the program's, which is never unmapped.
        let copy = unsafe { block.decode_app(pc) };
        if !copy.is_valid() || (number < total && (copy.is_cti() || copy.is_syscall())) {
            block.remove(copy);
            return Copies { instrs, cut: Some(pc) };
        }
        pc += copy.len(block);
        instrs.push(copy);
    }
    Copies { instrs, cut: None }
}

/// A split copy, see the module's page; the instructions stand in it already.
fn instrument_split(block: &Block, replay: &mut Replay, split: SplitId, copies: &Copies) {
    let instrs = &copies.instrs;
    let (entry, due) = (replay.sites.add(Site::Entry(split)), replay.sites.add(Site::Due(split)));
    let (span, before) = (replay.sites.split(split).span, replay.sites.split(split).before as usize);
    call(block, &replay.stub, instrs.first().copied(), entry);
    call(block, &replay.stub, instrs.get(before).copied(), due);
    if let Some(pc) = copies.cut {
        // Something is due before that; else the recorded code is not what ran.
        let site = replay.sites.add(Site::Instead(pc));
        call(block, &replay.stub, None, site);
        // SAFETY: makes a value from an address.
        let target = Opnd(unsafe { sys::opnd_create_pc(pc as sys::app_pc) });
        block.app(None, block.make(sys::OP_jmp, &[], &[target]), pc);
        return;
    }
    let (count, opaque) = (replay.sites.span(span).count as usize, replay.sites.span(span).opaque);
    if opaque {
        instead(block, replay, instrs[count]);
    }
    if let Some(watch) = &replay.memory.watch {
        // Up to the call, the counter counts from the copy's start.
        let ahead = (0..count).map(|index| if index < before { index as i64 } else { index as i64 - count as i64 });
        watch::instrument(block, watch, instrs[..count].iter().copied().zip(ahead));
    }
}

/// Whether a split copy has left the code cache since this was last asked; what is known of their places is void then.
pub fn splits_gone() -> bool {
    SPLITS_GONE.load(Ordering::Relaxed) && SPLITS_GONE.swap(false, Ordering::Relaxed)
}

static SPLITS_GONE: AtomicBool = AtomicBool::new(false);

/// DynamoRIO's event for each block that leaves the code cache.
///
/// # Safety
/// DynamoRIO's contract for the event.
pub unsafe extern "C" fn on_deleted(_context: *mut c_void, tag: *mut c_void) {
    // The replay is not asked: it may be what dropped the block.
    if tags::is_one(tag as u64) {
        SPLITS_GONE.store(true, Ordering::Relaxed);
    }
}
