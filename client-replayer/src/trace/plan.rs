//! Which registers' values tell what a block accesses.
//!
//! A register's value at an instruction is that of some register at the block's start, or behind an instruction, and a constant: `push`,
//! `add rsp, 24` or `mov rbp, rsp` make nothing new. Each such *root* is written once, where it comes to be.

use crate::instruction::PlainAccess;
use crate::marking::{moves_stack, written};
use crate::state;
use bugnet_dr::access::{Action, classify};
use bugnet_dr::ir::{Gpr, Instr, Segment, vector_from_id};
use bugnet_dr::opcode;
use bugnet_format::trace::{LANES, Operand, TracedAccess, TracedSegment, Wanted, WordPlace};
use std::ops::Range;

/// Of a function: where it returns to, and its arguments (System V ABI, 3.2.3), those that most have first.
const AT_ENTRY: &[Gpr] = &[Gpr::RSP, Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::RCX, Gpr(8), Gpr(9)];

/// Bytes of a return address.
const SLOT: u64 = 8;

/// A register that is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reg {
    /// A general purpose register.
    Whole(Gpr),
    /// The lowest 8 bytes of a vector register.
    Vector(u8),
    /// What RSP points at.
    Top,
    /// No register, but zero.
    Zero,
}

/// A value of a register that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Index of the instruction before which the register has the value.
    pub before: usize,
    /// The register.
    pub reg: Reg,
    /// Where it is written.
    pub place: WordPlace,
}

/// What is written of a block.
#[derive(Default)]
pub struct Plan {
    /// Values, in the order in which they come to be.
    pub needs: Vec<Need>,
    /// What they say.
    pub accesses: Vec<TracedAccess>,
    /// Registers as they are at the start, by their numbers.
    pub registers: Vec<(u8, WordPlace)>,
    /// In an outline, where RAX is before the last instruction, if that returns, and where it goes on.
    pub returned: Option<(WordPlace, WordPlace)>,
    /// In an outline of open calls, where RSP is behind the last instruction that may take it to another stack.
    pub stack: Option<WordPlace>,
    /// In an outline, if all of it is written before the last instruction: what that is.
    pub pair: Option<Pair>,
    /// In an outline, if it is of a library: which part of that.
    pub inside: Option<Inside>,
    is_outline: bool,
    /// Words for registers at the start beyond those for which there is room in other blocks.
    more: usize,
    /// Words beyond those for which there is room.
    beyond: usize,
}

/// A block of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// It is not told if it is known that the thread is in there.
    Known,
    /// It is told, and the thread stays there.
    Stays,
    /// It is told, and the thread may go elsewhere.
    Leaves,
}

/// Of a call and a return between which nothing else is told, both are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// A call that returns to this address. Its words are the address, with all bits the other way, and RSP before the call.
    Call(u64),
    /// A return. Its words, where it is not taken back, are RSP, RAX, where it goes on, and zero.
    Return,
}

impl Pair {
    /// How many words.
    pub fn words(self) -> usize {
        match self {
            Self::Call(_) => 3,
            Self::Return => 5,
        }
    }
}

/// Whether the client is to be called, since the instruction accesses memory in a way that no sum of registers tells.
pub fn is_odd(instr: Instr) -> bool {
    sums(&classify(instr)).is_none()
}

/// The accesses of an instruction; none of those that are not executed.
fn sums(action: &Action) -> Option<Vec<PlainAccess>> {
    match action {
        Action::Execute { .. } => PlainAccess::all(action),
        Action::Repeat(_) => None,
        _ => Some(Vec::new()),
    }
}

fn traced(segment: Segment) -> TracedSegment {
    match segment {
        Segment::Fs => TracedSegment::Fs,
        Segment::Gs => TracedSegment::Gs,
    }
}

/// A value: that of a register before an instruction, and a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Value {
    before: usize,
    reg: Reg,
    more: i64,
}

impl Value {
    fn new(before: usize, number: usize) -> Self {
        Self { before, reg: Reg::Whole(Gpr(number as u8)), more: 0 }
    }

