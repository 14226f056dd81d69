//! From where a memory error comes: what its address follows from and what decided that it was made, how the block came to its size, and which line
//! left out what is undefined.

use super::cut;
use super::illegal::own;
use super::near::{self, Line};
use super::rank::{Reason, Table};
use crate::memcheck::{BlockReport, CallReport, ErrorReport};
use crate::runs::scene::Spot;
use crate::slice::{Named, Question, ask};
use bugnet_events::onward::walk_on;
use bugnet_events::walk::Visit;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use hashbrown::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

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
            Some((block, call)) => beside((tools, log), cursor, symbols, (error, block, call), table),
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

/// The line that last set bytes of a block next to those that are undefined, before these were used.
fn beside(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (error, block, call): (&ErrorReport, &BlockReport, &CallReport),
    table: &mut Table,
) -> Result<()> {
    let Some(size) = block.size.filter(|size| block.side == "inside" && block.distance < *size) else { return Ok(()) };
    let (start, wanted) = (block.start.0, block.start.0 + block.distance);
    let is_of_block = |addr: u64, len: u64| addr < start + size && addr.saturating_add(len) > start;
    // By line, how far away what it set last begins; and where that was.
    let mut found: Option<(u64, Line, Option<String>, Place)> = None;
    let mut lines: HashMap<u64, Option<(Line, Option<String>)>> = HashMap::new();
    walk_on(tools, log, cursor.pid(), call.place, &Arc::new(Wanted::default()), &mut |visit| {
        let Visit::Ran { place, ran, instructions } = visit else { return ControlFlow::Continue(()) };
        let is_there = place.tid == error.place.tid
            && (place.interval, place.position.0 + instructions.len() as u64)
                > (error.place.interval, error.place.position.0);
        if ran.stores_any(is_of_block) {
            for number in instructions.clone() {
                let ip = ran.block.instructions[number].instruction.ip();
                for access in
                    ran.accesses(number).filter(|access| access.writes && is_of_block(access.addr, access.len))
                {
                    let away = access.addr.abs_diff(wanted);
                    let line = lines.entry(ip).or_insert_with(|| {
                        let spot = Spot::of(symbols, ip);
                        Some((Line::of(&spot)?, spot.function))
                    });
                    let mut at = place;
                    at.position.0 += (number - instructions.start) as u64;
                    if let Some((line, function)) = line
                        && found.as_ref().is_none_or(|(nearest, ..)| away <= *nearest)
                    {
                        found = Some((away, line.clone(), function.clone(), at));
                    }
                }
            }
        }
        if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some((away, line, function, place)) = found {
        let text = format!("sets what lies {away} bytes from the undefined bytes, which nothing has set");
        table.illegal(line, function, place, Reason::Beside { text });
    }
    Ok(())
}
