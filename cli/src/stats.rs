//! `bugnet stats`: how much was executed, loaded and stored, and where.

use crate::args::StatsArgs;
use crate::failure::Failure;
use crate::find_log::{find_log, tools};
use crate::processes::selected;
use crate::terminal::{output, progress};
use bugnet_analyses::stats::{Report, stats as count};
use bugnet_replay::log::{Log, Selection};
use std::io::Write;
use std::num::NonZeroUsize;

/// Counts, and prints what was counted.
pub fn stats(args: &StatsArgs) -> Result<(), Failure> {
    let log = Log::open_source(find_log(&args.log)?)?;
    let tools = tools(&args.time)?;
    let processes = selected(&log, &args.process)?;
    let selection = Selection { processes, tid: args.thread, intervals: args.intervals.clone() };
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let bar = progress("intervals");
    let stats = count(&tools, &log, &selection, jobs, |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let stats = stats?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &stats).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", Report { stats: &stats, each: args.each, top: args.top })?;
    }
    Ok(out.flush()?)
}
