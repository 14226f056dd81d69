//! What wrote a byte of code.

use super::{Query, watch};
use crate::disassembly;
use crate::error::Result;
use crate::log::{IntervalId, Log};
use crate::session::{LastWriter, Ran};
use crate::symbols::{Place, Symbolizer};
use crate::syscall;
use crate::tools::Tools;
use bugnet_format::code::{CodePage, CodeStore};
use bugnet_format::record::Record;
use bugnet_format::types::{Addr, CodeSeq, IntervalNo, Position};
use iced_x86::{Decoder, DecoderOptions};
use serde::Serialize;
use std::collections::HashMap;

/// What wrote a byte of code last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Writer {
    /// An instruction of the thread that ran the code.
    Store {
        /// The interval in which it was executed.
        interval: IntervalNo,
        /// Instructions since the interval's start.
        position: Position,
        /// Its address.
        pc: Addr,
        /// Its disassembly; empty where the log has no code there.
        text: String,
        /// Where that is.
        place: Place,
    },
    /// A system call.
    SystemCall {
        /// The interval in which it was made.
        interval: IntervalNo,
        /// Instructions since the interval's start.
        position: Position,
        /// Name, arguments and result.
        call: String,
    },
    /// Nothing that was recorded: the bytes are those of an ELF file that is mapped there.
    File {
        /// Path on the recording machine.
        path: String,
    },
    /// Another thread, another process, or another mapping of the same memory.
    Elsewhere,
    /// It was there before the recorded window.
    Before,
}

/// A system call that wrote, or may have written, to the watched bytes.
struct Call {
    position: Position,
    start: u64,
    end: u64,
    /// Whether the new bytes are zero.
    zeros: bool,
    text: String,
}

/// Finds writers, and remembers what it took to find them.
pub(super) struct Writers<'a> {
    tools: &'a Tools,
    log: &'a Log,
    query: Query,
    symbols: Symbolizer,
    /// What wrote each byte last, at an interval's end.
    at_end: HashMap<IntervalId, Vec<LastWriter>>,
    calls: HashMap<IntervalId, Vec<Call>>,
}

impl<'a> Writers<'a> {
    pub fn new(tools: &'a Tools, log: &'a Log, query: Query, symbols: Symbolizer) -> Self {
        Self { tools, log, query, symbols, at_end: HashMap::new(), calls: HashMap::new() }
    }

    /// What wrote each byte last, at the end of an interval that was watched already.
    pub fn known(&mut self, id: IntervalId, writers: Vec<LastWriter>) {
        self.at_end.insert(id, writers);
    }

    /// What wrote the bytes with these indices before they were run; each once.
    pub fn of(&mut self, id: IntervalId, ran: &Ran, indices: &[usize]) -> Result<Vec<Writer>> {
        let mut out = Vec::new();
        for &index in indices {
            let writer = self.of_byte(id, ran, index)?;
            if !out.contains(&writer) {
                out.push(writer);
            }
        }
        Ok(out)
    }

    fn of_byte(&mut self, id: IntervalId, ran: &Ran, index: usize) -> Result<Writer> {
        let address = self.query.at.0 + index as u64;
        let value = ran.bytes[index];
        let first = self.log.intervals(id.thread)?.first().copied().unwrap_or(id.interval);
        let mut last = ran.writers.get(index).copied().unwrap_or(LastWriter::Unknown);
        let mut before = Position(ran.position);
        let mut id = id;
        loop {
            let call = self.last_call(id, address, before)?;
            match (last, call) {
                (LastWriter::Store { position, pc, seq }, call)
                    if call.as_ref().is_none_or(|(at, ..)| *at < Position(position)) =>
                {
                    return self.store(id, Position(position), Addr(pc), seq);
                }
                (_, Some((_, true, _))) if value != 0 => return Ok(Writer::Elsewhere),
                (_, Some((position, _, call))) => {
                    return Ok(Writer::SystemCall { interval: id.interval, position, call });
                }
                (LastWriter::Outside, None) => return Ok(Writer::Elsewhere),
                _ => {}
            }
            // Else every interval back to the program's start would be searched for what is no secret.
            if let Some(path) = self.file_with(address, value) {
                return Ok(Writer::File { path });
            }
            if id.interval <= first {
                return Ok(Writer::Before);
            }
            id.interval.0 -= 1;
            before = Position(u64::MAX);
            if !self.at_end.contains_key(&id) {
                let watched = watch(self.tools, self.log, id, self.query)?;
                self.at_end.insert(id, watched.writers);
            }
            last = self.at_end[&id].get(index).copied().unwrap_or(LastWriter::Unknown);
        }
    }

