//! A process that is the recorded one at a place.

use crate::calls::Answers;
use crate::host::Host;
use crate::image::Image;
use crate::loads::found;
use crate::run::{Change, Outcome, Turn, run};
use crate::set::{Set, Setting};
use crate::switch::Switch;
use crate::watch::Watch;
use bugnet_format::regs::RegisterFile;
use bugnet_replay::cursor::Cursor;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use iced_x86::{Decoder, DecoderOptions};
use std::time::Duration;

/// Memory that a run may have beyond what the process had at the place.
const MORE: u64 = 1 << 30;

/// The recorded process at a place, of which any number of runs can begin.
#[derive(Debug)]
pub struct Seed {
    host: Host,
    registers: RegisterFile,
    answers: Answers,
    heap_end: Option<u64>,
}

impl Seed {
    /// Where a cursor is.
    ///
    /// # Errors
    /// The process has several threads, or the log lacks its beginning; it cannot be replayed; the operating system allows no tracing, or has no
    /// room where the recorded process had its memory.
    pub fn new((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut threads = log.threads().filter(|thread| thread.pid == cursor.pid());
        let (Some(thread), None) = (threads.next(), threads.next()) else {
            return Err(ReplayError::OutOfRange("the process has several threads".to_owned()));
        };
        let from = cursor.place();
        let found = found(tools, log, thread, from)?;
        let answers = Answers::of(log, thread, from, &found)?;
        let image = Image::of(log, cursor, &found)?;
        let none = || ReplayError::OutOfRange("there is no free page in the process".to_owned());
        let host = Host::start(image.free_page().ok_or_else(none)?)?;
        for mapping in &image.mappings {
            host.map(mapping.start, mapping.end - mapping.start, mapping.prot)?;
        }
        for (addr, bytes) in &image.bytes {
            // What is not mapped is no memory: a page that the program had given back.
            for one in image.mappings.iter().filter(|one| one.start < addr + bytes.len() as u64 && *addr < one.end) {
                let from = one.start.max(*addr);
                let until = one.end.min(addr + bytes.len() as u64);
                host.write(from, &bytes[(from - addr) as usize..(until - addr) as usize])?;
            }
        }
        let size: u64 = image.mappings.iter().map(|mapping| mapping.end - mapping.start).sum();
        host.limit_memory(size.saturating_add(MORE))?;
        let heap_end = image.heap_end.or(answers.first_break());
        Ok(Self { host, registers: image.registers, answers, heap_end })
    }

    /// The bytes of an instruction; none where there is none.
    #[must_use]
    pub fn instruction(&self, addr: u64) -> Vec<u8> {
        let longest = (1..=15).rev().find_map(|len| self.host.read(addr, len).ok()).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, &longest, addr, DecoderOptions::NONE);
        longest[..decoder.decode().len().min(longest.len())].to_vec()
    }

    /// Runs on from the place with a change, until the run ends, `goes_on` says no to what it has written, or the processor time is over.
    ///
    /// # Errors
    /// The operating system's.
    pub fn run(&self, change: &Change, limit: Duration, goes_on: &mut dyn FnMut(&[u8]) -> bool) -> Result<Outcome> {
        let host = self.host.fork()?;
        host.become_thread(&self.registers)?;
        host.write(change.addr, &change.bytes)?;
        run((&host, None), self.answers.clone(), self.heap_end, limit, goes_on)
    }

    /// Runs on as [`Self::run`], with a conditional jump that goes the other way, once, and how often it was executed; none if it is no such jump.
    ///
    /// # Errors
    /// The operating system's.
    pub fn run_turned(
        &self,
        turn: &Turn,
        limit: Duration,
        goes_on: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<(Outcome, u64)>> {
        let Some(switch) = Switch::new(turn, &self.instruction(turn.addr)) else { return Ok(None) };
        self.watched(Watch::Jump(switch), limit, goes_on).map(Some)
    }

    /// Runs on as [`Self::run`], with memory that is set before an instruction, and how often it came there; none if there is no instruction.
    ///
    /// # Errors
    /// The operating system's.
    pub fn run_set(
        &self,
        set: &Set,
        limit: Duration,
        goes_on: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<(Outcome, u64)>> {
        let Some(setting) = Setting::new(set, &self.instruction(set.at)) else { return Ok(None) };
        self.watched(Watch::Set(setting), limit, goes_on).map(Some)
    }

    /// What memory holds at the place; none where there is none.
    #[must_use]
    pub fn memory(&self, addr: u64, len: usize) -> Option<Vec<u8>> {
        self.host.read(addr, len).ok()
    }

    fn watched(
        &self,
        mut watch: Watch,
        limit: Duration,
        goes_on: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(Outcome, u64)> {
        let host = self.host.fork()?;
        host.become_thread(&self.registers)?;
        watch.begin(&host)?;
        let outcome = run((&host, Some(&mut watch)), self.answers.clone(), self.heap_end, limit, goes_on)?;
        Ok((outcome, watch.count()))
    }
}
