//! `bugnet deadlocks`: who waits for whom, and locks that are taken in different orders.

use crate::args::DeadlocksArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log_of_one, tools};
use crate::terminal::output;
use bugnet_analyses::deadlocks::{Shown, deadlocks as find};
use bugnet_replay::log::Log;
use std::io::Write;

/// Finds that out, and shows it.
pub fn deadlocks(args: &DeadlocksArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let tools = tools(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    let found = find((&tools, &log), &mut cursor)?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &found).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", Shown(&found))?;
    }
    Ok(out.flush()?)
}
