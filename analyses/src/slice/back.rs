//! One instruction backwards: what it has yielded of what is wanted is wanted no more, and what that follows from is.

use super::elsewhere::Stored;
use super::frames::Frames;
use super::given::{self, Given};
use super::graph::{Dependence, Graph, Wanting};
use super::live::Live;
use super::wants::{Sets, Want};
use bugnet_events::atoms::Atoms;
use bugnet_events::code::Decoded;
use bugnet_events::effects::{Control, Flow, How};
use bugnet_events::stretch::Access;
use bugnet_format::types::Addr;
use bugnet_replay::cursor::Place;
use hashbrown::HashSet;
use smallvec::SmallVec;
use std::ops::Range;

/// What there is at a moment, as one goes back.
pub struct State {
    /// What is wanted.
    pub live: Live,
    /// Sets of those who want it.
    pub sets: Sets,
    /// What was found.
    pub graph: Graph,
    /// Parts of registers that are not followed to where they come from.
    pub ignored: Atoms,
    /// Whether what says where in memory is wanted, too.
    pub with_addresses: bool,
    /// Memory that never changes, in ascending order: what is loaded from there follows from where that is.
    pub constant: Vec<Range<u64>>,
    /// What is not followed, if something is not.
    pub given: Option<Given>,
    /// Steps that are gone, if not all.
    pub depth: Option<u32>,
    /// Who waits for decisions, if these are followed.
    pub frames: Option<Frames>,
    /// Pages of memory whose stores are in the slice.
    pub pages: Pages,
    /// Stored bytes that were seen to have values later.
    pub stored: Vec<Stored>,
}

/// A set of pages of memory, of which the same one is mostly added again.
#[derive(Default)]
pub struct Pages {
    /// Their numbers.
    pub all: HashSet<u64>,
    last: Option<u64>,
}

impl Pages {
    /// The page of an address.
    pub fn add(&mut self, addr: u64) {
        let page = addr / Addr::PAGE;
        if self.last != Some(page) {
            self.last = Some(page);
            self.all.insert(page);
        }
    }
}

/// What an instruction yields by one of its flows.
#[derive(Default)]
struct Yielded {
    /// Parts of registers, each with its place among all that the flow writes.
    atoms: SmallVec<[(usize, usize, Want); 8]>,
    /// Bytes of memory, in the same way.
    bytes: SmallVec<[(usize, u64, Want); 8]>,
}

/// Whether a flow only moves the stack pointer.
fn moves_stack(flow: &Flow) -> bool {
    Atoms::RSP.has(flow.to) && Atoms::RSP.has(flow.from) && !flow.to_memory && !flow.from_memory
}

/// Bytes that these accesses have in all, one behind the other: where each begins.
fn lined_up(accesses: &[Access], writes: bool) -> impl Iterator<Item = (usize, Access)> {
    let mut next = 0;
    let of = accesses.iter().filter(move |access| if writes { access.writes } else { access.reads });
    of.map(move |access| {
        next += access.len as usize;
        (next - access.len as usize, *access)
    })
}

/// Whether what is read of them is written by the same instruction at another place.
fn overlap(accesses: &[Access]) -> bool {
    let reads = accesses.iter().filter(|access| access.reads && !access.writes);
    let overlaps = |read: &Access, write: &Access| {
        read.addr < write.addr.saturating_add(write.len) && write.addr < read.addr.saturating_add(read.len)
    };
    reads.into_iter().any(|read| {
        accesses.iter().any(|write| write.writes && !write.reads && overlaps(read, write) && read.addr != write.addr)
    })
}

fn is_in(ranges: &[Range<u64>], addr: u64) -> bool {
    let behind = ranges.partition_point(|range| range.start <= addr);
    behind.checked_sub(1).is_some_and(|last| ranges[last].contains(&addr))
}

impl State {
    fn yielded_by(&mut self, place: Place, flow: &Flow, accesses: &[Access]) -> Yielded {
        let mut yielded = Yielded::default();
        let registers = self.live.registers(place.tid);
        if registers.atoms.meets(flow.to) {
            let among = flow.to.numbers().enumerate();
            let wanted = among.filter_map(|(nth, number)| Some((nth, number, registers.want(number)?)));
            yielded.atoms.extend(wanted);
        }
        if flow.to_memory {
            for (first, access) in lined_up(accesses, true) {
                let wanted = self.live.wanted(access.addr, access.len).into_iter();
                yielded.bytes.extend(wanted.map(|(at, want)| (first + (at - access.addr) as usize, at, want)));
            }
        }
        yielded
    }

    /// The instruction at `place`; whether it is in the slice.
    pub fn instruction(&mut self, place: Place, decoded: &Decoded, accesses: &[Access]) -> bool {
        let decided = self.frames.as_mut().filter(|_| Frames::concerns(decoded));
        let decided = decided.and_then(|frames| frames.instruction(place.tid, decoded, accesses, &mut self.sets));
        self.yields(place, decoded, accesses, decided).is_some()
    }

