//! `bugnet ps`: the processes of a recording.

use crate::args::PsArgs;
use crate::expand::Asked;
use crate::failure::Failure;
use crate::find_log::{find_light, find_log};
use crate::processes::Table;
use crate::terminal::output;
use bugnet_replay::log::Log;
use bugnet_replay::tree::processes;
use std::io::Write;

/// Prints the list.
pub fn ps(args: &PsArgs) -> Result<(), Failure> {
    if let Some(light) = find_light(&args.log, Asked::All)? {
        return light.ps(args.json);
    }
    let log = Log::open_source(find_log(&args.log)?)?;
    let processes = processes(&log)?;
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &processes).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", Table::new(&processes))?;
    }
    Ok(out.flush()?)
}
