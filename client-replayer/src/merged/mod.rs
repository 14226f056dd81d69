//! Merged replay: all threads of a process on one memory, in one order, on one thread of the replay process.
//!
//! Memory, at its own addresses, is what the threads' stores have made of it in that order. Each thread has its *picture*
//! beside it, which its own records and stores alone determine, just as when it is replayed alone. Before an
//! instruction reads, the two are compared. Where they are the same, the order explains what the thread read. Where
//! not, the thread gets what its picture says, which is what it read when it was recorded; and if nothing from outside
//! of the process can have written there, that is a conflict: the order is not the one of the recording.
//!
//! So the threads themselves always run as recorded, and their registers are compared as in any replay.
//!
//! - `state`: DynamoRIO's events
//! - `block`, `site`: instruments blocks, so that they call the client
//! - `code`: the code that each thread executes
//! - `thread`: a recorded thread, its records and registers
//! - `picture`: what a thread knows of memory; `pages`: where its pages are
//! - `access`: what an instruction is going to read and write
//! - `origin`: who wrote what memory holds
//! - `system`: what system calls may have changed
//! - `requests`: what the kernel may have changed later, because it was asked to
//! - `robust`: what it changes when a thread ends

mod access;
mod block;
mod code;
mod origin;
mod pages;
mod picture;
mod records;
mod requests;
mod robust;
mod site;
pub mod state;
mod system;
mod thread;

use crate::confine;
use crate::instruction::Instruction;
use crate::light;
use crate::machine::Machine;
use crate::memory::{Memory, MemoryError};
use crate::stub::{Shared, Stub};
use access::Accesses;
use bugnet_dr::ir::Segment as Base;
use bugnet_dr::{fpu, sys};
use bugnet_format::control::{self, Conflict, MAX_CONFLICTS, MergedFailure, MergedResult, Request, Response};
use bugnet_format::merged::{Merged as Package, Segment};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::CodeSeq;
use code::Cached;
use hashbrown::HashMap;
use origin::{MAX_THREADS, Origin, Origins};
use picture::{CodePages, pieces};
use site::Site;
use std::fs::File;
use std::ops::Range;
use std::rc::Rc;
use system::System;
use thread::Thread;

/// Longest distance to what is due.
const MAX_LEFT: u64 = 1 << 31;
/// Longest range that one instruction is believed to touch.
const MAX_RANGE: u64 = 1 << 40;
/// Most bytes of a conflict that are reported.
const SHOWN: usize = 32;

/// Whether pieces of memory of the same length are the same; fast where they are as long as a register.
fn same(a: &[u8], b: &[u8]) -> bool {
    fn word<const LEN: usize>(a: &[u8], b: &[u8]) -> bool {
        <[u8; LEN]>::try_from(a).ok() == <[u8; LEN]>::try_from(b).ok()
    }
    match a.len() {
        8 => word::<8>(a, b),
        4 => word::<4>(a, b),
        1 => word::<1>(a, b),
        16 => word::<16>(a, b),
        32 => word::<32>(a, b),
        _ => a == b,
    }
}

/// Why execution does not go on.
enum Trouble {
    /// All threads have come to their ends.
    Done,
    /// The present thread cannot go on.
    Failure(String, Option<Box<RegisterFile>>),
    /// The replay process cannot, whatever the log says.
    Impossible(String),
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self::Failure(what, None)
    }
}

impl From<MemoryError> for Trouble {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Range(_) => Self::Failure(error.to_string(), None),
            _ => Self::Impossible(error.to_string()),
        }
    }
}

/// The merged replay.
pub struct Merged {
    control: File,
    package: &'static [u8],
    threads: Vec<Thread>,
    segments: Box<dyn Iterator<Item = Segment>>,
    /// The thread that runs, and up to where.
    segment: Option<Segment>,
    code: Rc<CodePages>,
    /// The code picture that memory has.
    code_seq: CodeSeq,
    cached: Cached,
    origins: Origins,
    system: System,
    /// The registers of the thread that runs, during an event.
    pub machine: Machine,
    /// The memory of all threads.
    pub memory: Memory,
    instructions: HashMap<u64, Rc<Instruction>>,
    /// From where the code cache calls; never fewer.
    sites: Vec<Site>,
    accesses: Accesses,
    /// What a light call found, for the clean call behind it.
    trouble: Option<Trouble>,
    /// How the code cache and this share the count.
    pub stub: Stub,
    gate: u64,
    /// What a signal says that stopped execution.
    trap: Option<String>,
    /// The x87 status word at the last call from the code cache.
    x87_status: u16,
    /// Instruction count of the running thread at which `left` is zero.
    due: u64,
    result: MergedResult,
}