    /// Goes back over an instruction; see [`Self::made`].
    fn yields(&mut self, place: Place, decoded: &Decoded, accesses: &[Access], decided: Option<Want>) -> Option<()> {
        let before = self.renamed(place, &decoded.effects().flows);
        let is_in = self.made(place, decoded, accesses, decided);
        for (number, want) in before {
            self.live.registers(place.tid).add(Atoms::numbered(number), want, &mut self.sets);
        }
        is_in
    }

    /// What is wanted of registers that have other names before an instruction, by these names. It is no longer wanted by the others.
    fn renamed(&mut self, place: Place, flows: &[Flow]) -> SmallVec<[(usize, Want); 8]> {
        let mut before = SmallVec::new();
        // Few instructions do that.
        if flows.iter().all(|flow| flow.how != How::Renamed) {
            return before;
        }
        let registers = self.live.registers(place.tid);
        for flow in flows.iter().filter(|flow| flow.how == How::Renamed && registers.atoms.meets(flow.to)) {
            let names = flow.to.numbers().zip(flow.from.numbers());
            before.extend(names.filter_map(|(name, earlier)| Some((earlier, registers.want(name)?))));
        }
        let names: Atoms = flows.iter().filter(|flow| flow.how == How::Renamed).map(|flow| flow.to).collect();
        self.live.registers(place.tid).remove(names);
        before
    }

    /// Goes back over an instruction that has decided that others were executed, for those who want to know, if there are any.
    fn made(&mut self, place: Place, decoded: &Decoded, accesses: &[Access], decided: Option<Want>) -> Option<()> {
        let flows = &decoded.effects().flows;
        let mut all: SmallVec<[(&Flow, Yielded); 2]> = SmallVec::new();
        for flow in flows.iter().filter(|flow| !moves_stack(flow)) {
            let yielded = self.yielded_by(place, flow, accesses);
            if !yielded.atoms.is_empty() || !yielded.bytes.is_empty() {
                all.push((flow, yielded));
            }
        }
        let is_linkers = self.given.as_ref().is_some_and(|given| given.is_linkers(decoded.instruction.ip()));
        // What it only hands on is not its own.
        let hands_on = is_linkers || self.given.is_some() && given::keeps(&decoded.instruction);
        let copies = |(flow, _): &(&Flow, Yielded)| {
            flow.how == How::Copied && flow.certain && (flow.from_memory || !flow.from.is_empty())
        };
        if hands_on && decided.is_none() && all.iter().all(copies) && !overlap(accesses) {
            self.passes_on(place, all, accesses);
            return None;
        }
        let wants = |(_, yielded): &(&Flow, Yielded)| {
            let atoms = yielded.atoms.iter().map(|(_, _, want)| *want);
            atoms.chain(yielded.bytes.iter().map(|(_, _, want)| *want)).collect::<SmallVec<[Want; 8]>>()
        };
        let depth = all.iter().flat_map(wants).chain(decided).map(|want| want.depth).min()?;
        let node = self.graph.executed(&decoded.instruction, place, depth);
        let mut who = None;
        for want in all.iter().flat_map(wants).chain(decided) {
            who = Some(who.map_or(want.who, |before| self.sets.union(before, want.who)));
        }
        if let Some(who) = who {
            self.graph.yields(node, who, &self.sets);
        }
        let is_whole = |at: u64| {
            let mut writes = accesses.iter().filter(|access| access.writes && access.whole);
            writes.any(|access| at.wrapping_sub(access.addr) < access.len)
        };
        for (flow, yielded) in &all {
            if flow.certain {
                let registers = self.live.registers(place.tid);
                yielded.atoms.iter().for_each(|(_, number, _)| registers.remove_numbered(*number));
            }
            for (_, at, _) in &yielded.bytes {
                if !flow.certain || !is_whole(*at) {
                    // This may have stored what was seen.
                    self.live.forget(*at);
                    continue;
                }
                if let Some(seen) = self.live.remove(*at) {
                    self.stored.push(Stored { addr: *at, seen, place });
                }
                self.pages.add(*at);
            }
        }
        if is_linkers && !given::hands_on_state(&decoded.instruction) {
            return Some(());
        }
        if self.depth.is_some_and(|limit| depth >= limit) {
            self.graph.nodes[node as usize].is_cut = true;
            return Some(());
        }
        let copies_itself = overlap(accesses);
        for (flow, yielded) in &all {
            let is_copied = flow.how == How::Copied && !copies_itself;
            let nths: Option<SmallVec<[usize; 16]>> = is_copied.then(|| {
                let atoms = yielded.atoms.iter().map(|(nth, _, _)| *nth);
                atoms.chain(yielded.bytes.iter().map(|(nth, _, _)| *nth)).collect()
            });
            self.follow(place, node, depth, (flow, decoded.effects().address), accesses, nths.as_deref());
        }
        if decided.is_some() {
            self.want(place, decoded.effects().decides, node, Dependence::Data, depth);
            let reads = accesses.iter().filter(|access| access.reads && decoded.effects().memory_decides);
            reads.for_each(|access| self.want_memory(access.addr, access.len, node, depth));
        }
        let accessed = |(flow, _): &(&Flow, Yielded)| flow.to_memory || flow.from_memory;
        if self.with_addresses && (all.iter().any(accessed) || decided.is_some()) {
            self.want(place, decoded.effects().address, node, Dependence::Address, depth);
        }
        // Whoever wants to know why a function was called wants to know why its caller was, if nothing decides in between.
        let is_caller = decided.is_some() && decoded.control == Control::Call;
        if let Some(frames) = self.frames.as_mut().filter(|frames| frames.follows_all || is_caller) {
            let who = self.sets.one(Wanting { node, by: Dependence::Control }.packed());
            frames.wait(place.tid, decoded.instruction.ip(), Want { who, depth: depth + 1 }, &mut self.sets);
        }
        Some(())
    }

