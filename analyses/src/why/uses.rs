//! When the program's own code uses variables: for how long nothing reads or writes one, between a time when it was changed and the next one when it is
//! read. That is where a variable would have been set back that is not.

use super::near::Line;
use super::tries::Start;
use crate::runs::scene::Spot;
use bugnet_events::onward::walk_on;
use bugnet_events::stretch::{Access, Ran};
use bugnet_events::walk::Visit;
use bugnet_format::types::{Addr, Position, ProcessId};
use bugnet_replay::Result;
use bugnet_replay::cursor::Place;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Wanted;
use bugnet_what_if::Spot as Where;
use hashbrown::{HashMap, HashSet};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Gaps of a variable that are remembered, the longest ones.
const LONGEST: usize = 12;
/// Variables that one instruction reads of which gaps are remembered.
const OF_ONE: usize = 8;
/// Constants that the program stores to a variable which are remembered.
const CONSTANTS: usize = 2;
/// Instructions that use a variable which are remembered.
const USERS: usize = 16;
/// Own instructions that are looked at.
const MOST: u64 = 20_000_000;

/// Memory that instructions access as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variable {
    /// First byte.
    pub addr: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub len: u64,
}

/// A time in which the program's own code does not use a variable that was changed before, and is read at its end.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The variable.
    pub variable: Variable,
    /// The instruction that reads it then.
    pub reader: u64,
    /// Which of its executions that is, from 0, and where.
    pub nth: u64,
    pub place: Place,
    /// The first of the program's own instructions that is within, and the one that reads, by their numbers.
    pub time: [u64; 2],
}

/// A place in the code at which a line begins, as executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// The line.
    pub line: Line,
    /// Its first instruction there.
    pub ip: u64,
}

/// A variable of a function's frame, of which the place in memory is another one in each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Local {
    /// The first byte of the function.
    pub function: u64,
    /// Where it is there.
    pub spot: Where,
    /// Bytes: 1, 2, 4 or 8.
    pub len: u64,
}

/// What a variable of a function's frame may be set back to.
#[derive(Clone, Copy, Debug)]
pub struct Former {
    /// The variable.
    pub local: Local,
    /// The value.
    pub value: u64,
    /// The least number of a reader, and where it reads it.
    pub reader: (usize, Place),
}

/// What is known of a variable.
#[derive(Default)]
struct Known {
    is_changed: bool,
    last: u64,
    gaps: Vec<Gap>,
    /// Instructions that use it.
    users: Vec<u64>,
}

/// How variables are used.
#[derive(Default)]
pub struct Uses {
    variables: HashMap<Variable, Known>,
    constants: HashMap<Variable, Vec<u64>>,
    executed: HashMap<u64, u64>,
    read_by: HashMap<u64, HashSet<Variable>>,
    locals: Vec<(Instruction, Where, Place)>,
    setters: Vec<u64>,
    /// Calls, and what they call.
    calls: Vec<[u64; 2]>,
    time: u64,
}

