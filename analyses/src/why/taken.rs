//! Which call took memory away that the program then accessed: it was unmapped, moved, or made inaccessible, or the file was made shorter that is mapped
//! there.

use super::near::Line;
use super::rank::{Given, Reason, Table};
use super::report::{Illegal, Report};
use crate::names::brief;
use crate::runs::scene::Spot;
use crate::slice::accessed;
use bugnet_format::record::Record;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::crash::{self, Limits, is_system, moment};
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::mappings::Mapping;
use bugnet_replay::symbols::Symbolizer;
use hashbrown::HashMap;

/// `MREMAP_DONTUNMAP`: what is moved stays where it was, too.
const DONT_UNMAP: u64 = 4;
/// A result is an error from minus this to -1.
const MAX_ERRNO: i64 = 4095;

/// What a call did to the memory at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    /// It was mapped.
    Given,
    /// It is there no more.
    Taken(&'static str),
    /// It cannot be accessed in some way any more: what is permitted then.
    Closed(u64),
    /// The file became so short that it is behind its end.
    Cut { call: &'static str, len: u64 },
}

/// The access that failed.
struct Access {
    signal: i32,
    addr: u64,
    /// Where the thread was.
    place: Place,
}

/// Finds it, if the process ended because of an access to memory that is not there.
///
/// # Errors
/// The log cannot be read or replayed.
pub fn find(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    let Some(access) = failed(log, cursor, report)? else { return Ok(()) };
    if report.illegal.iter().any(|known| known.place == access.place) {
        return Ok(());
    }
    cursor.seek(Seek::Place(access.place))?;
    let mapped = cursor.mappings()?.at(access.addr).cloned();
    let Some((did, place)) = last(log, cursor, &access, mapped.as_ref())? else { return Ok(()) };
    let (what, call) = match did {
        Did::Given => return Ok(()),
        Did::Taken(call) => (format!("was taken away by {call}"), call),
        Did::Closed(prot) if prot & libc::PROT_READ as u64 == 0 => {
            ("was made inaccessible by mprotect".to_owned(), "mprotect")
        }
        Did::Closed(_) => ("was made read-only by mprotect".to_owned(), "mprotect"),
        Did::Cut { call, len } => {
            let file = mapped.map_or_else(String::new, |mapped| mapped.name);
            (format!("is behind the end of {file}, which {call} made {len} bytes long"), call)
        }
    };
    cursor.seek(Seek::Place(place))?;
    let frames = moment(log, cursor)?.backtrace;
    let is_own = |path: &str| !is_system(path);
    let own = frames.iter().position(|frame| frame.place.module.as_ref().is_none_or(|module| is_own(&module.path)));
    let spot = own.map(|own| Spot::of(symbols, frames[own].pc.wrapping_sub(1)));
    // What the program called, where that is not the call itself: `dlclose`.
    let called = own.and_then(|own| frames[..own].last()?.place.symbol.as_ref()).map(|symbol| symbol.name.clone());
    let plain = |name: &str| brief(name.split('@').next().unwrap_or(name));
    let through = called.filter(|name| !name.contains(call)).map(|name| format!(", in {}", plain(&name)));
    let here = spot.as_ref().map_or_else(|| "a library".to_owned(), ToString::to_string);
    let text = format!("the memory at {:#x} {what}{}, at {place} in {here}", access.addr, through.unwrap_or_default());
    let number = report.illegal.len();
    cursor.seek(Seek::Place(access.place))?;
    let at = match &report.symptom {
        super::Symptom::Crash { at: Some(at), .. } => at.clone(),
        _ => report.fault.as_ref().and_then(|fault| fault.at.clone()).unwrap_or_else(|| "a library".to_owned()),
    };
    report.illegal.push(Illegal::new(text.clone(), access.place, at));
    if let Some((line, function)) = spot.and_then(|spot| Some((Line::of(&spot)?, spot.function))) {
        let text = format!("it took the memory away that was accessed afterwards: {text}");
        table.illegal(line, function, place, Reason::Freed { text, number, how: Given::Apart });
    }
    Ok(())
}

/// The access for which the process ended, or for which a handler began that ended it.
fn failed(log: &Log, cursor: &mut Cursor<'_>, report: &Report) -> Result<Option<Access>> {
    let faults = [libc::SIGSEGV, libc::SIGBUS];
    cursor.seek(Seek::End)?;
    let end = cursor.place();
    let pid = cursor.pid();
    if let Some(fault) = &report.fault {
        // What the handler did not look at, nobody knows.
        cursor.seek(Seek::Place(fault.place))?;
        let addr = accessed(cursor, fault.number)?.filter(|addr| *addr > 0);
        return Ok(addr.map(|addr| Access { signal: fault.number, addr, place: fault.place }));
    }
    let crashed = crash::crashes(log)?.into_iter().find(|thread| thread.pid == pid);
    let thread = crashed.unwrap_or(ThreadId { pid, tid: end.tid });
    let Some(found) = crash::report(None, log, thread, Limits::default())? else { return Ok(None) };
    let place = Place { tid: thread.tid, interval: found.interval, position: found.position };
    let addr = found.signal.address.filter(|_| faults.contains(&found.signal.number));
    Ok(addr.map(|addr| Access { signal: found.signal.number, addr, place }))
}

/// The last call before the access that did something to the memory there.
fn last(log: &Log, cursor: &mut Cursor<'_>, access: &Access, mapped: Option<&Mapping>) -> Result<Option<(Did, Place)>> {
    let (pid, until) = (cursor.pid(), cursor.time());
    let mut all: Vec<(Did, Place)> = Vec::new();
    for thread in log.threads().filter(|thread| thread.pid == pid) {
        let mut calls = Calls { access, mapped, files: HashMap::new() };
        let mut last = None;
        for &interval in log.intervals(thread)? {
            let read = log.interval(IntervalId { thread, interval })?;
            let mut data: Vec<(u8, Vec<u8>)> = Vec::new();
            for placed in read.records().flatten() {
                match &placed.record {
                    Record::SyscallData { arg, bytes } => data.push((*arg, bytes.to_vec())),
                    Record::Signal { .. } => data.clear(),
                    Record::Syscall { number, args, result, .. } => {
                        let place = Place { tid: thread.tid, interval, position: placed.position };
                        let is_error = (-MAX_ERRNO..0).contains(result);
                        let did = if is_error { None } else { calls.made(*number, args, *result, &data) };
                        last = did.map(|did| (did, place)).or(last);
                        data.clear();
                    }
                    _ => {}
                }
            }
        }
        all.extend(last);
    }
    let mut found: Option<(u64, Did, Place)> = None;
    for (did, place) in all {
        cursor.seek(Seek::Place(place))?;
        let time = cursor.time();
        if time < until && found.as_ref().is_none_or(|(known, ..)| *known < time) {
            found = Some((time, did, place));
        }
    }
    Ok(found.map(|(_, did, place)| (did, place)))
}

/// The calls of a thread.
struct Calls<'a> {
    access: &'a Access,
    mapped: Option<&'a Mapping>,
    /// The files that it opened, by descriptor.
    files: HashMap<u64, String>,
}

