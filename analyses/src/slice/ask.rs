//! From what people ask to what is sliced for.

use super::handled::{self, Fault};
use super::{Criterion, output, thrown};
use crate::names::brief;
use bugnet_events::atoms::Atoms;
use bugnet_events::effects::{Control, Decoding, Effects};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, Position};
use bugnet_replay::backtrace::Frame;
use bugnet_replay::code_text::CodeText;
use bugnet_replay::crash::{self, Limits, is_system, moment};
use bugnet_replay::cursor::{Cursor, Direction, Place, Seek};
use bugnet_replay::log::{Log, ThreadId};
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::tree::{ProcessEnd, processes};
use bugnet_replay::written::{Home, Subject, homes_of};
use bugnet_replay::{ReplayError, Result, disassembly};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};
use std::str::FromStr;

/// Longest instruction, in bytes.
const LONGEST: usize = 15;

/// Frames without such a name that may lie between them.
const GAP: usize = 3;

/// Functions that end a program because of what their callers found. Of names with a template or a version, the beginning counts.
const REPORTERS: [&str; 38] = [
    "raise",
    "gsignal",
    "__GI_raise",
    "__pthread_kill",
    "pthread_kill",
    "kill",
    "tgkill",
    "abort",
    "__GI_abort",
    "__libc_message",
    "__libc_fatal",
    "__assert",
    "__GI___assert",
    "malloc_printerr",
    "__fortify_fail",
    "__GI___fortify_fail",
    "__chk_fail",
    "__GI___chk_fail",
    "__stack_chk_fail",
    "std::terminate",
    "__cxxabiv1",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_init_primary_exception",
    "std::make_exception_ptr",
    "__gnu_cxx::__verbose",
    "std::__throw",
    "_Unwind",
    "rust_panic",
    "__rust",
    "std::panicking",
    "core::panicking",
    "core::option::expect_failed",
    "core::option::unwrap_failed",
    "core::result::unwrap_failed",
    "std::process::abort",
    "std::sys",
    "std::alloc",
];

/// What one wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Why the process failed.
    Failure,
    /// What the next instruction takes.
    Operands,
    /// Where in memory the next instruction accesses something.
    Address,
    /// A register, or a part of one.
    Register(Named),
    /// A variable, or bytes.
    Memory(Subject),
    /// A byte of the program's output, by its number from 0.
    Output(u64),
    /// The status with which the process exited, and, if its own code called `exit`, why it did.
    Exit,
    /// Why the function was called, where the cursor is, that reports a failure: what it is in words.
    Reported(&'static str),
    /// Why the loop goes on, where the cursor is: in the frame of this number, from 0, the innermost.
    Loop(usize),
}

/// A register, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    name: Register,
    atoms: Atoms,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let name = text.trim_start_matches(['$', '%']);
        let is_it = |register: &Register| format!("{register:?}").eq_ignore_ascii_case(name);
        let found = Register::values().find(is_it).and_then(|name| Some(Self { name, atoms: Atoms::register(name)? }));
        found.ok_or_else(|| format!("{text} is no register; expected one like rax, eax, ah, r8d, xmm3, st0"))
    }
}

/// What is sliced for, and how one says it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What it is.
    pub criterion: Criterion,
    /// The values, in words: what stands behind "why is".
    pub what: String,
}

/// What a question is about, at the moment where the cursor is; at the process's end if it is about a failure.
///
/// # Errors
/// There is no such thing, or the log cannot be read or replayed.
pub fn ask(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    question: &Question,
) -> Result<Asked> {
    match question {
        Question::Failure => failure((tools, log), cursor, symbols),
        Question::Operands => operands(log, cursor),
        Question::Address => address(log, cursor),
        Question::Exit => exit(log, cursor),
        Question::Reported(what) => ended(log, cursor, what),
        Question::Loop(frame) => goes_on(log, cursor, *frame),
        Question::Output(byte) => {
            let addr = output::written(log, cursor, *byte)?;
            let shown = cursor
                .read_memory(Addr(addr), 1)?
                .first()
                .map_or_else(|| "?".to_owned(), |byte| format!("{byte:#04x} {:?}", char::from(*byte)));
            Ok(asked(cursor, Atoms::NONE, vec![(addr, 1)], format!("byte {byte} of the output, {shown}")))
        }
        Question::Register(Named { name, atoms }) => {
            let name = format!("{name:?}").to_lowercase();
            Ok(asked(cursor, *atoms, Vec::new(), format!("{name} = {}", value(cursor.regs(), *atoms))))
        }
        Question::Memory(subject) => {
            let (atoms, memory) = parts(&homes_of(log, cursor, symbols, subject)?);
            let registers = (!atoms.is_empty()).then(|| atoms.to_string().to_lowercase());
            let ranges = memory.iter().map(|(addr, len)| format!("{addr:#x}:{len}"));
            let at = registers.into_iter().chain(ranges).collect::<Vec<_>>().join(" ");
            let what = match subject {
                Subject::Bytes { .. } => at,
                Subject::Expression(name) => format!("{name} ({at})"),
            };
            Ok(asked(cursor, atoms, memory, what))
        }
    }
}

