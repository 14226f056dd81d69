//! Where an instruction reads memory: the place of a `LOAD` record's value.

use crate::code::Code;
use bugnet_dr::access::{Access, Action, FpuEffect, Place, RegisterValues, RepString};
use bugnet_dr::decode::{self, Decoded};
use bugnet_dr::ir::{Block, Gpr, Instr, MemoryParts, Segment};
use bugnet_format::types::Addr;

/// The registers that a `LOAD` record's place may depend on.
pub trait Registers: RegisterValues {
    /// RFLAGS.
    fn flags(&self) -> u64;
}

/// What replay has to know of an instruction that it does not simply execute, or that a record injects into.
pub struct Instruction(Decoded);

/// Address of the first byte behind an instruction. DynamoRIO does not know that of a branch from a copy: it may have prefixes that do nothing.
pub fn end_of(block: &Block, code: &Code, instr: Instr) -> u64 {
    let len = || instr.len(block);
    instr.pc() + Instruction::decode(instr.pc(), code).map_or_else(len, |instruction| instruction.len())
}

impl Instruction {
    /// Decodes the instruction at `pc`; `None` if the code picture in force has none there.
    pub fn decode(pc: u64, code: &Code) -> Option<Self> {
        if !code.has(pc, 1) {
            return None;
        }
        // SAFETY: only the replayed thread gets here, in events and clean calls.
        unsafe { decode::decode(pc, &code.instruction(pc)) }.filter(|decoded| code.has(pc, decoded.len)).map(Self)
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// What is to be done with it.
    pub fn action(&self) -> &Action {
        &self.0.action
    }

    /// Whether the next instruction in memory is the next one to be executed, and cannot be changed by this one.
    pub fn goes_straight_on(&self) -> bool {
        match &self.0.action {
            Action::Execute { writes, .. } => writes.is_empty() && !self.0.is_cti,
            Action::Repeat(op) => !op.kind.writes(),
            _ => false,
        }
    }

    /// Arithmetic flags that it overwrites, whatever happens; bits of [`bugnet_dr::ir::ARITHMETIC`].
    pub fn overwritten_flags(&self) -> u32 {
        self.0.overwritten_flags
    }

    /// Whether replay executes it.
    pub fn runs(&self) -> bool {
        runs(&self.0.action)
    }

    /// Address of byte `offset` of the read with this ordinal; `None` if there is no such read.
    pub fn read_address(&self, ordinal: u8, offset: u64, len: u64, regs: &impl Registers) -> Option<u64> {
        let end = offset.checked_add(len)?;
        match &self.0.action {
            Action::Execute { reads, .. } => {
                let access = reads.get(usize::from(ordinal))?;
                let fits = end <= u64::from(access.bytes);
                fits.then(|| access.address(regs))?.map(|address| address.wrapping_add(offset))
            }
            Action::Repeat(op) => {
                let pointer = *op.kind.reads().get(usize::from(ordinal))?;
                let (low, bytes) = range(*op, pointer, regs.gpr(Gpr::RCX), regs)?;
                (end <= bytes).then(|| low.wrapping_add(offset))
            }
            _ => None,
        }
    }

    /// The first read, if its address is a sum of general purpose registers and a constant, and how many bytes it has.
    pub fn plain_read(&self) -> Option<(MemoryParts, u64)> {
        match &self.0.action {
            Action::Execute { reads, .. } => match reads.first()? {
                Access { place: Place::Direct(opnd), bytes, .. } => Some((opnd.parts()?, u64::from(*bytes))),
                _ => None,
            },
            _ => None,
        }
    }

    /// What the instruction may touch now: pairs of address and length. Not for `rep` string instructions, which go on
    /// from page to page.
    pub fn touches(&self, regs: &impl Registers) -> Vec<(u64, u64)> {
        let at = |access: &Access| Some((access.address(regs)?, u64::from(access.bytes)));
        match &self.0.action {
            Action::Execute { reads, writes } => reads.iter().chain(writes).filter_map(at).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is executed and neither lies at nor accesses any of these pages of code. `pc` is its address.
    pub fn leaves_alone(&self, pc: u64, mut pages: impl Iterator<Item = u64>, regs: &impl Registers) -> bool {
        let mut touched = self.touches(regs);
        touched.push((pc, self.len()));
        let on = |page: u64, (start, len): (u64, u64)| start < page + Addr::PAGE && page < start.saturating_add(len);
        matches!(self.0.action, Action::Execute { .. })
            && pages.all(|page| !touched.iter().any(|range| on(page, *range)))
    }

    /// What the instruction, which is executed, is going to store to: pairs of address and length.
    pub fn stores(&self, regs: &impl Registers) -> Vec<(u64, u64)> {
        let at = |access: &Access| Some((access.address(regs)?, u64::from(access.bytes)));
        match &self.0.action {
            Action::Execute { writes, .. } => writes.iter().filter_map(at).collect(),
            Action::Repeat(op) if op.kind.writes() => {
                range(*op, Gpr::RDI, regs.gpr(Gpr::RCX), regs).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// What a skipped instruction may have stored to, which its records say: address and length.
    pub fn stores_by_records(&self, regs: &impl Registers) -> Option<(u64, u64)> {
        match &self.0.action {
            Action::OpaqueStore { target, .. } => Some((target.address(regs)?, target.bytes.into())),
            Action::Emulate(emulated) => emulated.store(regs, regs.flags()),
            _ => None,
        }
    }

    /// What a skipped instruction does to the x87 unit.
    pub fn fpu_effect(&self) -> FpuEffect {
        match self.0.action {
            Action::OpaqueStore { effect, .. } => effect,
            _ => FpuEffect::None,
        }
    }
}

/// All that an instruction accesses, if that is one place at a sum of general purpose registers, a segment's base and a constant: found once,
/// since it takes long to ask DynamoRIO for an operand's parts.
#[derive(Clone)]
pub struct PlainAccess {
    /// The segment, if it has a base.
    pub segment: Option<Segment>,
    /// A register.
    pub base: Option<Gpr>,
    /// Another one, which is multiplied.
    pub index: Option<Gpr>,
    /// By what: 1, 2, 4 or 8; 0 without.
    pub scale: u64,
    /// The constant.
    pub disp: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Whether the instruction reads there.
    pub reads: bool,
    /// Whether the instruction writes there.
    pub writes: bool,
}

impl PlainAccess {
    /// Of an instruction; `None` if it accesses memory in another way.
    pub fn of(instruction: &Instruction) -> Option<Self> {
        let Action::Execute { reads, writes } = instruction.action() else { return None };
        let how = (!reads.is_empty(), !writes.is_empty());
        let mut all = reads.iter().chain(writes).map(|access| Self::of_access(access, how));
        let first = all.next()??;
        all.all(|other| other.is_some_and(|other| other.is_at(&first))).then_some(first)
    }

    /// All accesses of an instruction with which this is to be done; `None` if one of them is in another way.
    pub fn all(action: &Action) -> Option<Vec<Self>> {
        let Action::Execute { reads, writes } = action else { return None };
        let reads = reads.iter().map(|read| Self::of_access(read, (true, false)));
        let mut all: Vec<Self> = reads.collect::<Option<_>>()?;
        for write in writes {
            let write = Self::of_access(write, (false, true))?;
            match all.iter_mut().find(|other| other.is_at(&write)) {
                Some(other) => other.writes = true,
                None => all.push(write),
            }
        }
        Some(all)
    }

    /// Whether marks of it are also those of another one, as long as no register changes.
    pub fn covers(&self, other: &Self) -> bool {
        // Bases of segments may change.
        self.segment.is_none() && self.is_at(other) && (self.writes || !other.writes)
    }

    /// The registers in the address, as bits of [`Gpr::bit`].
    pub fn registers(&self) -> u16 {
        self.base.into_iter().chain(self.index).fold(0, |all, reg| all | reg.bit())
    }

    /// An access with which this is to be done: read and written; `None` if it is in another way.
    pub fn of_access(access: &Access, how: (bool, bool)) -> Option<Self> {
        let bytes = u64::from(access.bytes);
        match access.place {
            _ if access.masked => None,
            Place::Absolute(disp) => {
                let (reads, writes) = how;
                Some(Self { segment: None, base: None, index: None, scale: 0, disp, bytes, reads, writes })
            }
            Place::Direct(opnd) => Self::of_parts(opnd.parts()?, bytes, how),
            Place::Segmented(parts, segment) => {
                Self::of_parts(MemoryParts { segment: Some(segment), ..parts }, bytes, how)
            }
            _ => None,
        }
    }

    fn of_parts(parts: MemoryParts, bytes: u64, (reads, writes): (bool, bool)) -> Option<Self> {
        let whole = |id| match id {
            0 => Some(None),
            id => Gpr::from_id(id).filter(|(_, bytes)| *bytes == 8).map(|(reg, _)| Some(reg)),
        };
        let (base, index) = (whole(parts.base)?, whole(parts.index)?);
        let (scale, disp) = (parts.scale as u64, i64::from(parts.disp) as u64);
        Some(Self { segment: parts.segment, base, index, scale, disp, bytes, reads, writes })
    }

    /// Whether it is at the same place as another one.
    fn is_at(&self, other: &Self) -> bool {
        let place = |access: &Self| {
            let number = |reg: Option<Gpr>| reg.map(|reg| reg.0);
            let registers = (access.segment, number(access.base), number(access.index));
            (registers, access.scale, access.disp, access.bytes)
        };
        place(self) == place(other)
    }

    /// The address of the first byte.
    pub fn address(&self, regs: &impl Registers) -> u64 {
        let value = |reg: Option<Gpr>| reg.map_or(0, |reg| regs.gpr(reg));
        let index = value(self.index).wrapping_mul(self.scale);
        let start = self.segment.map_or(0, |segment| regs.segment_base(segment));
        start.wrapping_add(value(self.base)).wrapping_add(index).wrapping_add(self.disp)
    }
}

/// How an instruction accesses memory.
pub enum Accessing {
    /// Not at all.
    None,
    /// At these places.
    Plain(Vec<PlainAccess>),
    /// Otherwise: at places that no sum of registers tells.
    Other,
}

impl Accessing {
    /// Of an instruction with which this is to be done.
    pub fn of(action: &Action) -> Self {
        match action {
            Action::Repeat(_) => Self::Other,
            Action::Execute { reads, writes } if !(reads.is_empty() && writes.is_empty()) => {
                PlainAccess::all(action).map_or(Self::Other, Self::Plain)
            }
            _ => Self::None,
        }
    }
}

/// Whether replay executes an instruction with which this is to be done.
pub fn runs(action: &Action) -> bool {
    matches!(action, Action::Execute { .. } | Action::Repeat(_))
}

/// Lowest address and length of what a `rep` string instruction of `count` elements goes over by one of its pointers.
pub fn range(op: RepString, pointer: Gpr, count: u64, regs: &impl Registers) -> Option<(u64, u64)> {
    const DIRECTION: u64 = 0x400;
    let start = regs.gpr(pointer);
    let element = u64::from(op.element);
    let bytes = count.checked_mul(element)?;
    let low = if regs.flags() & DIRECTION == 0 { start } else { start.wrapping_add(element).wrapping_sub(bytes) };
    Some((low, bytes))
}
