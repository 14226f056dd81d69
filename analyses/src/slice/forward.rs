//! What a value influences: forwards, with what was made of it.

use super::graph::{ASKED, Dependence, Graph, Origin, Source};
use super::live::Live;
use super::wants::{Sets, Want};
use super::{Criterion, Ended, Options, Slice};
use bugnet_events::atoms::Atoms;
use bugnet_events::code::Decoded;
use bugnet_events::effects::{Effects, Flow, How};
use bugnet_events::onward::walk_on;
use bugnet_events::stretch::{Access, Ran};
use bugnet_events::walk::{Did, Visit};
use bugnet_format::types::{ProcessId, Tid};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::Made;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What was made of the value, as one goes on.
struct State {
    /// Where it is, and the nodes that have put it there.
    made: Live,
    sets: Sets,
    graph: Graph,
    with_addresses: bool,
    depth: Option<u32>,
    symbols: Symbolizer,
    walked: u64,
    doubtful: Vec<(Place, u64)>,
}

/// Finds out what values influence: what is computed with them or copied from them, and with `addresses` what is found by them. Branches
/// that they decide are there, what these decide is not.
///
/// # Errors
/// The log does not hold the place, or cannot be read, replayed or traced.
pub fn forward(tools: &Tools, log: &Log, pid: ProcessId, criterion: &Criterion, options: &Options) -> Result<Slice> {
    let mut state = State {
        made: Live::default(),
        sets: Sets::default(),
        graph: Graph::new(options.keep),
        with_addresses: options.addresses,
        depth: options.depth,
        symbols: Symbolizer::new(log, pid)?,
        walked: 0,
        doubtful: Vec::new(),
    };
    let want = Want { who: state.sets.one(ASKED), depth: 0 };
    state.made.registers(criterion.place.tid).add(criterion.atoms, want, &mut state.sets);
    for (addr, len) in &criterion.memory {
        state.made.add(*addr, *len, want, &mut state.sets);
    }
    let mut ended = Ended::Start;
    let walked = walk_on(tools, log, pid, criterion.place, &Arc::default(), &mut |visit| {
        let place = visit.place();
        let is_behind = |until: Place| {
            until.tid == place.tid && (place.interval, place.position) >= (until.interval, until.position)
        };
        if options.until.is_some_and(is_behind) {
            ended = Ended::Until;
            return ControlFlow::Break(());
        }
        if options.thread.is_none_or(|thread| thread == place.tid) {
            state.visit(visit);
        }
        if state.made.is_empty() {
            ended = Ended::Found;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    match walked {
        // What was found by then is told.
        Err(ReplayError::Over(why)) => {
            tools.work.resume();
            ended = Ended::Over(why);
        }
        walked => walked?,
    }
    let doubts = state.doubtful.len() as u64;
    Ok(Slice {
        graph: state.graph,
        walked: state.walked,
        ended,
        doubtful: state.doubtful,
        doubts,
        touched: None,
        shares: BTreeMap::new(),
        pages: HashSet::new(),
    })
}

/// The part of a flow's result that has something of the value.
struct Hit {
    atoms: Vec<usize>,
    bytes: Vec<u64>,
}

impl State {
    fn visit(&mut self, visit: Visit<'_>) {
        match visit {
            Visit::Ran { place, ran, instructions } => {
                self.walked += instructions.len() as u64;
                let first = instructions.start;
                let touched = ran.block.reads() | ran.block.writes();
                let made = &mut self.made;
                if !made.registers(place.tid).atoms.meets(touched)
                    && !ran.touched().any(|(addr, len)| made.may_want(addr, len))
                {
                    return;
                }
                for number in instructions {
                    let mut place = place;
                    place.position.0 += (number - first) as u64;
                    let accesses: Vec<Access> = ran.accesses(number).collect();
                    self.instruction(place, &ran.block.instructions[number], &accesses);
                }
            }
            Visit::Skipped { place, ran, did } => {
                self.walked += 1;
                self.skipped(place, ran, did);
            }
            // The kernel gives a handler registers of its own; what was interrupted comes back.
            Visit::Delivered { .. } | Visit::Resumed { .. } => {}
        }
    }

    fn skipped(&mut self, place: Place, ran: &Ran<'_>, did: &Did) {
        match did {
            Did::Call { number, args, result, changed } => {
                let made = Made { number: *number, args: *args, result: *result };
                self.called(place, made);
                self.made.registers(place.tid).remove(*changed);
            }
            Did::Special { changed, .. } => {
                let writes = ran.block.instructions.first().map_or(Atoms::NONE, |decoded| decoded.writes());
                self.made.registers(place.tid).remove(*changed | writes);
                for (addr, len) in ran.stores().collect::<Vec<_>>() {
                    self.forget(addr, len);
                }
            }
            Did::Return => {}
        }
    }

    /// A system call takes something of the value, or overwrites it.
    fn called(&mut self, place: Place, made: Made) {
        let arguments = [7, 6, 2, 10, 8, 9].into_iter().map(Atoms::gpr).collect::<Atoms>();
        let of_arguments = self.made.registers(place.tid).wanted(arguments).map(|(_, want)| want);
        let mut wants: Vec<Want> = of_arguments.collect();
        let (atoms, mut bytes) = (self.made.registers(place.tid).atoms & arguments, Vec::new());
        if let Some((addr, len)) = made.read() {
            let found = self.made.wanted(addr, len);
            bytes.extend(found.iter().map(|(at, _)| (*at, 1)));
            wants.extend(found.into_iter().map(|(_, want)| want));
        }
        if let Some(depth) = wants.iter().map(|want| want.depth).min() {
            let origin = Origin::Call { number: made.number, args: made.args, result: made.result };
            let source = Source { origin, atoms, tid: Some(place.tid), bytes };
            let node = self.graph.source(source, Some(place), depth + 1);
            self.takes(node, &wants, Dependence::Data);
        }
        if made.needs_memory() {
            self.doubtful.push((place, made.number));
            return;
        }
        match made.written(None, &mut self.symbols) {
            Some(ranges) => ranges.into_iter().for_each(|(addr, len)| self.forget(addr, len)),
            None => self.doubtful.push((place, made.number)),
        }
    }

    fn forget(&mut self, addr: u64, len: u64) {
        for (at, _) in self.made.wanted(addr, len) {
            self.made.remove(at);
        }
    }

    fn takes(&mut self, node: u32, wants: &[Want], by: Dependence) {
        for want in wants {
            for from in self.sets.nodes(want.who) {
                *self.graph.edges.entry((node, by, *from)).or_default() += 1;
            }
        }
    }

    fn of_registers(&mut self, tid: Tid, atoms: Atoms) -> Vec<(usize, Want)> {
        self.made.registers(tid).wanted(atoms).collect()
    }

    fn instruction(&mut self, place: Place, decoded: &Decoded, accesses: &[Access]) {
        let effects = decoded.effects();
        let reads: Vec<u64> = bytes(accesses, |access| access.reads);
        let writes: Vec<u64> = bytes(accesses, |access| access.writes);
        let in_memory: Vec<(u64, Want)> = if accesses.iter().any(|access| self.made.may_want(access.addr, access.len)) {
            accesses.iter().filter(|a| a.reads).flat_map(|a| self.made.wanted(a.addr, a.len)).collect()
        } else {
            Vec::new()
        };
        let held = self.of_registers(place.tid, effects.reads());
        let is_left = self.made.registers(place.tid).atoms.meets(decoded.writes())
            || writes.iter().any(|at| self.made.may_want(*at, 1));
        if in_memory.is_empty() && held.is_empty() && !is_left {
            return;
        }
        let of_address: Vec<Want> = if self.with_addresses {
            held.iter().filter(|(number, _)| effects.address.meets(Atoms::numbered(*number))).map(|(_, w)| *w).collect()
        } else {
            Vec::new()
        };
        let overlaps = reads != writes && reads.iter().any(|at| writes.contains(at));
        let (mut results, mut taken, mut addressed): (Vec<(&Flow, Hit)>, Vec<Want>, Vec<Want>) = Default::default();
        let renamed: Vec<(usize, Option<Want>)> = renames(effects)
            .map(|(to, from)| (to, held.iter().find(|(held, _)| *held == from).map(|(_, want)| *want)))
            .collect();
        for flow in effects.flows.iter().filter(|flow| flow.how != How::Renamed) {
            let targets = flow.to.count() + if flow.to_memory { writes.len() } else { 0 };
            let from: Vec<usize> = flow.from.numbers().collect();
            let mut sources: Vec<Option<Want>> =
                from.iter().map(|number| held.iter().find(|(held, _)| held == number).map(|(_, want)| *want)).collect();
            if flow.from_memory {
                sources.extend(reads.iter().map(|at| in_memory.iter().find(|(found, _)| found == at).map(|(_, w)| *w)));
            }
            let is_copied = flow.how == How::Copied && !overlaps;
            let any = sources.iter().any(Option::is_some);
            let by_address = !of_address.is_empty() && (flow.from_memory || flow.to_memory);
            let has =
                |nth: usize| by_address || if is_copied { sources.get(nth).copied().flatten().is_some() } else { any };
            let hit: Vec<bool> = (0..targets).map(has).collect();
            if hit.iter().any(|hit| *hit) {
                taken.extend(
                    sources
                        .iter()
                        .enumerate()
                        .filter(|(nth, _)| !is_copied || hit.get(*nth) == Some(&true))
                        .filter_map(|(_, w)| *w),
                );
                if by_address {
                    addressed.extend(&of_address);
                }
            }
            let all = flow.to.numbers().zip(&hit).filter(|(_, hit)| **hit).map(|(number, _)| number);
            let atoms = all.collect();
            let rest = &hit[flow.to.count().min(hit.len())..];
            let bytes = writes.iter().zip(rest).filter(|(_, hit)| **hit).map(|(at, _)| *at).collect();
            results.push((flow, Hit { atoms, bytes }));
        }
        let decides = effects.decides;
        taken.extend(held.iter().filter(|(number, _)| decides.meets(Atoms::numbered(*number))).map(|(_, want)| *want));
        if effects.memory_decides {
            taken.extend(in_memory.iter().map(|(_, want)| *want));
        }
        let depth = taken.iter().chain(&addressed).map(|want| want.depth + 1).min();
        let depth = depth.filter(|depth| self.depth.is_none_or(|limit| *depth <= limit));
        // All is read before anything is written.
        for (flow, _) in results.iter().filter(|(flow, _)| flow.certain) {
            self.made.registers(place.tid).remove(flow.to);
            if flow.to_memory {
                for access in accesses.iter().filter(|access| access.writes && access.whole) {
                    self.forget(access.addr, access.len);
                }
            }
        }
        for (number, want) in renamed {
            self.made.registers(place.tid).remove(Atoms::numbered(number));
            if let Some(want) = want {
                self.made.registers(place.tid).add(Atoms::numbered(number), want, &mut self.sets);
            }
        }
        let Some(depth) = depth else { return };
        let node = self.graph.executed(&decoded.instruction, place, depth);
        self.takes(node, &taken, Dependence::Data);
        self.takes(node, &addressed, Dependence::Address);
        let want = Want { who: self.sets.one(node), depth };
        for (_, Hit { atoms, bytes }) in results {
            let atoms: Atoms = atoms.into_iter().map(Atoms::numbered).collect();
            // As backwards: what only says where in memory the stack and the thread's own part are is not followed.
            let bases = Atoms::RSP | Atoms::FS_BASE | Atoms::GS_BASE;
            self.made.registers(place.tid).add(atoms - bases, want, &mut self.sets);
            for at in bytes {
                self.made.add(at, 1, want, &mut self.sets);
            }
        }
    }
}

/// What has another name behind an instruction: that one, and the one before.
fn renames(effects: &Effects) -> impl Iterator<Item = (usize, usize)> {
    let flows = effects.flows.iter().filter(|flow| flow.how == How::Renamed);
    flows.flat_map(|flow| flow.to.numbers().zip(flow.from.numbers()))
}

fn bytes(accesses: &[Access], which: impl Fn(&Access) -> bool) -> Vec<u64> {
    accesses.iter().filter(|access| which(access)).flat_map(|access| access.addr..access.addr + access.len).collect()
}