fn asked(cursor: &Cursor<'_>, atoms: Atoms, memory: Vec<(u64, u64)>, what: String) -> Asked {
    Asked { criterion: Criterion { place: cursor.place(), atoms, memory, call: None, here: None }, what }
}

/// The registers and the memory of which these bytes are.
fn parts(homes: &[Home]) -> (Atoms, Vec<(u64, u64)>) {
    let (mut atoms, mut memory): (_, Vec<(u64, u64)>) = (Atoms::NONE, Vec::new());
    for home in homes {
        match *home {
            Home::General { number, byte } => atoms |= Atoms::gpr(number).each().skip(byte).take(1).collect(),
            Home::Vector { number, byte } => atoms |= Atoms::vector(number).each().skip(byte).take(1).collect(),
            Home::Memory(addr) => match memory.last_mut() {
                Some((first, len)) if first.wrapping_add(*len) == addr.0 => *len += 1,
                _ => memory.push((addr.0, 1)),
            },
        }
    }
    (atoms, memory)
}

/// The general purpose registers among these, in hexadecimal.
fn value(regs: &RegisterFile, atoms: Atoms) -> String {
    let of = |number: usize| (Atoms::gpr(number) & atoms, regs.gpr[number]);
    let found = (0..16).map(of).find(|(own, _)| !own.is_empty());
    let Some((own, whole)) = found else { return "?".to_owned() };
    let first = own.numbers().next().unwrap_or_default() % 8;
    let bytes = whole.to_le_bytes();
    let kept = bytes[first..].iter().take(own.count()).rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    format!("{kept:#x}")
}

/// The next instruction of the thread, and what it does.
fn next(log: &Log, cursor: &Cursor<'_>) -> Result<Option<(Instruction, Effects)>> {
    instruction(log, cursor, cursor.regs().rip)
}

/// The instruction at an address, and what it does; none where there is none.
fn instruction(log: &Log, cursor: &Cursor<'_>, rip: u64) -> Result<Option<(Instruction, Effects)>> {
    let bytes = CodeText::new(log, cursor.pid())?.read(rip, LONGEST);
    let instruction = Decoder::with_ip(64, &bytes, rip, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return Ok(None);
    }
    let effects = Decoding::default().effects(&instruction);
    Ok(Some((instruction, effects)))
}

/// The memory that an instruction reads with these registers.
pub(super) fn reads(instruction: &Instruction, regs: &RegisterFile) -> Vec<(u64, u64)> {
    let mut factory = InstructionInfoFactory::new();
    let of = |register: Register| match register {
        Register::FS => Some(regs.fs_base),
        Register::GS => Some(regs.gs_base),
        _ if register.is_segment_register() => Some(0),
        _ if register.is_gpr64() => regs.gpr.get(register.number()).copied(),
        _ if register.is_gpr32() => regs.gpr.get(register.number()).map(|whole| whole & u64::from(u32::MAX)),
        _ => None,
    };
    let used = factory.info(instruction).used_memory().iter();
    let is_read =
        |access| matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
    used.filter(|memory| is_read(memory.access()))
        .filter_map(|memory| {
            Some((memory.virtual_address(0, |register, _, _| of(register))?, memory.memory_size().size() as u64))
        })
        .filter(|(_, len)| *len > 0)
        .collect()
}

