//! Whether anything was done with some memory since somebody asked last: a look that costs nothing while the program runs.
//!
//! It sees what a watch over the same ranges sees ([`crate::conditions`]): accesses of instructions, by their marks
//! ([`crate::marks`]) or where the client is called, and records that bring other bytes. It may see more than a watch does, as a mark
//! of a write does not tell whether that changed anything, but never less.

use crate::accesses::Accesses;
use crate::conditions::{brought, overlap};
use crate::engine::Engine;
use crate::light;
use crate::marks::LINE;
use crate::memory::Memory;
use crate::site::AccessId;
use bugnet_format::control::{MAX_CONDITIONS, MAX_GLANCE, WatchedRange};
use std::ops::Range;

/// A look at some ranges.
pub struct Glance {
    ranges: Vec<WatchedRange>,
    /// All of them lie in here.
    hull: Range<u64>,
    /// Whether anything was seen.
    noticed: bool,
}

impl Glance {
    /// At these ranges, of which nothing was seen.
    pub fn new(ranges: Vec<WatchedRange>) -> Self {
        let start = ranges.iter().map(|range| range.addr).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.addr.saturating_add(range.len)).max().unwrap_or(0);
        Self { ranges, hull: start..end, noticed: false }
    }

    /// What is looked at.
    pub fn ranges(&self) -> &[WatchedRange] {
        &self.ranges
    }

    /// Whether anything was seen.
    pub fn has_noticed(&self) -> bool {
        self.noticed
    }

    /// There was something to be seen.
    pub fn notice(&mut self) {
        self.noticed = true;
    }

    /// Memory is read, or written.
    #[inline]
    pub fn accessed(&mut self, addr: u64, len: u64, writes: bool) {
        if self.hull.start < addr.saturating_add(len) && addr < self.hull.end {
            let counts = |range: &WatchedRange| if writes { range.writes } else { range.reads };
            self.noticed |= self.ranges.iter().any(|range| counts(range) && overlap(range, addr, len).is_some());
        }
    }

    /// Marks of a line are taken: bytes that were accessed, a bit each, and those that were written.
    #[inline]
    pub fn marked(&mut self, line: u64, accessed: u64, written: u64) {
        if self.hull.start < line.saturating_add(LINE as u64) && line < self.hull.end {
            let bits = |(start, end): (u64, u64)| (u64::MAX >> (LINE as u64 - (end - start))) << (start - line);
            let seen = |range: &WatchedRange| {
                let of_range = overlap(range, line, LINE as u64).map_or(0, bits);
                range.reads && accessed & of_range != 0 || range.writes && written & of_range != 0
            };
            self.noticed |= self.ranges.iter().any(seen);
        }
    }
}

impl Engine {
    /// Looks at these ranges from here on, and says whether there was anything to be seen of those at which it has looked up to here.
    /// `None` where that costs as much as a watch.
    ///
    /// # Errors
    /// They are too long, or nothing keeps track of accesses.
    pub fn glance(&mut self, ranges: Vec<WatchedRange>) -> Result<Option<bool>, String> {
        let bytes = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len));
        if bytes > MAX_GLANCE || ranges.len() > MAX_CONDITIONS {
            return Err(format!("no more than {MAX_GLANCE} bytes can be glanced at"));
        }
        let is_cheap = !self.calls_at_accesses();
        let Some(touched) = &mut self.memory.touched else { return Err("nothing keeps track of accesses".into()) };
        let noticed = touched.glance_at(ranges);
        Ok(Some(noticed).filter(|_| is_cheap))
    }

    /// Called before an instruction that accesses memory.
    #[inline]
    pub fn glance_at_access(&mut self, id: AccessId) {
        let Self { sites, memory, .. } = self;
        let Some(mut glance) = memory.touched.as_mut().and_then(|touched| touched.glance.take()) else { return };
        let site = sites.access(id);
        match &site.plain {
            Some(plain) => {
                let addr = plain.address(light::saved());
                let kinds = [(plain.reads, false), (plain.writes, true)].into_iter().filter(|(does, _)| *does);
                kinds.for_each(|(_, writes)| glance.accessed(addr, plain.bytes, writes));
            }
            None => {
                let mut accesses = Accesses::default();
                accesses
                    .find(&site.instruction, &site.bytes, light::saved(), &mut |addr, len| memory.element(addr, len));
                accesses.reads.iter().for_each(|(addr, len)| glance.accessed(*addr, *len, false));
                accesses.writes.iter().for_each(|(addr, len)| glance.accessed(*addr, *len, true));
            }
        }
        if let Some(touched) = &mut memory.touched {
            touched.glance = Some(glance);
        }
    }
}

impl Memory {
    /// Records are about to put these bytes there.
    #[inline]
    pub fn glance_at_bytes(&mut self, addr: u64, bytes: &[u8]) {
        let Some(glance) = self.touched.as_ref().and_then(|touched| touched.glance.as_ref()) else { return };
        if brought(self, glance.ranges(), addr, bytes).is_some() {
            self.touched.as_mut().and_then(|touched| touched.glance.as_mut()).into_iter().for_each(Glance::notice);
        }
    }
}
