//! `bugnet dump`: every record of a log, a line each.

use crate::args::DumpArgs;
use crate::failure::{Failure, complain};
use crate::find_log::find_log_of;
use crate::order;
use crate::processes::selected;
use crate::record_json;
use crate::terminal::output;
use bugnet_format::frame::Interval;
use bugnet_replay::describe;
use bugnet_replay::log::{IntervalId, Log, Selection};
use std::io::Write;

/// Prints the records of the selected intervals.
pub fn dump(args: &DumpArgs) -> Result<(), Failure> {
    if args.order {
        return order::dump(args);
    }
    let log = Log::open_source(find_log_of(&args.log, &args.process)?)?;
    let intervals = args.interval.map(|only| only..only.saturating_add(1));
    let selection = Selection { processes: selected(&log, &args.process)?, tid: args.thread, intervals };
    let mut out = output(args.json);
    for id in selection.intervals_of(&log)? {
        let interval = log.interval(id)?;
        if args.json { print_json(&mut out, id, &interval) } else { print_text(&mut out, id, &interval) }?;
        if let Some((offset, why)) = &interval.broken {
            out.flush()?;
            complain(&format_args!("{id}: the log is damaged or was cut off at byte {offset}: {why}"));
        }
    }
    Ok(out.flush()?)
}

fn print_text(out: &mut impl Write, id: IntervalId, interval: &Interval) -> std::io::Result<()> {
    let header = &interval.header;
    let (before, code) = (header.instructions_before, header.code_seq);
    writeln!(out, "{id}: {before} instructions before, code up to page {code}")?;
    for placed in interval.records().flatten() {
        writeln!(out, "{:>14}  {}", placed.position.0, describe::record(&placed.record))?;
    }
    Ok(())
}

fn print_json(out: &mut impl Write, id: IntervalId, interval: &Interval) -> std::io::Result<()> {
    for placed in interval.records().flatten() {
        serde_json::to_writer(&mut *out, &record_json::line(id, &placed))?;
        writeln!(out)?;
    }
    Ok(())
}
