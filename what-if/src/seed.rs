//! A process that is the recorded one at a place.

use crate::calls::Answers;
use crate::host::Host;
use crate::image::Image;
use crate::loads::found;
use crate::run::{Change, Outcome, Trial, Until, run};
use crate::set::Setting;
use crate::sums::{AHEAD, SLOT, difference};
use crate::switch::Switch;
use crate::watch::Watch;
use bugnet_replay::cursor::Cursor;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use iced_x86::{Decoder, DecoderOptions};
use std::sync::Arc;

/// Memory that a run may have beyond what the process had at the place.
const MORE: u64 = 1 << 30;
/// Bytes of room for code: a page.
const ROOM: u64 = 4096;

/// What the process is there.
#[derive(Debug)]
struct Origin {
    image: Image,
    answers: Answers,
    heap_end: Option<u64>,
}

/// The recorded process at a place, of which any number of runs can begin. Only the thread that has made it can use it.
#[derive(Debug)]
pub struct Seed {
    host: Host,
    origin: Arc<Origin>,
    /// A page for code, near that of the place.
    room: Option<u64>,
}

/// Of what a seed is made, in any thread.
#[derive(Clone, Debug)]
pub(crate) struct Grain(Arc<Origin>);

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
        let heap_end = image.heap_end.or(answers.first_break());
        Grain(Arc::new(Origin { image, answers, heap_end })).seed()
    }

    /// Of what others are made that are the same.
    pub(crate) fn grain(&self) -> Grain {
        Grain(self.origin.clone())
    }

    /// The bytes of an instruction; none where there is none.
    #[must_use]
    pub fn instruction(&self, addr: u64) -> Vec<u8> {
        let longest = (1..=15).rev().find_map(|len| self.host.read(addr, len).ok()).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, &longest, addr, DecoderOptions::NONE);
        longest[..decoder.decode().len().min(longest.len())].to_vec()
    }

    /// What memory holds at the place; none where there is none.
    #[must_use]
    pub fn memory(&self, addr: u64, len: usize) -> Option<Vec<u8>> {
        self.host.read(addr, len).ok()
    }

    /// A change by which the sum that an instruction makes, if it makes one, becomes a difference; `before` is where the instruction before it is, if that is
    /// one of the same line.
    #[must_use]
    pub fn difference(&self, addr: u64, before: Option<u64>) -> Option<Change> {
        let behind = before.and_then(|before| u8::try_from(addr.checked_sub(before)?).ok());
        let found = [Some(0), behind].into_iter().flatten().find(|behind| self.subtracting(addr, *behind, 0).is_some());
        found.map(|behind| Change::Difference { addr, behind })
    }

    /// The bytes that are others then, and where; those that are made together have numbers of their own, from 0.
    fn subtracting(&self, addr: u64, behind: u8, number: u64) -> Option<[(u64, Vec<u8>); 2]> {
        let slot = self.room.filter(|_| number < ROOM / SLOT)? + number * SLOT;
        let from = addr - u64::from(behind);
        let bytes = (1..=AHEAD).rev().find_map(|len| self.host.read(from, len).ok())?;
        difference(&bytes, from, addr, slot)
    }

    /// Runs on from the place with a difference; none if there is no instruction where that would be, no jump to turn, or no sum.
    ///
    /// # Errors
    /// The operating system's.
    pub fn run(&self, trial: &Trial, until: &Until) -> Result<Option<Outcome>> {
        let mut watch = match trial {
            Trial::Nothing | Trial::Changes(_) => None,
            Trial::Turn(turn) => {
                let Some(switch) = Switch::new(turn, &self.instruction(turn.addr)) else { return Ok(None) };
                Some(Watch::Jump(switch))
            }
            Trial::Set(set) => {
                let Some(setting) = Setting::new(set, &self.instruction(set.at)) else { return Ok(None) };
                Some(Watch::Set(setting))
            }
        };
        let host = self.host.fork()?;
        if let Some(watch) = &watch {
            watch.begin(&host)?;
        }
        if let Trial::Changes(changes) = trial {
            for (change, number) in changes.iter().zip(0..) {
                match change {
                    Change::Code { addr, bytes } => host.write(*addr, bytes)?,
                    Change::Difference { addr, behind } => {
                        let Some(all) = self.subtracting(*addr, *behind, number) else { return Ok(None) };
                        all.iter().try_for_each(|(addr, bytes)| host.write(*addr, bytes))?;
                    }
                }
            }
        }
        host.limit_time(until.time)?;
        let Origin { image, answers, heap_end } = &*self.origin;
        host.become_thread(&image.registers)?;
        run((&host, watch.as_mut()), answers.clone(), *heap_end, until.output.as_deref()).map(Some)
    }
}

impl Grain {
    /// A process that is the recorded one.
    pub fn seed(self) -> Result<Seed> {
        let image = &self.0.image;
        let none = || ReplayError::OutOfRange("there is no free page in the process".to_owned());
        let trampoline = image.free_page().ok_or_else(none)?;
        let room = image.free_page_near(image.registers.rip, trampoline);
        let size = image.mappings.iter().fold(MORE, |size, one| size.saturating_add(one.end.saturating_sub(one.start)));
        let host = Host::start(trampoline, room, size)?;
        for mapping in &image.mappings {
            host.map(mapping.start, mapping.end.saturating_sub(mapping.start), mapping.prot)?;
        }
        for (addr, bytes) in &image.bytes {
            // What is not mapped is no memory: a page that the program had given back.
            for one in image.mappings.iter().filter(|one| one.start < addr + bytes.len() as u64 && *addr < one.end) {
                let from = one.start.max(*addr);
                let until = one.end.min(addr + bytes.len() as u64);
                host.write(from, &bytes[(from - addr) as usize..(until - addr) as usize])?;
            }
        }
        Ok(Seed { host, origin: self.0, room })
    }
}
