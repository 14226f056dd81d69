//! Which accesses of a block are checked for permission together.
//!
//! A permission that a thread has, it has until it leaves the block of code, or waits in the callout that gets another
//! permission. So accesses to one and the same neighbourhood (as those of a function's entry to its stack) need one check,
//! before the first of them. That they are neighbours has to follow from the instructions: the registers of their addresses
//! change in between by constants at most. The callout gets all again that was checked before and is still to be accessed.

use crate::picture::blocks::BLOCK_SHIFT;
use bugnet_dr::access::{Access, Action, Place};
use bugnet_dr::ir::{Gpr, Instr, MemoryParts, NO_REGISTER, Opnd, RegId, Segment};
use bugnet_dr::opcode;

/// Bytes of a coherence block.
pub(super) const BLOCK: u32 = 1 << BLOCK_SHIFT;

/// Most groups that an instruction's check can be about, beside those that begin there. (Their registers are not to be
/// touched.)
const MOST_OPEN: usize = 4;

/// A register with a number for each time it gets a value that is not known from the one before.
type Version = (Gpr, u32);

/// Addresses of one key differ by constants.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    base: Option<Version>,
    index: Option<Version>,
    scale: i32,
    segment: Option<Segment>,
}

/// Accesses that are checked together.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// None if the one access stays alone.
    key: Option<Key>,
    /// The access that it began with.
    begun: Access,
    /// The range, relative to what the registers held when their versions began.
    start: i64,
    end: i64,
    /// Whether one of them writes.
    pub writes: bool,
    /// Index of the first instruction with such an access, and of the last one.
    pub first: usize,
    last: usize,
}

impl Group {
    /// Bytes of the range.
    pub fn bytes(&self) -> u32 {
        (self.end - self.start) as u32
    }
}

/// What is known of registers before an instruction.
#[derive(Clone, Copy, Default)]
struct Registers {
    versions: [u32; 16],
    /// How much they have changed since their versions began.
    offsets: [i64; 16],
}

/// The checks of a block.
#[derive(Default)]
pub(super) struct Plan {
    groups: Vec<Group>,
    registers: Vec<Registers>,
}

/// The accesses of an instruction whose permissions are checked inline; `true` for those that write.
pub(super) fn checked_inline(action: &Action) -> Option<Vec<(Access, bool)>> {
    let Action::Execute { reads, writes } = action else { return None };
    let reads = reads.iter().map(|read| (*read, false));
    let accesses: Vec<(Access, bool)> = reads.chain(writes.iter().map(|write| (*write, true))).collect();
    let simple = |(access, _): &(Access, bool)| {
        let plain = matches!(access.place, Place::Direct(_) | Place::Segmented(..) | Place::Absolute(_));
        plain && !access.masked && (1..=BLOCK).contains(&access.bytes)
    };
    (accesses.len() <= 2 && accesses.iter().all(simple)).then_some(accesses)
}

impl Plan {
    /// Of a block's instructions, with what is to be done with them.
    pub fn new(instrs: &[Instr], actions: &[Action]) -> Self {
        let mut plan = Self::default();
        let mut now = Registers::default();
        // Groups before this one get no more accesses.
        let mut open = 0;
        for (i, (instr, action)) in instrs.iter().zip(actions).enumerate() {
            plan.registers.push(now);
            match checked_inline(action) {
                Some(accesses) => {
                    for (access, writes) in accesses {
                        plan.add(&mut open, i, access, writes);
                    }
                }
                // What was held may be lost in its callout.
                None => open = plan.groups.len(),
            }
            now.follow(*instr);
        }
        plan
    }

    fn add(&mut self, open: &mut usize, i: usize, access: Access, writes: bool) {
        let (key, start) = self.registers[i].key(&access).map_or((None, 0), |(key, start)| (Some(key), start));
        let end = start + i64::from(access.bytes);
        let fits = |group: &&mut Group| {
            key.is_some() && group.key == key && group.end.max(end) - group.start.min(start) <= BLOCK.into()
        };
        if let Some(group) = self.groups[*open..].iter_mut().rev().find(fits) {
            group.start = group.start.min(start);
            group.end = group.end.max(end);
            group.writes |= writes;
            group.last = i;
            return;
        }
        self.groups.push(Group { key, begun: access, start, end, writes, first: i, last: i });
        *open = (*open).max(self.groups.len().saturating_sub(MOST_OPEN));
    }

