//! The fault that a handler of the program's own took before the program ended in it: the program says there that it crashed, and exits, aborts, or
//! kills itself. What is wrong is at the fault.

use super::ask::reads;
use bugnet_events::atoms::Atoms;
use bugnet_events::effects::{Control, Decoding};
use bugnet_events::stretch::Access;
use bugnet_events::walk::{Visit, walk_back};
use bugnet_format::record::{Record, SignalStep};
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::{Addr, Position};
use bugnet_replay::Result;
use bugnet_replay::backtrace::{Found, Frame, unwind};
use bugnet_replay::code_text::CodeText;
use bugnet_replay::crash::moment;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::memory::Memory;
use bugnet_replay::signal;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use iced_x86::{ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use std::ops::ControlFlow;

/// Longest instruction, in bytes.
const LONGEST: usize = 15;
/// So near to a handler's frame, it is the same stack.
const STACK: u64 = 8 << 20;
/// Instructions of handlers that are looked at.
const MOST: u64 = 20_000_000;

/// Number of the register: the second argument of a handler.
const RSI: usize = 6;
/// Where `siginfo_t` has the address of a fault.
const ADDRESS: u64 = 16;

/// A fault for which a handler began.
pub struct Fault {
    /// Where it came: what is executed next is the handler.
    pub place: Place,
    /// The signal's number.
    pub number: i32,
    /// Its name.
    pub signal: String,
    /// The functions that it interrupted.
    pub frames: Vec<Frame>,
    /// The registers before the last instruction that was executed, and what that changed of them: the handler has others.
    pub(super) before: (RegisterFile, Atoms),
}

/// Signals that an instruction raises by itself.
fn is_fault(number: u64) -> Option<i32> {
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
    faults.into_iter().find(|fault| u64::from(fault.unsigned_abs()) == number)
}

/// The address that could not be accessed, where the cursor is at the beginning of the handler of a fault; none where nobody knows it, since the handler did
/// not look.
///
/// # Errors
/// The log cannot be read or replayed.
pub fn accessed(cursor: &mut Cursor<'_>, number: i32) -> Result<Option<u64>> {
    if !matches!(number, libc::SIGSEGV | libc::SIGBUS) {
        return Ok(None);
    }
    let info = cursor.regs().gpr[RSI];
    let known = cursor.read_known(Addr(info.wrapping_add(ADDRESS)), 8)?;
    let bytes: Option<Vec<u8>> = known.into_iter().collect();
    Ok(bytes.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?))))
}

/// The one that came first of those in whose handlers the process ended. The cursor is at the end of the
/// thread that is meant, and then at the fault, if there is one.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn first((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<Option<Fault>> {
    let end = cursor.place();
    let begun = open(log, cursor)?;
    if begun.is_empty() {
        return Ok(None);
    }
    let inside = match on_stack(log, cursor, symbols, &begun)? {
        0 => still_inside((tools, log), cursor, &begun)?,
        inside => inside,
    };
    let mut found = None;
    for Begun { place, number, .. } in begun.into_iter().take(inside).rev() {
        let Some(number) = is_fault(number) else { continue };
        if let Some((frames, before)) = interrupted(log, cursor, symbols, place)? {
            found = Some(Fault { place, number, signal: signal::name(number), frames, before });
            break;
        }
    }
    cursor.seek(Seek::Place(found.as_ref().map_or(end, |fault| fault.place)))?;
    Ok(found)
}

/// The functions that a handler has interrupted, and what is known of their registers.
type Interrupted = (Vec<Frame>, (RegisterFile, Atoms));

/// How many of these handlers, the last ones, the stack shows that the thread was in at the end, unwound by tables alone: they begin with the kernel's frame outside them.
/// 0 where it does not lead so far.
fn on_stack(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, begun: &[Begun]) -> Result<usize> {
    /// What a handler's return takes from there.
    const RETURN: u64 = 8;
    let (regs, code) = (cursor.regs().clone(), log.code(cursor.pid())?);
    let tops = unwind(&regs, cursor, symbols, &code)?.stack_pointers();
    Ok(begun.iter().take_while(|one| tops.contains(&one.frame.wrapping_add(RETURN))).count())
}

