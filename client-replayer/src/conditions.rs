//! What an execution is watched for, and what happens where it is met.
//!
//! Instructions at watched addresses, and, where memory is watched, those that access any, call the client from their blocks; system
//! calls, signals and changes of threads are noticed where their records are applied.

use crate::accesses::Accesses;
use crate::engine::{Engine, Trouble};
use crate::expression::{self, Subject};
use crate::light;
use crate::memory::Memory;
use crate::ranges::Ranges;
use crate::site::{AccessId, AddressId};
use bugnet_format::control::{Conditions, Event, Hit, Hits, Leaving, MAX_CONDITIONS, Stop, Target, WatchedRange};
use bugnet_format::record::{Placed, Record, SignalStep};
use hashbrown::HashSet;

/// The conditions, and what has become of them in the present run.
#[derive(Default)]
pub struct Watching {
    conditions: Conditions,
    addresses: HashSet<u64>,
    /// All that is watched of memory: most accesses meet none of it.
    watched: Ranges,
    mode: Mode,
    /// Where the run began: the conditions of this instruction have been met.
    start: (usize, u64),
    /// The record, by thread, instruction count and offset, that stopped the run before.
    reported: Option<(usize, u64, usize)>,
    /// The condition that was met last.
    pub hit: Option<Hit>,
    /// Where to stop for a condition that was met by the instruction before.
    pub stop: Option<(usize, u64)>,
    accesses: Accesses,
    /// Writes of the last instruction that accessed memory, which count if they change what was in their ranges.
    unconfirmed: Vec<Unconfirmed>,
}

/// A write that counts if it changes something.
struct Unconfirmed {
    hit: Hit,
    /// The watched range, and what was in it.
    addr: u64,
    before: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Ignore,
    Stop,
    Last,
    /// The last one at an earlier time than where the run ends.
    LastBefore(u64),
}

impl Watching {
    /// Whether the instruction at this address is watched.
    pub fn has_address(&self, pc: u64) -> bool {
        self.addresses.contains(&pc) || self.conditions.leaving.is_some_and(|leaving| leaving.is_outside(pc))
    }

    /// Whether it is watched of a thread.
    fn has_address_for(&self, pc: u64, thread: usize) -> bool {
        let leaves = |leaving: Leaving| leaving.thread as usize == thread && leaving.is_outside(pc);
        self.addresses.contains(&pc) || self.conditions.leaving.is_some_and(leaves)
    }

    /// Whether accesses to memory are.
    pub fn has_ranges(&self) -> bool {
        !self.conditions.ranges.is_empty()
    }

    /// A run begins.
    pub fn begin(&mut self, hits: Hits, target: Target, thread: usize, at: u64) {
        self.mode = match (hits, target) {
            (Hits::Ignore, _) => Mode::Ignore,
            (Hits::Stop | Hits::StopHere, _) => Mode::Stop,
            (Hits::LastBefore, Target::Time(time)) => Mode::LastBefore(time),
            (Hits::Last | Hits::LastBefore, _) => Mode::Last,
        };
        // Where a run stops at the first one behind the present place, the one here does not count.
        let start = if hits == Hits::Stop { (thread, at) } else { (usize::MAX, 0) };
        (self.start, self.hit, self.stop) = (start, None, None);
        // A record counts as reported as long as one is there. Later, one may come to it again, from before.
        self.reported = self.reported.filter(|(reported, position, _)| (*reported, *position) == (thread, at));
        self.unconfirmed.clear();
    }

    /// A condition is met, of which the last one counts.
    fn take(&mut self, hit: Hit) {
        if !matches!(self.mode, Mode::LastBefore(time) if hit.time >= time) {
            self.hit = Some(hit);
        }
    }

    /// The first watched range that an access meets.
    fn meets(&self, addr: u64, len: u64, counts: impl Fn(&WatchedRange) -> bool) -> Option<u32> {
        if !self.watched.touches(addr, len) {
            return None;
        }
        let overlaps = |range: &WatchedRange| overlap(range, addr, len).is_some();
        let found = self.conditions.ranges.iter().position(|range| counts(range) && overlaps(range))?;
        Some(found as u32)
    }

    /// What of the accesses of an instruction is watched, whatever is written.
    fn accessed(&self) -> Option<Event> {
        let event = |ranges: &[(u64, u64)], write: bool| {
            ranges.iter().find_map(|&(addr, len)| {
                let counts = |range: &WatchedRange| if write { range.writes && !range.changes } else { range.reads };
                let range = self.meets(addr, len, counts)?;
                Some(Event::Access { range, addr, len, write })
            })
        };
        event(&self.accesses.writes, true).or_else(|| event(&self.accesses.reads, false))
    }

