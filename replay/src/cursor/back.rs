//! The last time before a moment that a condition held, through all epochs.
//!
//! In an epoch, instructions that write to watched memory are met, and records that bring other bytes than a thread had seen. What came
//! from outside, and was first looked at in a later epoch, is found by comparing what each epoch finds with what earlier ones left. An index
//! knows what each left, and in which of them there is something to be met at all: the others are not replayed.

use super::scout::Search;
use super::{Conditions, Cursor, Event, Last, Open, Place, Stopped, WatchedRange};
use crate::error::Result;
use crate::index::Index;
use bugnet_format::control::{Hit, Stop, Target};
use bugnet_format::index::EpochTable;
use bugnet_format::types::Addr;
use std::ops::Range;

const PAGE: u64 = Addr::PAGE;
const LINE: u64 = PAGE / 64;
/// Most bytes of which it is noticed that they came from outside between epochs.
const MOST_NOTICED: u64 = 4096;

/// What was found.
pub(super) enum Back {
    /// This, in the epoch that is open now.
    Hit(Hit),
    /// A thread found other bytes than had been there, and nothing in between has written them.
    Noticed {
        /// When it did, in the epoch that is open now.
        time: u64,
        /// The first byte that differs.
        addr: u64,
        /// Index of its range.
        range: usize,
        /// The last place before at which something else was there, if it is known.
        since: Option<Place>,
        /// The bytes of all ranges that had been there.
        before: Vec<Option<u8>>,
        /// What was found.
        after: Vec<Option<u8>>,
    },
    /// Nothing.
    None,
    /// The search was interrupted.
    Interrupted,
}

/// Where a thread found bytes first.
pub(super) enum First {
    /// Where the cursor is; these.
    Found(Vec<Option<u8>>),
    /// Nobody has looked there.
    Nowhere,
    /// The search was interrupted.
    Interrupted,
}

/// Where bytes were found.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// In this epoch, by its index, at this time in it.
    At(usize, u64),
    /// Somewhere in this epoch.
    In(usize),
}

/// The bytes that are watched for writes, as they were found latest by what comes after the place to which the search has come.
pub(super) struct Found {
    /// Epoch and time in it at which the search began: what is met there is there already.
    start: (usize, u64),
    ranges: Vec<(u64, u64)>,
    bytes: Vec<Option<(u8, Seen)>>,
}

impl Found {
    fn new(conditions: &Conditions, start: (usize, u64)) -> Self {
        let written = conditions.ranges.iter().filter(|range| range.writes);
        let mut ranges: Vec<(u64, u64)> = written.map(|range| (range.addr, range.len)).collect();
        if ranges.iter().fold(0_u64, |sum, (_, len)| sum.saturating_add(*len)) > MOST_NOTICED {
            ranges.clear();
        }
        let bytes = vec![None; ranges.iter().map(|(_, len)| *len as usize).sum()];
        Self { start, ranges, bytes }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The first byte that is another one than was found later.
    fn differs(&self, bytes: &[Option<u8>]) -> Option<usize> {
        let differ = |(later, byte): (&Option<(u8, Seen)>, &Option<u8>)| match (later, byte) {
            (Some((later, _)), Some(byte)) => later != byte,
            _ => false,
        };
        self.bytes.iter().zip(bytes).position(differ)
    }

    fn merge(&mut self, bytes: &[Option<u8>], seen: Seen) {
        for (slot, byte) in self.bytes.iter_mut().zip(bytes) {
            *slot = byte.map(|byte| (byte, seen)).or(*slot);
        }
    }

    /// Address of a byte, by its index.
    fn addr(&self, index: usize) -> u64 {
        let mut left = index as u64;
        for (addr, len) in &self.ranges {
            if left < *len {
                return addr + left;
            }
            left -= len;
        }
        0
    }

    /// The bytes as the open epoch knows them now.
    fn read(&self, open: &mut Open) -> Result<Vec<Option<u8>>> {
        let mut all = Vec::new();
        for (addr, len) in &self.ranges {
            all.extend(open.read(*addr, *len)?);
        }
        Ok(all)
    }

    /// The bytes as an epoch left them.
    fn left(&self, index: &mut Index, epoch: usize) -> Result<Vec<Option<u8>>> {
        let table = index.table(epoch)?;
        let mut all = Vec::new();
        for (addr, len) in &self.ranges {
            for at in *addr..addr.saturating_add(*len) {
                let (page, number) = (at & !(PAGE - 1), (at % PAGE) as usize);
                let content = match table.page(page) {
                    Some(entry) => index.content(entry.left)?,
                    None => None,
                };
                let known = content.filter(|content| content.known[number / 64] >> (number % 64) & 1 == 1);
                all.push(known.map(|content| content.bytes[number]));
            }
        }
        Ok(all)
    }
}

/// The lines of a page in which bytes of a range lie, a bit each.
fn lines(page: u64, range: &Range<u64>) -> u64 {
    let first = (range.start.max(page) - page) / LINE;
    let last = (range.end.min(page + PAGE) - 1 - page) / LINE;
    u64::MAX >> (63 - (last - first)) << first
}

/// Whether a condition can hold in an epoch with this table.
fn can_hold(table: &EpochTable, conditions: &Conditions) -> bool {
    let executed = |pc: &u64| {
        let page = pc & !(PAGE - 1);
        table.page(page).is_some_and(|entry| entry.executed & lines(page, &(*pc..pc + 1)) != 0)
    };
    let accessed = |watched: &WatchedRange| {
        let range = watched.addr..watched.addr.saturating_add(watched.len);
        let first = table.pages.partition_point(|entry| entry.addr + PAGE <= range.start);
        let pages = table.pages[first..].iter().take_while(|entry| entry.addr < range.end);
        range.start < range.end && { pages }.any(|entry| {
            let what = if watched.reads { entry.accessed } else { 0 } | if watched.writes { entry.written } else { 0 };
            what & lines(entry.addr, &range) != 0
        })
    };
    table.is_unknown
        || conditions.threads
        || conditions.signals && table.signals
        || conditions.all_calls && !table.calls.is_empty()
        || conditions.calls.iter().any(|number| table.calls.binary_search(number).is_ok())
        || conditions.addresses.iter().any(executed)
        || conditions.ranges.iter().any(accessed)
}

impl Cursor<'_> {
    pub(super) fn run_backward(&mut self, conditions: &Conditions, limit: Option<u64>) -> Result<Stopped> {
        if let Some(limit) = limit.filter(|_| *conditions == Conditions::default()) {
            // A step: there is nothing to look for.
            self.go_to_time(limit)?;
            return Ok(Stopped::There);
        }
        match self.search_back(conditions, limit.unwrap_or(0))?.0 {
            Back::Hit(hit) => {
                self.open.go_before(hit)?;
                Ok(Stopped::Condition(hit.what))
            }
            Back::Noticed { time, addr, range, .. } => {
                self.open.go_to(time)?;
                Ok(Stopped::Condition(Event::Outside { range: range as u32, addr, len: 1 }))
            }
            Back::None => {
                // Who wants to come to the first instruction finds that there, and not that there is nothing before it.
                self.enter(self.outline.at(limit.unwrap_or(0)))?;
                self.open.go_to(limit.unwrap_or(0).saturating_sub(self.open.begin))?;
                Ok(if limit.is_some() { Stopped::There } else { Stopped::Start })
            }
            Back::Interrupted => Ok(Stopped::Interrupted),
        }
    }

