//! `bugnet last-write`: what wrote some bytes last.

use crate::args::LastWriteArgs;
use crate::at::{open, position};
use crate::failure::Failure;
use crate::find_log::{find_log, tools};
use crate::terminal::output;
use bugnet_format::types::Addr;
use bugnet_replay::crash::{Moment, moment};
use bugnet_replay::cursor::{LastWrite, Place};
use bugnet_replay::log::Log;
use serde::Serialize;
use std::io::Write;

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    write: &'a LastWrite,
    moment: Option<&'a Moment>,
}

/// Bytes in hexadecimal; `??` for each that is not known.
fn hex(bytes: &[Option<u8>]) -> String {
    let byte = |byte: &Option<u8>| byte.map_or_else(|| "??".to_owned(), |byte| format!("{byte:02x}"));
    bytes.iter().map(byte).collect::<Vec<_>>().join(" ")
}

/// Looks for it and shows it.
pub fn last_write(args: &LastWriteArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log(&args.log)?)?;
    let tools = tools(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    cursor.seek(position(args.before))?;
    let write = cursor.last_write(Addr(args.range.0), args.range.1)?;
    let moment = match write {
        LastWrite::Unknown => None,
        _ => Some(moment(&log, &mut cursor)?),
    };
    let mut out = output(args.json);
    if args.json {
        let report = Report { write: &write, moment: moment.as_ref() };
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    let mut change = |place: &Place, before: &[Option<u8>], after: &[Option<u8>]| {
        writeln!(out, "{place}\n  before  {}\n  after   {}\n", hex(before), hex(after))
    };
    match &write {
        LastWrite::Instruction { place, before, after, .. } => change(place, before, after)?,
        LastWrite::Outside { place, before, after } => {
            change(place, before, after)?;
            writeln!(
                out,
                "Not an instruction of the process: a system call or another process wrote it before the thread looked here.\n"
            )?;
        }
        LastWrite::Unknown => writeln!(
            out,
            "Nothing in the recording wrote there: it was there before, or came where no thread looked at it."
        )?,
    }
    if let Some(moment) = moment {
        write!(out, "{moment}")?;
    }
    Ok(out.flush()?)
}
