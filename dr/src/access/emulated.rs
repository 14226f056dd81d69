//! Instructions that the recorder executes itself, one element after the other: DynamoRIO cannot execute them, or what
//! they access is not the range that [`super::RepString`] stands for.

use super::prefixes::Prefixes;
use super::{Access, Place, RegisterValues, StringKind, plain, string_kind};
use crate::ir::{Gpr, Instr, Opnd, Segment};
use crate::sys;

/// An instruction that the recorder executes itself.
#[derive(Clone, Copy)]
pub enum Emulated {
    /// A string instruction: with FS or GS, or repeated with 32-bit addresses, or with REPNE where that means REP.
    String(StringOp),
    /// `mov` to and from DS, ES, FS and GS, `pop` and `push` of FS and GS, `lss`, `lfs`, `lgs`; `mov` to SS.
    Selector(SelectorOp),
    /// A transfer of control that also loads CS.
    Far(FarOp),
}

/// A segment register, by the processor's numbering: ES, CS, SS, DS, FS, GS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRegister(pub u8);

/// An instruction that loads or reads a segment register.
#[derive(Clone, Copy)]
pub struct SelectorOp {
    /// The segment register.
    pub register: SegmentRegister,
    /// Whether it is loaded; else, it is read.
    pub loads: bool,
    /// The other operand.
    pub with: Operand,
    /// A register that is loaded, too, from the bytes before the selector in memory, and how many these are.
    pub offset: Option<(Gpr, u32)>,
    /// What is added to RSP.
    pub stack: i64,
}

/// The other operand of an instruction about a segment register.
#[derive(Clone, Copy)]
pub enum Operand {
    /// A general purpose register and its size.
    Register(Gpr, u32),
    /// Memory.
    Memory(Access),
}

/// A far transfer of control.
#[derive(Clone, Copy)]
pub struct FarOp {
    /// Which one.
    pub kind: FarKind,
    /// Bytes of an operand: 2, 4 or 8.
    pub size: u32,
}

/// Kinds of far transfers.
#[derive(Clone, Copy)]
pub enum FarKind {
    /// `ret`, which also adds so much to RSP.
    Return(u64),
    /// `iret`
    InterruptReturn,
    /// `call` through a pointer here.
    Call(Access),
    /// `jmp` through a pointer here.
    Jump(Access),
}

impl Emulated {
    /// What it may write, with these registers and RFLAGS: lowest address and length.
    #[must_use]
    pub fn store(&self, regs: &impl RegisterValues, rflags: u64) -> Option<(u64, u64)> {
        match self {
            Self::String(op) => op.store(|reg| regs.gpr(reg), rflags),
            Self::Selector(SelectorOp { loads: false, with: Operand::Memory(access), .. }) => {
                Some((access.address(regs)?, access.bytes.into()))
            }
            Self::Far(FarOp { kind: FarKind::Call(_), size, .. }) => {
                let len = 2 * u64::from(*size);
                Some((regs.gpr(Gpr::RSP).wrapping_sub(len), len))
            }
            _ => None,
        }
    }
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
    match instr.opcode() {
        sys::OP_mov_seg | sys::OP_lss | sys::OP_lfs | sys::OP_lgs | sys::OP_push | sys::OP_pop => selector(instr),
        sys::OP_ret_far | sys::OP_iret | sys::OP_call_far_ind | sys::OP_jmp_far_ind => far(instr),
        _ => string(instr),
    }
}

fn segment_register(opnd: Opnd) -> Option<SegmentRegister> {
    let id = u32::from(opnd.get_reg()?);
    let known = [sys::DR_SEG_ES, sys::DR_SEG_CS, sys::DR_SEG_SS, sys::DR_SEG_DS, sys::DR_SEG_FS, sys::DR_SEG_GS];
    known.iter().position(|segment| *segment == id).map(|n| SegmentRegister(n as u8))
}

/// Reads of CS and SS are none of these: a process has the same in them everywhere.
fn selector(instr: Instr) -> Option<Emulated> {
    let loaded = instr.dsts().find_map(segment_register);
    let read = instr.srcs().find_map(segment_register).filter(|segment| !matches!(segment.0, 1 | 2));
    let (register, loads) = loaded.map(|segment| (segment, true)).or(read.map(|segment| (segment, false)))?;
    let memory = || instr.srcs().chain(instr.dsts()).find(|opnd| opnd.is_memory()).and_then(plain);
    let named = |opnd: Opnd| opnd.get_reg().and_then(Gpr::from_id);
    let bytes = if Prefixes::of(instr).short() { 2 } else { 8 };
    let on_stack = |disp: i32| {
        let place = Place::Direct(Opnd::at(Gpr::RSP, disp, bytes));
        Some(Operand::Memory(Access { place, bytes, masked: false }))
    };
    let (with, offset, stack) = match instr.opcode() {
        sys::OP_push => (on_stack(-(bytes as i32))?, None, -i64::from(bytes)),
        sys::OP_pop => (on_stack(0)?, None, i64::from(bytes)),
        sys::OP_mov_seg => {
            let other = if loads { instr.srcs().next()? } else { instr.dsts().next()? };
            let with = match named(other) {
                Some((reg, bytes)) => Operand::Register(reg, bytes),
                None => Operand::Memory(Access { bytes: 2, ..memory()? }),
            };
            (with, None, 0)
        }
        // Processors of different makes do different things with REX.W.
        _ if Prefixes::of(instr).wide => return None,
        _ => {
            let (reg, bytes) = instr.dsts().find_map(named)?;
            (Operand::Memory(Access { bytes: bytes + 2, ..memory()? }), Some((reg, bytes)), 0)
        }
    };
    Some(Emulated::Selector(SelectorOp { register, loads, with, offset, stack }))
}

fn far(instr: Instr) -> Option<Emulated> {
    let prefixes = Prefixes::of(instr);
    let size = match (prefixes.wide, prefixes.operand_size) {
        (true, _) => 8,
        (false, true) => 2,
        (false, false) => 4,
    };
    let pointer = || {
        let memory = instr.srcs().find(|opnd| opnd.is_memory()).and_then(plain)?;
        // Processors of different makes do different things with REX.W.
        (size < 8).then_some(Access { bytes: size + 2, ..memory })
    };
    let kind = match instr.opcode() {
        sys::OP_ret_far => FarKind::Return(instr.srcs().find_map(Opnd::get_imm).unwrap_or(0) as u64 & 0xffff),
        sys::OP_iret => FarKind::InterruptReturn,
        sys::OP_call_far_ind => FarKind::Call(pointer()?),
        _ => FarKind::Jump(pointer()?),
    };
    Some(Emulated::Far(FarOp { kind, size }))
}

fn string(instr: Instr) -> Option<Emulated> {
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
