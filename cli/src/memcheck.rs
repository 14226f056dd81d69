//! `bugnet memcheck`: memory errors.

use crate::args::MemcheckArgs;
use crate::at::open;
use crate::failure::{EXIT_ERRORS, Failure};
use crate::find_log::{find_log_of_one, tools_that_show};
use crate::index::make_if_needed;
use crate::next::quoted;
use crate::terminal::output;
use bugnet_analyses::memcheck::functions::{Function, parse};
use bugnet_analyses::memcheck::{Options, Shown, memcheck as find};
use bugnet_replay::ReplayError;
use bugnet_replay::log::Log;
use std::io::Write;
use std::process::ExitCode;

/// Errors for which it is found out which variables point at their blocks.
const WITH_VARIABLES: usize = 10;

/// Finds them, and shows them.
pub fn memcheck(args: &MemcheckArgs) -> Result<ExitCode, Failure> {
    let named = named(args)?;
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let tools = tools_that_show(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    if !args.no_leaks || args.undefined {
        make_if_needed(&tools, &log, &mut cursor)?;
    }
    let (leaks, undefined, variables) = (!args.no_leaks, args.undefined, args.top.min(WITH_VARIABLES));
    let options = Options { named, leaks, undefined, variables, most: u64::MAX, follow: args.follow };
    tools.work.begin("looking at accesses", cursor.end(), None);
    let report = find(&tools, &log, &mut cursor, &options)?;
    tools.work.end();
    if let (0, Some(over)) = (report.counts.instructions, report.over) {
        return Err(ReplayError::Over(over).into());
    }
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", Shown { report: &report, top: args.top, reachable: args.reachable })?;
        if let Some(first) = report.errors.first() {
            let (pid, log) = (cursor.pid(), quoted(&log.path().display().to_string()));
            writeln!(
                out,
                "\nNext:\n  bugnet debug --at {} -p {pid} {log}    gdb, where the first error is",
                first.place
            )?;
        }
    }
    out.flush()?;
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_ERRORS) })
}

/// What the user's file names.
fn named(args: &MemcheckArgs) -> Result<Vec<Function>, Failure> {
    let Some(path) = &args.allocator else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(path).map_err(Failure::system(format!("read {}", path.display())))?;
    parse(&text).map_err(|what| Failure::Usage(format!("{}: {what}", path.display())))
}
