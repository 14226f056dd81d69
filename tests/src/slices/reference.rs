//! A slicer by brute force: all that one thread executed, forwards, with a definition for each byte that is written. What a value follows
//! from is then what one reaches from its definitions.

use anyhow::{Context, Result, ensure};
use bugnet_events::atoms::{Atoms, COUNT};
use bugnet_events::code::Blocks;
use bugnet_events::effects::{Control, Effects, Flow, How};
use bugnet_events::stretch::{Access, Stretch};
use bugnet_format::record::{Record, RegisterUpdates};
use bugnet_format::types::{IntervalNo, Position};
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::Made;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Tracer;
use iced_x86::Instruction;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// Parts of registers that are not followed.
fn ignored() -> Atoms {
    Atoms::RSP | Atoms::FS_BASE | Atoms::GS_BASE
}

/// Those that are followed only where more than values are.
fn modes() -> Atoms {
    Atoms::MODES
}

/// An instruction that was executed.
pub struct Executed {
    /// Where.
    pub place: Place,
    /// What it is.
    pub instruction: Instruction,
    /// Bytes of memory that it accesses, if replay executes it: where they begin, and how many.
    pub touched: Vec<(u64, u64)>,
    /// What decides where it goes on.
    decides: Vec<u32>,
    /// What its addresses follow from.
    addresses: Vec<u32>,
    /// The call or branch before it that decided that it was executed.
    pub parent: Option<usize>,
    /// What it takes, but for addresses and decisions.
    taken: Vec<u32>,
    /// What it defined.
    defined: Vec<u32>,
}

/// What was written, and what that follows from.
struct Definition {
    by: usize,
    from: Vec<u32>,
    /// More, by modes.
    modes: Vec<u32>,
    accesses: bool,
}

/// All that a thread executed.
#[derive(Default)]
pub struct Execution {
    /// In order.
    pub executed: Vec<Executed>,
    definitions: Vec<Definition>,
    registers: Vec<Option<u32>>,
    memory: HashMap<u64, u32>,
    first: u32,
}

/// What a slice is to follow.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Addresses.
    pub addresses: bool,
    /// Branches and calls, by [`Executed::parent`].
    pub control: bool,
}

fn moves_stack(flow: &Flow) -> bool {
    let is_stack = |atoms: Atoms| (atoms - Atoms::RSP).is_empty();
    is_stack(flow.to) && is_stack(flow.from) && !flow.to_memory && !flow.from_memory
}

fn bytes(accesses: &[Access], writes: bool) -> Vec<u64> {
    let of = accesses.iter().filter(|access| if writes { access.writes } else { access.reads });
    of.flat_map(|access| access.addr..access.addr + access.len).collect()
}

impl Execution {
    /// Of a thread, up to a place.
    ///
    /// # Errors
    /// It cannot be replayed, or does what this cannot follow.
    pub fn of(tools: &Tools, log: &Log, thread: ThreadId, until: Option<Place>) -> Result<Self> {
        let mut all = Self { registers: vec![None; COUNT], ..Self::default() };
        let mut symbols = Symbolizer::new(log, thread.pid)?;
        for &number in log.intervals(thread)? {
            let end = match until {
                Some(until) if until.interval < number => break,
                Some(until) if until.interval == number => until.position,
                _ => Position(u64::MAX),
            };
            all.interval(tools, log, IntervalId { thread, interval: number }, Position(0)..end, &mut symbols)?;
        }
        Ok(all)
    }

    fn interval(
        &mut self,
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        part: Range<Position>,
        symbols: &mut Symbolizer,
    ) -> Result<()> {
        let interval = log.interval(id)?;
        let mut records = HashMap::new();
        for placed in interval.records().flatten() {
            ensure!(!matches!(placed.record, Record::Signal { .. }), "a signal");
            match placed.record {
                Record::Syscall { number, args, result, updates, .. } => {
                    let registers = Atoms::gpr(0) | Atoms::gpr(1) | Atoms::gpr(11) | written(&updates);
                    let made = Made { number, args, result };
                    ensure!(!made.needs_memory(), "a call that takes memory to know what it writes");
                    let ranges = made.written(None, symbols).unwrap_or_default();
                    records.insert(placed.position.0, (registers, ranges));
                }
                Record::Special { updates, .. } => {
                    records.insert(placed.position.0, (written(&updates), Vec::new()));
                }
                _ => {}
            }
        }
        let (mut tracer, mut blocks) = (Tracer::start(tools, log, id, &interval, None)?, Blocks::default());
        while tracer.position() < part.start {
            let Some(chunk) = tracer.next(part.start)? else { return Ok(()) };
            blocks.learn(&chunk);
        }
        while let Some(chunk) = tracer.next(part.end)? {
            blocks.learn(&chunk);
            let stretch = Stretch::of(&chunk, &blocks);
            for ran in stretch.ran(&blocks) {
                for (number, decoded) in ran.block.instructions.iter().enumerate() {
                    let position = Position(ran.position.0 + number as u64);
                    let place = Place { tid: id.thread.tid, interval: IntervalNo(id.interval.0), position };
                    let accesses: Vec<Access> = ran.accesses(number).collect();
                    let outside = records.get(&position.0).filter(|_| ran.block.traced.skipped);
                    if let Some((registers, ranges)) = outside {
                        let mut writes = *registers;
                        let stored = bytes(&accesses, true);
                        if decoded.control != Control::System {
                            writes |= decoded.effects().writes();
                        }
                        writes.numbers().for_each(|number| self.registers[number] = None);
                        let of_call = ranges.iter().flat_map(|(addr, len)| *addr..addr + len);
                        for at in stored.into_iter().chain(of_call) {
                            self.memory.remove(&at);
                        }
                    }
                    let effects = if outside.is_some() { None } else { Some(decoded.effects()) };
                    self.execute(place, &decoded.instruction, effects, &accesses);
                }
            }
        }
        Ok(())
    }

