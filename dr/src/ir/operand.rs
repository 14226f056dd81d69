//! Operands of instructions.

use super::instr::Instr;
use super::registers::Gpr;
use crate::sys;
use std::ffi::c_void;

/// DynamoRIO's size constant for so many bytes; of no size if there is none.
#[must_use]
pub fn opsz(bytes: u32) -> sys::opnd_size_t {
    let size = match bytes {
        1 => sys::OPSZ_1,
        2 => sys::OPSZ_2,
        4 => sys::OPSZ_4,
        8 => sys::OPSZ_8,
        10 => sys::OPSZ_10,
        16 => sys::OPSZ_16,
        32 => sys::OPSZ_32,
        64 => sys::OPSZ_64,
        _ => sys::OPSZ_NA,
    };
    size as sys::opnd_size_t
}

/// An operand of an instruction.
#[derive(Clone, Copy)]
pub struct Opnd(pub sys::opnd_t);

/// A memory operand's parts. The address is `segment base + base + index * scale + disp`, cut to 32 bits before
/// the segment base is added where the registers are 32-bit ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryParts {
    /// FS or GS, where they count.
    pub segment: Option<Segment>,
    /// DynamoRIO's number of the base register.
    pub base: sys::reg_id_t,
    /// DynamoRIO's number of the index register.
    pub index: sys::reg_id_t,
    /// 1, 2, 4 or 8; 0 without an index.
    pub scale: i32,
    /// Displacement.
    pub disp: i32,
}

/// A segment with a base of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// FS
    Fs,
    /// GS
    Gs,
}

impl Opnd {
    /// The low `bytes` of a general purpose register.
    #[must_use]
    pub fn reg(reg: Gpr, bytes: u32) -> Self {
        Self::reg_id(reg.id(bytes))
    }

    /// A register by DynamoRIO's number.
    #[must_use]
    pub fn reg_id(id: sys::reg_id_t) -> Self {
        // SAFETY: makes a value from a value.
        Self(unsafe { sys::opnd_create_reg(id) })
    }

    /// Memory of `bytes` at `[base + disp]`.
    #[must_use]
    pub fn at(base: Gpr, disp: i32, bytes: u32) -> Self {
        let null = sys::DR_REG_NULL as sys::reg_id_t;
        // SAFETY: makes a value from values.
        Self(unsafe { sys::opnd_create_base_disp(base.id(8), null, 0, disp, opsz(bytes)) })
    }

    /// Memory of `bytes` at `[base + index]`.
    #[must_use]
    pub fn at_sum(base: Gpr, index: Gpr, bytes: u32) -> Self {
        // SAFETY: makes a value from values.
        Self(unsafe { sys::opnd_create_base_disp(base.id(8), index.id(8), 1, 0, opsz(bytes)) })
    }

    /// A slot of raw thread-local storage: `bytes` at `segment:[offset]`, as `dr_raw_tls_calloc` gave them.
    #[must_use]
    pub fn tls(segment: sys::reg_id_t, offset: u32, bytes: u32) -> Self {
        let null = sys::DR_REG_NULL as sys::reg_id_t;
        // SAFETY: makes a value from values.
        Self(unsafe { sys::opnd_create_far_base_disp(segment, null, null, 0, offset as i32, opsz(bytes)) })
    }

    /// An immediate of `bytes`.
    #[must_use]
    pub fn imm(value: i64, bytes: u32) -> Self {
        // SAFETY: makes a value from values.
        Self(unsafe { sys::opnd_create_immed_int(value as sys::ptr_int_t, opsz(bytes)) })
    }

    /// An address outside of the list of instructions, as the target of a jump: one of the program's, with which a block is left, or code near the
    /// code cache.
    #[must_use]
    pub fn pc(address: u64) -> Self {
        // SAFETY: makes a value from an address.
        Self(unsafe { sys::opnd_create_pc(address as sys::app_pc) })
    }

    /// A place in the same list of instructions, as the target of a jump.
    #[must_use]
    pub fn label(label: Instr) -> Self {
        // SAFETY: the label is a live instruction, see the crate's "Safety of the whole".
        Self(unsafe { sys::opnd_create_instr(label.0) })
    }

    /// A place in the same list of instructions, as the operand of `lea`.
    #[must_use]
    pub fn label_address(label: Instr) -> Self {
        // SAFETY: the label is a live instruction, see the crate's "Safety of the whole".
        Self(unsafe { sys::opnd_create_mem_instr(label.0, 0, sys::OPSZ_0 as sys::opnd_size_t) })
    }

    query!(
        /// Whether it is a register.
        is_reg, opnd_is_reg
    );
    query!(
        /// Whether it is memory.
        is_memory, opnd_is_memory_reference
    );
    query!(
        /// Whether it is memory relative to the program counter.
        is_rel_addr, opnd_is_rel_addr
    );
    query!(
        /// Whether it is memory at an absolute address.
        is_abs_addr, opnd_is_abs_addr
    );
    query!(
        /// Whether it is memory at registers plus displacement.
        is_base_disp, opnd_is_base_disp
    );
    query!(
        /// Whether it is memory with a vector of indices.
        is_vsib, opnd_is_vsib
    );
    query!(
        /// Whether it is an integer constant.
        is_imm, opnd_is_immed_int
    );