impl Merged {
    /// A replay of the package, which is not looked at before control comes to the gate.
    pub fn new(package: &'static [u8], control: File, window: Range<u64>, gate: u64, stub: Stub) -> Self {
        Self {
            control,
            package,
            threads: Vec::new(),
            segments: Box::new(std::iter::empty()),
            segment: None,
            code: Rc::default(),
            code_seq: CodeSeq(0),
            cached: Cached::default(),
            origins: Origins::default(),
            system: System::default(),
            machine: Machine::new(),
            memory: Memory::new(window),
            instructions: HashMap::new(),
            sites: Vec::new(),
            accesses: Accesses::default(),
            trouble: None,
            stub,
            gate,
            trap: None,
            x87_status: 0,
            due: 0,
            result: MergedResult::default(),
        }
    }

    fn open(&mut self) -> Result<(), String> {
        let package = Package::decode(self.package).ok_or("the package is damaged, or of another version")?;
        if package.threads.len() > MAX_THREADS {
            return Err(format!("{} threads are more than a merged replay takes", package.threads.len()));
        }
        self.code = Rc::new(CodePages::new(package.pages().collect()));
        self.segments = Box::new(package.segments());
        let starts = package.threads.iter().filter_map(|thread| thread.intervals.first());
        let first = starts.map(|interval| interval.code_seq).min().unwrap_or_default();
        self.threads = package.threads.into_iter().map(|t| Thread::new(t, &self.code)).collect::<Result<_, _>>()?;
        self.change_code(first).map_err(|e| e.to_string())?;
        for page in self.code.between(first, CodeSeq(u64::MAX)) {
            self.memory.anticipate_code(page.addr.page().0).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Another place from which the code cache calls: its number.
    pub fn add_site(&mut self, site: Site) -> u32 {
        self.sites.push(site);
        self.sites.len() as u32 - 1
    }

    /// Called from the code cache, with the registers saved; returns where to go on: in the block, or in the clean call
    /// where something is due.
    fn called(&mut self) -> u64 {
        let &mut Shared { site, left, resume, .. } = self.stub.shared();
        if left == 0 || self.sites[site as usize].instruction.is_none() {
            return self.stub.heavy();
        }
        self.x87_status = fpu::status();
        let step = self.stored().and_then(|()| {
            self.move_to(self.due.wrapping_sub(left));
            self.access(site)
        });
        match step {
            Ok(()) => resume,
            Err(trouble) => {
                self.trouble = Some(trouble);
                self.stub.heavy()
            }
        }
    }

    /// Called by the clean call, before an instruction at which something is due, or which is not executed, or in the gate.
    fn event(&mut self) -> &mut Self {
        let &mut Shared { site, left, .. } = self.stub.shared();
        let Site { pc, ref instruction, .. } = self.sites[site as usize];
        let accesses = instruction.is_some();
        if pc == self.gate {
            self.arrive();
            return self;
        }
        self.x87_status = fpu::status();
        self.machine.fetch(pc);
        let mut step = self.trouble.take().map_or_else(|| self.stored(), Err);
        self.move_to(self.due.wrapping_sub(left));
        if step.is_ok() {
            step = if left == 0 { self.advance() } else { Ok(()) };
        }
        if step.is_ok() && !self.machine.changed() {
            step = match accesses {
                true => self.access(site),
                false if left != 0 => self.unexpected(),
                false => Ok(()),
            };
        }
        self.settle(step);
        self
    }

    /// Control came to the gate.
    fn arrive(&mut self) {
        let step = match self.trap.take() {
            Some(what) => self.trouble.take().map_or_else(|| self.resolve(what), Err),
            None => {
                if let Err(why) = self.open().and_then(|()| confine::confine()) {
                    self.fail(why);
                }
                self.send(&Response::Ready);
                self.serve();
                self.advance()
            }
        };
        self.settle(step);
    }

    /// Ends the run unless there is something to execute.
    fn settle(&mut self, step: Result<(), Trouble>) {
        let failure = match step {
            Ok(()) => return,
            Err(Trouble::Impossible(why)) => self.fail(why),
            Err(Trouble::Done) => None,
            Err(Trouble::Failure(what, expected)) => {
                let regs = Box::new(self.machine.registers());
                let thread = self.segment.map_or(0, |segment| segment.thread);
                let at = self.threads.get(thread).map_or(0, |thread| thread.at);
                Some(MergedFailure { thread, at, what, expected, regs })
            }
        };
        self.result.failure = failure;
        let result = Box::new(std::mem::take(&mut self.result));
        self.send(&Response::Merged(result));
        self.serve();
        self.fail("a merged replay runs once".into());
    }

    /// Answers requests until execution is asked for.
    fn serve(&mut self) {
        loop {
            match control::receive(&mut self.control) {
                Ok(Request::RunMerged) => return,
                Ok(Request::ReadMemory { addr, len }) => {
                    let bytes = self.memory.read(addr, len.min(control::MAX_READ));
                    self.send(&Response::Memory(bytes));
                }
                Ok(Request::RunTo { .. }) => self.fail("a merged replay has no positions to run to".into()),
                Ok(Request::Watch { .. } | Request::Writers) => self.fail("a merged replay watches nothing".into()),
                Ok(Request::Next { .. }) => self.fail("a merged replay takes no other interval".into()),
                Ok(Request::Quit) | Err(_) => self.end(),
            }
        }
    }

    fn send(&mut self, response: &Response) {
        if control::send(&mut self.control, response).is_err() {
            crate::state::die("the other side of the control socket is gone");
        }
    }

    fn fail(&mut self, why: String) -> ! {
        self.send(&Response::Failed(why));
        self.end()
    }

    fn end(&self) -> ! {
        // SAFETY: ends the process.
        unsafe { sys::dr_abort_with_code(0) };
        crate::state::die("the process did not end")
    }

    /// The running thread has executed so many instructions.
    fn move_to(&mut self, at: u64) {
        if let Some(thread) = self.segment.and_then(|segment| self.threads.get_mut(segment.thread)) {
            self.result.counts.instructions += at.saturating_sub(thread.at);
            thread.at = at;
        }
    }

    /// DynamoRIO has found no code where the running thread has some: gets it there, or finds that this is not so.
    fn resolve(&mut self, what: String) -> Result<(), Trouble> {
        // On its way here, it has cleared the exception flags.
        fpu::raise_flags(self.x87_status);
        let Some(Segment { thread: index, .. }) = self.segment else { return Err(what.into()) };
        if self.threads[index].at == self.due {
            return self.advance();
        }
        if self.show_code()? { Ok(()) } else { Err(what.into()) }
    }

    /// Does everything that is due, changing threads where a segment ends, and arms `left` for what is due next.
    fn advance(&mut self) -> Result<(), Trouble> {
        loop {
            let Some(Segment { thread: index, until }) = self.segment else {
                self.change_thread()?;
                continue;
            };
            let thread = &mut self.threads[index];
            if thread.over || thread.at >= until {
                self.change_thread()?;
                continue;
            }
            if let Some(placed) = thread.due() {
                self.apply(index, &placed)?;
                continue;
            }
            if let Some(seq) = thread.code_behind_this()
                && self.leaves_code_alone(seq)
            {
                self.take_code(index, seq)?;
                self.threads[index].read()?;
                continue;
            }
            let thread = &mut self.threads[index];
            let Some(next) = thread.wanted_at() else {
                // The log was cut off here.
                thread.over = true;
                continue;
            };
            self.due = next.min(until).min(thread.at.saturating_add(MAX_LEFT));
            self.stub.shared().left = self.due - thread.at;
            return Ok(());
        }
    }

    /// Goes over to the thread of the next segment.
    fn change_thread(&mut self) -> Result<(), Trouble> {
        if let Some(Segment { thread, .. }) = self.segment {
            self.begin_call(thread);
        }
        let next = self.segments.next();
        let old = std::mem::replace(&mut self.segment, next);
        let Some(next) = next else { return Err(Trouble::Done) };
        self.result.counts.segments += 1;
        if let Some(old) = old.filter(|old| old.thread != next.thread) {
            self.threads[old.thread].regs = self.machine.registers();
        }
        if old.is_none_or(|old| old.thread != next.thread) {
            self.machine.load(&self.threads[next.thread].regs);
            // It may begin with code that nobody else has executed in this order up to now.
            let seq = self.threads[next.thread].picture.seq();
            self.change_code(seq)?;
            self.fit_cache(seq);
        }
        Ok(())
    }

    /// Nothing is due at an instruction that replay does not execute.
    fn unexpected(&mut self) -> Result<(), Trouble> {
        let pc = self.machine.pc;
        let instruction = self.instruction(pc)?;
        if instruction.runs() {
            // Its second part lies in a page that came later.
            self.drop_blocks(pc, instruction.len());
            return Ok(());
        }
        Err(format!("the log has no record for the instruction at {pc:#x}, which replay does not execute").into())
    }

    /// The next instruction accesses memory: compares what it reads, takes note of what it writes, and counts it.
    fn access(&mut self, site: u64) -> Result<(), Trouble> {
        let Some(Segment { thread: index, .. }) = self.segment else { return Err(Trouble::Done) };
        let Site { pc, instruction, code } = &self.sites[site as usize];
        let Some(instruction) = instruction else { return self.unexpected() };
        let makes_sense = self.accesses.find(instruction, code, light::saved(), &mut self.threads[index].picture);
        let Accesses { reads, writes } = &self.accesses;
        if !(makes_sense && reads.iter().chain(writes).all(|(_, len)| *len < MAX_RANGE)) {
            return Err(format!("the instruction at {pc:#x} goes over more memory than there can be").into());
        }
        for read in 0..self.accesses.reads.len() {
            let (addr, len) = self.accesses.reads[read];
            self.compare(index, addr, len)?;
        }
        for &(addr, len) in &self.accesses.writes {
            self.memory.ensure_writable(addr, len)?;
        }
        self.stub.shared().left -= 1;
        Ok(())
    }

    /// Compares memory with what the thread read there, and gives it that.
    fn compare(&mut self, index: usize, addr: u64, len: u64) -> Result<(), Trouble> {
        self.result.counts.reads += 1;
        let mut worst: Option<(Origin, u64)> = None;
        for (page, range) in pieces(addr, len) {
            let at = page + range.start as u64;
            self.memory.ensure_readable(at, range.len() as u64)?;
            let recorded = &self.threads[index].picture.page(page)[range];
            // SAFETY: the bytes are the recorded program's, were just made readable, and nobody writes meanwhile.
            let found = unsafe { std::slice::from_raw_parts(at as *const u8, recorded.len()) };
            if same(recorded, found) {
                continue;
            }
            let recorded = &recorded.to_vec();
            for (futex, owner) in robust::given_up(at, recorded, found) {
                let holds = |thread: &Thread| {
                    thread.tid.id() == owner.id() && robust::held(&self.memory, thread.robust, owner).contains(&futex)
                };
                if self.threads.iter().any(holds) {
                    self.origins.system(futex, robust::FUTEX_BYTES);
                }
            }
            for (i, _) in recorded.iter().zip(found).enumerate().filter(|(_, (a, b))| a != b) {
                let origin = self.origins.of(at + i as u64, index);
                if worst.is_none_or(|(other, _)| other < origin) {
                    worst = Some((origin, at + i as u64));
                }
            }
            if let Some((Origin::Thread { writer, at: writer_at }, addr)) = worst
                && self.threads[index].at < self.threads[index].unknown_from
                && addr >= at
                && self.result.conflicts.len() < MAX_CONFLICTS
            {
                let from = (addr - at) as usize;
                let piece = |bytes: &[u8]| bytes[from..].iter().copied().take(SHOWN).collect();
                let (recorded, found) = (piece(recorded), piece(found));
                let reader_at = self.threads[index].at;
                self.result.conflicts.push(Conflict {
                    reader: index,
                    reader_at,
                    addr,
                    recorded,
                    found,
                    writer,
                    writer_at,
                });
            }
            self.memory.write(at, recorded)?;
        }
        let counts = &mut self.result.counts;
        match worst.map(|(origin, _)| origin) {
            None => {}
            Some(Origin::Unwritten) => counts.unwritten += 1,
            Some(Origin::System) => counts.system += 1,
            Some(Origin::Outside) => counts.outside += 1,
            Some(Origin::Thread { .. }) if self.threads[index].at >= self.threads[index].unknown_from => {
                counts.unknown += 1;
            }
            Some(Origin::Thread { .. }) => counts.conflicts += 1,
        }
        Ok(())
    }

    /// The instruction before this event has stored: the thread's picture takes what is in memory now.
    fn stored(&mut self) -> Result<(), Trouble> {
        let Some(Segment { thread: index, .. }) = self.segment else { return Ok(()) };
        let thread = &mut self.threads[index];
        for (addr, len) in self.accesses.writes.drain(..) {
            for (page, range) in pieces(addr, len) {
                let at = page + range.start as u64;
                // SAFETY: the bytes are the recorded program's, were made writable before the instruction, and nobody
                // writes meanwhile.
                let now = unsafe { std::slice::from_raw_parts(at as *const u8, range.len()) };
                thread.picture.page(page)[range].copy_from_slice(now);
            }
            self.origins.store(addr, len, index, thread.at);
        }
        self.accesses.reads.clear();
        Ok(())
    }

    /// Takes note of a signal. [`Self::machine`] holds the registers; the code cache has counted `ahead` instructions
    /// that were not executed. Returns the address at which execution must go on: the gate.
    fn trap(&mut self, what: String, ahead: u64) -> u64 {
        if ahead == 0 {
            // The instruction before is over.
            self.trouble = self.stored().err();
        }
        self.accesses.writes.clear();
        let left = self.stub.shared().left;
        self.move_to(self.due.wrapping_sub(left).wrapping_sub(ahead));
        self.trap = Some(what);
        self.gate
    }

    /// Whether this is the instruction of the host program at which the client gets control.
    fn is_gate(&self, pc: u64) -> bool {
        pc == self.gate
    }

    /// Goes on behind an event; returns if the registers are as they were.
    fn go_on(&mut self) {
        self.stub.set_segment_base(Base::Fs, self.machine.fs_base);
        self.stub.set_segment_base(Base::Gs, self.machine.gs_base);
        if self.machine.changed() {
            self.machine.redirect(self.machine.pc);
        }
    }
}
