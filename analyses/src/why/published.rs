//! What a thread told others too early: it stored a flag or pointer, another thread read that, and then read something which the first one wrote only
//! after, further down in the same call of a function: what is handed over was not finished yet. No pair of accesses of one variable shows
//! that, and where the flag is atomic, it is no race.

use super::between::{Between, Call};
use super::near::Line;
use super::rank::{Reason, Table};
use super::report::{Illegal, Report};
use crate::runs::scene::Spot;
use bugnet_events::effects::Control;
use bugnet_events::onward::walk_on;
use bugnet_events::stretch::Ran;
use bugnet_events::walk::Visit;
use bugnet_format::types::Tid;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use hashbrown::HashMap;
use iced_x86::Register;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Stores of others that are remembered of each thread, as it read them.
const HEARD: usize = 6;

/// A store that another thread may read.
#[derive(Clone, Copy, Debug)]
struct Store {
    tid: Tid,
    ip: u64,
    addr: u64,
    place: Place,
    /// The number of the thread's calls that it was in, and the innermost one's own.
    depth: usize,
    call: u64,
}

/// A read, and stores that its thread had read before.
#[derive(Clone, Debug)]
struct Read {
    tid: Tid,
    ip: u64,
    heard: Vec<Store>,
}

#[derive(Default)]
struct Thread {
    calls: Vec<Call>,
    heard: Vec<Store>,
}

/// What memory holds, by eight bytes: variables that share these are taken for one.
#[derive(Default)]
struct Cell {
    store: Option<Store>,
    read: Option<Read>,
}

/// A store, the late one, and the read between.
type Early = (Store, u64, u64);

struct Told<'a> {
    symbols: &'a mut Symbolizer,
    threads: HashMap<Tid, Thread>,
    cells: HashMap<u64, Cell>,
    between: Between,
    /// Whether an instruction is of the program's own, by its address.
    own: HashMap<u64, bool>,
    number: u64,
    /// By the instructions of the store and of the read.
    found: HashMap<(u64, u64), Early>,
}

/// Notes stores that told others too early what was not finished.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn find(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    cursor.seek(Seek::Start)?;
    let mut told = Told {
        symbols,
        threads: HashMap::new(),
        cells: HashMap::new(),
        between: Between::default(),
        own: HashMap::new(),
        number: 0,
        found: HashMap::new(),
    };
    walk_on(tools, log, cursor.pid(), cursor.place(), &Arc::new(Wanted::default()), &mut |visit| {
        if let Visit::Ran { place, ran, instructions } = visit {
            told.ran(place, ran, instructions);
        }
        ControlFlow::Continue(())
    })?;
    steps(std::mem::take(&mut told.between), told.symbols, (&mut *report, &mut *table));
    let mut found: Vec<Early> = told.found.into_values().collect();
    found
        .sort_by_key(|(store, late, read)| (store.place.tid, store.place.interval, store.place.position, *late, *read));
    for (store, late, read) in found {
        let [at, late, read] = [store.ip, late, read].map(|ip| Spot::of(symbols, ip));
        let (Some(line), Some(read_line)) = (Line::of(&at), Line::of(&read)) else { continue };
        let text = format!("it told another thread, which then read at {read} what is written only after, at {late}");
        let is_in_slice = table.is_in_slice(&read_line);
        if is_in_slice {
            report.illegal.push(Illegal::new(text.clone(), store.place, at.to_string()));
        }
        table.illegal(line, at.function.clone(), store.place, Reason::Published { text, is_in_slice });
    }
    Ok(())
}

/// Notes functions between two steps of which another thread came.
fn steps(between: Between, symbols: &mut Symbolizer, (report, table): (&mut Report, &mut Table)) {
    let mut found: Vec<_> = between.found.into_values().collect();
    found.sort_by_key(|split| split.steps);
    for split in found {
        let spots = split.steps.map(|ip| Spot::of(symbols, ip));
        let [Some(first), Some(second)] = [&spots[0], &spots[1]].map(Line::of) else { continue };
        if first == second {
            continue;
        }
        let is_in_slice = table.is_in_slice(&first) && table.is_in_slice(&second);
        let text =
            format!("another thread wrote between two steps of it what both used: at {} and at {}", spots[0], spots[1]);
        if is_in_slice {
            report.illegal.push(Illegal::new(text.clone(), split.places[1], spots[1].to_string()));
        }
        for ((line, spot), place) in [first, second].into_iter().zip(&spots).zip(split.places) {
            let reason = Reason::Split { text: text.clone(), is_in_slice };
            table.illegal(line, spot.function.clone(), place, reason);
        }
    }
}