fn operands(log: &Log, cursor: &Cursor<'_>) -> Result<Asked> {
    let Some((instruction, effects)) = next(log, cursor)? else {
        let what = format!("there is no code at {:#x}, so that it takes nothing", cursor.regs().rip);
        return Err(ReplayError::OutOfRange(what));
    };
    let memory = reads(&instruction, cursor.regs());
    let mut atoms = effects.reads();
    if !effects.decides.meets(Atoms::RSP) && !instruction_names_stack(&instruction) {
        atoms = atoms - Atoms::RSP;
    }
    let what = format!("what {} takes", disassembly::text(&instruction));
    if atoms.is_empty() && memory.is_empty() {
        return Err(ReplayError::OutOfRange(format!("{} takes no values", disassembly::text(&instruction))));
    }
    Ok(asked(cursor, atoms, memory, what))
}

/// Where the next instruction accesses memory; none does that has no register for it.
fn address(log: &Log, cursor: &Cursor<'_>) -> Result<Asked> {
    let found = next(log, cursor)?.filter(|(_, effects)| !effects.address.is_empty());
    let Some((instruction, effects)) = found else {
        let what = format!("the instruction at {:#x} computes no address", cursor.regs().rip);
        return Err(ReplayError::OutOfRange(what));
    };
    let what = format!("the address that {} accesses", disassembly::text(&instruction));
    Ok(asked(cursor, effects.address, Vec::new(), what))
}

/// Whether the stack pointer is more than where the instruction pushes or pops.
fn instruction_names_stack(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|number| instruction.op_register(number) == Register::RSP)
}

