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
//! kept (`exact_flags` in [`Engine`]). They are kept, too, where code changes: it might read them then. An instruction that
//! replay does not execute (a system call, `rdtsc`...), or of which the log has no code, ends its block: the client is
//! called instead of it. Where reads are compared, code for that
//! stands around each instruction that accesses memory ([`crate::comparing`]), or the client is called before it; where it
//! is kept track of which bytes are known, their accesses are marked ([`crate::marking`]).
//!
//! Instructions come from the code picture of the thread that runs. What DynamoRIO finds in memory may be something else,
//! which threads have stored there since, or before.

use crate::ahead;
use crate::code::Code;
use crate::counter::{self, COUNTER, Lending};
use crate::engine::{Engine, Style};
use crate::fs_base::Guard;
use crate::instruction::{self, Instruction, end_of};
use crate::looks::{Looks, access_site, flags_behind, look_before};
use crate::site::{Built, Site, SpanId, Split, SplitId};
use crate::state;
use crate::stub::Stub;
use crate::tags;
use crate::trace::{self, Counted, Inside, Pair, Plan};
use crate::watch;
use bugnet_dr::access::{Action, classify};
use bugnet_dr::decode::MAX_LEN;
use bugnet_dr::events::{EMIT_TRANSLATIONS, Emit};
use bugnet_dr::ir::{ARITHMETIC, Block, Copied, Gpr, Instr, Instrs, List, Opnd};
use bugnet_dr::liveness::{self, Live};
use bugnet_dr::opcode;
use bugnet_format::trace::{Entry, TracedBlock};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most instructions of a block that is made from a copy.
const LONGEST_COPY: usize = 64;

/// Cuts the program's instructions behind the first that replay does not execute; whether there is such a one.
fn cut(block: &Block, instrs: &mut Instrs, code: &Code) -> bool {
    let end = instrs.iter().position(|instr| !runs(block, *instr, code));
    let Some(end) = end else { return false };
    instrs.drain(end + 1..).for_each(|instr| block.remove(instr));
    true
}

/// Whether replay executes the instruction.
fn runs(block: &Block, instr: Instr, code: &Code) -> bool {
    code.has(instr.pc(), instr.len(block)) && instruction::runs(&classify(instr))
}

/// DynamoRIO's event for each block that it builds.
///
/// # Safety
/// DynamoRIO's contract for the event.
pub unsafe extern "C" fn on_block(
    context: *mut c_void,
    tag: *mut c_void,
    list: *mut List,
    _for_trace: c_char,
    _translating: c_char,
) -> Emit {
    // Translations are stored, since the program's code may have changed by the time that one is asked for.
    const FLAGS: Emit = EMIT_TRANSLATIONS;
    let _guard = Guard::new();
    // SAFETY: an event of the only thread; not during a clean call, as that returns to the dispatcher before.
    let engine = unsafe { state::engine() };
    engine.hide_code();
    engine.stub.prepare(context);
    // SAFETY: the pointers of the event; the block is dropped when it returns.
    let block = unsafe { Block::new(context, list) };
    let start = tag as u64;
    block.restore_requests();
    let instrs = block.app_instrs();
    let Some(first) = instrs.first().copied() else { return FLAGS };

    if engine.is_gate(start) {
        let site = engine.sites.add(Site::Instead(start));
        call(&block, &engine.stub, Some(first), site);
        return FLAGS;
    }
    if let Some(Built::Split(split)) = engine.sites.built(start) {
        instrs.into_iter().for_each(|instr| block.remove(instr));
        let (copies, leave) = copy_span(&block, engine, split);
        instrument_split(&block, engine, split, &copies, leave);
        return FLAGS;
    }
    if engine.memory.is_own(start) {
        return FLAGS;
    }

    let Own { instrs, leave, opaque, end } = own_instructions(&block, engine, instrs);
    let count = instrs.len() - usize::from(opaque);
    let last = end - 1;
    let span = engine.sites.add_block(start, last, count as u32, opaque, &engine.code);
    let program = &instrs[..count];
    let behind = instrs.get(count).copied().or(leave);
    let looks = Looks::of(&block, engine, program, behind);
    let called = calls(engine, program, &looks);
    let lending = Lending::begin(&block, &engine.stub, program, |index| called[index], behind);
    if engine.memory.touched.is_some() && !engine.marks_lines() {
        engine.executed.note(&block, instrs[0], start..end);
    }
    if count > 0 {
        count_down(&block, engine, program, span, opaque, last);
    }
    note_x87_status(&block, engine, program, behind);
    if opaque {
        instead(&block, engine, instrs[count]);
    }
    let ahead = |index| index as i64 - count as i64;
    observe(&block, engine, program, &looks, ahead);
    let counted = Counted { range: 0..count, is_counted: true };
    let pair = write_down(&block, engine, program, counted, &lending);
    let borrowed = lending.end(&block, &engine.stub);
    let called = |index: usize| called[index];
    let flags = flags_behind(&block, engine, program, &looks, called, (span, opaque, last));
    look_before(&block, engine, program, &looks, (&borrowed, called, flags), ahead);
    write_pair(&block, engine, program, pair);
    push_alone(&block, engine, program);
    engine.sites.span_mut(span).borrowed = borrowed;
    FLAGS
}

