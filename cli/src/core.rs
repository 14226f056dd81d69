//! `bugnet core`: a core file of a moment.

use crate::args::CoreArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log_of_one, tools};
use crate::index;
use crate::new_file::{check_free, make};
use crate::terminal::output;
use bugnet_replay::core::{Core, Held};
use bugnet_replay::cursor::Seek;
use bugnet_replay::location::{Choice, Location, go};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use indicatif::{HumanBytes, HumanCount};
use std::io::Write;

/// Writes it and says what it holds.
pub fn core(args: &CoreArgs) -> Result<(), Failure> {
    let path = &args.output;
    check_free(path)?;
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let tools = tools(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    // It is to have all that can be known.
    index::make_if_needed(&tools, &log, &mut cursor)?;
    let mut symbols = Symbolizer::new(&log, cursor.pid())?;
    let at = args.at.clone().unwrap_or(Location::Position(Seek::End));
    let arrival = go(&mut cursor, &mut symbols, &at, Choice { thread: args.thread, is_first: false })?;
    let mut core = Core::of(&log, &mut cursor, args.thread)?;
    let held = make(path, |to| Ok(core.write(&mut cursor, to)?))?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &held).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        arrival.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
        let Held { place, threads, pages, known, unknown, constant, left_out, note } = held;
        let s = if threads == 1 { "" } else { "s" };
        writeln!(out, "{} is a core file of {place}: {threads} thread{s}, {pages} pages of memory", path.display())?;
        writeln!(
            out,
            "  {} known from the recording, {} from the program's files",
            HumanBytes(known),
            HumanBytes(constant)
        )?;
        if unknown > 0 {
            writeln!(out, "  {} bytes in these pages are not known, and read as zero", HumanCount(unknown))?;
        }
        if left_out > 0 {
            let pages = if left_out == 1 { "page that was" } else { "pages that were" };
            writeln!(out, "  {} {pages} mapped, and of which nothing is known, are left out", HumanCount(left_out))?;
        }
        if let Some(note) = note {
            writeln!(out, "  {note}")?;
        }
    }
    Ok(out.flush()?)
}