    /// The watched ranges that an instruction may change, each with what it writes.
    fn may_change(&self) -> impl Iterator<Item = (WatchedRange, Event)> {
        let is_met = self.accesses.writes.iter().any(|(addr, len)| self.watched.touches(*addr, *len));
        let all = if is_met { &*self.conditions.ranges } else { &[] };
        let ranges = all.iter().enumerate().filter(|(_, range)| range.writes && range.changes);
        ranges.filter_map(|(number, range)| {
            let overlaps = |(addr, len): &&(u64, u64)| overlap(range, *addr, *len).is_some();
            let &(addr, len) = self.accesses.writes.iter().find(overlaps)?;
            Some((*range, Event::Access { range: number as u32, addr, len, write: true }))
        })
    }
}

/// The first range watched for writes to which records bring other bytes than it has.
pub fn brought(memory: &Memory, ranges: &[WatchedRange], addr: u64, bytes: &[u8]) -> Option<u32> {
    let differs = |range: &WatchedRange| {
        overlap(range, addr, bytes.len() as u64).is_some_and(|(start, end)| {
            memory.read(start, end - start) != bytes[(start - addr) as usize..(end - addr) as usize]
        })
    };
    let found = ranges.iter().position(|range| range.writes && differs(range))?;
    Some(found as u32)
}

/// The part of a watched range that lies in another one, as start and end.
pub fn overlap(range: &WatchedRange, addr: u64, len: u64) -> Option<(u64, u64)> {
    let (start, end) = (range.addr.max(addr), range.addr.saturating_add(range.len).min(addr.saturating_add(len)));
    (start < end).then_some((start, end))
}