    fn execute(&mut self, place: Place, instruction: &Instruction, effects: Option<&Effects>, accesses: &[Access]) {
        let by = self.executed.len();
        let mut executed = Executed {
            place,
            instruction: *instruction,
            touched: Vec::new(),
            decides: Vec::new(),
            addresses: Vec::new(),
            parent: None,
            taken: Vec::new(),
            defined: Vec::new(),
        };
        let Some(effects) = effects else {
            self.executed.push(executed);
            return;
        };
        let of = |atoms: Atoms, registers: &[Option<u32>]| -> Vec<u32> {
            (atoms - ignored()).numbers().filter_map(|number| registers[number]).collect()
        };
        executed.touched = accesses.iter().map(|access| (access.addr, access.len)).collect();
        let reads = bytes(accesses, false);
        let writes = bytes(accesses, true);
        executed.addresses = of(effects.address, &self.registers);
        executed.decides = of(effects.decides, &self.registers);
        if effects.memory_decides {
            executed.decides.extend(reads.iter().filter_map(|at| self.memory.get(at)));
        }
        // All of it is read before any of it is written.
        let (mut to_registers, mut to_memory) = (Vec::new(), Vec::new());
        let is_overlapping = {
            let (from, to): (HashSet<&u64>, HashSet<&u64>) = (reads.iter().collect(), writes.iter().collect());
            from != to && !from.is_disjoint(&to)
        };
        for flow in effects.flows.iter().filter(|flow| !moves_stack(flow)) {
            if flow.how == How::Renamed {
                // Who has made the value is who made it before.
                let renamed = flow.to.numbers().zip(flow.from.numbers().map(|number| self.registers[number]));
                to_registers.extend(renamed);
                continue;
            }
            let accessing = flow.to_memory || flow.from_memory;
            let mut targets: Vec<(bool, u64, Option<u32>)> = Vec::new();
            targets.extend(flow.to.numbers().map(|number| (false, number as u64, self.registers[number])));
            if flow.to_memory {
                targets.extend(writes.iter().map(|at| (true, *at, self.memory.get(at).copied())));
            }
            let followed =
                |number: usize, not: Atoms| self.registers[number].filter(|_| !not.meets(Atoms::numbered(number)));
            let values = |number| followed(number, ignored() | modes());
            let mut sources: Vec<Option<u32>> = flow.from.numbers().map(values).collect();
            let modes: Vec<u32> = (flow.from & modes()).numbers().filter_map(|n| followed(n, ignored())).collect();
            if flow.from_memory {
                sources.extend(reads.iter().map(|at| self.memory.get(at).copied()));
            }
            for (nth, (is_memory, at, before)) in targets.into_iter().enumerate() {
                let mut from: Vec<u32> = match flow.how {
                    How::Copied if !is_overlapping => sources.get(nth).copied().flatten().into_iter().collect(),
                    _ => sources.iter().copied().flatten().collect(),
                };
                from.sort_unstable();
                from.dedup();
                let is_certain = flow.certain
                    && (!is_memory
                        || accesses
                            .iter()
                            .any(|access| access.writes && access.whole && at.wrapping_sub(access.addr) < access.len));
                if !is_certain {
                    from.extend(before);
                }
                let definition = self.definitions.len() as u32;
                let taken = if is_certain { &from[..] } else { &from[..from.len() - usize::from(before.is_some())] };
                executed.taken.extend(taken.iter().chain(&modes));
                self.definitions.push(Definition { by, from, modes: modes.clone(), accesses: accessing });
                executed.defined.push(definition);
                if is_memory {
                    to_memory.push((at, definition));
                } else {
                    to_registers.push((at as usize, Some(definition)));
                }
            }
        }
        for (number, definition) in to_registers {
            self.registers[number] = definition;
        }
        self.memory.extend(to_memory);
        self.executed.push(executed);
    }

