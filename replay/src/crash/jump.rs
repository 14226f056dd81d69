//! The last instructions before control went to where there is no code.

use super::instruction::code_bytes;
use crate::disassembly;
use crate::error::Result;
use crate::log::{IntervalId, Log};
use crate::session::Session;
use crate::symbols::Symbolizer;
use crate::tools::Tools;
use bugnet_format::types::{Addr, CodeSeq, Position};
use iced_x86::{Decoder, DecoderOptions};
use serde::Serialize;

/// How many instructions are shown.
const INSTRUCTIONS: u64 = 8;

/// An instruction that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Executed {
    /// Its position in the last interval.
    pub position: Position,
    /// Its address.
    pub address: u64,
    /// In Intel's syntax.
    pub text: String,
    /// The function that it is in, with the source line, if that is known.
    pub place: Option<String>,
}

/// The last instructions before position `end` of an interval, oldest first; by replay.
///
/// # Errors
/// The replay process cannot be started or is lost.
pub(super) fn last_instructions(
    tools: &Tools,
    log: &Log,
    id: IntervalId,
    end: Position,
    seq: CodeSeq,
    symbols: &mut Symbolizer,
) -> Result<Vec<Executed>> {
    let code = log.code(id.thread.pid)?;
    let mut session = Session::open(tools, log, id)?;
    let mut executed = Vec::new();
    for position in end.0.saturating_sub(INSTRUCTIONS)..end.0 {
        session.run_to(Position(position))?;
        if session.position().0 != position {
            break;
        }
        let address = session.regs().rip;
        let bytes = code_bytes(&code, seq, Addr(address));
        let decoded = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE).decode();
        let text = if decoded.is_invalid() { "?".into() } else { disassembly::text(&decoded) };
        let place = symbols.lookup(Addr(address)).brief();
        executed.push(Executed { position: Position(position), address, text, place });
    }
    Ok(executed)
}
