//! A core file of a moment: what gdb, elfutils and their like read.
//!
//! It holds the registers of all threads, what is mapped, and memory as far as it is known, in whichever way. A page of which nothing is known
//! is left out, and counted; in others, an unknown byte is zero, since the format has no word for it.

mod memory;
mod notes;

use crate::cursor::{Cursor, Place};
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, ThreadId};
use crate::mappings::Mappings;
use crate::symbols::Symbolizer;
use bugnet_format::process::ProcessInfo;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Position, ProcessId, Tid};
use memory::Pages;
use notes::Notes;
use serde::Serialize;
use std::io::Write;

/// Bytes of the file header, and of one program header.
const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
/// Most program headers that the file header can count.
const MAX_HEADERS: usize = 0xfffe;
/// Segments are aligned to this in the file.
const PAGE: u64 = bugnet_format::types::Addr::PAGE;

/// What a core file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Where the thread is that debuggers show first.
    pub place: Place,
    /// Threads.
    pub threads: usize,
    /// Pages of memory.
    pub pages: u64,
    /// Bytes that the recording tells.
    pub known: u64,
    /// Bytes of memory that nobody can write to, which are as they are in their files.
    pub constant: u64,
    /// Bytes in these pages that are not known, and are zero in the file.
    pub unknown: u64,
    /// Pages that were mapped, and are left out: nothing is known of them.
    pub left_out: u64,
    /// What may have been mapped, too, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// A thread at the moment.
struct Thread {
    place: Place,
    regs: RegisterFile,
}

/// The signal that killed a process at the moment.
struct Killed {
    tid: Tid,
    signal: i32,
    code: i32,
    addr: u64,
}

/// A core file that is to be written.
pub struct Core {
    pid: ProcessId,
    info: Option<ProcessInfo>,
    threads: Vec<Thread>,
    killed: Option<Killed>,
    mappings: Mappings,
    /// Of the files that are mapped.
    symbols: Symbolizer,
}

