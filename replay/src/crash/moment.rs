//! What there is to see where a cursor is.

use super::display::{frame, registers, source_text};
use super::own::{self, OwnFrame};
use super::pointers::{self, Pointer};
use super::source::{self, SourceText};
use super::stacks::Stacks;
use super::variables::Seen;
use crate::backtrace::Frame;
use crate::cursor::{Cursor, Place};
use crate::disassembly::{LONGEST, Line, disassemble};
use crate::error::{ReplayError, Result};
use crate::log::Log;
use bugnet_debuginfo::memory::Memory as _;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, Tid};
use serde::Serialize;
use std::fmt::{Display, Formatter};

/// Instructions that are shown from the present one on, and the most bytes that they can have.
const INSTRUCTIONS: usize = 6;
const BYTES: u64 = LONGEST * INSTRUCTIONS as u64;
/// Instructions that are shown before it.
const BEFORE: usize = 4;
/// Farthest start of a function from which instructions are decoded to find those before the present one, in bytes.
const FARTHEST: u64 = 1 << 16;

/// A moment of a process's execution, as one of its threads sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// Where the thread is. Without another choice it is the one that executes the next instruction.
    pub place: Place,
    /// Instructions that all threads have executed.
    pub time: u64,
    /// The same at the end.
    pub end: u64,
    /// The instructions that stand before the present one in its function; none where that is not known. They need not be those that
    /// were executed last.
    pub before: Vec<Line>,
    /// The instructions that come next in memory, the present one first; none where memory is not known.
    pub instructions: Vec<Line>,
    /// Every register.
    pub registers: RegisterFile,
    /// What the general purpose registers point at, of those that hold an address.
    pub pointers: Vec<Pointer>,
    /// The stack, innermost frame first.
    pub backtrace: Vec<Frame>,
    /// The first frame in the user's own code.
    pub own: Option<OwnFrame>,
    /// The source text around that frame's line, if this machine has it.
    pub source: Option<SourceText>,
    /// Where the other threads are that did something in this epoch.
    pub others: Vec<Place>,
}

/// Looks around where a cursor is.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub fn moment(log: &Log, cursor: &mut Cursor<'_>) -> Result<Moment> {
    let (place, registers) = (cursor.place(), cursor.regs().clone());
    look(log, cursor, place, registers)
}

/// Looks around where another thread is at this moment.
///
/// # Errors
/// The thread does nothing in this part of the log, which cannot be read, or the replay process is lost.
pub fn moment_of(log: &Log, cursor: &mut Cursor<'_>, thread: Tid) -> Result<Moment> {
    if thread == cursor.place().tid {
        return moment(log, cursor);
    }
    let threads = cursor.threads()?;
    let Some(found) = threads.iter().find(|other| other.place.tid == thread) else {
        let there: Vec<String> = threads.iter().map(|other| other.place.tid.to_string()).collect();
        let (time, there) = (cursor.time(), there.join(", "));
        return Err(ReplayError::OutOfRange(format!(
            "thread {thread} does nothing around @{time}: it has not begun, has ended, or waits all this time; there are {there}"
        )));
    };
    look(log, cursor, found.place, found.regs.clone())
}

fn look(log: &Log, cursor: &mut Cursor<'_>, place: Place, registers: RegisterFile) -> Result<Moment> {
    let mut stacks = Stacks::new(log, cursor.pid())?;
    let unwound = stacks.unwind(&registers, cursor)?;
    let pointers = pointers::find(&registers, &unwound, cursor, &mut stacks.symbols);
    let backtrace = unwound.frames;
    let info = log.processes()?.into_iter().find(|(id, _)| *id == cursor.pid()).and_then(|(_, info)| info);
    let program = info.and_then(|info| info.args.into_iter().next()).unwrap_or_default();
    let own = own::first(&backtrace, &program);
    let source = own.as_ref().and_then(|own| source::around(own, &backtrace, &mut stacks.symbols));
    let mut code = Seen { memory: cursor, symbols: &mut stacks.symbols };
    let before = before(registers.rip, &mut code);
    let bytes: Vec<u8> = code.read(registers.rip, BYTES as usize).into_iter().map_while(|byte| byte).collect();
    let mut instructions = disassemble(Addr(registers.rip), &bytes);
    instructions.truncate(INSTRUCTIONS);
    let others = cursor.threads()?.into_iter().map(|thread| thread.place).filter(|other| other.tid != place.tid);
    let others = others.collect();
    let (time, end) = (cursor.time(), cursor.end());
    Ok(Moment { place, time, end, before, instructions, registers, pointers, backtrace, own, source, others })
}

