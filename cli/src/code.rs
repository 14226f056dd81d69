//! `bugnet code`: the versions of the code at an address.

use crate::args::CodeArgs;
use crate::failure::Failure;
use crate::find_log::{find_log, tools};
use crate::processes::selected;
use crate::terminal::output;
use bugnet_format::types::Addr;
use bugnet_replay::code_history::{Query, code_history};
use bugnet_replay::log::Log;
use std::io::Write;
use std::num::NonZeroUsize;

/// Lists the versions.
pub fn code(args: &CodeArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log(&args.log)?)?;
    let tools = tools(&args.time)?;
    // Of several processes that fit, the last.
    let pid = selected(&log, &args.process)?.and_then(|selected| selected.last().copied());
    let query = Query { at: Addr(args.at), len: args.length, pid, tid: args.thread };
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let history = code_history(&tools, &log, query, jobs)?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &history).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{history}")?;
    }
    out.flush()?;
    Ok(())
}