    /// The executed instructions of which parts of the registers and bytes of memory follow at the end.
    ///
    /// # Errors
    /// The execution makes no sense.
    pub fn slice(&self, atoms: Atoms, memory: &[(u64, u64)], kind: Kind) -> Result<BTreeSet<usize>> {
        let mut left: Vec<u32> = atoms.numbers().filter_map(|number| self.registers[number]).collect();
        left.extend(memory.iter().flat_map(|(addr, len)| *addr..addr + len).filter_map(|at| self.memory.get(&at)));
        self.reached(left, kind)
    }

    fn reached(&self, mut left: Vec<u32>, kind: Kind) -> Result<BTreeSet<usize>> {
        let (mut found, mut known): (BTreeSet<usize>, HashSet<u32>) = (BTreeSet::new(), HashSet::new());
        let mut addressed = HashSet::new();
        while let Some(next) = left.pop() {
            if !known.insert(next) {
                continue;
            }
            let definition = self.definitions.get(next as usize).context("no such definition")?;
            left.extend(&definition.from);
            if kind.addresses || kind.control {
                left.extend(&definition.modes);
            }
            let mut by = definition.by;
            if kind.addresses && definition.accesses && addressed.insert(by) {
                left.extend(&self.executed[by].addresses);
            }
            if !found.insert(by) || !kind.control {
                continue;
            }
            // The way up, from branch to branch.
            while let Some(parent) = self.executed[by].parent {
                left.extend(&self.executed[parent].decides);
                if kind.addresses && addressed.insert(parent) {
                    left.extend(&self.executed[parent].addresses);
                }
                by = parent;
                if !found.insert(parent) {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The executed instructions to which something comes of what parts of the registers and bytes of memory hold at the end, if one goes on
    /// from there.
    ///
    /// # Errors
    /// It cannot be replayed, or does what this cannot follow.
    pub fn influence(
        tools: &Tools,
        log: &Log,
        thread: ThreadId,
        from: Place,
        (atoms, memory): (Atoms, &[(u64, u64)]),
    ) -> Result<BTreeSet<Place>> {
        let mut all = Self { registers: vec![None; COUNT], ..Self::default() };
        let mut symbols = Symbolizer::new(log, thread.pid)?;
        for &number in log.intervals(thread)? {
            let id = IntervalId { thread, interval: number };
            if number <= from.interval {
                let end = if number == from.interval { from.position } else { Position(u64::MAX) };
                all.interval(tools, log, id, Position(0)..end, &mut symbols)?;
            }
            if number == from.interval {
                // From here on, everything else is forgotten.
                let seed = all.definitions.len() as u32;
                all.definitions.push(Definition {
                    by: usize::MAX,
                    from: Vec::new(),
                    modes: Vec::new(),
                    accesses: false,
                });
                all.registers.fill(None);
                all.memory.clear();
                all.executed.clear();
                atoms.numbers().for_each(|number| all.registers[number] = Some(seed));
                all.memory.extend(memory.iter().flat_map(|(addr, len)| *addr..addr + len).map(|at| (at, seed)));
                all.first = seed;
            }
            if number >= from.interval {
                let start = if number == from.interval { from.position } else { Position(0) };
                all.interval(tools, log, id, start..Position(u64::MAX), &mut symbols)?;
            }
        }
        let mut tainted: HashSet<u32> = HashSet::from([all.first]);
        for (number, definition) in all.definitions.iter().enumerate().skip(all.first as usize + 1) {
            if definition.from.iter().chain(&definition.modes).any(|from| tainted.contains(from)) {
                tainted.insert(number as u32);
            }
        }
        let is_in =
            |executed: &&Executed| executed.taken.iter().chain(&executed.decides).any(|from| tainted.contains(from));
        Ok(all.executed.iter().filter(is_in).map(|executed| executed.place).collect())
    }

    /// Whether anything that an executed instruction defines is ever used for an address or a decision.
    #[must_use]
    pub fn only_makes_values(&self) -> HashSet<usize> {
        let mut bad: HashSet<u32> = HashSet::new();
        for executed in &self.executed {
            bad.extend(executed.addresses.iter().chain(&executed.decides));
        }
        let mut left: Vec<u32> = bad.iter().copied().collect();
        while let Some(next) = left.pop() {
            let Definition { from, modes, .. } = &self.definitions[next as usize];
            left.extend(from.iter().chain(modes).filter(|from| bad.insert(**from)));
        }
        let is_good = |executed: &Executed| executed.defined.iter().all(|defined| !bad.contains(defined));
        self.executed.iter().enumerate().filter(|(_, executed)| is_good(executed)).map(|(number, _)| number).collect()
    }
}

fn written(updates: &RegisterUpdates) -> Atoms {
    let of = |(number, _): &(u8, u64)| match usize::from(*number) {
        number @ 0..16 => Atoms::gpr(number),
        _ => Atoms::ALL_FLAGS,
    };
    updates.values.iter().map(of).collect()
}