    /// The last time before now that one of the conditions held, but not before a time; and what the search has found of watched bytes.
    pub(super) fn search_back(&mut self, conditions: &Conditions, limit: u64) -> Result<(Back, Found)> {
        let (mut epoch, mut before) = (self.open.index, self.open.time);
        let mut found = Found::new(conditions, (epoch, before));
        let now = found.read(&mut self.open)?;
        found.merge(&now, Seen::In(epoch));
        loop {
            let begin = self.open.begin;
            match self.search_epoch(conditions, limit.saturating_sub(begin), before, &mut found)? {
                Back::None if limit > 0 && limit >= begin => return Ok((Back::None, found)),
                Back::None => {}
                done => return Ok((done, found)),
            }
            // To the next epoch before, in which there can be something.
            loop {
                let Some(earlier) = epoch.checked_sub(1) else { return Ok((Back::None, found)) };
                epoch = earlier;
                let can_hold = match &mut self.elsewhere.index {
                    Some(index) => can_hold(&*index.table(epoch)?, conditions),
                    None => true,
                };
                if let Some(noticed) = self.compare_left(epoch, &mut found)? {
                    return Ok((noticed, found));
                }
                let has_limit = limit > 0 && self.outline.epoch(epoch).is_some_and(|(_, begin)| limit >= begin);
                if can_hold || has_limit {
                    break;
                }
            }
            self.enter(epoch)?;
            before = self.instructions(epoch);
        }
    }

    /// Instructions in an epoch.
    fn instructions(&self, epoch: usize) -> u64 {
        let begin = |epoch| self.outline.epoch(epoch).map_or(self.outline.end, |(_, begin)| begin);
        begin(epoch + 1) - begin(epoch)
    }

    /// Compares what an epoch has left with what was found later.
    fn compare_left(&mut self, epoch: usize, found: &mut Found) -> Result<Option<Back>> {
        if found.is_empty() {
            return Ok(None);
        }
        let left = match &mut self.elsewhere.index {
            Some(index) => found.left(index, epoch)?,
            None => {
                self.enter(epoch)?;
                self.open.go_to(self.instructions(epoch))?;
                found.read(&mut self.open)?
            }
        };
        let noticed = match found.differs(&left) {
            Some(byte) => self.noticed(found, byte, epoch, &left)?,
            None => None,
        };
        found.merge(&left, Seen::In(epoch));
        Ok(noticed)
    }