/// The instructions that stand before an address. Where one begins is told by decoding from the function's start on alone.
fn before(rip: u64, code: &mut Seen<'_>) -> Vec<Line> {
    let offset = code.symbols.lookup(Addr(rip)).symbol.map(|symbol| symbol.offset);
    let Some(offset) = offset.filter(|offset| (1..=FARTHEST).contains(offset)) else { return Vec::new() };
    let start = rip - offset;
    let Some(bytes) = code.known(start, offset as usize) else { return Vec::new() };
    let mut lines = disassemble(Addr(start), &bytes);
    let reached = lines.last().map(|line| line.address.0 + line.bytes.split(' ').count() as u64);
    if reached != Some(rip) {
        return Vec::new();
    }
    lines.split_off(lines.len().saturating_sub(BEFORE))
}

/// Most frames that the first screen has.
const FRAMES: usize = 12;

/// What of a moment answers most questions: the line, the values there, and how it was called.
#[derive(Debug)]
pub struct Brief<'a>(pub &'a Moment);

impl Display for Brief<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let moment = self.0;
        moment.heading(f)?;
        match &moment.source {
            Some(source) => source_text(source, f)?,
            None => moment.code(f)?,
        }
        writeln!(f)?;
        // Values are those of the first frame in the user's own code, and arguments those of frames on the way there.
        let own = moment.own.as_ref().map_or(0, |own| own.frame);
        let shown = moment.backtrace.iter().take((own + 1).max(FRAMES)).enumerate();
        for (number, one) in shown {
            let is_own = number > 0 && moment.own.as_ref().is_some_and(|own| own.frame == number);
            let scopes = if number == own { one.scopes.clone() } else { Vec::new() };
            frame(number, &Frame { scopes, ..one.clone() }, is_own, f)?;
        }
        let more = moment.backtrace.len().saturating_sub((own + 1).max(FRAMES));
        if more > 0 {
            writeln!(f, "  and {more} more")?;
        }
        let others = match moment.others.len() {
            0 => String::new(),
            1 => ", where the other thread is".to_owned(),
            count => format!(", where the {count} other threads are"),
        };
        writeln!(f, "\n--full: instructions, registers and what they point at, the values of all frames{others}")
    }
}

impl Moment {
    fn heading(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "at {} (time @{} of {})", self.place, self.time, self.end)
    }

    /// The instructions.
    fn code(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "\ninstructions:")?;
        for Line { address, bytes, text } in &self.before {
            writeln!(f, "    {:#018x}  {bytes:<30}  {text}", address.0)?;
        }
        if self.instructions.is_empty() {
            writeln!(f, "  > {:#018x}  not known", self.registers.rip)?;
        }
        for (number, Line { address, bytes, text }) in self.instructions.iter().enumerate() {
            let mark = if number == 0 { '>' } else { ' ' };
            writeln!(f, "  {mark} {:#018x}  {bytes:<30}  {text}", address.0)?;
        }
        Ok(())
    }
}

/// All of it.
impl Display for Moment {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.heading(f)?;
        self.code(f)?;
        writeln!(f, "\nregisters:")?;
        registers(&self.registers, f)?;
        if !self.pointers.is_empty() {
            writeln!(f, "\nregisters point at:")?;
        }
        self.pointers.iter().try_for_each(|pointer| writeln!(f, "  {pointer}"))?;
        writeln!(f, "\nbacktrace:")?;
        for (number, one) in self.backtrace.iter().enumerate() {
            frame(number, one, self.own.as_ref().is_some_and(|own| own.frame == number && number > 0), f)?;
        }
        if let Some(source) = &self.source {
            source_text(source, f)?;
        }
        if !self.others.is_empty() {
            writeln!(f, "\nother threads:")?;
        }
        self.others.iter().try_for_each(|place| writeln!(f, "  {place}"))
    }
}
