//! From where a memory error comes: what its address follows from and what decided that it was made, and how the block came to its size.

use super::cut;
use super::illegal::own;
use super::left_out::left_out;
use super::near;
use super::rank::{Reason, Table};
use crate::memcheck::{CallReport, ErrorReport};
use crate::slice::{Named, Question, ask};
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;

/// Notes the lines that have to do with the first memory error.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn follow(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    error: &ErrorReport,
    table: &mut Table,
) -> Result<()> {
    let block = error.block.as_ref();
    let got = block.and_then(|block| Some((block, block.allocated.as_ref()?)));
    if error.kind.is_undefined() {
        return match got {
            Some((block, call)) => left_out((tools, log), cursor, symbols, (error, block, call), table),
            None => Ok(()),
        };
    }
    cursor.seek(Seek::Place(error.place))?;
    // What functions of libraries access, and addresses without a register, are not followed.
    if let Ok(asked) = ask(log, cursor, symbols, &Question::Address) {
        let full = cut(tools, log, cursor, &asked, true)?;
        near::lines(&full.graph, symbols, &mut |line, near| table.clues(line).wrong_access = Some(near));
        drop(full);
        let thin = cut(tools, log, cursor, &asked, false)?;
        near::lines(&thin.graph, symbols, &mut |line, near| table.clues(line).wrong_address = Some(near));
    }
    match got.filter(|(block, _)| block.freed.is_none() && block.side == "behind") {
        Some((_, call)) => size((tools, log), cursor, symbols, (error, call), table),
        None => Ok(()),
    }
}

/// The lines that asked for a block, and from which its size follows.
fn size(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (error, call): (&ErrorReport, &CallReport),
    table: &mut Table,
) -> Result<()> {
    if let Some((line, function)) = own(&call.callers, symbols) {
        let text = format!("it asked for the block: {}", error.what);
        table.illegal(line, function, call.place, Reason::Allocated { text });
    }
    cursor.seek(Seek::Place(call.place))?;
    let has = |names: &[&str]| names.iter().any(|name| call.function.contains(name));
    let register = if has(&["realloc", "memalign", "aligned"]) { "rsi" } else { "rdi" };
    let Ok(register) = register.parse::<Named>() else { return Ok(()) };
    let Ok(asked) = ask(log, cursor, symbols, &Question::Register(register)) else { return Ok(()) };
    let thin = cut(tools, log, cursor, &asked, false)?;
    near::lines(&thin.graph, symbols, &mut |line, near| table.clues(line).size = Some(near));
    Ok(())
}