    fn plus(self, more: i64) -> Self {
        Self { more: self.more.wrapping_add(more), ..self }
    }
}

impl Plan {
    /// For instructions that are executed one after the other, which lie in this range. `is_counter`: whether R11 counts at the last one.
    pub fn of(instrs: &[Instr], code: Range<u64>, wanted: &Wanted, is_counter: bool) -> Self {
        let pc = code.start;
        let mut plan = Self { is_outline: wanted.outline, ..Self::default() };
        let last = instrs.len() - 1;
        if takes_back(wanted) && is_counter && is_of_pair(instrs, pc, wanted) {
            plan.add_pair(last, if instrs[last].opcode() == opcode::OP_ret { None } else { Some(code.end) });
            return plan;
        }
        let mut values: [Value; 16] = std::array::from_fn(|number| Value::new(0, number));
        let tells = |index: usize, instr: Instr| wanted.tells_accesses(pc) || index == last && uses_slot(instr);
        for (index, instr) in instrs.iter().enumerate() {
            if !tells(index, *instr) {
                step(*instr, index, &mut values);
                continue;
            }
            for sum in sums(&classify(*instr)).unwrap_or_default() {
                let stored = stored(*instr, index, &values).filter(|_| wanted.operands && sum.writes && sum.bytes > 0);
                plan.add(index, &sum, stored, &values, instrs.len());
            }
            step(*instr, index, &mut values);
        }
        let returns = instrs[last].opcode() == opcode::OP_ret;
        if wanted.outline && returns {
            let rax = plan.place(Value::new(last, Gpr::RAX.0.into()), instrs.len());
            let target = plan.place(Value { before: last, reg: Reg::Top, more: 0 }, instrs.len());
            plan.returned = Some((rax, target));
        }
        // As many as there is still room for.
        plan.add_registers(pc, (instrs.len(), returns), wanted);
        if wanted.open {
            plan.add_stack(instrs);
        }
        if takes_back(wanted) {
            // What ends so is no call that a return may take back.
            plan.beyond += 1;
            plan.place(Value { before: 0, reg: Reg::Zero, more: 0 }, instrs.len());
        }
        plan.needs.sort_by_key(|need| need.before);
        if !wanted.shaded.is_empty() && wanted.is_in_library(pc) {
            let last = instrs[last];
            let is_all = plan.needs.iter().all(|need| need.reg == Reg::Zero);
            plan.inside = Some(match () {
                () if last.is_cti() && last.direct_target().is_none() => Inside::Leaves,
                () if is_all && wanted.functions.binary_search(&pc).is_err() => Inside::Known,
                () => Inside::Stays,
            });
        }
        plan
    }

    /// Of the last instruction alone: a call that returns to this address, or else a return.
    fn add_pair(&mut self, last: usize, next: Option<u64>) {
        let word = |at| WordPlace { lane: 0, at };
        let (pair, rsp, disp) = match next {
            Some(next) => (Pair::Call(next), word(2), SLOT.wrapping_neg()),
            None => (Pair::Return, word(1), 0),
        };
        self.pair = Some(pair);
        self.returned = next.is_none().then_some((word(2), word(3)));
        self.accesses.push(TracedAccess {
            instruction: last as u16,
            reads: next.is_none(),
            writes: next.is_some(),
            bytes: SLOT as u32,
            base: Some(rsp),
            index: None,
            disp,
            segment: None,
            operand: None,
        });
    }

    /// How many words an entry of an outline has.
    pub fn words(&self) -> u16 {
        self.pair.map_or(self.needs.len() + 1, Pair::words) as u16
    }

    /// Registers at the start.
    fn add_registers(&mut self, pc: u64, (count, returns): (usize, bool), wanted: &Wanted) {
        let is_entry = wanted.functions.binary_search(&pc).is_ok();
        // Of a stub, which has one instruction, an outline tells three arguments.
        self.more = usize::from(is_entry && wanted.outline && !returns);
        let called_with = if is_entry { AT_ENTRY } else { &[] };
        let tells_rax = !wanted.functions.is_empty() && wanted.tells_accesses(pc);
        for register in called_with.iter().chain(tells_rax.then_some(&Gpr::RAX)) {
            let value = Value::new(0, register.0.into());
            let place = self.place_if_room(value, count);
            self.registers.extend(place.map(|place| (register.0, place)));
        }
    }