/// The instructions of a block.
struct Own {
    instrs: Instrs,
    /// A jump behind them, if there is one.
    leave: Option<Instr>,
    /// Whether the last one is none that replay executes.
    opaque: bool,
    /// Address of the first byte behind them.
    end: u64,
}

/// The instructions of a block that begins, which DynamoRIO has found in memory: those of the running thread.
fn own_instructions(block: &Block, engine: &mut Engine, mut instrs: Instrs) -> Own {
    let Engine { code, memory, copy, .. } = engine;
    let start = instrs[0].pc();
    // As far as the picture reaches: behind it, memory may hold anything.
    let known = instrs.iter().take_while(|instr| code.has(instr.pc(), instr.len(block))).count();
    let end = instrs[..known].last().map_or(start, |last| last.pc() + last.len(block));
    let is_own = known > 0 && code.read(start, (end - start) as usize) == memory.read(start, end - start);
    if is_own || !code.has(start, 1) {
        let opaque = cut(block, &mut instrs, code);
        let end = instrs.last().map_or(start + 1, |last| last.pc() + last.len(block));
        return Own { instrs, leave: None, opaque, end };
    }
    if Instruction::decode(start, code).is_none() {
        instrs.drain(1..).for_each(|instr| block.remove(instr));
        return Own { instrs, leave: None, opaque: true, end: start + 1 };
    }
    instrs.iter().for_each(|instr| block.remove(*instr));
    *copy = code.read(start, LONGEST_COPY * MAX_LEN);
    let mut last_runs = true;
    let goes_on = |instr| {
        last_runs = runs(block, instr, code);
        last_runs
    };
    // SAFETY: the copy stays until the next block begins.
    let Copied { instrs, leave, end } = unsafe { block.decode_apps(start, copy, goes_on) };
    Own { instrs, leave, opaque: !last_runs, end }
}

/// Behind the last instruction of a block that may change x87 status, takes note of that; see [`crate::stub::Shared::x87_status`].
/// `behind`: what stands behind these instructions.
fn note_x87_status(block: &Block, engine: &Engine, instrs: &[Instr], behind: Option<Instr>) {
    let Some(last) = instrs.iter().rposition(|instr| changes_x87_status(&engine.code.instruction(instr.pc()))) else {
        return;
    };
    let next = instrs.get(last + 1).copied().or(behind);
    block.meta(next, block.raw(&engine.stub.save_x87_status()));
}

