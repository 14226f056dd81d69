//! `bugnet code`: the versions of the code at an address.

use crate::args::CodeArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log, tools};
use crate::processes::meant;
use crate::processes::selected;
use crate::terminal::output;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::code_history::{Query, code_history};
use bugnet_replay::location::{Code, Location, Name};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use std::io::Write;
use std::num::NonZeroUsize;

/// Lists the versions.
pub fn code(args: &CodeArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log(&args.log)?)?;
    let tools = tools(&args.time)?;
    // Of several processes that fit, the last.
    let pid = selected(&log, &args.process)?.and_then(|selected| selected.last().copied());
    let (at, pid, note) = instruction(&tools, &log, args, pid)?;
    let query = Query { at, len: args.length, pid, tid: args.thread };
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let history = code_history(&tools, &log, query, jobs)?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &history).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        note.iter().try_for_each(|note| writeln!(out, "{note}"))?;
        write!(out, "{history}")?;
    }
    out.flush()?;
    Ok(())
}

/// The instruction that is asked about, its process, if names mean something in one alone, and what to say of it.
fn instruction(
    tools: &Tools,
    log: &Log,
    args: &CodeArgs,
    chosen: Option<ProcessId>,
) -> Result<(Addr, Option<ProcessId>, Option<String>), Failure> {
    match &args.at {
        Location::Code(Name::Address(address)) => Ok((*address, chosen, None)),
        Location::Position(position) => {
            let mut cursor = open(tools, log, &args.process)?;
            cursor.seek(*position)?;
            Ok((Addr(cursor.regs().rip), Some(cursor.pid()), None))
        }
        Location::Code(name) => {
            let pid = meant(log, &args.process)?;
            let code = Code::find(name, &mut Symbolizer::new(log, pid)?)?;
            let Some(first) = code.spots.first() else {
                return Err(Failure::Usage(format!("there is no code of {name}")));
            };
            let several = (code.spots.len() > 1)
                .then(|| format!("{name} is at {} places: this is the first, {}", code.spots.len(), first.what));
            Ok((first.address, Some(pid), code.note.or(several)))
        }
    }
}
