//! `bugnet last-write`: what wrote a variable or some bytes last.

use crate::args::LastWriteArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log, tools};
use crate::terminal::output;
use bugnet_replay::crash::{Moment, moment};
use bugnet_replay::cursor::{LastWrite, Place, Seek};
use bugnet_replay::location::{Choice, Location, go};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::written::{Asked, Written, last_write as find};
use serde::Serialize;
use std::io::{Result as IoResult, Write};

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    asked: &'a Asked,
    #[serde(flatten)]
    write: &'a LastWrite,
    values: Option<&'a bugnet_replay::written::Values>,
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
    let mut symbols = Symbolizer::new(&log, cursor.pid())?;
    let before = args.before.clone().unwrap_or(Location::Position(Seek::End));
    let choice = Choice { thread: args.thread, is_first: false };
    let arrival = go(&mut cursor, &mut symbols, &before, choice)?;
    let written = find(&log, &mut cursor, &mut symbols, &args.subject)?;
    let moment = match written.write {
        LastWrite::Unknown => None,
        _ => Some(moment(&log, &mut cursor)?),
    };
    let mut out = output(args.json);
    if args.json {
        let Written { subject: asked, write, values } = &written;
        let report = Report { asked, write, values: values.as_ref(), moment: moment.as_ref() };
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    arrival.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    show(&written, &mut out)?;
    if let Some(moment) = moment {
        write!(out, "{moment}")?;
    }
    Ok(out.flush()?)
}

/// What wrote it, without what there is to see there.
fn show(written: &Written, out: &mut impl Write) -> IoResult<()> {
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
            asked(&written.subject, out)?;
            writeln!(
                out,
                "Nothing in the recording wrote there: it was there before, or came where no thread looked at it."
            )
        }
    }
}

/// The variable that was found, if one was asked about.
fn asked(asked: &Asked, out: &mut impl Write) -> IoResult<()> {
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
    out: &mut impl Write,
) -> IoResult<()> {
    writeln!(out, "{place}")?;
    asked(&written.subject, out)?;
    match &written.values {
        Some(values) => writeln!(out, "  before  {}\n  after   {}\n", values.before, values.after),
        None => writeln!(out, "  before  {}\n  after   {}\n", hex(before), hex(after)),
    }
}
