//! What an instruction reads and writes, and what recording and replay do with it.
//!
//! This is the one place that knows. The order of [`Action::Execute`]'s reads is the order of the ordinals in `LOAD`
//! records. It is the order of DynamoRIO's source operands; only `cmps` (at RSI, then at RDI), gathers (lane by lane)
//! and masked stores have more than one read.
//!
//! # Results that differ between processors
//!
//! These execute on both sides, so a replay on a processor of another make may diverge from here, which the next
//! `CHECK` or `END` record shows:
//!
//! - `rcpps`, `rcpss`, `rsqrtps`, `rsqrtss` and their VEX forms are approximations that each make computes its own way;
//! - `f2xm1`, `fyl2x`, `fyl2xp1`, `fptan`, `fpatan`, `fsin`, `fcos` and `fsincos` are exact but for the last bits;
//! - `bsf` and `bsr` of zero leave the destination unchanged or, with 32 bits, clear its upper half;
//! - `pushf`, `lahf`, `setcc` and the like read flags that `mul`, `shl` and others leave undefined.

mod corrections;
mod emulated;
mod prefixes;

pub use emulated::{Emulated, FarKind, FarOp, Operand, Repeat, SegmentRegister, SelectorOp, StringOp, emulated};

use crate::ir::{Gpr, Instr, MemoryParts, Opnd, Segment, vector_from_id};
use crate::sys;
use bugnet_format::record::SpecialKind;
use bugnet_format::regs::RegisterFile;
use prefixes::Prefixes;
use smallvec::{SmallVec, smallvec};

/// Memory that an instruction touches.
#[derive(Clone, Copy)]
pub struct Access {
    /// Where.
    pub place: Place,
    /// How many bytes.
    pub bytes: u32,
    /// Whether a mask decides which of the bytes are touched, so that the others may not even be mapped.
    pub masked: bool,
}

/// What an instruction reads or writes: nearly always one place at most.
pub type Accesses = SmallVec<[Access; 1]>;

/// How the address of an [`Access`] follows from registers.
#[derive(Clone, Copy)]
pub enum Place {
    /// A memory operand without FS, GS or vector index, at the sum of its parts.
    Direct(Opnd),
    /// A memory operand relative to FS or GS.
    Segmented(MemoryParts, Segment),
    /// An absolute address.
    Absolute(u64),
    /// An operand of `bt`, `bts`, `btr` or `btc` whose bit number is in a register and counts from the operand on.
    Bit {
        /// The operand's parts; none for an absolute address.
        base: Option<MemoryParts>,
        /// The operand's absolute address, if it has no parts.
        absolute: u64,
        /// DynamoRIO's number of the register.
        index: sys::reg_id_t,
    },
    /// `xlat`'s table entry.
    Table(Option<Segment>),
    /// One lane of a gather.
    Lane {
        /// The operand's parts; `index` is a vector register.
        parts: MemoryParts,
        /// Lane number.
        lane: u32,
        /// Bytes of an index: 4 or 8.
        index_bytes: u32,
        /// DynamoRIO's number of the mask register.
        mask: sys::reg_id_t,
    },
}

/// A string instruction with a `rep` prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepString {
    /// What it does.
    pub kind: StringKind,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element: u32,
}

/// What a string instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringKind {
    /// `movs`: reads at RSI (ordinal 0), writes at RDI.
    Move,
    /// `stos`: writes at RDI.
    Store,
    /// `lods`: reads at RSI (ordinal 0).
    Load,
    /// `cmps`: reads at RSI (ordinal 0) and at RDI (ordinal 1).
    Compare,
    /// `scas`: reads at RDI (ordinal 0).
    Scan,
}

impl StringKind {
    /// The registers that point at what is read, in the order of the ordinals.
    #[must_use]
    pub fn reads(self) -> &'static [Gpr] {
        match self {
            Self::Move | Self::Load => &[Gpr::RSI],
            Self::Store => &[],
            Self::Compare => &[Gpr::RSI, Gpr::RDI],
            Self::Scan => &[Gpr::RDI],
        }
    }

    /// Whether it writes at RDI.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Move | Self::Store)
    }
}

