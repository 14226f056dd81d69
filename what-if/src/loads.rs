//! What a thread found in memory that it had not put there itself: the values of its first loads, and where they were.

use bugnet_events::onward::walk_on;
use bugnet_events::walk::{Did, Visit};
use bugnet_format::record::Record;
use bugnet_format::types::{Addr, IntervalNo, Position};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::Made;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use bugnet_replay::{ReplayError, Result};
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

const PAGE: u64 = Addr::PAGE;

/// Bytes that were found in memory.
#[derive(Debug)]
pub(crate) struct Found {
    /// The first one's address.
    pub addr: u64,
    pub bytes: Vec<u8>,
    /// The system call that wrote them: its number among those since the place. None for what was there before.
    pub by: Option<usize>,
}

/// Bytes that a record has.
struct Told {
    at: (IntervalNo, Position),
    place: Where,
    bytes: Vec<u8>,
}

/// Where they are.
enum Where {
    /// In what the instruction reads: which of its reads, and so many bytes behind its beginning.
    Read { ordinal: usize, offset: u64 },
    /// At an address.
    At(u64),
}

/// Who wrote what last.
#[derive(Default)]
struct Writers {
    /// The bytes that the program itself has written, a bit each, by pages.
    own: HashMap<u64, [u64; PAGE as usize / 64]>,
    /// Which memory each call wrote.
    calls: Vec<Vec<(u64, u64)>>,
}

impl Writers {
    fn mark(&mut self, addr: u64, len: u64, is_own: bool) {
        let (mut at, end) = (addr, addr.saturating_add(len));
        while at < end {
            let to = end.min((at & !(PAGE - 1)).saturating_add(PAGE));
            // What nobody has marked need not be unmarked.
            let page = at & !(PAGE - 1);
            let marks = if is_own {
                Some(self.own.entry(page).or_insert([0; PAGE as usize / 64]))
            } else {
                self.own.get_mut(&page)
            };
            if let Some(marks) = marks {
                for byte in (at..to).map(|at| (at % PAGE) as usize) {
                    let bit = 1 << (byte % 64);
                    marks[byte / 64] = if is_own { marks[byte / 64] | bit } else { marks[byte / 64] & !bit };
                }
            }
            at = to;
        }
    }

    fn called(&mut self, written: Vec<(u64, u64)>) {
        written.iter().for_each(|(addr, len)| self.mark(*addr, *len, false));
        self.calls.push(written);
    }

    fn is_own(&self, addr: u64) -> bool {
        let byte = (addr % PAGE) as usize;
        self.own.get(&(addr & !(PAGE - 1))).is_some_and(|marks| marks[byte / 64] >> (byte % 64) & 1 == 1)
    }

    /// The last call that wrote there.
    fn call(&self, addr: u64) -> Option<usize> {
        let writes = |(start, len): &(u64, u64)| *start <= addr && addr - start < *len;
        self.calls.iter().rposition(|written| written.iter().any(writes))
    }

    /// What was found is what the program itself has put there, or calls have, or it was there. It is known from now on: records tell as well what
    /// instructions have stored of which nobody knows what they store (`xsave`).
    fn found(&mut self, addr: u64, bytes: &[u8], all: &mut Vec<Found>) {
        for (at, byte) in (addr..).zip(bytes).filter(|(at, _)| !self.is_own(*at)) {
            let by = self.call(at);
            match all.last_mut().filter(|last| last.by == by && last.addr + last.bytes.len() as u64 == at) {
                Some(last) => last.bytes.push(*byte),
                None => all.push(Found { addr: at, bytes: vec![*byte], by }),
            }
        }
        self.mark(addr, bytes.len() as u64, true);
    }
}

/// All that a process's only thread found from a place on, in order. Memory that it had put there itself is told anew in each interval, and is left out.
///
/// # Errors
/// The log cannot be read, replayed or traced; a signal arrives; a load is told of an instruction that has made none.
pub(crate) fn found(tools: &Tools, log: &Log, thread: ThreadId, from: Place) -> Result<Vec<Found>> {
    let mut told: VecDeque<Told> = VecDeque::new();
    for &interval in log.intervals(thread)?.iter().filter(|interval| **interval >= from.interval) {
        for placed in log.interval(IntervalId { thread, interval })?.records().flatten() {
            let at = (interval, placed.position);
            let (place, bytes) = match placed.record {
                Record::Load { ordinal, offset, value, .. } => {
                    (Where::Read { ordinal: ordinal.into(), offset }, value.to_vec())
                }
                Record::Memory { addr, bytes, .. } => (Where::At(addr.0), bytes.to_vec()),
                _ => continue,
            };
            if at >= (from.interval, from.position) {
                told.push_back(Told { at, place, bytes });
            }
        }
    }
    let mut symbols = Symbolizer::new(log, thread.pid)?;
    let (mut all, mut writers, mut odd) = (Vec::new(), Writers::default(), None);
    let wanted = Arc::new(Wanted::default());
    walk_on(tools, log, thread.pid, from, &wanted, &mut |visit| {
        let (place, ran, instructions) = match visit {
            Visit::Ran { place, ran, instructions } => (place, ran, instructions),
            Visit::Skipped { did, .. } => {
                if let Did::Call { number, args, result, .. } = *did {
                    let call = Made { number, args, result };
                    let written = if call.needs_memory() { None } else { call.written(None, &mut symbols) };
                    writers.called(written.unwrap_or_default());
                }
                return ControlFlow::Continue(());
            }
            Visit::Delivered { .. } => {
                odd = Some("a signal's handler runs");
                return ControlFlow::Break(());
            }
            Visit::Resumed { .. } => {
                odd = Some("a child of vfork has had the thread");
                return ControlFlow::Break(());
            }
        };
        for (position, index) in (place.position.0..).zip(instructions) {
            let at = (place.interval, Position(position));
            while let Some(Told { at: told_at, place, bytes }) = told.pop_front_if(|told| told.at <= at) {
                let addr = match place {
                    Where::At(addr) => Some(addr),
                    Where::Read { ordinal, offset } => {
                        let read = ran.accesses(index).filter(|access| access.reads).nth(ordinal);
                        read.filter(|_| told_at == at).map(|read| read.addr.wrapping_add(offset))
                    }
                };
                match addr {
                    Some(addr) => writers.found(addr, &bytes, &mut all),
                    None => odd = Some("it is not known where the program found what it loaded"),
                }
            }
            ran.accesses(index).filter(|one| one.writes).for_each(|one| writers.mark(one.addr, one.len, true));
        }
        ControlFlow::Continue(())
    })?;
    if !told.is_empty() {
        odd = odd.or(Some("not all that the program loaded was seen"));
    }
    odd.map_or(Ok(all), |odd| Err(ReplayError::OutOfRange(odd.to_owned())))
}
