//! From where a memory error comes: what its address follows from and what decided that it was made, and how the block came to its size.

use super::illegal::own;
use super::left_out::left_out;
use super::near::{self, Line, Near, Work};
use super::rank::{Reason, Table};
use super::{boundary, cut, executed, offset};
use crate::memcheck::{CallReport, ErrorReport, Kind};
use crate::slice::{Asked, Graph, Named, Question, ask};
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::disassembly::next;
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
    let mut is_bound = false;
    // What functions of libraries access, and addresses without a register, are not followed.
    if let Ok(asked) = ask((tools, log), cursor, symbols, &Question::Address) {
        let full = cut(tools, log, cursor, &asked, true)?;
        near::lines(&full.graph, symbols, &mut |line, near| table.clues(line).wrong_access = Some(near));
        is_bound = boundary::find(cursor, symbols, &full.graph, table)?;
        drop(full);
        let thin = cut(tools, log, cursor, &asked, false)?;
        near::lines(&thin.graph, symbols, &mut |line, near| table.clues(line).wrong_address = Some(near));
        offset((tools, log), cursor, symbols, (error, &thin.graph), table)?;
    }
    if let Some(freed) = block.and_then(|block| block.freed.as_ref()) {
        given_back((tools, log), cursor, symbols, freed, table)?;
    }
    match got.filter(|(block, _)| block.freed.is_none() && block.side == "behind") {
        Some((_, call)) => size((tools, log), cursor, symbols, (error, call, is_bound), table),
        None => Ok(()),
    }
}

/// The lines from which follows what was added to a pointer into the block, so that the access is beyond it.
fn offset(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (error, address): (&ErrorReport, &Graph),
    table: &mut Table,
) -> Result<()> {
    let block = error.block.as_ref().filter(|block| block.freed.is_none());
    let Some((block, size)) = block.and_then(|block| Some((block, block.size?))) else { return Ok(()) };
    let block = block.start.0..=block.start.0.saturating_add(size);
    let Some(criterion) = offset::find(cursor, address, error.place, &block)? else { return Ok(()) };
    let thin = cut(tools, log, cursor, &Asked { criterion, what: String::new() }, false)?;
    near::lines(&thin.graph, symbols, &mut |line, near| table.clues(line).offset = Some(near));
    Ok(())
}

/// The lines that decide that a block was given back.
fn given_back(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    freed: &CallReport,
    table: &mut Table,
) -> Result<()> {
    let full = executed((tools, log), cursor, freed.place)?;
    near::lines(&full.graph, symbols, &mut |line, near| table.clues(line).given_back = Some(near));
    Ok(())
}

/// The lines that asked for a block, and from which its size follows.
fn size(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (error, call, is_bound): (&ErrorReport, &CallReport, bool),
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
    let Ok(asked) = ask((tools, log), cursor, symbols, &Question::Register(register)) else { return Ok(()) };
    let thin = cut(tools, log, cursor, &asked, false)?;
    let mut made: Vec<(Line, Near)> = Vec::new();
    near::lines(&thin.graph, symbols, &mut |line, near| made.push((line, near)));
    // Where a check let the index pass that was just its bound, the index is wrong, it seems.
    if error.kind == Kind::Write && !is_bound {
        let is_member = is_member(cursor, error)?;
        made.sort_by_key(|(_, near)| (near.steps, near.nth));
        too_small((error, call), &made, (is_member, own(&call.callers, symbols)), table);
    }
    made.into_iter().for_each(|(line, near)| table.clues(line).size = Some(near));
    Ok(())
}

/// Whether the access is of a member that lies, by the instruction's displacement, beyond the whole block.
fn is_member(cursor: &mut Cursor<'_>, error: &ErrorReport) -> Result<bool> {
    cursor.seek(Seek::Place(error.place))?;
    let Some(instruction) = next(cursor)? else { return Ok(false) };
    let size = error.block.as_ref().and_then(|block| block.size);
    let displacement = instruction.memory_displacement64();
    Ok(size.is_some_and(|size| size <= displacement && displacement <= i32::MAX as u64))
}

/// Notes the line that made the size of a block which is written beyond: the nearest one that computes it, or brings it in where a member is beyond
/// the block; and where none computes or brings it in, as where a library's function says how long something is, the one that asked for the block.
fn too_small(
    (error, call): (&ErrorReport, &CallReport),
    made: &[(Line, Near)],
    (is_member, asked): (bool, Option<(Line, Option<String>)>),
    table: &mut Table,
) {
    let text = format!("it made the size of the block that is written beyond: {}", error.what);
    let of = |work: Work| made.iter().find(|(_, near)| near.work == work);
    let found = match (of(Work::Computes), of(Work::Constant)) {
        (Some(computes), _) => Some(computes),
        (None, Some(constant)) if is_member => Some(constant),
        (None, Some(_)) => return,
        (None, None) => None,
    };
    let reason = Reason::TooSmall { text };
    match (found, asked) {
        (Some((line, near)), _) => table.illegal(line.clone(), near.function.clone(), near.place, reason),
        (None, Some((line, function))) => table.illegal(line, function, call.place, reason),
        (None, None) => {}
    }
}
