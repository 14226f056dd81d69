//! `bugnet races`: accesses that nothing orders, and those that another thread tears apart.

use crate::args::RacesArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log_of_one, tools_that_show};
use crate::next::quoted;
use crate::terminal::output;
use bugnet_analyses::races::{Options, Report, Shown, races as find};
use bugnet_replay::ReplayError;
use bugnet_replay::log::Log;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;

/// Finds them, and shows them.
pub fn races(args: &RacesArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let tools = tools_that_show(&args.time)?;
    let mut cursor = open(&tools, &log, &args.process)?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let end = cursor.end();
    tools.work.begin("looking for memory that threads share", end, None);
    let options = Options { top: args.top, jobs, follow: args.follow, segments: args.segments };
    let found = find((&tools, &log), &mut cursor, options, |done, of| {
        if done == of {
            tools.work.begin("looking at accesses", end, None);
        }
    })?;
    tools.work.end();
    if let (0, Some(over)) = (found.looked.instructions, found.over) {
        return Err(ReplayError::Over(over).into());
    }
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &found).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}{}", Shown(&found), next(&found, log.path()))?;
    }
    Ok(out.flush()?)
}

/// A command that looks around where the first one happened, ready to paste.
fn next(found: &Report, log: &Path) -> String {
    let race = found.races.first().map(|race| race.second.place);
    let Some(place) = race.or(found.violations.first().map(|torn| torn.accesses[2].place)) else {
        return String::new();
    };
    let log = quoted(&log.display().to_string());
    format!("\nNext:\n  bugnet debug --at {place} -p {} {log}    gdb, where the first one happened\n", found.pid)
}