    /// The file that is mapped at an address, if it has this byte there.
    fn file_with(&mut self, address: u64, value: u8) -> Option<String> {
        let path = self.symbols.module_at(Addr(address))?.path.clone();
        let (file, own) = self.symbols.file_at(Addr(address))?;
        (file.byte(own) == Some(value)).then_some(path)
    }

    fn store(&mut self, id: IntervalId, position: Position, pc: Addr, seq: CodeSeq) -> Result<Writer> {
        let code = self.log.code(id.thread.pid)?;
        let text = instruction(&code, pc, seq);
        Ok(Writer::Store { interval: id.interval, position, pc, text, place: self.symbols.lookup(pc) })
    }

    /// The last system call of an interval before a position that wrote to an address: where, whether it wrote zeros, and
    /// what it was.
    fn last_call(
        &mut self,
        id: IntervalId,
        address: u64,
        before: Position,
    ) -> Result<Option<(Position, bool, String)>> {
        if !self.calls.contains_key(&id) {
            let calls = calls(self.log, id, self.query)?;
            self.calls.insert(id, calls);
        }
        let covers = |call: &&Call| call.position < before && (call.start..call.end).contains(&address);
        Ok(self.calls[&id].iter().rfind(covers).map(|call| (call.position, call.zeros, call.text.clone())))
    }
}

/// The instruction at an address in a code picture.
fn instruction(code: &CodeStore, pc: Addr, seq: CodeSeq) -> String {
    let in_force = |page: &&CodePage| page.addr == pc.page() && page.seq <= seq;
    let Some(page) = code.pages.iter().rfind(in_force) else { return String::new() };
    let bytes = &page.bytes[(pc.0 - page.addr.0) as usize..];
    let decoded = Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE).decode();
    if decoded.is_invalid() { String::new() } else { disassembly::text(&decoded) }
}

/// The memory that a successful system call has written: start, bytes, and whether it is zero.
fn written(number: u64, args: &[u64; 6], result: u64) -> Option<(u64, u64, bool)> {
    let number = i64::try_from(number).ok()?;
    match number {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_recvfrom => Some((args[1], result, false)),
        libc::SYS_getrandom => Some((args[0], result, false)),
        libc::SYS_mmap => Some((result, args[1], args[3] & libc::MAP_ANONYMOUS as u64 != 0)),
        libc::SYS_mremap => Some((result, args[2], false)),
        libc::SYS_munmap => Some((args[0], args[1], true)),
        // Where `readv` and its like write is in memory that they read.
        _ => None,
    }
}

fn calls(log: &Log, id: IntervalId, query: Query) -> Result<Vec<Call>> {
    let interval = log.interval(id)?;
    let mut data: Vec<(u8, &[u8])> = Vec::new();
    let mut out = Vec::new();
    for placed in interval.records().flatten() {
        match placed.record {
            Record::SyscallData { arg, bytes } => data.push((arg, bytes)),
            // It came before the call, which was then made anew or not at all.
            Record::Signal { .. } => data.clear(),
            Record::Syscall { number, args, result, .. } => {
                if let Some((start, len, zeros)) =
                    u64::try_from(result).ok().and_then(|result| written(number, &args, result))
                    && start < query.at.0 + query.len
                    && start.saturating_add(len) > query.at.0
                {
                    let call = syscall::call(number, &args, &data);
                    let text = format!("{call} = {}", syscall::result(number, result));
                    out.push(Call { position: placed.position, start, end: start.saturating_add(len), zeros, text });
                }
                data.clear();
            }
            _ => {}
        }
    }
    Ok(out)
}
