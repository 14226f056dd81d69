//! Each time that code ran.

use crate::backtrace::unwind_some;
use crate::crash::{Variable, add_variables};
use crate::cursor::{Conditions, Cursor, Direction, Event, Place, Seek, Stopped};
use crate::error::{ReplayError, Result};
use crate::location::{Code, Spot, check_thread, finish_prologue};
use crate::log::Log;
use crate::symbols::Symbolizer;
use bugnet_debuginfo::demangle::without_parameters;
use bugnet_format::code::CodeStore;
use bugnet_format::types::{Addr, Tid};
use serde::Serialize;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Frames that are looked at: the function's, and its caller's.
const FRAMES: usize = 2;

/// A time at which code ran.
#[derive(Clone, Debug, Serialize)]
pub struct Hit {
    /// Where the thread was, before the instruction.
    pub place: Place,
    /// Instructions that all threads had executed.
    pub time: u64,
    /// Address of the instruction.
    pub address: Addr,
    /// The function, as far as it is known.
    pub function: Option<String>,
    /// Source file and line, as `file:line`.
    pub line: Option<String>,
    /// The function's arguments as they were; none without debug information.
    pub arguments: Vec<Variable>,
    /// The function that had called it, with the line.
    pub caller: Option<String>,
}

/// Which of the times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which {
    /// Only as this thread ran it.
    pub thread: Option<Tid>,
    /// Only so many, the last ones.
    pub last: Option<u64>,
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  ", self.place)?;
        match &self.function {
            Some(function) => write!(f, "{}(", without_parameters(function))?,
            None => write!(f, "{}(", self.address)?,
        }
        for (number, one) in self.arguments.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{}={}", one.name, one.value)?;
        }
        write!(f, ")")?;
        if let Some(line) = &self.line {
            write!(f, " at {line}")?;
        }
        self.caller.as_ref().map_or(Ok(()), |caller| write!(f, ", from {caller}"))
    }
}

/// Hands over each time that the code ran, oldest first, until it is told to end.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub fn hits(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    code: &Code,
    which: Which,
    each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
) -> Result<()> {
    check_thread(cursor, which.thread)?;
    let store = log.code(cursor.pid())?;
    let mut search = Search { cursor, symbols, store, code, thread: which.thread };
    match which.last {
        Some(most) => search.last(most, each),
        None => search.all(each),
    }
}

struct Search<'a, 'c> {
    cursor: &'a mut Cursor<'c>,
    symbols: &'a mut Symbolizer,
    store: Arc<CodeStore>,
    code: &'a Code,
    thread: Option<Tid>,
}

impl Search<'_, '_> {
    fn all(&mut self, each: &mut dyn FnMut(Hit) -> ControlFlow<()>) -> Result<()> {
        self.cursor.seek(Seek::Start)?;
        let mut found = self.here();
        let is_alone = self.cursor.all_threads().count() == 1;
        loop {
            if let Some(spot) = found.take() {
                let time = self.cursor.time();
                if each(self.look(&spot)?).is_break() {
                    return Ok(());
                }
                // Another thread may have run the code while this one began with the function.
                if !is_alone && self.cursor.time() != time {
                    self.cursor.seek(Seek::Time(time))?;
                }
            }
            match self.run(Direction::Forward)? {
                Some(spot) => found = spot,
                None => return Ok(()),
            }
        }
    }

    fn last(&mut self, most: u64, each: &mut dyn FnMut(Hit) -> ControlFlow<()>) -> Result<()> {
        self.cursor.seek(Seek::End)?;
        let mut found: Vec<(u64, Spot)> = Vec::new();
        let mut next = self.here();
        loop {
            found.extend(next.take().map(|spot| (self.cursor.time(), spot)));
            if found.len() as u64 >= most {
                break;
            }
            match self.run(Direction::Backward)? {
                Some(spot) => next = spot,
                None => break,
            }
        }
        for (time, spot) in found.iter().rev() {
            self.cursor.seek(Seek::Time(*time))?;
            if each(self.look(spot)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Runs to the next time that code ran; nothing in it, if another thread did. `None` where there is no other.
    fn run(&mut self, direction: Direction) -> Result<Option<Option<Spot>>> {
        let conditions = Conditions { addresses: self.code.addresses(), ..Conditions::default() };
        match self.cursor.run(direction, &conditions)? {
            Stopped::Condition(Event::Address(_)) => Ok(Some(self.here())),
            Stopped::Condition(_) => Ok(Some(None)),
            Stopped::Interrupted => Err(ReplayError::OutOfRange("the search was interrupted".into())),
            Stopped::There | Stopped::Start | Stopped::End => Ok(None),
        }
    }

    /// The code before which the cursor is, if it is asked about.
    fn here(&self) -> Option<Spot> {
        let is_right_thread = self.thread.is_none_or(|tid| self.cursor.place().tid == tid);
        self.code.spot(Addr(self.cursor.regs().rip)).filter(|_| is_right_thread).cloned()
    }

    fn look(&mut self, spot: &Spot) -> Result<Hit> {
        finish_prologue(self.cursor, spot)?;
        let (place, time, regs) = (self.cursor.place(), self.cursor.time(), self.cursor.regs().clone());
        let mut stack = unwind_some(&regs, self.cursor, self.symbols, &self.store, FRAMES)?;
        add_variables(&mut stack, regs.fs_base, self.cursor, self.symbols);
        let mut frames = stack.frames.into_iter();
        let (inner, outer) = (frames.next(), frames.next());
        let mut hit = Hit {
            place,
            time,
            address: Addr(regs.rip),
            function: None,
            line: None,
            arguments: Vec::new(),
            caller: outer.as_ref().and_then(|frame| frame.place.brief()),
        };
        if let Some(frame) = inner {
            if let Some(source) = frame.place.source.first() {
                hit.line = source.file.as_ref().zip(source.line).map(|(file, line)| format!("{file}:{line}"));
            }
            // An inlined function's caller is in the same frame.
            if let Some(around) = frame.place.source.get(1) {
                let place = crate::symbols::Place { source: vec![around.clone()], ..Default::default() };
                hit.caller = place.brief();
            }
            let function = frame.place.source.first().and_then(|source| source.function.clone());
            hit.function = function.or_else(|| frame.place.symbol.as_ref().map(|symbol| symbol.name.clone()));
            hit.arguments = frame.scopes.into_iter().next().map_or_else(Vec::new, |scope| scope.arguments);
        }
        Ok(hit)
    }
}
