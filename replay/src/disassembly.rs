//! Machine code as text.

use crate::Result;
use crate::cursor::Cursor;
use crate::memory::Memory;
use bugnet_format::types::Addr;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use serde::Serialize;

/// Longest instruction of the processor, in bytes.
pub(crate) const LONGEST: u64 = 15;

/// An instruction as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its address.
    pub address: Addr,
    /// Its bytes, hexadecimal.
    pub bytes: String,
    /// In Intel's syntax; `(bad)` where no instruction begins with these bytes.
    pub text: String,
}

/// The instruction that the thread executes next where a cursor is; `None` where there is no valid one.
///
/// # Errors
/// The replay process is lost.
pub fn next(cursor: &mut Cursor<'_>) -> Result<Option<Instruction>> {
    let ip = cursor.regs().rip;
    let code = cursor.read_memory(Addr(ip), LONGEST)?;
    let instruction = Decoder::with_ip(64, &code, ip, DecoderOptions::NONE).decode();
    Ok(Some(instruction).filter(|instruction| !instruction.is_invalid()))
}

/// A decoded instruction in Intel's syntax.
#[must_use]
pub fn text(instruction: &Instruction) -> String {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_rip_relative_addresses(true);
    let mut text = String::new();
    formatter.format(instruction, &mut text);
    text
}

/// Bytes as hexadecimal pairs with spaces between.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// Disassembles `bytes`, which lie at `start`. An instruction that is cut off at the end is left out.
pub(crate) fn disassemble(start: Addr, bytes: &[u8]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let address = Addr(start.0.wrapping_add(at as u64));
        let rest = &bytes[at..];
        let decoded = Decoder::with_ip(64, rest, address.0, DecoderOptions::NONE).decode();
        if decoded.is_invalid() && (rest.len() as u64) < LONGEST {
            break;
        }
        let (len, text) = if decoded.is_invalid() { (1, "(bad)".into()) } else { (decoded.len(), text(&decoded)) };
        lines.push(Line { address, bytes: hex(&rest[..len]), text });
        at += len;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let lines = disassemble(Addr(0x1000), &[0xb8, 1, 0, 0, 0, 0xc3, 0x48]);
        let seen: Vec<_> = lines.iter().map(|l| (l.address.0, l.bytes.as_str(), l.text.as_str())).collect();
        assert_eq!(seen, [(0x1000, "b8 01 00 00 00", "mov eax, 1"), (0x1005, "c3", "ret")]);
        let bad = disassemble(Addr(0), &[0x06; 16]);
        assert_eq!((bad.len(), bad[0].text.as_str()), (2, "(bad)"));
    }
}