impl Core {
    /// Of where a cursor is. Debuggers show `first` first; without it, the thread that executes the next instruction.
    ///
    /// # Errors
    /// The thread is not there at this moment, the log cannot be read, or the replay process is lost.
    pub fn of(log: &Log, cursor: &mut Cursor<'_>, first: Option<Tid>) -> Result<Self> {
        let pid = cursor.pid();
        let mut threads = threads(log, cursor)?;
        let killed = killed(log, cursor)?;
        let first = first.or(killed.as_ref().map(|killed| killed.tid)).unwrap_or(cursor.place().tid);
        let Some(at) = threads.iter().position(|thread| thread.place.tid == first) else {
            return Err(ReplayError::OutOfRange(format!("thread {first} does not exist at @{}", cursor.time())));
        };
        let shown = threads.remove(at);
        threads.insert(0, shown);
        let info = log.processes()?.into_iter().find(|(id, _)| *id == pid).and_then(|(_, info)| info);
        let mappings = cursor.mappings()?;
        let symbols = Symbolizer::of(log, cursor.modules().unwrap_or_default());
        Ok(Self { pid, info, threads, killed, mappings, symbols })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The writer's, memory is in too many pieces, or the replay process is lost.
    pub fn write(&mut self, cursor: &mut Cursor<'_>, to: &mut dyn Write) -> Result<Held> {
        let pages = Pages::of(cursor, &mut self.symbols, &self.mappings)?;
        let notes = self.notes().bytes;
        let count = pages.runs.len() + 1;
        if count > MAX_HEADERS {
            return Err(ReplayError::OutOfRange(format!(
                "known memory is in {count} pieces, which are too many for a core file"
            )));
        }
        let notes_at = HEADER + PROGRAM_HEADER * count as u64;
        let mut offset = (notes_at + notes.len() as u64).next_multiple_of(PAGE);
        let mut head = file_header(count as u16);
        head.extend(program_header(4, 0, notes_at, 0, notes.len() as u64, 4));
        for run in &pages.runs {
            let size = run.pages * PAGE;
            head.extend(program_header(1, run.flags, offset, run.start, size, PAGE));
            offset += size;
        }
        head.extend(notes);
        head.resize(head.len().next_multiple_of(PAGE as usize), 0);
        let failed = |source| ReplayError::System { what: "write the core file".into(), source };
        to.write_all(&head).map_err(failed)?;
        let mut held = Held {
            place: self.threads[0].place,
            threads: self.threads.len(),
            pages: 0,
            known: 0,
            constant: 0,
            unknown: 0,
            left_out: pages.left_out,
            note: self.mappings.note(),
        };
        for run in &pages.runs {
            run.write(cursor, &mut self.symbols, &mut held, &mut |bytes| to.write_all(bytes).map_err(failed))?;
        }
        Ok(held)
    }

    fn notes(&mut self) -> Notes {
        let mut notes = Notes::default();
        for (number, thread) in self.threads.iter().enumerate() {
            let killed = self.killed.as_ref().filter(|_| number == 0);
            let signal = killed.map_or(0, |killed| killed.signal);
            notes.status(thread.place.tid.0, self.parent(), signal, &thread.regs);
            if number == 0 {
                notes.process(self.pid.pid.0, self.parent(), self.info.as_ref());
                if let Some(killed) = killed {
                    notes.signal(killed.signal, killed.code, killed.addr);
                }
                let program = self.info.as_ref().map_or("", |info| &info.program);
                notes.auxiliary(&mut self.symbols, program);
                notes.files(&self.mappings);
            }
            notes.vectors(&thread.regs);
        }
        notes
    }

    fn parent(&self) -> u32 {
        self.info.as_ref().map_or(0, |info| info.parent)
    }
}

fn file_header(headers: u16) -> Vec<u8> {
    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // ET_CORE, EM_X86_64, version 1.
    out.extend([4, 0, 62, 0, 1, 0, 0, 0]);
    for number in [0, HEADER, 0] {
        out.extend(number.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    for number in [HEADER as u16, PROGRAM_HEADER as u16, headers, 0, 0, 0] {
        out.extend(number.to_le_bytes());
    }
    out
}

fn program_header(kind: u32, flags: u32, offset: u64, addr: u64, size: u64, align: u64) -> Vec<u8> {
    let mut out = [kind.to_le_bytes(), flags.to_le_bytes()].concat();
    let in_memory = if kind == 1 { size } else { 0 };
    for number in [offset, addr, 0, size, in_memory, align] {
        out.extend(number.to_le_bytes());
    }
    out
}

/// All threads that there are at the moment. Those that do nothing in this part of the log wait: their registers are those at which they
/// go on, or end.
fn threads(log: &Log, cursor: &mut Cursor<'_>) -> Result<Vec<Thread>> {
    let here = cursor.threads()?;
    let at_end = cursor.time() == cursor.end();
    let place = cursor.place();
    let epoch = |tid: Tid, interval| {
        let thread = ThreadId { pid: cursor.pid(), tid };
        log.header(IntervalId { thread, interval }).map(|header| header.epoch)
    };
    let now = epoch(place.tid, place.interval)?;
    let mut all = Vec::new();
    for one in &here {
        // One that has not begun is at its start; one that is over is there still where the process ends.
        let is_born = one.place.position.0 > 0 || one.place.interval.0 > 0 || one.place.tid == place.tid;
        if is_born && (!one.over || (at_end && !exited(log, cursor.pid(), one.place)?)) {
            all.push(Thread { place: one.place, regs: one.regs.clone() });
        }
    }
    for thread in log.threads().filter(|thread| thread.pid == cursor.pid()) {
        if here.iter().any(|one| one.place.tid == thread.tid) {
            continue;
        }
        let (mut before, mut next) = (None, None);
        for &interval in log.intervals(thread)? {
            if epoch(thread.tid, interval)? > now {
                next = next.or(Some(interval));
            } else {
                before = Some(interval);
            }
        }
        let Some(last) = before else { continue };
        let from = next.unwrap_or(last);
        let read = log.interval(IntervalId { thread, interval: from })?;
        let found = read.records().flatten().fold(None, |found, placed| match placed.record {
            Record::Checkpoint { regs, .. } if next.is_some() && found.is_none() => Some((Position(0), regs)),
            Record::End { reason: EndReason::Exit { .. } | EndReason::Exec, .. } if next.is_none() => None,
            Record::End { regs, .. } if next.is_none() => Some((placed.position, regs)),
            _ => found,
        });
        if let Some((position, regs)) = found {
            all.push(Thread { place: Place { tid: thread.tid, interval: from, position }, regs: *regs });
        }
    }
    Ok(all)
}

/// Whether a thread ended by itself in an interval.
fn exited(log: &Log, pid: ProcessId, place: Place) -> Result<bool> {
    let thread = ThreadId { pid, tid: place.tid };
    let read = log.interval(IntervalId { thread, interval: place.interval })?;
    let last = read.records().flatten().last();
    // The last thread of a process is shown as it exits.
    let is_first = u64::from(place.tid.0) == u64::from(pid.pid.0);
    Ok(!is_first
        && matches!(last, Some(last) if matches!(last.record, Record::End { reason: EndReason::Exit { .. }, .. })))
}

/// The signal that killed the process here.
fn killed(log: &Log, cursor: &Cursor<'_>) -> Result<Option<Killed>> {
    if cursor.time() < cursor.end() {
        return Ok(None);
    }
    let crashed = crate::crash::crashes(log)?.into_iter().find(|thread| thread.pid == cursor.pid());
    let Some(thread) = crashed else { return Ok(None) };
    let Some(&interval) = log.intervals(thread)?.last() else { return Ok(None) };
    let read = log.interval(IntervalId { thread, interval })?;
    Ok(read.records().flatten().last().and_then(|last| match last.record {
        Record::End { reason: EndReason::Signal { signo, code, addr }, .. } => {
            Some(Killed { tid: thread.tid, signal: signo.cast_signed(), code, addr: addr.0 })
        }
        _ => None,
    }))
}