/// Whether an instruction with these bytes may change the x87 status word: those that escape to the unit, and those that restore
/// its state.
fn changes_x87_status(bytes: &[u8]) -> bool {
    let is_prefix =
        |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 | 0x9b);
    let start = bytes.iter().take_while(|byte| is_prefix(byte)).count();
    matches!(bytes[start..], [0xd8..=0xdf, ..] | [0x0f, 0xae | 0xc7, ..])
}

/// Whether the client is called before each instruction of a block, for what observes it.
fn calls(engine: &Engine, instrs: &[Instr], looks: &Looks) -> Vec<bool> {
    let first = instrs.first().map_or(0, |first| first.pc());
    let (watched, observed) = (engine.memory.watch.is_some(), engine.style() == Style::Calls);
    let called = |(index, instr): (usize, &Instr)| {
        watched
            || observed && accesses(*instr)
            || looks.calls(index)
            || engine.traces_odd(first, *instr)
            || engine.watching.has_address(instr.pc())
            || index == 0 && engine.is_allocator(first)
    };
    instrs.iter().enumerate().map(called).collect()
}

/// Whether the instruction reads or writes memory.
fn accesses(instr: Instr) -> bool {
    match classify(instr) {
        Action::Execute { reads, writes } => !(reads.is_empty() && writes.is_empty()),
        Action::Repeat(_) => true,
        _ => false,
    }
}

/// Calls the client before the instructions that are observed; `ahead` says how far the position of each is ahead of the counter.
///
/// R11 counts where the client is called.
fn observe(block: &Block, engine: &mut Engine, instrs: &[Instr], looks: &Looks, ahead: impl Fn(usize) -> i64) {
    for (index, instr) in instrs.iter().enumerate().filter(|(_, instr)| engine.watching.has_address(instr.pc())) {
        let address = engine.sites.add_address(instr.pc(), ahead(index));
        let site = engine.sites.add(Site::Address(address));
        call(block, &engine.stub, Some(*instr), site);
    }
    if let Some(first) = instrs.first().filter(|first| engine.is_allocator(first.pc())) {
        let site = engine.sites.add(Site::Allocator(first.pc()));
        call(block, &engine.stub, Some(*first), site);
    }
    let all = engine.style() == Style::Calls;
    for (index, instr) in instrs.iter().enumerate() {
        let traced = engine.traces_odd(instrs[0].pc(), *instr);
        if !(all && accesses(*instr) || traced || looks.calls(index)) {
            continue;
        }
        let Some(site) = access_site(block, engine, instrs, index, ahead(index)) else { continue };
        call(block, &engine.stub, Some(*instr), site);
    }
    if let Some(watch) = &engine.memory.watch {
        let ahead = (0..instrs.len()).map(ahead);
        watch::instrument(block, &engine.stub, watch, instrs.iter().copied().zip(ahead));
    }
}

/// Where it is written down what is executed, does so for these instructions; but what comes directly before the last one is returned.
fn write_down(
    block: &Block,
    engine: &mut Engine,
    instrs: &[Instr],
    counted: Counted,
    lending: &Lending<'_>,
) -> Option<(u32, Pair)> {
    let Engine { tracing: Some(tracing), code, stub, .. } = engine else { return None };
    let part = &instrs[counted.range.clone()];
    let (first, last) = (part.first()?, part.last()?);
    let (pc, end) = (first.pc(), end_of(block, code, *last));
    let is_outline = tracing.wanted.outline;
    if is_outline && !trace::is_in_outline(part, pc, &tracing.wanted) {
        return None;
    }
    let at_last = counted.range.end - 1;
    let is_counter = !lending.borrowed().contains(at_last) && counter::used(*last) & COUNTER.bit() == 0;
    let plan = Plan::of(part, pc..end, &tracing.wanted, is_counter);
    let words = plan.words();
    let Plan { needs, accesses, registers, returned, stack, pair, inside, .. } = plan;
    let (code, count) = (code.read(pc, (end - pc) as usize), part.len() as u16);
    let counted_ones = if counted.is_counted { count } else { 0 };
    let leaves = inside == Some(Inside::Leaves);
    let entry = is_outline.then_some(Entry { words, counted: counted_ones, returned, stack, told: None, leaves });
    let tag = tracing.add(TracedBlock { pc, count, code, accesses, skipped: false, registers, entry });
    if let Some(pair) = pair {
        return Some((tag, pair));
    }
    if is_outline {
        let live = liveness::analyse(instrs);
        let live = |index: usize| live[index].gprs & Gpr::RCX.bit() != 0;
        trace::outline(block, stub, instrs, (&counted, tag, &needs, inside), lending.borrowed(), live);
    } else {
        trace::write_down(block, stub, instrs, (&counted, tag, &needs), lending.borrowed());
    }
    None
}

