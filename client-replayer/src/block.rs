//! Instruments blocks so that the client is called at each position at which something is due.
//!
//! `left` is the number of instructions up to the next thing that is due. A block of `n`
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
//! While such code runs, `left` is in a register, see [`crate::counter`]. `sub` counts where the program overwrites all
//! arithmetic flags before it reads one; elsewhere, `lea` counts and `jecxz` tests, with RCX in a slot meanwhile. Whoever
//! looks at the registers between must not rely on such flags ([`crate::site::Span::unknown_flags`]), or have all of them
//! kept (`exact_flags` in [`Replay`]). They are kept, too, where code changes: it might read them then. An instruction that
//! replay does not execute (a system call, `rdtsc`...), or of which the log has no code, ends its block: the client is
//! called instead of it.

use crate::ahead;
use crate::counter::Lending;
use crate::instruction;
use crate::memory::Memory;
use crate::replay::Replay;
use crate::site::{Built, Site, Sites, SpanId, Split, SplitId};
use crate::state;
use crate::stub::Stub;
use crate::tags;
use crate::watch;
use bugnet_dr::access::classify;
use bugnet_dr::ir::{ARITHMETIC, Block, Gpr, Instr, Instrs, Opnd};
use bugnet_dr::liveness::{self, Live};
use bugnet_dr::sys;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Cuts the program's instructions behind the first that replay does not execute; whether there is such a one.
fn cut(block: &Block, instrs: &mut Instrs, memory: &Memory) -> bool {
    let end = instrs.iter().position(|instr| !runs(block, *instr, memory));
    let Some(end) = end else { return false };
    instrs.drain(end + 1..).for_each(|instr| block.remove(instr));
    true
}

/// Whether replay executes the instruction.
fn runs(block: &Block, instr: Instr, memory: &Memory) -> bool {
    memory.is_code(instr.pc(), instr.len(block)) && instruction::runs(&classify(instr))
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
    let program = &instrs[..count];
    let watched = replay.memory.watch.is_some();
    let lending = Lending::begin(&block, &replay.stub, program, |_| watched, instrs.get(count).copied());
    if count > 0 {
        count_down(&block, replay, program, span, opaque, last);
    }
    if opaque {
        instead(&block, replay, instrs[count]);
    }
    if let Some(watch) = &replay.memory.watch {
        let ahead = (0..count as i64).map(|index| index - count as i64);
        watch::instrument(&block, &replay.stub, watch, program.iter().copied().zip(ahead));
    }
    replay.sites.span_mut(span).borrowed = lending.end(&block, &replay.stub);
    FLAGS
}

/// Whether all flags are dead at the start of a block, so that counting may change them.
fn flags_dead(block: &Block, replay: &mut Replay, instrs: &[Instr], span: SpanId, opaque: bool, last: u64) -> bool {
    let (Some(first), Some(final_one)) = (instrs.first(), instrs.last()) else { return false };
    if replay.keeps_flags(&[first.pc(), last]) {
        return false;
    }
    let behind = liveness::flags_before(instrs, ARITHMETIC);
    if behind == 0 || opaque || liveness::flags_before(instrs, 0) != 0 {
        return behind == 0;
    }
    let (live, pages) = ahead::live_behind(block, *final_one, &replay.memory);
    if liveness::flags_before(instrs, live) != 0 || replay.keeps_flags(&pages) {
        return false;
    }
    replay.sites.depends_on(span, &pages);
    true
}

/// The start of a block, of which `last` is the address of the last byte: subtracts its `instrs` from `left`, and calls the
/// client if that is negative then.
fn count_down(block: &Block, replay: &mut Replay, instrs: &[Instr], span: SpanId, opaque: bool, last: u64) {
    let first = instrs[0];
    let site = replay.sites.add(Site::Crossing(span));
    let count = instrs.len() as u32;
    let loud = flags_dead(block, replay, instrs, span, opaque, last);
    let crossing = replay.stub.crossing(site, !loud);
    // SAFETY: makes a value from an address.
    let target = Opnd(unsafe { sys::opnd_create_pc(crossing) });
    if loud {
        replay.sites.span_mut(span).unknown_flags = ARITHMETIC;
        block.meta(Some(first), block.raw(&Stub::count_down(count)));
        block.meta(Some(first), block.make(sys::OP_js, &[], &[target]));
        return;
    }
    block.meta(Some(first), block.raw(&replay.stub.count_down_quietly(count)));
    block.meta(Some(first), block.make(sys::OP_jmp, &[], &[target]));
    if liveness::analyse(instrs)[0].gprs & Gpr::RCX.bit() != 0 {
        block.meta(Some(first), block.raw(&replay.stub.restore_rcx()));
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
    let instrs = &copies.instrs[..];
    let (entry, due) = (replay.sites.add(Site::Entry(split)), replay.sites.add(Site::Due(split)));
    let Split { span, before, rest, .. } = *replay.sites.split(split);
    let before = before as usize;
    let overwritten = instrs.iter().take(before).fold(0, |flags, instr| flags | overwritten_flags(*instr));
    replay.sites.span_mut(rest).unknown_flags &= !overwritten;
    let whole = copies.cut.is_none();
    let opaque = whole && replay.sites.span(span).opaque;
    let program = &instrs[..instrs.len() - usize::from(opaque)];
    let watched = replay.memory.watch.is_some();
    let behind = instrs.get(program.len()).copied();
    let lending = Lending::begin(block, &replay.stub, program, |index| watched || index == before, behind);
    call(block, &replay.stub, instrs.first().copied(), entry);
    call(block, &replay.stub, instrs.get(before).copied(), due);
    if let Some(pc) = copies.cut {
        // Something is due before that; else the recorded code is not what ran.
        let site = replay.sites.add(Site::Instead(pc));
        call(block, &replay.stub, None, site);
        // SAFETY: makes a value from an address.
        let target = Opnd(unsafe { sys::opnd_create_pc(pc as sys::app_pc) });
        block.app(None, block.make(sys::OP_jmp, &[], &[target]), pc);
    } else {
        if opaque {
            instead(block, replay, instrs[program.len()]);
        }
        if let Some(watch) = &replay.memory.watch {
            // Up to the call, the counter counts from the copy's start.
            let count = program.len();
            let ahead = (0..count).map(|index| if index < before { index as i64 } else { index as i64 - count as i64 });
            watch::instrument(block, &replay.stub, watch, program.iter().copied().zip(ahead));
        }
    }
    replay.sites.split(split).borrowed = lending.end(block, &replay.stub);
}

/// Arithmetic flags that the instruction overwrites, whatever happens.
fn overwritten_flags(instr: Instr) -> u32 {
    let Live { flags, .. } = liveness::effects(instr).overwritten;
    flags
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
