//! `bugnet code`: the versions of the code at an address.

use crate::args::CodeArgs;
use crate::at::open;
use crate::failure::Failure;
use crate::find_log::{find_log, tools};
use crate::processes::meant;
use crate::processes::selected;
use crate::terminal::output;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::ReplayError;
use bugnet_replay::code_history::{Query, code_history};
use bugnet_replay::cursor::Seek;
use bugnet_replay::location::{Code, Location, Name};
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::written::{Pointer, pointer};
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
    let history = match code_history(&tools, &log, query, jobs) {
        // It may be no code at all.
        Err(ReplayError::OutOfRange(_)) if !is_code(&log, args, at)? => return Err(no_code(&tools, &log, args, at)?),
        Ok(history) if history.versions.is_empty() => return Err(no_code(&tools, &log, args, at)?),
        history => history?,
    };
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
            let code = match Code::find(name, &mut Symbolizer::new(log, pid)?) {
                Ok(code) => code,
                Err(unknown) => return pointed_at(tools, log, args, name, unknown),
            };
            let Some(first) = code.spots.first() else {
                return Err(Failure::Usage(format!("there is no code of {name}")));
            };
            let several = (code.spots.len() > 1)
                .then(|| format!("{name} is at {} places: this is the first, {}", code.spots.len(), first.what));
            Ok((first.address, Some(pid), code.note.or(several)))
        }
    }
}

/// The function at which a variable points in the end; else the name is as unknown as it was.
fn pointed_at(
    tools: &Tools,
    log: &Log,
    args: &CodeArgs,
    name: &Name,
    unknown: ReplayError,
) -> Result<(Addr, Option<ProcessId>, Option<String>), Failure> {
    let Name::Function { file: None, name, offset: None } = name else { return Err(unknown.into()) };
    let mut cursor = open(tools, log, &args.process)?;
    cursor.seek(Seek::End)?;
    let mut symbols = Symbolizer::new(log, cursor.pid())?;
    // What a pointer to a function points at is the function, with a star or without.
    let known = pointer(log, &mut cursor, &mut symbols, name.strip_prefix('*').unwrap_or(name));
    let Ok(Pointer { at, to }) = known else { return Err(unknown.into()) };
    match to {
        Some(to) if is_code(log, args, to)? => {
            let what = symbols.lookup(to).brief().map_or_else(String::new, |what| format!(", {what}"));
            let note = format!("{name} is a pointer: in the end it points at {to}{what}");
            Ok((to, Some(cursor.pid()), Some(note)))
        }
        to => {
            let holds =
                to.map_or_else(String::new, |to| format!(" and holds {to} in the end, which is no code that was run"));
            Err(Failure::Usage(format!(
                "{name} is no code: it is data at {at}{holds} (bugnet last-write {name} says what wrote it)"
            )))
        }
    }
}

/// Whether code was run in the page of an address.
fn is_code(log: &Log, args: &CodeArgs, at: Addr) -> Result<bool, Failure> {
    let selected = selected(log, &args.process)?;
    for (pid, _) in log.processes()? {
        let is_meant = selected.as_ref().is_none_or(|selected| selected.contains(&pid));
        if is_meant && log.code(pid)?.pages.iter().any(|page| page.addr == at.page()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Says what an address is at which no code was run.
fn no_code(tools: &Tools, log: &Log, args: &CodeArgs, at: Addr) -> Result<Failure, Failure> {
    let mut cursor = open(tools, log, &args.process)?;
    cursor.seek(Seek::End)?;
    let mut symbols = Symbolizer::new(log, cursor.pid())?;
    let name = symbols.describe(at);
    let mappings = cursor.mappings()?;
    let mapping = mappings.at(at.0).map(|mapping| mapping.name.clone());
    let is_mapped = mapping.is_some();
    let what = match (name, mapping) {
        (Some(name), Some(_)) if is_code(log, args, at)? => format!("no instruction at {at} ({name}) was run"),
        (Some(name), _) => format!("{at} is no code but data: {name}"),
        (None, Some(mapped)) if mapped.is_empty() => {
            format!("no instruction at {at} was run: it is memory that the program mapped")
        }
        (None, Some(mapped)) => format!("no instruction at {at} was run: it is in {mapped}"),
        (None, None) => format!("no instruction at {at} was run, and nothing is mapped there in the end"),
    };
    let held = cursor.read_memory(at, 8)?.try_into().ok().map(|bytes| Addr(u64::from_le_bytes(bytes)));
    let then = match held {
        Some(to) if is_code(log, args, to)? => {
            let target = symbols.lookup(to).brief().map_or_else(String::new, |what| format!(", {what}"));
            format!("; in the end it points at {to}{target}: bugnet code --at {to} shows the versions of that")
        }
        _ if !is_mapped => String::new(),
        _ => format!("; bugnet last-write {at}:8 says what wrote it"),
    };
    Ok(Failure::Usage(what + &then))
}
