//! Where an exception was made that nobody caught, if not where it was thrown last: one that was kept (`std::exception_ptr`, a future), or that a handler
//! has thrown again.
//!
//! Before it ends the program, the library begins to handle the exception (`__cxa_begin_catch`), and gets its header. From that follows the object (Itanium
//! C++ ABI, 2.2, and, for one that was kept, `unwind-cxx.h` of GCC and `cxa_exception.h` of LLVM), with which the exception was thrown first.

use bugnet_format::types::Addr;
use bugnet_replay::backtrace::Frame;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::hits::{Which, hits};
use bugnet_replay::location::{Code, Name};
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::{ReplayError, Result};
use std::ops::ControlFlow;

/// Functions that throw again what was thrown before.
const AGAIN: [&str; 2] = ["std::rethrow_exception", "__cxa_rethrow"];
/// What makes an exception of an object: the second is called for those that are kept without being thrown.
const MAKE: [&str; 2] = ["__cxa_throw", "__cxa_init_primary_exception"];
/// So many exceptions are looked at, the last ones.
const MOST: u64 = 1000;
/// Bytes of the unwinder's header, behind which the object lies.
const HEADER: u64 = 32;
/// What the class of an exception ends with that only refers to one that was kept, as a number.
const DEPENDENT: u8 = 1;
/// How far before the unwinder's header such a one has what it refers to: with GCC's library, and with LLVM's, by the first letter of the class.
const REFERS: [(u8, u64); 2] = [(b'G', 80), (b'C', 88)];
/// Number of RDI.
const FIRST: usize = 7;

/// Whether what ended the program was thrown again.
pub fn is_again(frames: &[Frame]) -> bool {
    let name = |frame: &Frame| frame.place.symbol.as_ref().map(|symbol| symbol.name.clone());
    frames.iter().filter_map(name).any(|name| AGAIN.iter().any(|again| name.starts_with(again)))
}

/// Puts the cursor where the exception was made that ended the program; whether it was found.
///
/// # Errors
/// The log cannot be read or replayed.
pub fn seek(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<bool> {
    let Some(&ended) = times(log, cursor, symbols, "__cxa_begin_catch", 1)?.first() else { return Ok(false) };
    cursor.seek(Seek::Time(ended))?;
    let header = cursor.regs().gpr[FIRST];
    let Some(object) = object(cursor, header)? else { return Ok(false) };
    let mut made = Vec::new();
    for name in MAKE {
        made.extend(times(log, cursor, symbols, name, MOST)?);
    }
    made.sort_unstable();
    for time in made.into_iter().rev().filter(|time| *time < ended) {
        cursor.seek(Seek::Time(time))?;
        if cursor.regs().gpr[FIRST] == object {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The object of the exception with this header.
fn object(cursor: &mut Cursor<'_>, header: u64) -> Result<Option<u64>> {
    let word = |cursor: &mut Cursor<'_>, at: u64| -> Result<Option<[u8; 8]>> {
        Ok(cursor.read_memory(Addr(at), 8)?.try_into().ok())
    };
    // The class is a number of which the first letter is the highest byte.
    let Some(class) = word(cursor, header)? else { return Ok(None) };
    if class[0] != DEPENDENT {
        return Ok(Some(header + HEADER));
    }
    let Some((_, before)) = REFERS.iter().find(|(first, _)| *first == class[7]) else { return Ok(None) };
    Ok(word(cursor, header.wrapping_sub(*before))?.map(u64::from_le_bytes))
}

/// When a function was called, the last times; never where there is none.
fn times(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, name: &str, last: u64) -> Result<Vec<u64>> {
    let name: Name = name.parse().map_err(ReplayError::OutOfRange)?;
    let Ok(code) = Code::find(&name, symbols) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    hits(log, cursor, symbols, &code, Which { thread: None, last: Some(last) }, &mut |hit| {
        found.push(hit.time);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