    /// The groups that are to be checked before an instruction.
    pub fn begin_at(&self, i: usize) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |group| group.first == i)
    }

    /// What a thread must have permission for at an instruction: what begins there, and what has begun and not ended.
    pub fn held_at(&self, i: usize) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |group| (group.first..=group.last).contains(&i))
    }

    /// The range of a group as an access of the instruction `i`.
    pub fn access(&self, group: &Group, i: usize) -> Access {
        let Some(key) = group.key else { return group.begun };
        let offset =
            |version: Option<Version>| version.map_or(0, |(reg, _)| self.registers[i].offsets[usize::from(reg.0)]);
        let disp = group.start - offset(key.base) - offset(key.index) * i64::from(key.scale);
        let id = |version: Option<Version>| version.map_or(NO_REGISTER, |(reg, _)| reg.id(8));
        let (base, index, scale) = (id(key.base), id(key.index), key.scale);
        let place = match (key.segment, key.base, key.index, i32::try_from(disp)) {
            (None, None, None, _) => Place::Absolute(disp as u64),
            (segment, _, _, Ok(disp)) => {
                let parts = MemoryParts { segment, base, index, scale, disp };
                match segment {
                    Some(segment) => Place::Segmented(parts, segment),
                    None => Place::Direct(Opnd::in_segment(None, parts, 0, 1)),
                }
            }
            // Displacements that wrap around: the sum does, too.
            (..) => return group.begun,
        };
        Access { place, bytes: group.bytes(), masked: false }
    }
}

/// Largest displacement that is followed, so that sums of a block's do not overflow.
const FAR: i64 = 1 << 27;

impl Registers {
    /// How an address is known, and where it is relative to its key.
    fn key(&self, access: &Access) -> Option<(Key, i64)> {
        let (parts, segment) = match access.place {
            Place::Absolute(address) => {
                return Some((Key { base: None, index: None, scale: 0, segment: None }, address.cast_signed()));
            }
            Place::Direct(opnd) => (opnd.parts()?, None),
            Place::Segmented(parts, segment) => (parts, Some(segment)),
            _ => return None,
        };
        let mut start = i64::from(parts.disp);
        let mut version = |id: RegId, scale: i32| {
            if id == NO_REGISTER {
                return Some(None);
            }
            let (reg, bytes) = Gpr::from_id(id)?;
            let n = usize::from(reg.0);
            start += self.offsets[n] * i64::from(scale);
            (bytes == 8).then_some(Some((reg, self.versions[n])))
        };
        let (base, index) = (version(parts.base, 1)?, version(parts.index, parts.scale)?);
        let scale = if index.is_some() { parts.scale } else { 0 };
        (start.abs() < FAR).then_some((Key { base, index, scale, segment }, start))
    }

    /// Behind an instruction.
    fn follow(&mut self, instr: Instr) {
        let mut changed = instr.dsts().filter(|opnd| opnd.is_reg()).fold(0, |mask, opnd| mask | opnd.gprs());
        if let Some((reg, by)) = moves(instr) {
            let offset = &mut self.offsets[usize::from(reg.0)];
            if (*offset + by).abs() < FAR {
                *offset += by;
                changed &= !reg.bit();
            }
        }
        for n in (0..16).filter(|n| changed & Gpr(*n).bit() != 0) {
            self.versions[usize::from(n)] += 1;
            self.offsets[usize::from(n)] = 0;
        }
    }
}

/// The register that an instruction changes by a constant.
fn moves(instr: Instr) -> Option<(Gpr, i64)> {
    let whole = |opnd: Opnd| Gpr::from_id(opnd.get_reg()?).filter(|(_, bytes)| *bytes == 8).map(|(reg, _)| reg);
    let constant = || instr.srcs().find_map(Opnd::get_imm).filter(|by| by.abs() < FAR);
    let target = || instr.dsts().next().and_then(whole);
    match instr.opcode() {
        opcode::OP_push | opcode::OP_push_imm => {
            let pushed = instr.dsts().find(|opnd| opnd.is_memory())?;
            Some((Gpr::RSP, -i64::from(pushed.bytes())))
        }
        opcode::OP_pop => {
            let into = instr.dsts().next()?;
            let plain = into.get_reg().and_then(Gpr::from_id).filter(|(reg, bytes)| *reg != Gpr::RSP && *bytes == 8);
            plain.map(|_| (Gpr::RSP, 8))
        }
        opcode::OP_add => Some((target()?, constant()?)),
        opcode::OP_sub => Some((target()?, -constant()?)),
        opcode::OP_inc => Some((target()?, 1)),
        opcode::OP_dec => Some((target()?, -1)),
        _ => None,
    }
}