/// What an opaque store does beside storing; replay, which does not execute it, has to do that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FpuEffect {
    /// Nothing.
    None,
    /// `fnsave`: initialises the x87 unit.
    Init,
    /// `fnstenv`: masks all x87 exceptions.
    MaskExceptions,
}

/// What is to be done with an instruction.
#[derive(Clone)]
pub enum Action {
    /// It runs on both sides.
    Execute {
        /// What it reads; the index is the ordinal.
        reads: Accesses,
        /// What it writes.
        writes: Accesses,
    },
    /// A `rep` string instruction; it runs on both sides, on ranges.
    Repeat(RepString),
    /// A system call: runs when recorded, skipped by replay.
    Syscall,
    /// Emulated when recorded, and its results are logged; skipped by replay.
    Special(SpecialKind),
    /// Runs when recorded, and its results (registers and flags) are logged; skipped by replay.
    Result(SpecialKind),
    /// A store whose bytes depend on more than is recorded: runs when recorded, skipped by replay but for `effect`;
    /// a `SPECIAL` record stands at it, and `MEMORY` records behind it.
    OpaqueStore {
        /// What it may write.
        target: Access,
        /// What else it does.
        effect: FpuEffect,
        /// Kind of its `SPECIAL` record.
        kind: SpecialKind,
        /// Whether EDX:EAX select the state components that it stores.
        selects: bool,
    },
    /// The recorder does all that it would do, and its results are logged: a `SPECIAL` record, and `MEMORY` records behind
    /// it for what it stored; skipped by replay. Whatever it does, all registers count as read.
    Emulate(Emulated),
    /// Cannot be recorded exactly.
    Unsupported(&'static str),
}

/// Where the values of registers come from when an address is computed.
pub trait RegisterValues {
    /// A general purpose register.
    fn gpr(&self, reg: Gpr) -> u64;
    /// A vector register, 0 to 15.
    fn vector(&self, number: usize) -> [u8; 32];
    /// Base of the program's FS or GS.
    fn segment_base(&self, segment: Segment) -> u64;
}

impl RegisterValues for RegisterFile {
    fn gpr(&self, reg: Gpr) -> u64 {
        self.gpr[usize::from(reg.0)]
    }

    fn vector(&self, number: usize) -> [u8; 32] {
        self.ymm[number]
    }

    fn segment_base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.fs_base,
            Segment::Gs => self.gs_base,
        }
    }
}

fn register(regs: &impl RegisterValues, id: sys::reg_id_t) -> u64 {
    match Gpr::from_id(id) {
        Some((reg, 4)) => regs.gpr(reg) & 0xffff_ffff,
        Some((reg, 2)) => regs.gpr(reg) & 0xffff,
        Some((reg, _)) => regs.gpr(reg),
        None => 0,
    }
}

fn sum(parts: MemoryParts, index: u64, regs: &impl RegisterValues) -> u64 {
    let offset = register(regs, parts.base)
        .wrapping_add(index.wrapping_mul(parts.scale as u64))
        .wrapping_add(parts.disp as i64 as u64);
    let short = [parts.base, parts.index].iter().any(|id| matches!(Gpr::from_id(*id), Some((_, 4))));
    let offset = if short { offset & 0xffff_ffff } else { offset };
    offset.wrapping_add(parts.segment.map_or(0, |s| regs.segment_base(s)))
}

impl MemoryParts {
    /// The address, from the registers before the instruction.
    #[must_use]
    pub fn address(self, regs: &impl RegisterValues) -> u64 {
        sum(self, register(regs, self.index), regs)
    }
}

fn lane_of(vector: [u8; 32], lane: u32, bytes: u32) -> i64 {
    let at = (lane * bytes) as usize;
    let mut wide = [0; 8];
    wide[..bytes as usize].copy_from_slice(&vector[at..at + bytes as usize]);
    let value = i64::from_le_bytes(wide);
    if bytes == 4 { i64::from(value as i32) } else { value }
}

