//! A check in brief: of calls that return with nothing else told in between, it hears nothing ([`bugnet_replay::trace::Wanted::open`]), as of most. At
//! each call that it hears of, it knows which ones are open, but not between, nor where frames of functions lie that have returned.
//!
//! So it finds out that there is no error, or that there may be one: then, all is checked anew with all calls. It may doubt where there is no error, but
//! never pass over one.

use super::check::Checker;
use bugnet_events::calls::{Called, Entered};
use bugnet_events::code::{Decoded, Stack};
use bugnet_events::stretch::Ran;
use bugnet_format::regs::RSP;
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Place, Seek};
use bugnet_replay::syscall::Made;
use iced_x86::Register;
use std::collections::BTreeMap;
use std::ops::Range;

/// Nobody's stack lies below (`vm.mmap_min_addr`).
const LOWEST: u64 = 1 << 16;
const WORD: u64 = 8;
/// So near to where a stack was, it is the same one.
const STACK: u64 = 1 << 12;
/// How often the stack pointer is looked up: each time, an interval is replayed, at the most.
const MOST_LOOKUPS: usize = 8;

/// What such a check knows beside what others do.
#[derive(Default)]
pub struct Brief {
    /// There may be an error.
    pub in_doubt: bool,
    /// What the program has mapped: where each range begins and ends. Those that touch are one, as a stack may lie in both.
    mapped: BTreeMap<u64, u64>,
    /// How often the stack pointer was looked up.
    lookups: usize,
    /// Where a return address lay last, in pieces of [`STACK`] bytes.
    stack: u64,
}

impl Brief {
    fn unmap(&mut self, range: Range<u64>) {
        while let Some((start, end)) = self.mapped.range(..range.end).next_back().map(|(start, end)| (*start, *end))
            && end > range.start
        {
            self.mapped.remove(&start);
            if start < range.start {
                self.mapped.insert(start, range.start);
            }
            if end > range.end {
                self.mapped.insert(range.end, end);
            }
        }
    }

    fn map(&mut self, range: Range<u64>) {
        self.unmap(range.clone());
        let before = self.mapped.range(..range.start).next_back().filter(|(_, end)| **end == range.start);
        let start = before.map_or(range.start, |(start, _)| *start);
        let end = self.mapped.remove(&range.end).unwrap_or(range.end);
        if start < end {
            self.mapped.insert(start, end);
        }
    }

    /// A system call was made.
    pub fn called(&mut self, made: &Made) {
        let page = |len: u64| len.next_multiple_of(Addr::PAGE);
        let Some(done) = u64::try_from(made.result).ok().filter(|result| *result < (1 << 47)) else { return };
        let [addr, len, more, ..] = made.args;
        let before = addr..addr.saturating_add(page(len));
        match made.number.cast_signed() {
            libc::SYS_mmap => self.map(done..done.saturating_add(page(len))),
            libc::SYS_munmap => self.unmap(before),
            libc::SYS_mremap => {
                self.unmap(before);
                self.map(done..done.saturating_add(page(more)));
            }
            _ => {}
        }
    }

    /// The range that was mapped in which an address is, if it is known.
    fn holding(&self, addr: u64) -> Option<Range<u64>> {
        let (start, end) = self.mapped.range(..=addr).next_back()?;
        (addr < *end).then_some(*start..*end)
    }
}

impl Checker<'_, '_> {
    /// Whether it is a check in brief that has found, or cannot rule out, an error.
    pub fn is_in_doubt(&self) -> bool {
        self.brief
            .as_ref()
            .is_some_and(|brief| brief.in_doubt || self.frames.has_strayed || !self.errors.all.is_empty())
    }

    /// Whether a check in brief that has come to the end knows that there is no error.
    pub fn is_certain(&self) -> bool {
        !self.is_in_doubt() && !self.frames.has_left()
    }

    /// There may be an error, if it is a check in brief.
    pub(super) fn doubt(&mut self) {
        if let Some(brief) = &mut self.brief {
            brief.in_doubt = true;
        }
    }

    /// In brief: a function begins, or is over.
    pub(super) fn called_in_brief(&mut self, called: &Called<'_>) {
        // It was perhaps over before.
        if matches!(called, Called::Left(_)) {
            self.doubt();
        }
    }

