//! `bugnet syscalls`: the system calls, as strace writes them.

use crate::args::SyscallsArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_light, find_log_of_one, one, tools};
use crate::processes::meant;
use crate::terminal::{one_line, output};
use bugnet_replay::log::Log;
use bugnet_replay::syscall::{Listed, Wanted, list, list_recorded};
use std::io::Write;
use std::ops::ControlFlow;

/// Lists them.
pub fn syscalls(args: &SyscallsArgs) -> Result<(), Failure> {
    let wanted = Wanted { thread: args.thread, numbers: Wanted::numbers(&args.only)? };
    let mut out = output(args.json);
    let mut print = |call: &Listed| -> std::io::Result<()> {
        if args.json {
            serde_json::to_writer(&mut out, call)?;
            writeln!(out)
        } else {
            writeln!(out, "{}", one_line(&call.to_string()))
        }
    };
    if let Some(light) = find_light(&args.log, one(&args.process))? {
        light.syscalls(args, &wanted, &mut print)?;
        return Ok(out.flush()?);
    }
    let log = Log::open_source(find_log_of_one(&args.log, &args.process)?)?;
    let mut written = Ok(());
    let mut each = |call: Listed| {
        written = print(&call);
        if written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if args.records {
        list_recorded(&log, meant(&log, &args.process)?, &wanted, &mut each)?;
    } else {
        let tools = tools(&args.time)?;
        list(&log, &mut open(&tools, &log, &args.process)?, &wanted, &mut each)?;
    }
    written?;
    Ok(out.flush()?)
}