impl Access {
    /// Address of the first byte, from the registers before the instruction; `None` for a lane that is masked off.
    #[must_use]
    pub fn address(&self, regs: &impl RegisterValues) -> Option<u64> {
        Some(match self.place {
            Place::Direct(opnd) => {
                let parts = opnd.parts()?;
                sum(parts, register(regs, parts.index), regs)
            }
            Place::Segmented(parts, _) => sum(parts, register(regs, parts.index), regs),
            Place::Absolute(address) => address,
            Place::Bit { base, absolute, index } => {
                let (reg, bytes) = Gpr::from_id(index)?;
                let bit = match bytes {
                    2 => i64::from(regs.gpr(reg) as i16),
                    4 => i64::from(regs.gpr(reg) as i32),
                    _ => regs.gpr(reg) as i64,
                };
                let words = bit.div_euclid(i64::from(bytes) * 8);
                let offset = words.wrapping_mul(i64::from(bytes));
                let start = base.map_or(absolute, |parts| sum(parts, register(regs, parts.index), regs));
                start.wrapping_add(offset as u64)
            }
            Place::Table(segment) => {
                let offset = regs.gpr(Gpr::RBX).wrapping_add(regs.gpr(Gpr::RAX) & 0xff);
                offset.wrapping_add(segment.map_or(0, |s| regs.segment_base(s)))
            }
            Place::Lane { parts, lane, index_bytes, mask } => {
                let (mask, _) = vector_from_id(mask)?;
                if lane_of(regs.vector(mask), lane, self.bytes) >= 0 {
                    return None;
                }
                let (index, _) = vector_from_id(parts.index)?;
                sum(parts, lane_of(regs.vector(index), lane, index_bytes) as u64, regs)
            }
        })
    }

    /// General purpose registers that the address depends on, bits of [`Gpr::bit`].
    #[must_use]
    pub fn address_gprs(&self) -> u16 {
        let of = |id| Gpr::from_id(id).map_or(0, |(reg, _)| reg.bit());
        match self.place {
            Place::Direct(opnd) => opnd.gprs(),
            Place::Segmented(parts, _) => of(parts.base) | of(parts.index),
            Place::Absolute(_) => 0,
            Place::Bit { base, index, .. } => base.map_or(0, |parts| of(parts.base) | of(parts.index)) | of(index),
            Place::Table(_) => Gpr::RBX.bit() | Gpr::RAX.bit(),
            Place::Lane { parts, .. } => of(parts.base),
        }
    }
}

/// Bytes of an XSAVE area with all state components that are ever shown: legacy region, header, AVX. A processor may have
/// more, of which the program knows nothing.
pub const XSAVE_AREA: u32 = 576 + 256;

/// Bytes of an operand; those of XSAVE areas and of 0 ("varies") are the whole area.
fn size(opnd: Opnd) -> u32 {
    match opnd.bytes() {
        0 => XSAVE_AREA,
        n => n,
    }
}

/// Why an instruction is not recorded whose operand DynamoRIO shows in an unknown way.
const UNKNOWN_OPERAND: &str = "a memory operand of this form";

fn plain(opnd: Opnd) -> Option<Access> {
    let bytes = size(opnd);
    let place = if let Some(address) = opnd.absolute() {
        Place::Absolute(address)
    } else {
        let parts = opnd.parts()?;
        match parts.segment {
            Some(segment) => Place::Segmented(parts, segment),
            None => Place::Direct(opnd),
        }
    };
    Some(Access { place, bytes, masked: false })
}

fn special(opcode: u32) -> Option<SpecialKind> {
    Some(match opcode {
        sys::OP_rdtsc => SpecialKind::Rdtsc,
        sys::OP_rdtscp => SpecialKind::Rdtscp,
        sys::OP_rdpid => SpecialKind::Rdpid,
        sys::OP_cpuid => SpecialKind::Cpuid,
        sys::OP_rdrand => SpecialKind::Rdrand,
        sys::OP_rdseed => SpecialKind::Rdseed,
        sys::OP_xgetbv => SpecialKind::Xgetbv,
        sys::OP_rdfsbase | sys::OP_rdgsbase | sys::OP_wrfsbase | sys::OP_wrgsbase => SpecialKind::SegmentBase,
        _ => return None,
    })
}

