//! Instructions that the recorder executes itself, one element after the other: DynamoRIO cannot execute them, or what
//! they access is not the range that [`super::RepString`] stands for.

use super::prefixes::Prefixes;
use super::{StringKind, string_kind};
use crate::ir::{Gpr, Instr, Opnd, Segment};
use crate::sys;

/// An instruction that the recorder executes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulated {
    /// A string instruction: with FS or GS, or repeated with 32-bit addresses, or with REPNE where that means REP.
    String(StringOp),
}

/// A string instruction with all its prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringOp {
    /// What it does.
    pub kind: StringKind,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element: u32,
    /// How often.
    pub repeat: Repeat,
    /// Whether RCX, RSI and RDI count with their low 32 bits.
    pub short_address: bool,
    /// To which the address in RSI is relative.
    pub segment: Option<Segment>,
}

/// How often a string instruction does what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Once.
    Once,
    /// As often as RCX says.
    Counted,
    /// As often as RCX says, but not behind elements that differ.
    WhileEqual,
    /// As often as RCX says, but not behind elements that are equal.
    WhileDifferent,
}

impl StringOp {
    /// The bits of RCX, RSI and RDI that count.
    #[must_use]
    pub fn mask(self) -> u64 {
        if self.short_address { 0xffff_ffff } else { u64::MAX }
    }

    /// What it may write, with these registers and RFLAGS: lowest address and length.
    #[must_use]
    pub fn store(self, gpr: impl Fn(Gpr) -> u64, rflags: u64) -> Option<(u64, u64)> {
        const DIRECTION: u64 = 0x400;
        let element = u64::from(self.element);
        let count = if self.repeat == Repeat::Once { 1 } else { gpr(Gpr::RCX) & self.mask() };
        let (start, len) = (gpr(Gpr::RDI) & self.mask(), count.checked_mul(element)?);
        let low = if rflags & DIRECTION == 0 { start } else { start.wrapping_add(element).wrapping_sub(len) };
        (self.kind.writes() && len > 0).then_some((low, len))
    }
}

/// What the recorder does instead of an instruction, if it does anything.
#[must_use]
pub fn emulated(instr: Instr) -> Option<Emulated> {
    let (kind, repeats) = string_kind(instr.opcode())?;
    let prefixes = Prefixes::of(instr);
    let repeat = match instr.opcode() {
        sys::OP_rep_cmps | sys::OP_rep_scas => Repeat::WhileEqual,
        sys::OP_repne_cmps | sys::OP_repne_scas => Repeat::WhileDifferent,
        // A processor does not tell REPNE from REP here; DynamoRIO overlooks it.
        _ if repeats || prefixes.repeat => Repeat::Counted,
        _ => Repeat::Once,
    };
    let memory = || instr.srcs().chain(instr.dsts()).filter(|opnd| opnd.is_memory()).filter_map(Opnd::parts);
    let segment = memory().find_map(|parts| parts.segment);
    let short_address = memory().any(|parts| matches!(Gpr::from_id(parts.base), Some((_, 4))));
    let plain = segment.is_none() && (repeat == Repeat::Once || repeats && !short_address);
    if plain {
        return None;
    }
    let element = instr.srcs().chain(instr.dsts()).find(|opnd| opnd.is_memory())?.bytes();
    Some(Emulated::String(StringOp { kind, element, repeat, short_address, segment }))
}