    /// The last hit before a time of the open epoch. Records that bring what a thread sees first are none.
    fn search_epoch(
        &mut self,
        conditions: &Conditions,
        first: u64,
        mut before: u64,
        found: &mut Found,
    ) -> Result<Back> {
        let epoch = self.open.index;
        let mut search = Search::new(&self.open, conditions, first, before);
        loop {
            let hit = match search.next(&mut self.open, before)? {
                Last::Hit(hit) => hit,
                Last::None => return Ok(Back::None),
                Last::Interrupted => return Ok(Back::Interrupted),
            };
            if found.is_empty() {
                return Ok(Back::Hit(hit));
            }
            let is_first_look = self.is_first_look(&hit, conditions)?;
            let time = hit.time + u64::from(matches!(hit.what, Event::Access { .. }));
            self.open.go_to(time)?;
            let bytes = found.read(&mut self.open)?;
            if let Some(byte) = found.differs(&bytes) {
                if let Some(noticed) = self.noticed(found, byte, epoch, &bytes)? {
                    return Ok(noticed);
                }
                self.enter(epoch)?;
            }
            if !is_first_look {
                return Ok(Back::Hit(hit));
            }
            found.merge(&bytes, Seen::At(epoch, hit.time));
            before = hit.time;
        }
    }

    /// Whether a hit is a record that brings watched bytes which were not known, and none that was another one in the epoch.
    fn is_first_look(&mut self, hit: &Hit, conditions: &Conditions) -> Result<bool> {
        let Event::Outside { range, addr, len } = hit.what else { return Ok(false) };
        let Some(watched) = conditions.ranges.get(range as usize) else { return Ok(false) };
        let Some(time) = hit.time.checked_sub(1) else { return Ok(true) };
        let start = addr.max(watched.addr);
        let len = addr.saturating_add(len).min(watched.addr.saturating_add(watched.len)).saturating_sub(start);
        self.open.go_to(time)?;
        let before = self.open.read(start, len)?;
        self.open.go_to(hit.time)?;
        let after = self.open.read(start, len)?;
        Ok(before.iter().zip(&after).all(|(before, after)| before.is_none() || before == after))
    }

    /// A byte was found to be another one than `before` says, in this epoch: goes to the epoch in which that was noticed. None if it was
    /// where the search began; what comes before that is all that counts from then on.
    fn noticed(&mut self, found: &mut Found, byte: usize, epoch: usize, before: &[Option<u8>]) -> Result<Option<Back>> {
        let addr = found.addr(byte);
        let range = found.ranges.iter().position(|(at, len)| (*at..at + len).contains(&addr)).unwrap_or(0);
        let noticed = match found.bytes[byte] {
            Some((_, Seen::At(later, time))) => Some((later, time)),
            Some((_, Seen::In(later))) if later != epoch => {
                self.enter(later)?;
                let Some(time) = self.first_look(addr)? else { return Ok(Some(Back::Interrupted)) };
                Some((later, time))
            }
            _ => None,
        };
        let Some((later, time)) = noticed.filter(|noticed| *noticed < found.start) else {
            found.bytes.fill(None);
            found.merge(before, Seen::In(epoch));
            return Ok(None);
        };
        // Where the search stands is where the other bytes were.
        let since = (self.open.index == epoch).then(|| self.place());
        self.enter(later)?;
        let after = found.bytes.iter().map(|byte| byte.map(|(byte, _)| byte)).collect();
        Ok(Some(Back::Noticed { time, addr, range, since, before: before.to_vec(), after }))
    }

    /// Goes to where a thread found first what the search has found.
    pub(super) fn go_to_first(&mut self, found: &Found) -> Result<First> {
        let seen = |(number, byte): (usize, &Option<(u8, Seen)>)| byte.map(|(_, seen)| (seen, number));
        let epoch = |seen: &Seen| match *seen {
            Seen::At(epoch, _) | Seen::In(epoch) => epoch,
        };
        let all = found.bytes.iter().enumerate().filter_map(seen);
        let Some((first, number)) = all.min_by_key(|(seen, _)| epoch(seen)) else { return Ok(First::Nowhere) };
        self.enter(epoch(&first))?;
        let time = match first {
            Seen::At(_, time) => time,
            Seen::In(_) => match self.first_look(found.addr(number))? {
                Some(time) => time,
                None => return Ok(First::Interrupted),
            },
        };
        self.open.go_to(time)?;
        Ok(First::Found(found.bytes.iter().map(|byte| byte.map(|(byte, _)| byte)).collect()))
    }

    /// When a byte is first accessed in the open epoch; the end, if it never is. None if the search was interrupted.
    fn first_look(&mut self, addr: u64) -> Result<Option<u64>> {
        let range = WatchedRange { addr, len: 1, reads: true, writes: true, changes: false };
        self.open.go_to(0)?;
        let conditions = Conditions { ranges: vec![range], ..Conditions::default() };
        let stop = self.open.run_to_hit(&conditions, Target::End, self.instructions(self.open.index))?;
        if stop == Stop::Interrupted {
            return Ok(None);
        }
        Ok(Some(self.open.hit.filter(|_| stop == Stop::Hit).map_or(self.open.time, |hit| hit.time)))
    }
}