impl Told<'_> {
    fn ran(&mut self, place: Place, ran: &Ran<'_>, instructions: Range<usize>) {
        let Some(first) = ran.block.instructions.get(instructions.start) else { return };
        let ip = first.instruction.ip();
        let symbols = &mut *self.symbols;
        let is_own = *self.own.entry(ip).or_insert_with(|| Line::of(&Spot::of(symbols, ip)).is_some());
        for number in instructions.clone() {
            let decoded = &ran.block.instructions[number];
            let base = decoded.instruction.memory_base();
            if is_own && ![Register::RSP, Register::RBP].contains(&base) {
                let mut here = place;
                here.position.0 += (number - instructions.start) as u64;
                for access in ran.accesses(number).filter(|access| access.len <= 8) {
                    let calls = &self.threads.entry(here.tid).or_default().calls;
                    self.between.access(here, (decoded.instruction.ip(), access.addr, access.writes), calls);
                    let ip = decoded.instruction.ip();
                    if access.reads {
                        let read = self.reads(here, ip, access.addr);
                        // What writes, too, comes behind the read before it.
                        if !access.writes {
                            self.cells.entry(access.addr & !7).or_default().read = Some(read);
                        }
                    }
                    if access.writes {
                        self.writes(here, ip, access.addr);
                    }
                }
            }
            self.calls(place.tid, decoded.control, decoded.instruction.ip());
        }
    }

    fn calls(&mut self, tid: Tid, control: Control, from: u64) {
        match control {
            Control::Call => {
                self.number += 1;
                let number = self.number;
                self.threads.entry(tid).or_default().calls.push(Call { number, from });
            }
            Control::Return => {
                self.threads.entry(tid).or_default().calls.pop();
            }
            _ => {}
        }
    }

    /// A thread reads, and hears of a store of another one by that.
    fn reads(&mut self, place: Place, ip: u64, addr: u64) -> Read {
        let thread = self.threads.entry(place.tid).or_default();
        let stored = self.cells.get(&(addr & !7)).and_then(|cell| cell.store);
        // The stores that it had read before this.
        let heard = thread.heard.clone();
        if let Some(store) = stored.filter(|store| store.tid != place.tid) {
            thread.heard.retain(|known| known.addr != store.addr);
            if thread.heard.len() == HEARD {
                thread.heard.remove(0);
            }
            thread.heard.push(store);
        }
        Read { tid: place.tid, ip, heard }
    }

    fn writes(&mut self, place: Place, ip: u64, addr: u64) {
        let thread = self.threads.entry(place.tid).or_default();
        let cell = self.cells.entry(addr & !7).or_default();
        if let Some(read) = cell.read.take().filter(|read| read.tid != place.tid) {
            // In the same call, and further down: not in another round of a loop.
            let is_before = |store: &&Store| {
                let is_same = match store.depth.checked_sub(1) {
                    Some(at) => thread.calls.get(at).is_some_and(|call| call.number == store.call),
                    None => true,
                };
                let reached = thread.calls.get(store.depth).map_or(ip, |call| call.from);
                store.tid == place.tid && store.addr != addr & !7 && is_same && reached > store.ip
            };
            let first =
                read.heard.iter().filter(is_before).min_by_key(|store| (store.place.interval, store.place.position));
            if let Some(store) = first {
                self.found.insert((store.ip, read.ip), (*store, ip, read.ip));
            }
        }
        let depth = thread.calls.len();
        let call = thread.calls.last().map_or(0, |call| call.number);
        cell.store = Some(Store { tid: place.tid, ip, addr: addr & !7, place, depth, call });
    }
}