impl Calls<'_> {
    /// What a call did to the memory.
    fn made(&mut self, number: u64, args: &[u64; 6], result: i64, data: &[(u8, Vec<u8>)]) -> Option<Did> {
        let page = |len: u64| len.next_multiple_of(Addr::PAGE);
        let addr = self.access.addr;
        let holds = |start: u64, len: u64| start <= addr && addr < start.saturating_add(page(len));
        let done = result.cast_unsigned();
        let path = |of: u8| {
            let (_, bytes) = data.iter().find(|(arg, _)| *arg == of)?;
            let text = bytes.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        match number.cast_signed() {
            libc::SYS_mmap if holds(done, args[1]) => Some(Did::Given),
            libc::SYS_munmap if holds(args[0], args[1]) => Some(Did::Taken("munmap")),
            libc::SYS_mremap if holds(done, args[2]) => Some(Did::Given),
            libc::SYS_mremap if holds(args[0], args[1]) && args[3] & DONT_UNMAP == 0 => Some(Did::Taken("mremap")),
            libc::SYS_shmdt if self.mapped.is_none() && args[0] == addr & !(Addr::PAGE - 1) => {
                Some(Did::Taken("shmdt"))
            }
            libc::SYS_mprotect | libc::SYS_pkey_mprotect if holds(args[0], args[1]) => {
                let all = (libc::PROT_READ | libc::PROT_WRITE) as u64;
                Some(if args[2] & all == all { Did::Given } else { Did::Closed(args[2]) })
            }
            libc::SYS_open => self.opened(done, path(0), args[1]),
            libc::SYS_openat => self.opened(done, path(1), args[2]),
            libc::SYS_creat => self.opened(done, path(0), libc::O_TRUNC as u64),
            libc::SYS_truncate => self.cut("truncate", path(0).as_ref(), args[1]),
            libc::SYS_ftruncate => self.cut("ftruncate", self.files.get(&args[0]), args[1]),
            _ => None,
        }
    }

    fn opened(&mut self, descriptor: u64, path: Option<String>, flags: u64) -> Option<Did> {
        let path = path?;
        let did = if flags & libc::O_TRUNC as u64 == 0 { None } else { self.cut("open", Some(&path), 0) };
        self.files.insert(descriptor, path);
        did
    }

    /// A file has a length from now on: whether the memory is behind its end.
    fn cut(&self, call: &'static str, path: Option<&String>, len: u64) -> Option<Did> {
        let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let mapped = self.mapped.filter(|_| self.access.signal == libc::SIGBUS)?;
        let at = mapped.offset + (self.access.addr - mapped.start);
        let is_same = name(path?) == name(&mapped.name);
        let is_behind = at >= len.next_multiple_of(Addr::PAGE);
        is_same.then_some(if is_behind { Did::Cut { call, len } } else { Did::Given })
    }
}