    /// Where RSP is behind the last instruction that may take it to another stack.
    fn add_stack(&mut self, instrs: &[Instr]) {
        let behind = instrs.iter().rposition(|instr| moves_elsewhere(*instr)).map(|index| index + 1);
        self.stack = behind.filter(|behind| *behind < instrs.len()).map(|behind| {
            self.beyond += 1;
            self.place(Value::new(behind, Gpr::RSP.0.into()), instrs.len())
        });
    }

    fn add(
        &mut self,
        index: usize,
        sum: &PlainAccess,
        stored: Option<(Value, u32)>,
        values: &[Value; 16],
        count: usize,
    ) {
        let PlainAccess { segment, base, index: other, scale, mut disp, bytes, reads, writes } = *sum;
        let mut place = |reg: Option<Gpr>, times: u64| {
            let value = values[usize::from(reg?.0 & 15)];
            disp = disp.wrapping_add(value.more.cast_unsigned().wrapping_mul(times));
            Some(self.place(value, count))
        };
        let (base, other) = (place(base, 1), place(other, scale));
        // Of registers beyond those of addresses, as many as there are words for.
        let operand = stored.and_then(|(value, size)| {
            let place = self.place_if_room(value, count)?;
            Some(Operand { place, more: value.more.cast_unsigned(), bytes: size.min(bytes as u32).min(8) as u8 })
        });
        self.accesses.push(TracedAccess {
            instruction: index as u16,
            reads,
            writes,
            bytes: bytes as u32,
            base,
            index: other.map(|place| (place, scale as u8)),
            disp,
            segment: segment.map(traced),
            operand,
        });
    }

    /// Where a value is written, but for its constant.
    fn place(&mut self, value: Value, count: usize) -> WordPlace {
        self.place_if_room(value, count).unwrap_or_else(|| {
            // Each instruction has as many words as there are lanes, and none accesses two places, or stores, by more than three registers.
            state::die("a block accesses more than it has words for");
        })
    }

    fn place_if_room(&mut self, value: Value, count: usize) -> Option<WordPlace> {
        let Value { before, reg, .. } = value;
        if let Some(known) = self.needs.iter().find(|need| need.before == before && need.reg == reg) {
            return Some(known.place);
        }
        // The first word has the block's number.
        let word = self.needs.len() + 1;
        let place = if self.is_outline {
            WordPlace { lane: 0, at: word as u16 }
        } else {
            WordPlace { lane: (word / count) as u8, at: (word % count) as u16 }
        };
        (word < count * LANES + self.more + self.beyond).then(|| self.needs.push(Need { before, reg, place }))?;
        Some(place)
    }
}

/// Whether an outline has these instructions: they tell where a thread is, or a function begins with them, or more is told of them, or they are of code of
/// which all blocks are.
pub fn is_in_outline(instrs: &[Instr], pc: u64, wanted: &Wanted) -> bool {
    wanted.has_block(pc)
        || wanted.functions.binary_search(&pc).is_ok()
        || instrs.last().is_some_and(|last| uses_slot(*last))
        || instrs.iter().any(|instr| moves_elsewhere(*instr))
}

/// Whether an outline is without calls in which nothing is told.
pub fn takes_back(wanted: &Wanted) -> bool {
    wanted.open || !wanted.shaded.is_empty()
}

/// Whether instructions do nothing that is told of the block but to call, or to return, with the last of them.
fn is_of_pair(instrs: &[Instr], pc: u64, wanted: &Wanted) -> bool {
    instrs.last().is_some_and(|last| uses_slot(*last))
        && !wanted.has_block(pc)
        && wanted.functions.binary_search(&pc).is_err()
        && !instrs.iter().any(|instr| moves_elsewhere(*instr))
}

/// Whether an instruction may take RSP to another stack.
fn moves_elsewhere(instr: Instr) -> bool {
    written(instr) & Gpr::RSP.bit() != 0 && !stays_on_stack(instr)
}

