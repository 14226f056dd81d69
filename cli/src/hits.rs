//! `bugnet hits`: each time that code ran.

use crate::args::HitsArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log_of_one, tools};
use crate::terminal::{one_line, output};
use bugnet_replay::hits::{Hit, Which, hits as find};
use bugnet_replay::location::Code;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use std::io::Write;
use std::ops::ControlFlow;

/// Lists them.
pub fn hits(args: &HitsArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let tools = tools(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    let mut symbols = Symbolizer::new(&log, cursor.pid())?;
    let code = Code::find(&args.name, &mut symbols)?;
    let mut out = output(args.json);
    if let Some(note) = code.note.as_ref().filter(|_| !args.json) {
        writeln!(out, "{note}")?;
    }
    let mut count = 0;
    let mut written = Ok(());
    let mut print = |hit: Hit| -> std::io::Result<()> {
        if args.json {
            serde_json::to_writer(&mut out, &hit)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", one_line(&hit.to_string()))?;
        }
        // Each as it is found: there may be many, far from each other.
        out.flush()
    };
    let which = Which { thread: args.thread, last: args.last };
    find(&log, &mut cursor, &mut symbols, &code, which, &mut |hit| {
        count += 1;
        written = print(hit);
        if written.is_err() || args.limit == Some(count) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    written?;
    if count == 0 && !args.json {
        let by = args.thread.map_or(String::new(), |tid| format!(" by thread {tid}"));
        writeln!(out, "{} never ran{by} while it was recorded", code.name)?;
    }
    Ok(out.flush()?)
}