/// Writes down directly before the last instruction what is to be written there.
fn write_pair(block: &Block, engine: &Engine, instrs: &[Instr], pair: Option<(u32, Pair)>) {
    if let Some((last, pair)) = instrs.last().zip(pair) {
        trace::pair(block, &engine.stub, *last, pair);
    }
}

/// Whether all flags are dead at the start of a block, so that counting may change them.
fn flags_dead(block: &Block, engine: &mut Engine, instrs: &[Instr], span: SpanId, opaque: bool, last: u64) -> bool {
    let (Some(first), Some(final_one)) = (instrs.first(), instrs.last()) else { return false };
    if engine.keeps_flags(&[first.pc(), last]) {
        return false;
    }
    let behind = liveness::flags_before(instrs, ARITHMETIC);
    if behind == 0 || opaque || liveness::flags_before(instrs, 0) != 0 {
        return behind == 0;
    }
    let (live, pages) = ahead::live_behind(block, *final_one, last + 1, &engine.code);
    if liveness::flags_before(instrs, live) != 0 || engine.keeps_flags(&pages) {
        return false;
    }
    engine.sites.depends_on(span, &pages, &engine.code);
    true
}

/// Makes the push of a call that is the last of the instructions one of its own: see [`Block::jump_of_call`]. What comes before the call has
/// been inserted.
fn push_alone(block: &Block, engine: &mut Engine, instrs: &[Instr]) {
    let Some(call) = instrs.last().copied().filter(|last| last.is_call()) else { return };
    let behind = end_of(block, &engine.code, call);
    // Others are one push of DynamoRIO's, too; and R11 has been seen to.
    if i32::try_from(behind).is_ok() || counter::used(call) & COUNTER.bit() != 0 {
        return;
    }
    let Some(jump) = block.jump_of_call(call) else { return };
    block.app(Some(call), block.push(engine.stub.constant(behind)), call.pc());
    block.app(Some(call), jump, call.pc());
    block.remove(call);
}

/// The start of a block, of which `last` is the address of the last byte: subtracts its `instrs` from `left`, and calls the
/// client if that is negative then.
fn count_down(block: &Block, engine: &mut Engine, instrs: &[Instr], span: SpanId, opaque: bool, last: u64) {
    let first = instrs[0];
    let site = engine.sites.add(Site::Crossing(span));
    let count = instrs.len() as u32;
    let loud = flags_dead(block, engine, instrs, span, opaque, last);
    let crossing = engine.stub.crossing(site, !loud);
    let target = Opnd::pc(crossing as u64);
    if loud {
        engine.sites.span_mut(span).unknown_flags = ARITHMETIC;
        block.meta(Some(first), block.raw(&Stub::count_down(count)));
        block.meta(Some(first), block.make(opcode::OP_js, &[], &[target]));
        return;
    }
    block.meta(Some(first), block.raw(&engine.stub.count_down_quietly(count)));
    block.meta(Some(first), block.make(opcode::OP_jmp, &[], &[target]));
    if liveness::analyse(instrs)[0].gprs & Gpr::RCX.bit() != 0 {
        block.meta(Some(first), block.raw(&engine.stub.restore_rcx()));
    }
}