    /// The register, if it is one.
    #[must_use]
    pub fn get_reg(self) -> Option<sys::reg_id_t> {
        // SAFETY: asked only of a register operand.
        self.is_reg().then(|| unsafe { sys::opnd_get_reg(self.0) })
    }

    /// Whether it is AH, CH, DH or BH, which an instruction with a REX prefix cannot name.
    #[must_use]
    pub fn is_high_byte(self) -> bool {
        self.get_reg().is_some_and(|id| (sys::DR_REG_AH..=sys::DR_REG_BH).contains(&u32::from(id)))
    }

    /// The integer constant, if it is one.
    #[must_use]
    pub fn get_imm(self) -> Option<i64> {
        // SAFETY: asked only of an integer operand.
        self.is_imm().then(|| unsafe { sys::opnd_get_immed_int(self.0) as i64 })
    }

    /// Size in bytes as decoded; 0 if it varies.
    #[must_use]
    pub fn bytes(self) -> u32 {
        // SAFETY: only looks at its arguments.
        unsafe { sys::opnd_size_in_bytes(sys::opnd_get_size(self.0)) }
    }

    /// An integer constant with another size; anything else as it is.
    #[must_use]
    pub fn sized(self, bytes: u32) -> Self {
        self.get_imm().map_or(self, |value| Self::imm(value, bytes.min(4)))
    }

    /// `bytes` bytes of memory at an address that is near the code cache.
    #[must_use]
    pub fn near(address: *const c_void, bytes: u32) -> Self {
        // SAFETY: makes a value from values.
        Self(unsafe { sys::opnd_create_rel_addr(address.cast_mut(), opsz(bytes)) })
    }

    /// The absolute address of a pc-relative or absolute operand without FS or GS.
    #[must_use]
    pub fn absolute(self) -> Option<u64> {
        if !(self.is_rel_addr() || self.is_abs_addr()) || self.segment().is_some() {
            return None;
        }
        // SAFETY: asked only of an operand with an address.
        Some(unsafe { sys::opnd_get_addr(self.0) } as u64)
    }

    fn segment(self) -> Option<Segment> {
        // SAFETY: asked only of memory operands, by the two callers.
        match u32::from(unsafe { sys::opnd_get_segment(self.0) }) {
            sys::DR_SEG_FS => Some(Segment::Fs),
            sys::DR_SEG_GS => Some(Segment::Gs),
            _ => None,
        }
    }

    /// The parts of a memory operand; an absolute address with FS or GS has its address in `disp` if it fits there,
    /// and `None` is returned if it does not, or if the operand has no such parts.
    #[must_use]
    pub fn parts(self) -> Option<MemoryParts> {
        let null = sys::DR_REG_NULL as sys::reg_id_t;
        if self.is_base_disp() {
            // SAFETY: asked only of a base-disp operand.
            return Some(unsafe {
                MemoryParts {
                    segment: self.segment(),
                    base: sys::opnd_get_base(self.0),
                    index: sys::opnd_get_index(self.0),
                    scale: sys::opnd_get_scale(self.0),
                    disp: sys::opnd_get_disp(self.0),
                }
            });
        }
        if self.is_rel_addr() || self.is_abs_addr() {
            // SAFETY: asked only of an operand with an address.
            let addr = unsafe { sys::opnd_get_addr(self.0) } as i64;
            let disp = i32::try_from(addr).ok()?;
            return Some(MemoryParts { segment: self.segment(), base: null, index: null, scale: 0, disp });
        }
        None
    }

    /// Memory at these parts, the segment left out, as an operand of `lea` or of an access of `bytes`.
    #[must_use]
    pub fn from_parts(parts: MemoryParts, size: sys::opnd_size_t) -> Self {
        let MemoryParts { base, index, scale, disp, .. } = parts;
        // SAFETY: makes a value from values that came from an operand.
        Self(unsafe { sys::opnd_create_base_disp(base, index, scale, disp, size) })
    }

    /// Memory of `bytes` that begins `offset` behind these parts, which have no segment of their own: in DynamoRIO's
    /// view of `segment`, or without one. In the program's own instructions DynamoRIO takes FS and GS for the program's,
    /// in those of the instrumentation it takes them as they are.
    #[must_use]
    pub fn in_segment(segment: Option<Segment>, parts: MemoryParts, offset: i32, bytes: u32) -> Self {
        let MemoryParts { base, index, scale, disp, .. } = parts;
        let disp = disp.wrapping_add(offset);
        let id = match segment {
            None => sys::DR_REG_NULL,
            Some(Segment::Fs) => sys::DR_SEG_FS,
            Some(Segment::Gs) => sys::DR_SEG_GS,
        };
        // SAFETY: makes a value from values that came from an operand.
        Self(unsafe { sys::opnd_create_far_base_disp(id as sys::reg_id_t, base, index, scale, disp, opsz(bytes)) })
    }

    /// The general purpose registers in it, as bits of [`Gpr::bit`].
    #[must_use]
    pub fn gprs(self) -> u16 {
        // SAFETY: the index is below the count that the operand itself gives.
        unsafe {
            (0..sys::opnd_num_regs_used(self.0))
                .filter_map(|i| Gpr::from_id(sys::opnd_get_reg_used(self.0, i)))
                .fold(0, |mask, (reg, _)| mask | reg.bit())
        }
    }
}