/// What a string instruction does, and whether it has a prefix that makes it repeat, as far as DynamoRIO knows.
fn string_kind(opcode: u32) -> Option<(StringKind, bool)> {
    Some(match opcode {
        sys::OP_movs => (StringKind::Move, false),
        sys::OP_stos => (StringKind::Store, false),
        sys::OP_lods => (StringKind::Load, false),
        sys::OP_cmps => (StringKind::Compare, false),
        sys::OP_scas => (StringKind::Scan, false),
        sys::OP_rep_movs => (StringKind::Move, true),
        sys::OP_rep_stos => (StringKind::Store, true),
        sys::OP_rep_lods => (StringKind::Load, true),
        sys::OP_rep_cmps | sys::OP_repne_cmps => (StringKind::Compare, true),
        sys::OP_rep_scas | sys::OP_repne_scas => (StringKind::Scan, true),
        _ => return None,
    })
}

fn rep_string(instr: Instr) -> Option<Action> {
    let (kind, true) = string_kind(instr.opcode())? else { return None };
    let memory = instr.srcs().chain(instr.dsts()).find(|opnd| opnd.is_memory())?;
    Some(Action::Repeat(RepString { kind, element: memory.bytes() }))
}

fn opaque_store(instr: Instr) -> Option<Action> {
    let selects = matches!(
        instr.opcode(),
        sys::OP_xsave32
            | sys::OP_xsave64
            | sys::OP_xsaveopt32
            | sys::OP_xsaveopt64
            | sys::OP_xsavec32
            | sys::OP_xsavec64
    );
    let (effect, kind) = match instr.opcode() {
        sys::OP_fxsave32 | sys::OP_fxsave64 => (FpuEffect::None, SpecialKind::OpaqueStore),
        _ if selects => (FpuEffect::None, SpecialKind::OpaqueStore),
        sys::OP_fnsave => (FpuEffect::Init, SpecialKind::OpaqueStore),
        sys::OP_fnstenv => (FpuEffect::MaskExceptions, SpecialKind::OpaqueStore),
        sys::OP_sgdt | sys::OP_sidt | sys::OP_sldt | sys::OP_str | sys::OP_smsw => {
            (FpuEffect::None, SpecialKind::SystemTable)
        }
        _ => return None,
    };
    let Some(target) = instr.dsts().find(|o| o.is_memory()) else {
        // A register form.
        return Some(Action::Result(kind));
    };
    Some(match plain(target) {
        // The recorder runs it with other values there.
        Some(target) if selects && target.address_gprs() & (Gpr::RAX.bit() | Gpr::RDX.bit()) != 0 => {
            Action::Unsupported("XSAVE at an address in RAX or RDX")
        }
        Some(target) => Action::OpaqueStore { target, effect, kind, selects },
        None => Action::Unsupported(UNKNOWN_OPERAND),
    })
}

/// Instructions that read descriptor tables: the limit that `lsl` reads holds the processor's number.
fn reads_descriptors(opcode: u32) -> bool {
    matches!(opcode, sys::OP_lsl | sys::OP_lar | sys::OP_verr | sys::OP_verw)
}

/// `(bytes of an index, bytes of an element)` of a gather.
fn gather_shape(opcode: u32) -> Option<(u32, u32)> {
    Some(match opcode {
        sys::OP_vpgatherdd | sys::OP_vgatherdps => (4, 4),
        sys::OP_vpgatherdq | sys::OP_vgatherdpd => (4, 8),
        sys::OP_vpgatherqd | sys::OP_vgatherqps => (8, 4),
        sys::OP_vpgatherqq | sys::OP_vgatherqpd => (8, 8),
        _ => return None,
    })
}

fn gather(instr: Instr) -> Option<Accesses> {
    let (index_bytes, bytes) = gather_shape(instr.opcode())?;
    let parts = instr.srcs().find(|o| o.is_memory())?.parts()?;
    let mask = instr.srcs().filter(|o| !o.is_memory()).find_map(Opnd::get_reg)?;
    let (_, index_size) = vector_from_id(parts.index)?;
    let (_, data_size) = instr.dsts().find_map(Opnd::get_reg).and_then(vector_from_id)?;
    let lanes = index_size.max(data_size) / index_bytes.max(bytes);
    let lane = |lane| Access { place: Place::Lane { parts, lane, index_bytes, mask }, bytes, masked: false };
    Some((0..lanes).map(lane).collect())
}