impl Engine {
    /// These are the conditions from here on.
    ///
    /// # Errors
    /// Too many.
    pub fn set_conditions(&mut self, conditions: Conditions) -> Result<(), String> {
        let Conditions { addresses, ranges, calls, tests, .. } = &conditions;
        let most = [addresses.len(), ranges.len(), calls.len(), tests.len()].into_iter().max();
        if most > Some(MAX_CONDITIONS) {
            return Err(format!("more than {MAX_CONDITIONS} conditions of a kind cannot be watched for"));
        }
        if !tests.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err("the addresses whose conditions are tested do not ascend".into());
        }
        let left = self.watching.conditions.leaving;
        let addresses: HashSet<u64> = conditions.addresses.iter().copied().collect();
        let mut watched = Ranges::default();
        conditions.ranges.iter().for_each(|range| watched.add(range.addr, range.len));
        self.watching.watched = watched;
        let changed: Vec<u64> = self.watching.addresses.symmetric_difference(&addresses).copied().collect();
        (self.watching.addresses, self.watching.conditions) = (addresses, conditions);
        // Whether accesses are watched is looked at when a run begins.
        if left == self.watching.conditions.leaving {
            changed.into_iter().for_each(|pc| self.drop_blocks_with(pc));
        } else {
            self.drop_all_blocks();
        }
        Ok(())
    }

    /// Called before an instruction at a watched address.
    pub fn meet_address(&mut self, id: AddressId) -> Result<(), (u64, Trouble)> {
        let (pc, ahead) = self.sites.address(id);
        let at = self.position_ahead(ahead);
        if !self.watching.has_address_for(pc, self.running) || self.watching.start == (self.running, at) {
            return Ok(());
        }
        if !self.passes_test(pc) {
            return Ok(());
        }
        self.note_stored();
        self.meet(at, Event::Address(pc)).map_err(|trouble| (at, trouble))
    }

    /// Whether the instruction at this address counts, by the expressions that say when it does.
    fn passes_test(&mut self, pc: u64) -> bool {
        let Self { watching, memory, .. } = self;
        let tests = &watching.conditions.tests;
        let Ok(found) = tests.binary_search_by_key(&pc, |(address, _)| *address) else { return true };
        let mut read = |at: u64, len: u64| memory.known_element(at, len as u32);
        let mut subject = Subject { regs: light::saved(), pc, memory: &mut read };
        tests[found].1.iter().any(|test| expression::holds(test, &mut subject).unwrap_or(true))
    }

    /// Called before an instruction that accesses memory, behind [`Self::confirm`]. Where that is watched, and the run is to stop, it stops behind the
    /// instruction.
    pub fn meet_access(&mut self, id: AccessId) -> Result<(), (u64, Trouble)> {
        let at = self.position_ahead(self.sites.access(id).ahead);
        if self.watching.mode == Mode::Ignore || self.watching.stop == Some((self.running, at + 1)) {
            return Ok(());
        }
        let Self { watching, memory, sites, .. } = self;
        let site = sites.access(id);
        let Watching { accesses, .. } = watching;
        // What makes no sense is found out when it is executed.
        accesses.find(&site.instruction, &site.bytes, light::saved(), &mut |addr, len| memory.element(addr, len));
        match watching.accessed() {
            Some(event) => {
                let hit = self.hit_at(at, event);
                self.watching.hit = Some(hit);
            }
            None => {
                let found: Vec<_> = watching.may_change().collect();
                if found.is_empty() {
                    return Ok(());
                }
                for (range, event) in found {
                    let (hit, before) = (self.hit_at(at, event), self.memory.read(range.addr, range.len));
                    self.watching.unconfirmed.push(Unconfirmed { hit, addr: range.addr, before });
                }
            }
        }
        if self.watching.mode == Mode::Stop {
            self.watching.stop = Some((self.running, at + 1));
            return Err((at, Trouble::Rearm));
        }
        Ok(())
    }

    /// The last instruction that accessed memory is over: its writes count if they have changed something. Before anything else does.
    pub(crate) fn confirm(&mut self) {
        let pending = std::mem::take(&mut self.watching.unconfirmed);
        let changed = |write: &Unconfirmed| self.memory.read(write.addr, write.before.len() as u64) != write.before;
        if let Some(write) = pending.iter().find(|write| changed(write)) {
            self.watching.hit = Some(write.hit);
        }
    }

    /// Execution is where a condition may have been met by the instruction before; whether it was.
    pub(crate) fn has_met(&mut self) -> bool {
        self.confirm();
        self.watching.stop = None;
        self.watching.hit.is_some()
    }

    /// A record of the running thread is about to be applied.
    ///
    /// # Errors
    /// Execution stops before it.
    pub(crate) fn meet_record(&mut self, placed: &Placed<'_>) -> Result<(), Trouble> {
        if self.watching.mode == Mode::Ignore {
            return Ok(());
        }
        let Conditions { calls, all_calls, signals, .. } = &self.watching.conditions;
        let event = match &placed.record {
            Record::Syscall { number, .. } if *all_calls || calls.contains(number) => Event::Call(*number),
            Record::Signal { step: SignalStep::Delivery, number, .. } if *signals => Event::Signal(*number),
            _ => return Ok(()),
        };
        let record = Some((self.running, self.position, placed.offset));
        if self.watching.mode == Mode::Stop {
            if self.watching.reported == record {
                return Ok(());
            }
            self.watching.reported = record;
        }
        self.meet(self.position, event)
    }

    /// Records put other bytes into memory than were there.
    pub(crate) fn meet_bytes(&mut self, addr: u64, bytes: &[u8]) {
        if self.watching.mode == Mode::Ignore {
            return;
        }
        self.confirm();
        if let Some(range) = brought(&self.memory, &self.watching.conditions.ranges, addr, bytes) {
            let hit = self.hit_at(self.position, Event::Outside { range, addr, len: bytes.len() as u64 });
            self.watching.take(hit);
            if self.watching.mode == Mode::Stop {
                self.watching.stop = Some((self.running, self.position));
            }
        }
    }

    /// Another thread goes on.
    ///
    /// # Errors
    /// Execution stops here.
    pub(crate) fn meet_thread(&mut self) -> Result<(), Trouble> {
        if self.watching.conditions.threads { self.meet(self.position, Event::Thread) } else { Ok(()) }
    }

    fn hit_at(&self, at: u64, what: Event) -> Hit {
        Hit { thread: self.running as u32, at, time: self.time_at(at), what }
    }

    /// A condition is met before the instruction that is next behind `at` others.
    fn meet(&mut self, at: u64, what: Event) -> Result<(), Trouble> {
        self.confirm();
        let hit = self.hit_at(at, what);
        match self.watching.mode {
            Mode::Ignore => Ok(()),
            Mode::Last | Mode::LastBefore(_) => {
                self.watching.take(hit);
                Ok(())
            }
            Mode::Stop => {
                self.watching.hit = Some(hit);
                Err(Stop::Hit.into())
            }
        }
    }
}