/// Goes through what the program's own file executed from `main` on, up to a place; each instruction, its number, and where it is.
fn each(
    (tools, log): (&Tools, &Log),
    (pid, until): (ProcessId, Option<Place>),
    start: &Start,
    visit: &mut impl FnMut(&Ran<'_>, usize, (u64, Place)),
) -> Result<()> {
    let mut time = 0;
    walk_on(tools, log, pid, start.place, &Arc::new(Wanted::default()), &mut |what| {
        let Visit::Ran { ran, instructions, place } = what else { return ControlFlow::Continue(()) };
        if until.is_some_and(|until| (place.interval, place.position) >= (until.interval, until.position)) {
            return ControlFlow::Break(());
        }
        if start.is_own(ran.block.traced.pc) {
            let first = instructions.start;
            for index in instructions {
                let position = Position(place.position.0 + (index - first) as u64);
                visit(ran, index, (time, Place { position, ..place }));
                time += 1;
            }
        }
        if time > MOST { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

impl Uses {
    /// Of a process from `main` on. Gaps count that one of `readers` ends.
    ///
    /// # Errors
    /// The log cannot be read, replayed or traced.
    pub fn find(
        (tools, log): (&Tools, &Log),
        pid: ProcessId,
        start: &Start,
        readers: &HashMap<u64, usize>,
    ) -> Result<Self> {
        let mut uses = Self::default();
        each((tools, log), (pid, None), start, &mut |ran, index, (time, place)| {
            uses.time = time;
            uses.executed(ran, index, place, readers);
        })?;
        Ok(uses)
    }

    fn executed(&mut self, ran: &Ran<'_>, index: usize, place: Place, readers: &HashMap<u64, usize>) {
        let instruction = &ran.block.instructions[index].instruction;
        let executions = self.executed.entry(instruction.ip()).or_default();
        let nth = *executions;
        *executions += 1;
        if nth == 0 {
            let before = index.checked_sub(1).map(|before| &ran.block.instructions[before].instruction);
            self.locals.extend(local(instruction, before).map(|spot| (*instruction, spot, place)));
            self.setters.extend(stored(instruction).map(|_| instruction.ip()));
            let is_call = instruction.flow_control() == FlowControl::Call;
            self.calls.extend(is_call.then(|| [instruction.ip(), instruction.near_branch_target()]));
        }
        if instruction.is_stack_instruction() {
            return;
        }
        for Access { addr, len, reads, writes, .. } in ran.accesses(index) {
            if !matches!(len, 1 | 2 | 4 | 8) {
                continue;
            }
            let variable = Variable { addr, len };
            if reads
                && !matches!(local(instruction, None), Some(Where::ByRbp(_) | Where::ByRsp(_)))
                && readers.contains_key(&instruction.ip())
            {
                self.reads(variable, instruction, (nth, place));
            }
            let time = self.time + 1;
            let known = self.variables.entry(variable).or_default();
            known.last = time;
            known.is_changed |= writes;
            if known.users.len() < USERS && !known.users.contains(&instruction.ip()) {
                known.users.push(instruction.ip());
            }
            if let Some(constant) = writes.then(|| stored(instruction)).flatten() {
                let all = self.constants.entry(variable).or_default();
                if all.len() < CONSTANTS && !all.contains(&constant) {
                    all.push(constant);
                }
            }
        }
    }

    fn reads(&mut self, variable: Variable, instruction: &Instruction, (nth, place): (u64, Place)) {
        let time = self.time;
        let Some(known) = self.variables.get_mut(&variable).filter(|known| known.is_changed) else { return };
        let of_one = self.read_by.entry(instruction.ip()).or_default();
        if !of_one.contains(&variable) && of_one.len() >= OF_ONE {
            return;
        }
        of_one.insert(variable);
        let gap = Gap { variable, reader: instruction.ip(), nth, place, time: [known.last, time] };
        let at = known.gaps.partition_point(|other| length(other) > length(&gap));
        if at < LONGEST {
            known.gaps.insert(at, gap);
            known.gaps.truncate(LONGEST);
        }
    }

    /// The gaps of all variables, the longest one of each first.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut all: Vec<(usize, &Gap)> =
            self.variables.values().flat_map(|known| known.gaps.iter().enumerate()).collect();
        all.sort_by_key(|(nth, gap)| (*nth, std::cmp::Reverse(length(gap)), gap.variable));
        all.into_iter().map(|(_, gap)| *gap).collect()
    }

    /// What variables of frames may be set back to that one of `readers` reads: constants that the same function stores there, and zero.
    pub fn locals(&self, symbols: &mut Symbolizer, readers: &HashMap<u64, usize>) -> Vec<Former> {
        let mut local = |instruction: &Instruction, spot: Where| {
            let function = function(symbols, instruction.ip())?;
            let len = instruction.memory_size().size() as u64;
            Some(Local { function, spot, len }).filter(|_| matches!(len, 1 | 2 | 4 | 8))
        };
        let mut read: HashMap<Local, (usize, Place)> = HashMap::new();
        for (instruction, spot, place) in &self.locals {
            let Some(number) = readers.get(&instruction.ip()) else { continue };
            if let Some(local) = local(instruction, *spot) {
                let known = read.entry(local).or_insert((*number, *place));
                *known = (*known).min((*number, *place));
            }
        }
        let mut all = Vec::new();
        for (instruction, spot, _) in &self.locals {
            let Some(value) = stored(instruction) else { continue };
            let Some(local) = local(instruction, *spot) else { continue };
            let Some(reader) = read.get(&local) else { continue };
            // What is only raised here may be meant to fall again.
            all.extend([value, 0].map(|value| Former { local, value, reader: *reader }));
        }
        all.sort_unstable_by_key(|former| (former.local, former.value));
        all.dedup_by_key(|former| (former.local, former.value));
        all
    }

    /// The functions that use a variable, and those that call one of these, by their first bytes.
    pub fn users(&self, symbols: &mut Symbolizer, variable: Variable) -> HashSet<u64> {
        let users = self.variables.get(&variable).map_or(&[][..], |known| &known.users);
        let own: HashSet<u64> = users.iter().filter_map(|ip| function(symbols, *ip)).collect();
        let calling = self.calls.iter().filter(|[_, target]| own.contains(target));
        let callers: Vec<u64> = calling.filter_map(|[ip, _]| function(symbols, *ip)).collect();
        own.into_iter().chain(callers).collect()
    }

    /// How often an instruction was executed.
    pub fn executions(&self, ip: u64) -> u64 {
        self.executed.get(&ip).copied().unwrap_or_default()
    }

    /// The lines that store a constant.
    pub fn setters(&self, symbols: &mut Symbolizer) -> HashSet<Line> {
        self.setters.iter().filter_map(|ip| Line::of(&Spot::of(symbols, *ip))).collect()
    }

    /// Where the lines of a function begin that were executed; it begins at this address itself.
    pub fn entries(&self, symbols: &mut Symbolizer, own: u64) -> Vec<Entry> {
        let mut all: Vec<u64> = self.executed.keys().copied().collect();
        all.retain(|ip| function(symbols, *ip) == Some(own) && *ip != own);
        all.sort_unstable();
        let mut found: Vec<Entry> = Vec::new();
        for ip in all {
            if let Some(line) = Line::of(&Spot::of(symbols, ip))
                && found.last().is_none_or(|last| last.line != line)
            {
                found.push(Entry { line, ip });
            }
        }
        // The lines at which the function begins have the frame only once they are over.
        found
    }

    /// Constants that the program stores to a variable.
    pub fn constants(&self, variable: Variable) -> &[u64] {
        self.constants.get(&variable).map_or(&[], Vec::as_slice)
    }
}

fn length(gap: &Gap) -> u64 {
    gap.time[1] - gap.time[0]
}

/// The constant that an instruction stores.
fn stored(instruction: &Instruction) -> Option<u64> {
    let is_one = instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op_count() == 2
        && instruction.op1_kind() != OpKind::Register;
    is_one.then(|| instruction.immediate(1))
}

/// Where the variable of the function's frame is that an instruction accesses, or the member of what such a variable points to, which the instruction
/// before has loaded.
fn local(instruction: &Instruction, before: Option<&Instruction>) -> Option<Where> {
    let displacement = instruction.memory_displacement64().cast_signed();
    let accesses = (0..instruction.op_count()).any(|number| instruction.op_kind(number) == OpKind::Memory);
    if !accesses || instruction.is_stack_instruction() || instruction.mnemonic() == Mnemonic::Lea {
        return None;
    }
    match (instruction.memory_base(), instruction.memory_index()) {
        (Register::RBP, Register::None) => Some(Where::ByRbp(displacement)),
        (Register::RSP, Register::None) => Some(Where::ByRsp(displacement)),
        (pointer, Register::None) => {
            let before = before.filter(|before| {
                before.mnemonic() == Mnemonic::Mov
                    && before.op0_kind() == OpKind::Register
                    && before.op0_register() == pointer
                    && before.op1_kind() == OpKind::Memory
            })?;
            let Some(Where::ByRbp(slot)) = local(before, None) else { return None };
            Some(Where::Through(slot, displacement))
        }
        _ => None,
    }
}

/// How often each conditional jump of the program's own file was executed before a place, or in all.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn jumps(
    (tools, log): (&Tools, &Log),
    (pid, until): (ProcessId, Option<Place>),
    start: &Start,
) -> Result<HashMap<u64, u64>> {
    let mut all: HashMap<u64, u64> = HashMap::new();
    each((tools, log), (pid, until), start, &mut |ran, index, _| {
        let instruction = &ran.block.instructions[index].instruction;
        if instruction.flow_control() == FlowControl::ConditionalBranch {
            *all.entry(instruction.ip()).or_default() += 1;
        }
    })?;
    Ok(all)
}

/// Which lines begin within each of these times, the first one first.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn entries(
    (tools, log): (&Tools, &Log),
    pid: ProcessId,
    start: &Start,
    symbols: &mut Symbolizer,
    times: &[Range<u64>],
) -> Result<Vec<Vec<Entry>>> {
    let mut lines: HashMap<u64, Option<Line>> = HashMap::new();
    let (mut found, mut before) = (vec![Vec::new(); times.len()], None);
    let (first, last) = (times.iter().map(|time| time.start).min(), times.iter().map(|time| time.end).max());
    let whole = first.unwrap_or(0)..last.unwrap_or(0);
    each((tools, log), (pid, None), start, &mut |ran, index, (time, _)| {
        if !whole.contains(&time) {
            return;
        }
        let ip = ran.block.instructions[index].instruction.ip();
        let line = lines.entry(ip).or_insert_with(|| Line::of(&Spot::of(symbols, ip))).clone();
        if line != before {
            before.clone_from(&line);
            let Some(line) = line else { return };
            let entry = Entry { line, ip };
            for (all, _) in found.iter_mut().zip(times).filter(|(_, range)| range.contains(&time)) {
                if !all.contains(&entry) {
                    all.push(entry.clone());
                }
            }
        }
    })?;
    Ok(found)
}

/// The first byte of the function that an instruction is in.
pub fn function(symbols: &mut Symbolizer, ip: u64) -> Option<u64> {
    Some(ip - symbols.lookup(Addr(ip)).symbol?.offset)
}