/// What made the instruction fail at which the process ended, or for whose fault a handler then ended it, or why it was ended.
fn failure((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<Asked> {
    let end = cursor.place();
    if let Some(fault) = handled::first((tools, log), cursor, symbols)? {
        return faulted(log, cursor, &fault);
    }
    let thread = ThreadId { pid: cursor.pid(), tid: cursor.place().tid };
    let Some(report) = crash::report(None, log, thread, Limits::default())? else {
        if let Some(asked) = elsewhere(log, cursor)? {
            return Ok(asked);
        }
        let process = processes(log)?.into_iter().find(|process| process.id == cursor.pid());
        if process.is_some_and(|process| matches!(process.end, ProcessEnd::Exited { status: 1.. })) {
            cursor.seek(Seek::Place(end))?;
            return exit(log, cursor);
        }
        return Err(ReplayError::OutOfRange(format!(
            "process {} did not fail: say which value it is about, with --at, --reg, --mem, --var or --output",
            cursor.pid()
        )));
    };
    let signal = &report.signal;
    if is_sent(signal) && !handled::is_sent_again(log, cursor, signal.number)? {
        if thrown::is_again(&report.backtrace) {
            if thrown::seek(log, cursor, symbols)? {
                return ended(log, cursor, &signal.name);
            }
            cursor.seek(Seek::Place(end))?;
        }
        return ended(log, cursor, &signal.name);
    }
    if let Some(at) = trap(log, cursor, (signal.number, cursor.regs().rip))? {
        return reached(log, cursor, at, &signal.name);
    }
    let here = next(log, cursor)?.filter(|_| report.instruction.is_some());
    let Some((instruction, effects)) = here else { return went(log, cursor, cursor.regs().rip, &signal.name) };
    let text = disassembly::text(&instruction);
    if is_access(signal.number, &effects) {
        if let Some(asked) = wild(&instruction, &effects, cursor)? {
            return Ok(Asked { what: format!("{} ({})", asked.what, signal.name), ..asked });
        }
        // Where the stack ends says nothing of why it is that deep.
        if (effects.address - Atoms::RSP).is_empty() || report.is_stack_overflow() {
            let frames = moment(log, cursor)?.backtrace;
            return Ok(no_stack(cursor, &frames, &text, &signal.name));
        }
        let what = format!("the address that {text} accesses ({})", signal.name);
        return Ok(asked(cursor, effects.address, Vec::new(), what));
    }
    if signal.number == libc::SIGFPE
        && let Some(divisor) = zero_divisor(&instruction, cursor)?
    {
        return Ok(Asked { what: format!("the divisor of {text} ({})", signal.name), ..divisor });
    }
    let asked = operands(log, cursor)?;
    Ok(Asked { what: format!("{} ({})", asked.what, signal.name), ..asked })
}

/// Whether a signal tells that an instruction could not access memory, and not that it has taken a wrong address to go to from there.
fn is_access(signal: i32, effects: &Effects) -> bool {
    let goes_wrong = effects.memory_decides && effects.control == Control::Return;
    matches!(signal, libc::SIGSEGV | libc::SIGBUS) && !effects.address.is_empty() && !goes_wrong
}

/// What made an instruction fail for which a handler began, where the cursor is: the registers are the handler's.
fn faulted(log: &Log, cursor: &mut Cursor<'_>, fault: &Fault) -> Result<Asked> {
    let Fault { number, signal, frames, before: (regs, changed), .. } = fault;
    let rip = frames.first().map_or(0, |frame| frame.pc);
    if let Some(at) = trap(log, cursor, (*number, rip))? {
        return reached(log, cursor, at, signal);
    }
    // Code that is not there, or not any more.
    let is_there = handled::accessed(cursor, *number)? != Some(rip);
    let Some((instruction, effects)) = instruction(log, cursor, rip)?.filter(|_| is_there) else {
        return went(log, cursor, rip, signal);
    };
    let text = disassembly::text(&instruction);
    if is_access(*number, &effects) {
        if (effects.address - Atoms::RSP).is_empty() {
            return Ok(no_stack(cursor, frames, &text, signal));
        }
        let what = format!("the address that {text} accesses ({signal})");
        return Ok(asked(cursor, effects.address, Vec::new(), what));
    }
    // The handler has other registers.
    let memory = if effects.address.meets(*changed) { Vec::new() } else { reads(&instruction, regs) };
    let is_division = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
    let (what, atoms) = match Atoms::register(instruction.op0_register()) {
        Some(divisor) if is_division => ("the divisor of", divisor),
        None if is_division && !memory.is_empty() => ("the divisor of", Atoms::NONE),
        _ => ("what is taken by", effects.reads()),
    };
    Ok(asked(cursor, atoms, memory, format!("{what} {text} ({signal})")))
}

/// Why execution went to an address at which there is no code.
fn went(log: &Log, cursor: &mut Cursor<'_>, rip: u64, signal: &str) -> Result<Asked> {
    cursor.step(Direction::Backward)?;
    let Some((instruction, effects)) = next(log, cursor)? else { return operands(log, cursor) };
    let memory = if effects.memory_decides { reads(&instruction, cursor.regs()) } else { Vec::new() };
    let what = format!("{rip:#x}, where {} went ({signal})", disassembly::text(&instruction));
    Ok(asked(cursor, effects.decides, memory, what))
}

/// The instruction that was meant to end the program, if a signal tells of one such: it takes no values, so that only how it was reached is of
/// interest. Behind `int3`, the address is already that of the next one.
fn trap(log: &Log, cursor: &Cursor<'_>, (signal, rip): (i32, u64)) -> Result<Option<u64>> {
    let is_it = |at: u64, known: &[Mnemonic]| -> Result<bool> {
        Ok(instruction(log, cursor, at)?.is_some_and(|(instruction, _)| known.contains(&instruction.mnemonic())))
    };
    Ok(match signal {
        libc::SIGILL if is_it(rip, &[Mnemonic::Ud0, Mnemonic::Ud1, Mnemonic::Ud2])? => Some(rip),
        libc::SIGSEGV if is_it(rip, &[Mnemonic::Hlt])? => Some(rip),
        libc::SIGTRAP if is_it(rip.wrapping_sub(1), &[Mnemonic::Int3, Mnemonic::Int1])? => Some(rip.wrapping_sub(1)),
        libc::SIGTRAP if is_it(rip, &[Mnemonic::Int3, Mnemonic::Int1])? => Some(rip),
        _ => None,
    })
}

/// Why an instruction was reached that takes nothing.
fn reached(log: &Log, cursor: &Cursor<'_>, at: u64, signal: &str) -> Result<Asked> {
    let text =
        instruction(log, cursor, at)?.map_or_else(String::new, |(instruction, _)| disassembly::text(&instruction));
    let what = format!("the condition by which {text} was reached ({signal})");
    let criterion =
        Criterion { place: cursor.place(), atoms: Atoms::NONE, memory: Vec::new(), call: None, here: Some(at) };
    Ok(Asked { criterion, what })
}

/// Whether somebody sent a signal, and no instruction was refused.
fn is_sent(signal: &crash::Signal) -> bool {
    signal.code <= 0 || signal.number == libc::SIGABRT
}

/// Which address an access went to that killed another thread than the one which executed the last instruction, or why that thread ended the program;
/// none if it is not that.
fn elsewhere(log: &Log, cursor: &mut Cursor<'_>) -> Result<Option<Asked>> {
    let (pid, last) = (cursor.pid(), cursor.place().tid);
    for thread in log.threads().filter(|thread| thread.pid == pid && thread.tid != last) {
        let Some(report) = crash::report(None, log, thread, Limits::default())? else { continue };
        if let Some(before) = report.position.0.checked_sub(1).filter(|_| is_sent(&report.signal)) {
            // Where it is the next one to execute something, its last instruction, its calls are those of its end.
            let place = Place { tid: thread.tid, interval: report.interval, position: Position(before) };
            cursor.seek(Seek::Place(place))?;
            return ended(log, cursor, &report.signal.name).map(Some);
        }
        let rip = report.registers.rip;
        let found = instruction(log, cursor, rip)?;
        let is_access = report.signal.code > 0 && matches!(report.signal.number, libc::SIGSEGV | libc::SIGBUS);
        if is_access && report.instruction.is_none() {
            cursor.seek(Seek::Place(Place {
                tid: thread.tid,
                interval: report.interval,
                position: report.position,
            }))?;
            return went(log, cursor, rip, &report.signal.name).map(Some);
        }
        if let Some((instruction, effects)) = found.filter(|(_, effects)| is_access && !effects.address.is_empty()) {
            let place = Place { tid: thread.tid, interval: report.interval, position: report.position };
            let what =
                format!("the address that {} accesses ({})", disassembly::text(&instruction), report.signal.name);
            let criterion = Criterion { place, atoms: effects.address, memory: Vec::new(), call: None, here: None };
            return Ok(Some(Asked { criterion, what }));
        }
    }
    Ok(None)
}

/// Where an indirect call or jump would go, if that is no address at all: then the instruction fails by itself.
fn wild(instruction: &Instruction, effects: &Effects, cursor: &mut Cursor<'_>) -> Result<Option<Asked>> {
    let kind = instruction.flow_control();
    if !matches!(kind, FlowControl::IndirectCall | FlowControl::IndirectBranch) {
        return Ok(None);
    }
    let (atoms, memory, target) = match instruction.op0_register() {
        Register::None => {
            let [(addr, len)] = *reads(instruction, cursor.regs()) else { return Ok(None) };
            let bytes = cursor.read_memory(Addr(addr), len)?;
            let Ok(target) = <[u8; 8]>::try_from(&*bytes) else { return Ok(None) };
            (Atoms::NONE, vec![(addr, len)], u64::from_le_bytes(target))
        }
        register => (effects.decides, Vec::new(), cursor.regs().gpr[register.full_register().number()]),
    };
    let is_canonical = (target as i64) << 16 >> 16 == target as i64;
    let what = format!("{target:#x}, where {} would go", disassembly::text(instruction));
    Ok((!is_canonical).then(|| asked(cursor, atoms, memory, what)))
}

/// What the instruction divides by, if that is zero: then it does not matter what it divides.
fn zero_divisor(instruction: &Instruction, cursor: &mut Cursor<'_>) -> Result<Option<Asked>> {
    if !matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
        return Ok(None);
    }
    let register = instruction.op0_register();
    if register != Register::None {
        let zero = Atoms::register(register).filter(|atoms| value(cursor.regs(), *atoms) == "0x0");
        return Ok(zero.map(|atoms| asked(cursor, atoms, Vec::new(), String::new())));
    }
    let [(addr, len)] = *reads(instruction, cursor.regs()) else { return Ok(None) };
    let bytes = cursor.read_memory(Addr(addr), len)?;
    let is_zero = bytes.len() as u64 == len && bytes.iter().all(|byte| *byte == 0);
    Ok(is_zero.then(|| asked(cursor, Atoms::NONE, vec![(addr, len)], String::new())))
}

/// Why the function was called for which there was no room on the stack: the innermost one that called itself, if any did.
fn no_stack(cursor: &Cursor<'_>, frames: &[Frame], text: &str, signal: &str) -> Asked {
    let is_again = |number: &usize| {
        let name = function(&frames[*number]);
        name.is_some() && frames[number + 1..].iter().any(|outer| function(outer) == name)
    };
    let called = (0..frames.len()).find(is_again).unwrap_or(0);
    let Some(by) = frames.get(called + 1) else {
        let what = format!("the stack pointer with which {text} fails ({signal})");
        return asked(cursor, Atoms::RSP, Vec::new(), what);
    };
    let what = format!(
        "the condition by which {} was called, for which {text} finds no room on the stack ({signal})",
        brief(function(&frames[called]).unwrap_or("a function"))
    );
    let criterion =
        Criterion { place: cursor.place(), atoms: Atoms::NONE, memory: Vec::new(), call: Some(by.pc), here: None };
    Asked { criterion, what }
}

fn function(frame: &Frame) -> Option<&str> {
    let source = frame.place.source.first().and_then(|source| source.function.as_deref());
    source.or(frame.place.symbol.as_ref().map(|symbol| symbol.name.as_str()))
}

/// Why a function was called that ends the program.
fn ended(log: &Log, cursor: &mut Cursor<'_>, signal: &str) -> Result<Asked> {
    let frames = moment(log, cursor)?.backtrace;
    let reports = |frame: &Frame| {
        let is_of_system = frame.place.module.as_ref().is_some_and(|module| is_system(&module.path));
        let is_one =
            |name: &str| REPORTERS.iter().any(|known| name.starts_with(known)) && (is_of_system || name.contains("::"));
        function(frame).is_some_and(is_one)
    };
    // There may be steps without a name between them; further out the same names mean something else.
    let mut last = None;
    for (number, frame) in frames.iter().enumerate() {
        if reports(frame) {
            last = Some(number);
        } else if number >= last.map_or(GAP, |last| last + GAP) {
            break;
        }
    }
    // What a library's own function without a name found is not what its caller wants to know.
    let is_hidden = |frame: &&Frame| {
        function(frame).is_none() && frame.place.module.as_ref().is_some_and(|module| is_system(&module.path))
    };
    let by = last.and_then(|last| frames[last + 1..].iter().find(|frame| !is_hidden(frame)));
    let (Some(last), Some(by)) = (last, by) else {
        return Err(ReplayError::OutOfRange(format!(
            "{signal} was sent to the process, and it is not known why: say which value it is about, with --at, --reg, --mem, --var or \
             --output"
        )));
    };
    let called = brief(function(&frames[last]).unwrap_or("?"));
    let caller = by.place.brief().map_or_else(|| format!("{:#x}", by.pc), |caller| brief(&caller));
    let what = format!("the condition by which {called} was called ({signal}), in {caller}");
    let criterion =
        Criterion { place: cursor.place(), atoms: Atoms::NONE, memory: Vec::new(), call: Some(by.pc), here: None };
    Ok(Asked { criterion, what })
}

/// What the process exits with at its end.
fn exit(log: &Log, cursor: &mut Cursor<'_>) -> Result<Asked> {
    let frames = moment(log, cursor)?.backtrace;
    let is_own = |frame: &&Frame| frame.place.module.as_ref().is_some_and(|module| !is_system(&module.path));
    let status = Atoms::register(Register::EDI).unwrap_or(Atoms::NONE);
    let what = format!("the exit status, {}", cursor.regs().gpr[7] & 0xff);
    let mut asked = asked(cursor, status, Vec::new(), what);
    asked.criterion.call = frames.iter().skip(1).find(is_own).map(|frame| frame.pc);
    Ok(asked)
}

/// Why the function of a frame is where it is: the condition by which it came there.
fn goes_on(log: &Log, cursor: &mut Cursor<'_>, frame: usize) -> Result<Asked> {
    let frames = moment(log, cursor)?.backtrace;
    let by = frames.get(frame).ok_or_else(|| ReplayError::OutOfRange(format!("there is no frame {frame}")))?;
    let at = by.place.brief().map_or_else(|| format!("{:#x}", by.pc), |place| brief(&place));
    let (call, here) = if frame == 0 { (None, Some(by.pc)) } else { (Some(by.pc), None) };
    let criterion = Criterion { place: cursor.place(), atoms: Atoms::NONE, memory: Vec::new(), call, here };
    Ok(Asked { criterion, what: format!("the condition by which the loop goes on, in {at}") })
}
