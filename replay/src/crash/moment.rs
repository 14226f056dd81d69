//! What there is to see where a cursor is.

use super::display::{frame, registers, source_text};
use super::own::{self, OwnFrame};
use super::source::{self, SourceText};
use super::stacks::Stacks;
use crate::backtrace::Frame;
use crate::cursor::{Cursor, Place};
use crate::disassembly::{Line, disassemble};
use crate::error::Result;
use crate::log::{Log, ThreadId};
use crate::memory::Memory;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::Addr;
use serde::Serialize;
use std::fmt::{Display, Formatter};

/// Instructions that are shown from the present one on, and the most bytes that they can have.
const INSTRUCTIONS: usize = 6;
const BYTES: u64 = 15 * INSTRUCTIONS as u64;

/// A moment of a process's execution.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// Where the thread is that executes the next instruction.
    pub place: Place,
    /// Instructions that all threads have executed.
    pub time: u64,
    /// The same at the end.
    pub end: u64,
    /// The instructions that come next in memory, the present one first; none where memory is not known.
    pub instructions: Vec<Line>,
    /// Every register.
    pub registers: RegisterFile,
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
    let mut stacks = Stacks::new(log, cursor.pid())?;
    let thread = ThreadId { pid: cursor.pid(), tid: place.tid };
    let backtrace = stacks.look(thread, &registers, cursor)?;
    let info = log.processes()?.into_iter().find(|(id, _)| *id == cursor.pid()).and_then(|(_, info)| info);
    let program = info.and_then(|info| info.args.into_iter().next()).unwrap_or_default();
    let own = own::first(&backtrace, &program);
    let source = own.as_ref().and_then(|own| source::around(own, &backtrace, &mut stacks.symbols));
    let code = cursor.read_memory(Addr(registers.rip), BYTES)?;
    let mut instructions = disassemble(Addr(registers.rip), &code);
    instructions.truncate(INSTRUCTIONS);
    let others = cursor.threads()?.into_iter().map(|thread| thread.place).filter(|other| other.tid != place.tid);
    let others = others.collect();
    let (time, end) = (cursor.time(), cursor.end());
    Ok(Moment { place, time, end, instructions, registers, backtrace, own, source, others })
}

impl Display for Moment {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "at {} (time @{} of {})", self.place, self.time, self.end)?;
        writeln!(f, "\nnext instructions:")?;
        if self.instructions.is_empty() {
            writeln!(f, "  {:#018x}  not known", self.registers.rip)?;
        }
        for Line { address, bytes, text } in &self.instructions {
            writeln!(f, "  {:#018x}  {bytes:<30}  {text}", address.0)?;
        }
        writeln!(f, "\nregisters:")?;
        registers(&self.registers, f)?;
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
