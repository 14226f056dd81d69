//! What wrote something last, for people.

use super::{Asked, Written};
use crate::cursor::{LastWrite, Place};
use crate::syscall::Inferred;
use std::fmt::{Display, Formatter, Result};

/// Bytes in hexadecimal; `??` for each that is not known.
fn hex(bytes: &[Option<u8>]) -> String {
    let byte = |byte: &Option<u8>| byte.map_or_else(|| "??".to_owned(), |byte| format!("{byte:02x}"));
    bytes.iter().map(byte).collect::<Vec<_>>().join(" ")
}

impl Display for Written {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        show_write(self, out)?;
        let Some(Inferred { place, call }) = &self.inferred else { return Ok(()) };
        writeln!(out, "Inferred: {call}\n  at {place} is the last system call before that which writes there.\n")
    }
}

/// What wrote it, and the change.
fn show_write(written: &Written, out: &mut Formatter<'_>) -> Result {
    match &written.write {
        LastWrite::Instruction { place, before, after, .. } => change(written, place, before, after, out),
        LastWrite::Outside { place, before, after, .. } => {
            change(written, place, before, after, out)?;
            writeln!(
                out,
                "Not an instruction of the process: a system call or another process wrote it before the thread looked here.\n"
            )
        }
        LastWrite::Found { place, bytes } => {
            change(written, place, &vec![None; bytes.len()], bytes, out)?;
            writeln!(
                out,
                "No instruction wrote it while it was recorded: it was there before, or a system call or another process wrote it before \
                 the thread looked here, for the first time.\n"
            )
        }
        LastWrite::Unknown => {
            show_asked(&written.subject, out)?;
            writeln!(
                out,
                "Nothing in the recording wrote there: it was there before, or came where no thread looked at it."
            )
        }
        LastWrite::Interrupted => writeln!(out, "The search was interrupted."),
    }
}

/// The variable that was found, if one was asked about.
fn show_asked(asked: &Asked, out: &mut Formatter<'_>) -> Result {
    let Asked { expression: Some(expression), frame, address, size, type_name } = asked else { return Ok(()) };
    write!(out, "  {expression}")?;
    if let Some(name) = type_name {
        write!(out, ": {name}")?;
    }
    write!(out, ", {size} bytes at {address}")?;
    if let Some((number, function)) = frame {
        write!(out, ", of #{number} {function}")?;
    }
    writeln!(out)
}

fn change(
    written: &Written,
    place: &Place,
    before: &[Option<u8>],
    after: &[Option<u8>],
    out: &mut Formatter<'_>,
) -> Result {
    writeln!(out, "{place}")?;
    show_asked(&written.subject, out)?;
    match &written.values {
        Some(values) => writeln!(out, "  before  {}\n  after   {}\n", values.before, values.after),
        None => writeln!(out, "  before  {}\n  after   {}\n", hex(before), hex(after)),
    }
}