/// Whether an instruction that writes RSP leaves it on the stack where it is, for sure.
fn stays_on_stack(instr: Instr) -> bool {
    let is_frames = |id| Gpr::from_id(id).is_some_and(|(reg, _)| reg == Gpr::RBP);
    match instr.opcode() {
        opcode::OP_push | opcode::OP_push_imm | opcode::OP_leave => true,
        opcode::OP_pop => moves_stack(instr).is_some(),
        opcode::OP_add | opcode::OP_sub | opcode::OP_lea => {
            sum_of_one(instr).is_some_and(|(_, from, _)| from == Gpr::RSP || from == Gpr::RBP)
        }
        opcode::OP_mov_ld | opcode::OP_mov_st => {
            instr.srcs().next().and_then(|opnd| opnd.get_reg()).is_some_and(is_frames)
        }
        _ => uses_slot(instr),
    }
}

/// Whether the instruction puts a return address down, or takes it.
fn uses_slot(instr: Instr) -> bool {
    matches!(instr.opcode(), opcode::OP_call | opcode::OP_call_ind | opcode::OP_ret)
}

/// The register that an instruction stores, or with which it changes memory, as it is before, and its size in bytes.
fn stored(instr: Instr, index: usize, values: &[Value; 16]) -> Option<(Value, u32)> {
    // A call stores where it returns to, whatever it reads.
    if matches!(instr.opcode(), opcode::OP_call | opcode::OP_call_ind) {
        return None;
    }
    let source = instr.srcs().next().filter(|source| !source.is_high_byte())?.get_reg()?;
    if let Some((reg, bytes)) = Gpr::from_id(source) {
        return Some((values[usize::from(reg.0 & 15)], bytes));
    }
    let (number, bytes) = vector_from_id(source).filter(|(number, _)| *number < 16)?;
    Some((Value { before: index, reg: Reg::Vector(number as u8), more: 0 }, bytes))
}

/// What registers have behind an instruction.
fn step(instr: Instr, index: usize, values: &mut [Value; 16]) {
    let before = *values;
    let changed = written(instr);
    for (number, value) in values.iter_mut().enumerate().filter(|(number, _)| changed & 1 << number != 0) {
        *value = Value::new(index + 1, number);
    }
    if let Some(moved) = moves_stack(instr) {
        values[usize::from(Gpr::RSP.0)] = before[usize::from(Gpr::RSP.0)].plus(moved.into());
    }
    if let Some((to, from, more)) = sum_of_one(instr) {
        values[usize::from(to.0)] = before[usize::from(from.0)].plus(more);
    }
}

/// Whether the instruction does nothing to general purpose registers but to make one the sum of another one and a constant.
fn sum_of_one(instr: Instr) -> Option<(Gpr, Gpr, i64)> {
    let whole = |id| Gpr::from_id(id).filter(|(_, bytes)| *bytes == 8).map(|(reg, _)| reg);
    let mut targets = instr.dsts().filter_map(|opnd| opnd.get_reg()).filter(|id| Gpr::from_id(*id).is_some());
    let (to, None) = (whole(targets.next()?)?, targets.next()) else { return None };
    let sources = || instr.srcs();
    let constant = || sources().find_map(|opnd| opnd.get_imm());
    let own = |more| sources().any(|opnd| opnd.get_reg().and_then(whole) == Some(to)).then_some((to, to, more));
    match instr.opcode() {
        opcode::OP_add => own(constant()?),
        opcode::OP_sub => own(constant()?.wrapping_neg()),
        opcode::OP_inc => own(1),
        opcode::OP_dec => own(-1),
        opcode::OP_mov_ld | opcode::OP_mov_st => Some((to, whole(sources().next()?.get_reg()?)?, 0)),
        opcode::OP_lea => {
            let parts = sources().next()?.parts()?;
            let alone = Gpr::from_id(parts.index).is_none() && parts.segment.is_none();
            Some((to, whole(parts.base)?, parts.disp.into())).filter(|_| alone)
        }
        _ => None,
    }
}
