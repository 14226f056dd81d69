//! Which line left out to set what is undefined in a block: those that set what lies next to it, and those of their function that store as far behind an
//! address, which would have set it if that is the block's: that is inferred.

use super::near::Line;
use super::rank::{Reason, Table};
use crate::memcheck::{BlockReport, CallReport, ErrorReport};
use crate::runs::scene::Spot;
use bugnet_events::onward::walk_on;
use bugnet_events::stretch::Ran;
use bugnet_events::walk::Visit;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place};
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use hashbrown::HashMap;
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};
use std::cmp::Reverse;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Lines that set what lies next to what is undefined.
const LINES: usize = 4;
/// The longest function that is looked through for stores, in bytes.
const LONGEST: u64 = 1 << 14;

/// A line that has set a part of the block.
struct Set {
    /// Bytes between that and what is undefined.
    away: u64,
    line: Line,
    function: Option<String>,
    /// Where it did so last, and the instruction.
    place: Place,
    ip: u64,
}

/// Notes lines that may have left out what is undefined in a block when it is used.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn left_out(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (error, block, call): (&ErrorReport, &BlockReport, &CallReport),
    table: &mut Table,
) -> Result<()> {
    let Some(size) = block.size.filter(|size| block.side == "inside" && block.distance < *size) else { return Ok(()) };
    let mut setting = Setting {
        block: block.start.0..block.start.0 + size,
        wanted: block.start.0 + block.distance,
        lines: HashMap::new(),
        found: Vec::new(),
    };
    walk_on(tools, log, cursor.pid(), call.place, &Arc::new(Wanted::default()), &mut |visit| {
        let Visit::Ran { place, ran, instructions } = visit else { return ControlFlow::Continue(()) };
        setting.ran(symbols, place, ran, &instructions);
        let behind = (place.interval, place.position.0 + instructions.len() as u64);
        if place.tid == error.place.tid && behind > (error.place.interval, error.place.position.0) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    // Who asked for a block is to fill it, or who called that. Of those that are as near, the last one.
    let makers: Vec<String> =
        call.callers.iter().filter_map(|caller| Spot::of(symbols, caller.address.0.wrapping_sub(1)).function).collect();
    let is_makers = |function: &Option<String>| function.as_ref().is_some_and(|function| makers.contains(function));
    setting
        .found
        .sort_by_key(|set| (!is_makers(&set.function), set.away, Reverse((set.place.interval, set.place.position))));
    if let Some(nearest) = setting.found.first() {
        for (line, function) in would_set(cursor, symbols, nearest.ip, block.distance)? {
            let text = format!(
                "stores {} bytes behind an address, where the undefined bytes lie in the block, and was not executed for the block",
                block.distance
            );
            table.illegal(line, function, nearest.place, Reason::Skipped { text });
        }
    }
    for (number, set) in setting.found.into_iter().take(LINES).enumerate() {
        let by_maker = is_makers(&set.function);
        let who = if by_maker { "in a function that asked for the block, " } else { "" };
        let text = format!("{who}sets what lies {} bytes from the undefined bytes, which nothing has set", set.away);
        table.illegal(set.line, set.function, set.place, Reason::Beside { text, number, by_maker });
    }
    Ok(())
}

/// What sets a block.
struct Setting {
    block: Range<u64>,
    /// The first undefined byte.
    wanted: u64,
    lines: HashMap<u64, Option<(Line, Option<String>)>>,
    found: Vec<Set>,
}

impl Setting {
    fn ran(&mut self, symbols: &mut Symbolizer, place: Place, ran: &Ran<'_>, instructions: &Range<usize>) {
        let Range { start, end } = self.block;
        let is_of_block = |addr: u64, len: u64| addr < end && addr.saturating_add(len) > start;
        if !ran.stores_any(is_of_block) {
            return;
        }
        for number in instructions.clone() {
            let ip = ran.block.instructions[number].instruction.ip();
            for access in ran.accesses(number).filter(|access| access.writes && is_of_block(access.addr, access.len)) {
                let line = self.lines.entry(ip).or_insert_with(|| {
                    let spot = Spot::of(symbols, ip);
                    Some((Line::of(&spot)?, spot.function))
                });
                let Some((line, function)) = line else { continue };
                let mut here = place;
                here.position.0 += (number - instructions.start) as u64;
                let away = access.addr.abs_diff(self.wanted);
                let set = Set { away, line: line.clone(), function: function.clone(), place: here, ip };
                match self.found.iter_mut().find(|known| known.line == *line) {
                    Some(known) if known.away < away => {}
                    Some(known) => *known = set,
                    None => self.found.push(set),
                }
            }
        }
    }
}

/// Lines of the function of an instruction with a store so many bytes behind an address in a register that is not the stack's.
fn would_set(
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    ip: u64,
    distance: u64,
) -> Result<Vec<(Line, Option<String>)>> {
    let own = |symbols: &mut Symbolizer, at: u64| {
        let symbol = symbols.lookup(Addr(at)).symbol?;
        Some((symbol.name, at.wrapping_sub(symbol.offset)))
    };
    let Some(function) = own(symbols, ip) else { return Ok(Vec::new()) };
    let code = cursor.read_memory(Addr(function.1), LONGEST)?;
    let (mut found, mut factory) = (Vec::new(), InstructionInfoFactory::new());
    for instruction in Decoder::with_ip(64, &code, function.1, DecoderOptions::NONE) {
        if instruction.is_invalid() || own(symbols, instruction.ip()).as_ref() != Some(&function) {
            break;
        }
        if stores_at(&instruction, distance, &mut factory) {
            let spot = Spot::of(symbols, instruction.ip());
            found.extend(Line::of(&spot).map(|line| (line, spot.function)));
        }
    }
    Ok(found)
}

fn stores_at(instruction: &Instruction, distance: u64, factory: &mut InstructionInfoFactory) -> bool {
    let base = instruction.memory_base();
    if base == Register::None
        || [Register::RSP, Register::RBP].contains(&base)
        || instruction.is_ip_rel_memory_operand()
    {
        return false;
    }
    let writes = |access| matches!(access, OpAccess::Write | OpAccess::ReadWrite);
    let starts = instruction.memory_displacement64();
    let reaches = starts <= distance && distance < starts.saturating_add(instruction.memory_size().size() as u64);
    reaches && factory.info(instruction).used_memory().iter().any(|used| used.base() == base && writes(used.access()))
}