    /// Goes back over an instruction that only moves what is wanted: it is wanted by the same ones where it was before.
    fn passes_on(&mut self, place: Place, all: SmallVec<[(&Flow, Yielded); 2]>, accesses: &[Access]) {
        for (flow, yielded) in all {
            let registers = self.live.registers(place.tid);
            yielded.atoms.iter().for_each(|(_, number, _)| registers.remove_numbered(*number));
            for (_, at, _) in &yielded.bytes {
                if let Some(seen) = self.live.remove(*at) {
                    self.stored.push(Stored { addr: *at, seen, place });
                }
            }
            let wants = yielded.atoms.iter().map(|(nth, _, want)| (*nth, *want));
            for (nth, want) in wants.chain(yielded.bytes.iter().map(|(nth, _, want)| (*nth, *want))) {
                if flow.from_memory {
                    let from = lined_up(accesses, false)
                        .find(|(first, access)| (*first..first + access.len as usize).contains(&nth));
                    if let Some((first, access)) = from {
                        self.live.add(access.addr + (nth - first) as u64, 1, want, &mut self.sets);
                    }
                } else if let Some(number) = flow.from.numbers().nth(nth) {
                    let atoms = Atoms::numbered(number) - self.ignored;
                    self.live.registers(place.tid).add(atoms, want, &mut self.sets);
                }
            }
        }
    }

    /// What a flow follows from is wanted now; of one that copies, the bytes with these numbers.
    fn follow(
        &mut self,
        place: Place,
        node: u32,
        depth: u32,
        (flow, address): (&Flow, Atoms),
        accesses: &[Access],
        copied: Option<&[usize]>,
    ) {
        let want = self.want_of(node, Dependence::Data, depth);
        let is_constant = |access: &Access| access.reads && is_in(&self.constant, access.addr);
        if flow.from_memory && accesses.iter().any(is_constant) {
            self.want(place, address, node, Dependence::Data, depth);
        }
        let Some(nths) = copied else {
            self.want(place, flow.from, node, Dependence::Data, depth);
            if flow.from_memory {
                for access in accesses.iter().filter(|access| access.reads && !is_in(&self.constant, access.addr)) {
                    self.live.add(access.addr, access.len, want, &mut self.sets);
                }
            }
            return;
        };
        if flow.from_memory {
            for (first, access) in lined_up(accesses, false).filter(|(_, access)| !is_in(&self.constant, access.addr)) {
                for nth in nths.iter().filter(|nth| (first..first + access.len as usize).contains(*nth)) {
                    self.live.add(access.addr + (nth - first) as u64, 1, want, &mut self.sets);
                }
            }
        } else {
            let from = flow.from.numbers().enumerate().filter(|(nth, _)| nths.contains(nth));
            let from: Atoms = from.map(|(_, number)| Atoms::numbered(number)).collect();
            self.want(place, from, node, Dependence::Data, depth);
        }
    }

    /// What a node wants.
    pub fn want_of(&mut self, node: u32, by: Dependence, depth: u32) -> Want {
        Want { who: self.sets.one(Wanting { node, by }.packed()), depth: depth + 1 }
    }

    /// A node wants parts of the registers that the thread has there.
    pub fn want(&mut self, place: Place, atoms: Atoms, node: u32, by: Dependence, depth: u32) {
        let want = self.want_of(node, by, depth);
        let atoms = atoms - self.ignored;
        self.live.registers(place.tid).add(atoms, want, &mut self.sets);
    }

    /// A node wants bytes of memory.
    pub fn want_memory(&mut self, addr: u64, len: u64, node: u32, depth: u32) {
        let want = self.want_of(node, Dependence::Data, depth);
        self.live.add(addr, len, want, &mut self.sets);
    }
}
