//! Arguments and local variables of the frames of a stack, as far as debug information and known memory tell them.

use crate::backtrace::{Frame, Unwound, unwind_some};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::log::Log;
use crate::memory::Memory;
use crate::symbols::Symbolizer;
use bugnet_debuginfo::Limits;
use bugnet_debuginfo::frame::Stack;
use bugnet_debuginfo::memory::Memory as KnownMemory;
use bugnet_debuginfo::variable::Variable as Found;
use bugnet_format::types::Addr;
use serde::Serialize;
use std::ops::Range;

/// Innermost frames of which variables are shown: an endless recursion has many that are alike.
const FRAMES: usize = 12;
/// Variables of a function that are shown.
const VARIABLES: usize = 60;
/// How much is shown of one.
pub(crate) const LIMITS: Limits = Limits { elements: 100, depth: 6, length: 400 };

/// A function of a frame, inlined or not, with what is in scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scope {
    /// Its name.
    pub function: Option<String>,
    /// Its parameters, in their order.
    pub arguments: Vec<Variable>,
    /// Its local variables, innermost block first.
    pub locals: Vec<Variable>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type, as the source writes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its value, as gdb prints it.
    pub value: String,
    /// Where it is, if it is in memory.
    pub address: Option<u64>,
    /// Bytes, as far as its type says.
    #[serde(skip)]
    pub size: Option<u64>,
}

/// Memory of the process as it is known at a position, with names for addresses.
pub(crate) struct Seen<'a> {
    pub memory: &'a mut dyn Memory,
    pub symbols: &'a mut Symbolizer,
}

/// Adds what is in memory that nobody can write to, and so is as it is in its file.
pub(crate) fn add_constants(addr: u64, bytes: &mut [Option<u8>], symbols: &mut Symbolizer) {
    let mut at = 0;
    while let Some(unknown) = bytes.get(at..).and_then(|rest| rest.iter().position(Option::is_none)) {
        at += unknown;
        let run = bytes[at..].iter().take_while(|byte| byte.is_none()).count();
        let file = symbols.file_at(Addr(addr.wrapping_add(at as u64)));
        let found = file.and_then(|(image, address)| image.read_only(address, run)).unwrap_or_default();
        bytes[at..].iter_mut().zip(&found).for_each(|(byte, found)| *byte = Some(*found));
        at += run;
    }
}

impl KnownMemory for Seen<'_> {
    fn read(&mut self, addr: u64, len: usize) -> Vec<Option<u8>> {
        // Whoever had the memory is gone: nothing of it is known any more.
        let mut bytes = self.memory.read_known(Addr(addr), len as u64).unwrap_or_default();
        bytes.resize(len, None);
        add_constants(addr, &mut bytes, self.symbols);
        bytes
    }

    fn symbol(&mut self, addr: u64) -> Option<(String, u64)> {
        self.symbols.name_at(Addr(addr))
    }
}

/// Adds to each frame of a stack what is in scope there.
pub(crate) fn add(unwound: &mut Unwound, fs_base: u64, memory: &mut dyn Memory, symbols: &mut Symbolizer) {
    let mut seen = Seen { memory, symbols };
    let stack = Stack { frames: &unwound.states, fs_base: Some(fs_base) };
    for (number, frame) in unwound.frames.iter_mut().enumerate().take(FRAMES) {
        let shown =
            |list: Vec<Found>| -> Vec<Variable> { list.into_iter().take(VARIABLES).map(Variable::from).collect() };
        let scopes = stack.scopes(number, &mut seen, LIMITS).into_iter();
        frame.scopes = scopes
            .map(|scope| Scope {
                function: scope.function,
                arguments: shown(scope.arguments),
                locals: shown(scope.locals),
            })
            .collect();
    }
}

/// The innermost frames where a cursor is, no more than so many, with what is in scope there.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub fn scopes_at(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, frames: usize) -> Result<Vec<Frame>> {
    let (regs, code) = (cursor.regs().clone(), log.code(cursor.pid())?);
    let mut unwound = unwind_some(&regs, cursor, symbols, &code, frames)?;
    unwound.frames.truncate(frames);
    add(&mut unwound, regs.fs_base, cursor, symbols);
    Ok(unwound.frames)
}

/// What the source may call an address of a block of the heap, or behind it, where a cursor is: by a variable that points into the block, of one
/// of so many innermost frames.
///
/// # Errors
/// As [`scopes_at`].
pub fn pointed_at(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (address, block): (u64, Range<u64>),
    frames: usize,
) -> Result<Option<String>> {
    named(log, cursor, symbols, frames, |stack, frame, seen| stack.describe_pointed(frame, address, &block, seen))
}

/// The variable, or the part of one, that is at an address where a cursor is, of one of so many innermost frames.
///
/// # Errors
/// As [`scopes_at`].
pub fn local_at(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    address: u64,
    frames: usize,
) -> Result<Option<String>> {
    named(log, cursor, symbols, frames, |stack, frame, seen| stack.describe_local(frame, address, seen))
}

/// The first name that is found for something, from the innermost frame out.
fn named(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    frames: usize,
    name: impl Fn(&Stack<'_>, usize, &mut Seen<'_>) -> Option<String>,
) -> Result<Option<String>> {
    let (regs, code) = (cursor.regs().clone(), log.code(cursor.pid())?);
    let unwound = unwind_some(&regs, cursor, symbols, &code, frames)?;
    let stack = Stack { frames: &unwound.states, fs_base: Some(regs.fs_base) };
    let mut seen = Seen { memory: cursor, symbols };
    let count = unwound.states.len().min(frames);
    Ok((0..count).find_map(|frame| name(&stack, frame, &mut seen)))
}

impl From<Found> for Variable {
    fn from(Found { name, type_name, value, address, size, .. }: Found) -> Self {
        Self { name, type_name, value, address, size }
    }
}