/// Calls the client instead of the block's last instruction.
fn instead(block: &Block, engine: &mut Engine, last: Instr) {
    let pc = last.pc();
    let site = engine.sites.add(Site::Instead(pc));
    call(block, &engine.stub, Some(last), site);
    // Executed only once there is code that replay executes.
    let target = Opnd::pc(pc);
    block.app(Some(last), block.make(opcode::OP_jmp, &[], &[target]), pc);
    block.remove(last);
}

fn call(block: &Block, stub: &Stub, at: Option<Instr>, site: u32) {
    block.meta(at, block.raw(&stub.call(site)));
}

/// Fills the empty block with the instructions of the span of which it is a split copy, the one that replay does not execute
/// included; and a jump behind them, if there is one.
fn copy_span(block: &Block, engine: &mut Engine, split: SplitId) -> (Instrs, Option<Instr>) {
    let span = engine.sites.split(split).span;
    let Engine { code, sites, copy, .. } = engine;
    let span = sites.span(span);
    let (start, opaque, total) = (span.start, span.opaque, span.count + u32::from(span.opaque));
    *copy = code.read(start, total as usize * MAX_LEN);
    let mut number = 0;
    let goes_on = |_| {
        number += 1;
        number < total
    };
    // SAFETY: the copy stays until the next block begins.
    let Copied { instrs, leave, end } = unsafe { block.decode_apps(start, copy, goes_on) };
    if instrs.len() != total as usize {
        state::die("a piece of code is not what it was");
    }
    let last = instrs.last().copied().filter(|last| !opaque && !last.is_cti());
    let leave = leave.or_else(|| last.map(|last| block.go_on_at(end, last)));
    (instrs, leave)
}

/// A split copy, see the module's page; the instructions stand in it already.
fn instrument_split(block: &Block, engine: &mut Engine, split: SplitId, instrs: &[Instr], leave: Option<Instr>) {
    let (entry, due) = (engine.sites.add(Site::Entry(split)), engine.sites.add(Site::Due(split)));
    let Split { span, before, rest, .. } = *engine.sites.split(split);
    let before = before as usize;
    let overwritten = instrs.iter().take(before).fold(0, |flags, instr| flags | overwritten_flags(*instr));
    engine.sites.span_mut(rest).unknown_flags &= !overwritten;
    let opaque = engine.sites.span(span).opaque;
    let program = &instrs[..instrs.len() - usize::from(opaque)];
    let behind = instrs.get(program.len()).copied().or(leave);
    let looks = Looks::of(block, engine, program, behind);
    let called = calls(engine, program, &looks);
    let is_called = |index| called[index] || index == before;
    let lending = Lending::begin(block, &engine.stub, program, is_called, behind);
    call(block, &engine.stub, instrs.first().copied(), entry);
    call(block, &engine.stub, instrs.get(before).copied(), due);
    // Before the instruction is gone that these stand before.
    note_x87_status(block, engine, program, behind);
    if opaque {
        instead(block, engine, instrs[program.len()]);
    }
    // Up to the call, the counter counts from the copy's start.
    let count = program.len() as i64;
    let ahead = |index| if index < before { index as i64 } else { index as i64 - count };
    observe(block, engine, program, &looks, ahead);
    // A call or return is the last of all.
    let (first, rest) = (Counted { range: 0..before, is_counted: false }, before..program.len());
    let none = write_down(block, engine, program, first, &lending);
    let pair = write_down(block, engine, program, Counted { range: rest, is_counted: true }, &lending).or(none);
    let borrowed = lending.end(block, &engine.stub);
    let (first, last) = (program.first(), program.last());
    let ends = first.zip(last).map(|(first, last)| [first.pc(), end_of(block, &engine.code, *last) - 1]);
    let flags = ends.filter(|ends| !engine.keeps_flags(ends)).map(|_| ARITHMETIC);
    look_before(block, engine, program, &looks, (&borrowed, is_called, flags), ahead);
    write_pair(block, engine, program, pair);
    push_alone(block, engine, program);
    engine.sites.split(split).borrowed = borrowed;
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