/// `enter size, level`: reads the `level - 1` frame pointers below RBP, writes `level + 1` of them below RSP.
fn enter(instr: Instr) -> Action {
    let level = instr.srcs().filter_map(Opnd::get_imm).nth(1).unwrap_or(0) as u32 & 31;
    let below = |base, count: u32| Access {
        place: Place::Direct(Opnd::at(base, -8 * count as i32, 8)),
        bytes: 8 * count,
        masked: false,
    };
    let reads = if level > 1 { smallvec![below(Gpr::RBP, level - 1)] } else { Accesses::new() };
    let writes = smallvec![below(Gpr::RSP, level + 1)];
    Action::Execute { reads, writes }
}

/// What is to be done with a program's instruction.
#[must_use]
pub fn classify(instr: Instr) -> Action {
    let opcode = instr.opcode();
    if is_ordinary(opcode) && !Prefixes::of(instr).address_size {
        return operands(instr);
    }
    if opcode == sys::OP_sysenter {
        // 64-bit code has no way back from it.
        return Action::Unsupported("sysenter");
    }
    if instr.is_syscall() {
        return Action::Syscall;
    }
    if let Some(emulated) = emulated(instr) {
        return Action::Emulate(emulated);
    }
    if let Some(why) = corrections::unsupported(instr) {
        return Action::Unsupported(why);
    }
    if let Some(kind) = special(opcode) {
        return Action::Special(kind);
    }
    if let Some(action) = opaque_store(instr) {
        return action;
    }
    if opcode == sys::OP_rdpmc {
        return Action::Result(SpecialKind::Rdpmc);
    }
    if reads_descriptors(opcode) {
        return Action::Result(SpecialKind::SystemTable);
    }
    if let Some(action) = rep_string(instr) {
        return action;
    }
    if corrections::touches_nothing(opcode) {
        return Action::Execute { reads: Accesses::new(), writes: Accesses::new() };
    }
    match opcode {
        sys::OP_enter => return enter(instr),
        sys::OP_xlat => {
            let segment = instr.srcs().find(|o| o.is_memory()).and_then(|o| o.parts()?.segment);
            let read = Access { place: Place::Table(segment), bytes: 1, masked: false };
            return Action::Execute { reads: smallvec![read], writes: Accesses::new() };
        }
        _ => {}
    }
    if instr.is_gather() {
        return match gather(instr) {
            Some(reads) => Action::Execute { reads, writes: Accesses::new() },
            None => Action::Unsupported("a gather of this form"),
        };
    }
    let mut action = operands(instr);
    if let Action::Execute { reads, writes } = &mut action {
        corrections::adjust(instr, reads, writes);
    }
    action
}

/// What an instruction does that reads and writes what its operands say.
fn operands(instr: Instr) -> Action {
    let (mut reads, mut writes) = (Accesses::new(), Accesses::new());
    for opnd in instr.srcs().filter(|opnd| opnd.is_memory()) {
        let Some(access) = plain(opnd) else { return Action::Unsupported(UNKNOWN_OPERAND) };
        reads.push(access);
    }
    for opnd in instr.dsts().filter(|opnd| opnd.is_memory()) {
        let Some(access) = plain(opnd) else { return Action::Unsupported(UNKNOWN_OPERAND) };
        writes.push(access);
    }
    Action::Execute { reads, writes }
}

/// Whether nothing is special about these instructions: most that there are, so that asking for them first saves time.
fn is_ordinary(opcode: u32) -> bool {
    matches!(
        opcode,
        sys::OP_mov_ld
            | sys::OP_mov_st
            | sys::OP_mov_imm
            | sys::OP_movzx
            | sys::OP_movsx
            | sys::OP_add
            | sys::OP_sub
            | sys::OP_cmp
            | sys::OP_test
            | sys::OP_and
            | sys::OP_or
            | sys::OP_xor
            | sys::OP_inc
            | sys::OP_dec
            | sys::OP_shl
            | sys::OP_shr
            | sys::OP_sar
            | sys::OP_call
            | sys::OP_ret
            | sys::OP_jmp
            | sys::OP_jb
            | sys::OP_jnb
            | sys::OP_jz
            | sys::OP_jnz
            | sys::OP_jbe
            | sys::OP_jnbe
            | sys::OP_js
            | sys::OP_jns
            | sys::OP_jl
            | sys::OP_jnl
            | sys::OP_jle
            | sys::OP_jnle
    )
}