    /// In brief: a thread executes a part of a block.
    pub(super) fn ran_in_brief(&mut self, place: Place, ran: &Ran<'_>, part: &Range<usize>) {
        if ran.block.stack == Stack::Switches {
            let is_whole = *part == (0..ran.block.instructions.len());
            let stack = ran.stack().filter(|_| is_whole).or_else(|| self.stack_behind(place, part));
            match stack.filter(|stack| !self.is_heaps(*stack) && !self.leaves_allocator(place.tid, *stack)) {
                Some(stack) => self.frames.goes_to(place.tid, stack),
                None => self.doubt(),
            }
        }
        // Of a stack in a block, it matters what is accessed by the stack pointer, at which nobody looks.
        if let Some(slot) = ran.slot()
            && let Some(brief) = &mut self.brief
            && std::mem::replace(&mut brief.stack, slot / STACK) != slot / STACK
            && self.heap.holding(slot).is_some()
        {
            self.doubt();
        }
        // Of most blocks, nothing but where a return address lies is told.
        let may_be_of_frame = |number: usize| {
            let Decoded { instruction, .. } = &ran.block.instructions[number];
            instruction.memory_base() != Register::RSP
                && ran.accesses(number).any(|access| !self.is_heaps(access.addr) && !self.is_files(access.addr))
        };
        let plain = part.end - usize::from(ran.slot().is_some() && part.end == ran.block.instructions.len());
        let is_told = ran.is_odd() || ran.block.traced.accesses.len() > usize::from(ran.slot().is_some());
        if is_told && (part.start..plain).any(may_be_of_frame) {
            self.doubt();
        }
    }

    /// The stack pointer behind a part of a block, of which the outline does not tell it: a record came just there.
    fn stack_behind(&mut self, mut place: Place, part: &Range<usize>) -> Option<u64> {
        let brief = self.brief.as_mut().filter(|brief| brief.lookups < MOST_LOOKUPS)?;
        brief.lookups += 1;
        place.position.0 += part.len() as u64;
        self.cursor.seek(Seek::Place(place)).ok()?;
        (self.cursor.place() == place).then(|| self.cursor.regs().gpr[RSP])
    }

    /// In brief: a signal's handler begins, with its frame on this stack.
    pub(super) fn delivered_in_brief(&mut self, frame: u64) {
        if self.is_heaps(frame) || self.is_heaps(frame.wrapping_sub(WORD)) {
            self.doubt();
        }
    }

    /// In brief: a function gets an address. It may be of the frame of one that has returned if it lies below, on the same stack.
    pub(super) fn passed_in_brief(&mut self, call: &Entered, addr: u64) {
        if self.brief.is_none() {
            return;
        }
        if !(LOWEST..call.slot).contains(&addr) || self.is_heaps(addr) || self.is_files(addr) {
            return;
        }
        let mapped = self.brief.as_ref().and_then(|brief| brief.holding(addr));
        if mapped.is_none_or(|mapped| mapped.contains(&call.slot)) {
            self.doubt();
        }
    }

    /// Whether memory is of a block, or of an allocator.
    fn is_heaps(&self, addr: u64) -> bool {
        self.heap.holding(addr).is_some() || self.heap.is_own(addr) || self.heap.shadow.first_wrong(addr, 1).is_some()
    }

    fn is_files(&self, addr: u64) -> bool {
        self.known.module_at(addr).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let (mut brief, mut all) = (Brief::default(), [false; 64]);
            for _ in 0..random.usize(1..10) {
                let start = random.u64(0..40);
                let range = start..start + random.u64(1..20);
                let maps = random.bool();
                if maps {
                    brief.map(range.clone())
                } else {
                    brief.unmap(range.clone())
                }
                all[range.start as usize..range.end as usize].fill(maps);
            }
            for at in 0..64_usize {
                let around = |at: usize| {
                    let start = all[..at].iter().rposition(|is| !is).map_or(0, |before| before + 1);
                    start as u64..(at + all[at..].iter().position(|is| !is).unwrap_or(64 - at)) as u64
                };
                assert_eq!(brief.holding(at as u64), all[at].then(|| around(at)), "{at} of {all:?}");
            }
        }
    }
}
