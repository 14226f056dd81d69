//! A watch over a few bytes of code: with which contents the instruction at its start is run, and what wrote them.
//!
//! Instructions that store, and the one at the watched address, call the client. That is slow, but only a replay that
//! is asked for it has to bear it. Bytes that a record puts into memory have been written from outside of the thread, if
//! they differ from what the thread had there.

use crate::code::Code;
use crate::fs_base::Guard;
use crate::instruction::Instruction;
use crate::memory::Memory;
use crate::state;
use crate::stub::Stub;
use bugnet_dr::access::{Action, classify};
use bugnet_dr::ir::{Block, Instr};
use bugnet_format::control::{LastWriter, Ran};
use bugnet_format::types::{Addr, CodeSeq};
use std::ops::Range;

/// The watched bytes.
pub struct Watch {
    range: Range<u64>,
    /// What they were when the instruction was last run.
    ran: Option<Vec<u8>>,
    writers: Vec<LastWriter>,
    /// Whether the thread has had the byte in this interval.
    known: Vec<bool>,
}

/// A place in a block from which the watch is called.
struct Spot {
    pc: u64,
    /// What the instruction's position is ahead of what the counter says there.
    ahead: i64,
}

impl Watch {
    /// A watch over `len` bytes from `at` on, at an interval's start.
    pub fn new(at: u64, len: u64, code: &Code) -> Self {
        let range = at..at.saturating_add(len);
        let known = range.clone().map(|at| code.has(at, 1)).collect::<Vec<_>>();
        Self { ran: None, writers: vec![LastWriter::Unknown; known.len()], known, range }
    }

    /// For each byte, what wrote it last.
    pub fn writers(&self) -> &[LastWriter] {
        &self.writers
    }

    /// Watched bytes among `len` from `at` on, by their index.
    fn indices(&self, at: u64, len: u64) -> Range<usize> {
        let start = at.max(self.range.start);
        let end = at.saturating_add(len).min(self.range.end).max(start);
        if start >= self.range.end {
            return 0..0;
        }
        (start - self.range.start) as usize..(end - self.range.start) as usize
    }

    /// An instruction of the thread stores there.
    fn stored(&mut self, at: u64, len: u64, store: LastWriter) {
        for index in self.indices(at, len) {
            self.writers[index] = store;
            self.known[index] = true;
        }
    }

    /// A record is about to put bytes into memory, `old` being what is there.
    pub fn put(&mut self, at: u64, bytes: &[u8], old: impl Fn(u64) -> u8) {
        for index in self.indices(at, bytes.len() as u64) {
            let address = self.range.start + index as u64;
            let new = bytes[(address - at) as usize];
            if self.known[index] && old(address) != new {
                self.writers[index] = LastWriter::Outside;
            }
            self.known[index] = true;
        }
    }

    /// The instruction at the start is run; the report that is due if the bytes are not those of the last time.
    fn runs(&mut self, position: u64, seq: CodeSeq, bytes: Vec<u8>) -> Option<Ran> {
        if self.ran.as_ref() == Some(&bytes) {
            return None;
        }
        self.ran = Some(bytes.clone());
        let writers = self.writers.iter().take(bytes.len()).copied().collect();
        Some(Ran { position, seq, bytes, writers })
    }
}

/// Adds what the watch needs to a block: the instructions, and how far the position of each is ahead of the counter.
///
/// R11 counts where the client is called.
pub fn instrument(block: &Block, stub: &Stub, watch: &Watch, instrs: impl Iterator<Item = (Instr, i64)>) {
    for (instr, ahead) in instrs {
        let pc = instr.pc();
        if pc == watch.range.start {
            block.meta(Some(instr), block.raw(&stub.save_count()));
            block.clean_call(Some(instr), on_run, Box::leak(Box::new(Spot { pc, ahead })));
        }
        let stores = match classify(instr) {
            Action::Execute { writes, .. } => !writes.is_empty(),
            Action::Repeat(op) => op.kind.writes(),
            _ => false,
        };
        if stores {
            block.meta(Some(instr), block.raw(&stub.save_count()));
            block.clean_call(Some(instr), on_store, Box::leak(Box::new(Spot { pc, ahead })));
        }
    }
}

unsafe extern "C" fn on_run(spot: *const Spot) {
    let _guard = Guard::new();
    // SAFETY: a clean call of the only thread, with the leaked argument.
    let (engine, spot) = unsafe { (state::engine(), &*spot) };
    let position = engine.position_ahead(spot.ahead);
    engine.watch_run(spot.pc, position);
}

/// The instruction at `pc` is run; the report that is due if it is watched and its bytes are not those of the last time.
pub fn run(memory: &mut Memory, code: &Code, pc: u64, position: u64) -> Option<Ran> {
    let range = memory.watch.as_ref().filter(|watch| watch.range.start == pc)?.range.clone();
    let bytes = code.read(range.start, (certain(&range, code) - range.start) as usize);
    memory.watch.as_mut()?.runs(position, code.seq(), bytes)
}

/// Up to where, from the start of a range on, the code picture holds what the recorded program had there: to the end of the
/// instructions that are executed next, whatever they do. Other code may have changed since the log had it last.
fn certain(range: &Range<u64>, code: &Code) -> u64 {
    let mut end = range.start;
    while end < range.end && Addr(end).page() == Addr(range.start).page() {
        let Some(instruction) = Instruction::decode(end, code) else { break };
        end += instruction.len();
        if !instruction.goes_straight_on() {
            break;
        }
    }
    end.min(range.end)
}

unsafe extern "C" fn on_store(spot: *const Spot) {
    let _guard = Guard::new();
    // SAFETY: a clean call of the only thread, with the leaked argument.
    let (engine, spot) = unsafe { (state::engine(), &*spot) };
    let position = engine.position_ahead(spot.ahead);
    engine.fetch(spot.pc);
    let Some(instruction) = Instruction::decode(spot.pc, &engine.code) else { return };
    let stores = instruction.stores(&engine.machine);
    let seq = engine.code.seq();
    if let Some(watch) = &mut engine.memory.watch {
        for (at, len) in stores {
            watch.stored(at, len, LastWriter::Store { position, pc: spot.pc, seq });
        }
    }
}