/// In how many of these handlers, the last ones, the thread was to the end: one that was left by a jump is over once calls are made from further out.
fn still_inside((tools, log): (&Tools, &Log), cursor: &Cursor<'_>, begun: &[Begun]) -> Result<usize> {
    let end = cursor.place();
    let (mut inside, mut outermost, mut walked) = (0, 0_u64, 0_u64);
    walk_back(tools, log, cursor.pid(), end, &mut |visit| {
        match visit {
            Visit::Ran { place, ran, instructions } if place.tid == end.tid => {
                walked += instructions.len() as u64;
                for number in instructions {
                    let control = ran.block.instructions[number].control;
                    if !matches!(control, Control::Call | Control::Return) {
                        continue;
                    }
                    // Where the return address is: a call may read elsewhere where it goes.
                    let is_slot = |access: &Access| access.writes == (control == Control::Call);
                    let Some(slot) = ran.accesses(number).find(is_slot).map(|access| access.addr) else { continue };
                    let is_near = slot.abs_diff(begun[inside].frame) < STACK;
                    // On another stack than the handler's, it is over.
                    outermost = if is_near { outermost.max(slot) } else { u64::MAX };
                }
            }
            Visit::Delivered { place, .. } if place == begun[inside].place => {
                if outermost > begun[inside].frame {
                    return ControlFlow::Break(());
                }
                inside += 1;
            }
            _ => {}
        }
        if inside == begun.len() || walked > MOST { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(inside)
}

/// The functions that a handler has interrupted which begins at a place; none if the instruction is not known. What the kernel has written for the
/// handler need not be known, but the instruction before is: also the registers before that, and what it changes of them.
fn interrupted(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    place: Place,
) -> Result<Option<Interrupted>> {
    let Some(before) = place.position.0.checked_sub(1) else { return Ok(None) };
    cursor.seek(Seek::Place(Place { position: Position(before), ..place }))?;
    let regs = cursor.regs().clone();
    let bytes = CodeText::new(log, cursor.pid())?.read(regs.rip, LONGEST);
    let last = Decoder::with_ip(64, &bytes, regs.rip, DecoderOptions::NONE).decode();
    let word = |cursor: &mut Cursor<'_>, at: u64| -> Result<Option<u64>> {
        Ok(cursor.read_memory(Addr(at), 8)?.try_into().ok().map(u64::from_le_bytes))
    };
    let next = match last.flow_control() {
        FlowControl::Next => Some(last.next_ip()),
        FlowControl::ConditionalBranch => holds(&last, &regs).map(|is_taken| match is_taken {
            true => last.near_branch_target(),
            false => last.next_ip(),
        }),
        FlowControl::UnconditionalBranch => Some(last.near_branch_target()),
        FlowControl::Call if last.mnemonic() == Mnemonic::Syscall => Some(last.next_ip()),
        FlowControl::Call => Some(last.near_branch_target()),
        FlowControl::Return => word(cursor, regs.gpr[RSP])?,
        FlowControl::IndirectCall | FlowControl::IndirectBranch => match last.op0_register() {
            Register::None => match *reads(&last, &regs) {
                [(at, 8)] => word(cursor, at)?,
                _ => None,
            },
            register => regs.gpr.get(register.full_register().number()).copied(),
        },
        _ => None,
    };
    let Some(pc) = next else { return Ok(None) };
    let mut frames = moment(log, cursor)?.backtrace;
    let own = Frame { pc, found: Found::Registers, place: symbols.lookup(Addr(pc)), scopes: Vec::new() };
    match last.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall if last.mnemonic() != Mnemonic::Syscall => frames.insert(0, own),
        FlowControl::Return => {
            frames.truncate(1);
            frames[0] = own;
        }
        _ if frames.is_empty() => frames.push(own),
        _ => frames[0] = own,
    }
    Ok(Some((frames, (regs, Decoding::default().effects(&last).writes()))))
}

/// Whether a conditional branch is taken with these flags; none if it is not known.
fn holds(branch: &Instruction, regs: &RegisterFile) -> Option<bool> {
    let flag = |number: u32| regs.rflags >> number & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
    Some(match branch.condition_code() {
        ConditionCode::None => return None,
        ConditionCode::o => overflow,
        ConditionCode::no => !overflow,
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !carry && !zero,
        ConditionCode::s => sign,
        ConditionCode::ns => !sign,
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        ConditionCode::l => sign != overflow,
        ConditionCode::ge => sign == overflow,
        ConditionCode::le => zero || sign != overflow,
        ConditionCode::g => !zero && sign == overflow,
    })
}

/// A handler that began.
struct Begun {
    place: Place,
    /// The signal's number.
    number: u64,
    /// Where the kernel has put what it interrupted.
    frame: u64,
}

/// The handlers from which the thread has not returned, the last one first.
fn open(log: &Log, cursor: &Cursor<'_>) -> Result<Vec<Begun>> {
    let tid = cursor.place().tid;
    let thread = ThreadId { pid: cursor.pid(), tid };
    let (mut all, mut returned) = (Vec::new(), 0_u64);
    for &interval in log.intervals(thread)?.iter().rev() {
        let mut steps = Vec::new();
        for placed in log.interval(IntervalId { thread, interval })?.records().flatten() {
            if let Record::Signal { step, number, regs, .. } = placed.record {
                let place = Place { tid, interval, position: placed.position };
                steps.push((step, Begun { place, number, frame: regs.gpr[RSP] }));
            }
        }
        for (step, begun) in steps.into_iter().rev() {
            match step {
                SignalStep::Return => returned += 1,
                SignalStep::Delivery if returned > 0 => returned -= 1,
                SignalStep::Delivery => all.push(begun),
                SignalStep::Resume => {}
            }
        }
    }
    Ok(all)
}

/// Whether a signal with this number killed the thread just where its handler had returned to: one that the handler sent, to end the program by the
/// signal which it had taken.
///
/// # Errors
/// The log cannot be read.
pub fn is_sent_again(log: &Log, cursor: &Cursor<'_>, signal: i32) -> Result<bool> {
    let Place { tid, interval, position: end } = cursor.place();
    if is_fault(signal.unsigned_abs().into()).is_none() {
        return Ok(false);
    }
    let thread = ThreadId { pid: cursor.pid(), tid };
    let (mut open, mut last) = (Vec::new(), None);
    for placed in log.interval(IntervalId { thread, interval })?.records().flatten() {
        match placed.record {
            Record::Signal { step: SignalStep::Delivery, number, .. } => open.push(number),
            Record::Signal { step: SignalStep::Return, .. } => {
                last = open.pop().map(|number| (number, placed.position))
            }
            _ => {}
        }
    }
    Ok(last.is_some_and(|(number, at)| number == u64::from(signal.unsigned_abs()) && Position(at.0 + 1) == end))
}
