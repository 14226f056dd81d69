//! Instructions of a block that DynamoRIO is building.

use crate::sys;
use std::ffi::c_void;

/// A general purpose register in the processor's own numbering: 0 for RAX, 4 for RSP, 15 for R15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpr(pub u8);

impl Gpr {
    /// RAX, which LAHF and SETO go through.
    pub const RAX: Self = Self(0);
    /// RCX, which JRCXZ tests.
    pub const RCX: Self = Self(1);
    /// RBX
    pub const RBX: Self = Self(3);
    /// RSP
    pub const RSP: Self = Self(4);
    /// RBP
    pub const RBP: Self = Self(5);
    /// RSI
    pub const RSI: Self = Self(6);
    /// RDI
    pub const RDI: Self = Self(7);

    /// A bit of its own for each register.
    #[must_use]
    pub fn bit(self) -> u16 {
        1 << self.0
    }

    /// DynamoRIO's number of this register, or of its low `bytes` (1, 2, 4 or 8).
    #[must_use]
    pub fn id(self, bytes: u32) -> sys::reg_id_t {
        let n = u32::from(self.0);
        let id = match bytes {
            1 if n < 4 => sys::DR_REG_AL + n,
            1 if n < 8 => sys::DR_REG_SPL + n - 4,
            1 => sys::DR_REG_R8L + n - 8,
            2 => sys::DR_REG_AX + n,
            4 => sys::DR_REG_EAX + n,
            _ => sys::DR_REG_RAX + n,
        };
        id as sys::reg_id_t
    }

    /// The register that a DynamoRIO register number names or is a part of, and that part's size in bytes;
    /// `None` for other registers. AH to BH are parts of RAX to RBX.
    #[must_use]
    pub fn from_id(id: sys::reg_id_t) -> Option<(Self, u32)> {
        let id = u32::from(id);
        let (number, bytes) = match id {
            sys::DR_REG_RAX..=sys::DR_REG_R15 => (id - sys::DR_REG_RAX, 8),
            sys::DR_REG_EAX..=sys::DR_REG_R15D => (id - sys::DR_REG_EAX, 4),
            sys::DR_REG_AX..=sys::DR_REG_R15W => (id - sys::DR_REG_AX, 2),
            sys::DR_REG_AL..=sys::DR_REG_BL => (id - sys::DR_REG_AL, 1),
            sys::DR_REG_AH..=sys::DR_REG_BH => (id - sys::DR_REG_AH, 1),
            sys::DR_REG_R8L..=sys::DR_REG_R15L => (id - sys::DR_REG_R8L + 8, 1),
            sys::DR_REG_SPL..=sys::DR_REG_DIL => (id - sys::DR_REG_SPL + 4, 1),
            _ => return None,
        };
        Some((Self(number as u8), bytes))
    }
}

/// Number of an XMM or YMM register (0 to 15) and its size in bytes, from DynamoRIO's register number.
#[must_use]
pub fn vector_from_id(id: sys::reg_id_t) -> Option<(usize, u32)> {
    match u32::from(id) {
        id @ sys::DR_REG_XMM0..=sys::DR_REG_XMM15 => Some(((id - sys::DR_REG_XMM0) as usize, 16)),
        id @ sys::DR_REG_YMM0..=sys::DR_REG_YMM31 => Some(((id - sys::DR_REG_YMM0) as usize, 32)),
        _ => None,
    }
}

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

macro_rules! query {
    ($(#[$doc:meta])* $name:ident, $dr:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(self) -> bool {
            // SAFETY: see the crate's "Safety of the whole"; the function only looks at its argument.
            unsafe { sys::$dr(self.0) != 0 }
        }
    };
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

/// An instruction in a block that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr(pub *mut sys::instr_t);

impl Instr {
    query!(
        /// Whether it is a direct near `jmp`.
        is_direct_jump, instr_is_near_ubr);
    query!(
        /// Whether it is a conditional jump, `loop` and `jrcxz` among them.
        is_conditional_jump, instr_is_cbr);
    query!(
        /// Whether it is `loop` or `jrcxz` in one of their forms.
        is_loop, instr_is_cti_loop);
    query!(
        /// Whether it belongs to the program, and not to the instrumentation.
        is_app, instr_is_app
    );
    query!(
        /// Whether there is such an instruction.
        is_valid, instr_valid
    );
    query!(
        /// Whether it transfers control.
        is_cti, instr_is_cti
    );
    query!(
        /// Whether it is a jump that depends on a condition.
        is_conditional, instr_is_cbr
    );
    query!(
        /// Whether it is a near or far call.
        is_call, instr_is_call
    );
    query!(
        /// Whether it is a system call.
        is_syscall, instr_is_syscall
    );
    query!(
        /// Whether its execution depends on flags (`cmovcc`, `fcmovcc`).
        is_predicated, instr_is_predicated
    );
    query!(
        /// Whether it is a label.
        is_label, instr_is_label
    );
    query!(
        /// Whether it loads from a vector of addresses.
        is_gather, instr_is_gather
    );

    /// DynamoRIO's opcode.
    #[must_use]
    pub fn opcode(self) -> u32 {
        // SAFETY: see the crate's "Safety of the whole".
        unsafe { sys::instr_get_opcode(self.0) as u32 }
    }

    /// Address in the program.
    #[must_use]
    pub fn pc(self) -> u64 {
        // SAFETY: see the crate's "Safety of the whole".
        unsafe { sys::instr_get_app_pc(self.0) as u64 }
    }

    /// Where a near jump or call goes whose target is stated in the instruction.
    #[must_use]
    pub fn direct_target(self) -> Option<u64> {
        // SAFETY: see the crate's "Safety of the whole"; only such instructions are asked for a target.
        unsafe {
            let direct = sys::instr_is_ubr(self.0) != 0
                || sys::instr_is_cbr(self.0) != 0
                || sys::instr_is_call_direct(self.0) != 0;
            let near = direct && sys::opnd_is_near_pc(sys::instr_get_src(self.0, 0)) != 0;
            near.then(|| sys::opnd_get_pc(sys::instr_get_src(self.0, 0)) as u64)
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self, block: &Block) -> u64 {
        // SAFETY: see the crate's "Safety of the whole".
        unsafe { sys::instr_length(block.context, self.0) as u64 }
    }

    /// Source operands.
    pub fn srcs(self) -> impl Iterator<Item = Opnd> {
        // SAFETY: see the crate's "Safety of the whole"; the index is below the count.
        unsafe { (0..sys::instr_num_srcs(self.0)).map(move |i| Opnd(sys::instr_get_src(self.0, i as u32))) }
    }

    /// Destination operands.
    pub fn dsts(self) -> impl Iterator<Item = Opnd> {
        // SAFETY: see the crate's "Safety of the whole"; the index is below the count.
        unsafe { (0..sys::instr_num_dsts(self.0)).map(move |i| Opnd(sys::instr_get_dst(self.0, i as u32))) }
    }

    /// Arithmetic flags read and written: `(read, written)` as DynamoRIO's `EFLAGS_READ_` bits, writes shifted down
    /// to the same bits. A write that depends on the instruction's operands (a shift by zero) does not count.
    #[must_use]
    pub fn flags(self) -> (u32, u32) {
        let query = sys::_dr_opnd_query_flags_t_DR_QUERY_DEFAULT;
        // SAFETY: see the crate's "Safety of the whole".
        let bits = unsafe { sys::instr_get_arith_flags(self.0, query) };
        (bits & ARITHMETIC, bits >> 11 & ARITHMETIC)
    }

    /// Makes the instruction read its memory source operand, of which there is one and no memory destination of the
    /// same kind, from `memory` instead. `false`, and unchanged, if it has no such form.
    #[must_use]
    pub fn redirect_read(self, memory: Opnd) -> bool {
        // SAFETY: see the crate's "Safety of the whole"; indices are below the count.
        unsafe {
            for i in 0..sys::instr_num_srcs(self.0) as u32 {
                let old = sys::instr_get_src(self.0, i);
                if sys::opnd_is_memory_reference(old) == 0 {
                    continue;
                }
                let mut new = memory.0;
                sys::opnd_set_size(&raw mut new, sys::opnd_get_size(old));
                sys::instr_set_src(self.0, i, new);
                if sys::instr_is_encoding_possible(self.0) != 0 {
                    return true;
                }
                sys::instr_set_src(self.0, i, old);
                return false;
            }
        }
        false
    }

    /// Whether it reads its only memory operand and writes it, too.
    #[must_use]
    pub fn changes_memory(self) -> bool {
        let (mut read, mut written) = (self.srcs().filter(|o| o.is_memory()), self.dsts().filter(|o| o.is_memory()));
        let (Some(from), None, Some(to), None) = (read.next(), read.next(), written.next(), written.next()) else {
            return false;
        };
        // SAFETY: compares two values.
        unsafe { sys::opnd_same(from.0, to.0) != 0 }
    }

    /// Replaces a source operand of the program's instruction at `pc`, as which it still counts.
    pub fn replace_source(self, index: u32, new: Opnd, pc: u64) {
        // SAFETY: see the crate's "Safety of the whole"; the caller knows that there is such an operand.
        unsafe {
            sys::instr_set_src(self.0, index, new.0);
            sys::instr_set_translation(self.0, pc as sys::app_pc);
        }
    }

    /// The next instruction, meta ones included.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        // SAFETY: see the crate's "Safety of the whole".
        let next = unsafe { sys::instr_get_next(self.0) };
        (!next.is_null()).then_some(Self(next))
    }
}

/// DynamoRIO's `EFLAGS_READ_` bits of CF, PF, AF, ZF, SF and OF.
pub const ARITHMETIC: u32 = 0x11f;

unsafe extern "C" {
    /// DynamoRIO's statement that the (no) operands of an instruction are all of them; the bindings leave it out.
    fn instr_set_operands_valid(instr: *mut sys::instr_t, valid: sys::bool_);
    /// DynamoRIO's decoder, which the bindings leave out, too.
    fn decode(context: *mut c_void, pc: *mut sys::byte, instr: *mut sys::instr_t) -> *mut sys::byte;
}

/// A block that DynamoRIO is building.
#[derive(Debug)]
pub struct Block {
    /// DynamoRIO's context of the thread.
    pub context: *mut c_void,
    list: *mut sys::instrlist_t,
}

impl Block {
    /// # Safety
    /// The pointers are those of a block event, and neither the block nor anything taken from it is used after the
    /// event has returned.
    #[must_use]
    pub unsafe fn new(context: *mut c_void, list: *mut sys::instrlist_t) -> Self {
        Self { context, list }
    }

    /// The program's instructions, in order.
    #[must_use]
    pub fn app_instrs(&self) -> Vec<Instr> {
        // SAFETY: see the crate's "Safety of the whole".
        let first = unsafe { sys::instrlist_first(self.list) };
        let first = (!first.is_null()).then_some(Instr(first));
        std::iter::successors(first, |i| i.next()).filter(|i| i.is_app() && !i.is_label()).collect()
    }

    /// Inserts an instruction of the instrumentation before `at`, or at the end.
    pub fn meta(&self, at: Option<Instr>, instr: Instr) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        // SAFETY: see the crate's "Safety of the whole"; `instr` is in no list yet.
        unsafe { sys::instrlist_meta_preinsert(self.list, at, instr.0) };
    }

    /// Inserts an instruction of the instrumentation that touches the program's memory for the program's instruction
    /// at `pc`: if it faults, the program's instruction has faulted.
    pub fn meta_faulting(&self, at: Option<Instr>, instr: Instr, pc: u64) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        // SAFETY: see the crate's "Safety of the whole"; `instr` is in no list yet.
        unsafe {
            sys::instr_set_translation(instr.0, pc as sys::app_pc);
            sys::instrlist_meta_fault_preinsert(self.list, at, instr.0);
        }
    }

    /// Inserts an instruction as the program's own, standing for the one at `pc`.
    pub fn app(&self, at: Option<Instr>, instr: Instr, pc: u64) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        // SAFETY: see the crate's "Safety of the whole"; `instr` is in no list yet.
        unsafe {
            sys::instr_set_translation(instr.0, pc as sys::app_pc);
            sys::instrlist_preinsert(self.list, at, instr.0);
        }
    }

    /// Puts the program's instructions back that DynamoRIO takes for a request to Valgrind (four `rol rdi`, which do
    /// nothing together, and `xchg rbx, rbx`; libraries like GLib have them) and answers itself: it leaves a label in
    /// their place, and a `mov edx, 0` that is none of the program's. At the start of a block event.
    pub fn restore_requests(&self) {
        /// From the start of each of the instructions to that of the last.
        const OFFSETS: [u64; 5] = [16, 12, 8, 4, 0];
        // SAFETY: see the crate's "Safety of the whole".
        let first = unsafe { sys::instrlist_first(self.list) };
        let first = (!first.is_null()).then_some(Instr(first));
        let all: Vec<Instr> = std::iter::successors(first, |i| i.next()).collect();
        for (index, label) in all.iter().enumerate().filter(|(_, instr)| instr.is_label()) {
            let Some(answer) = all.get(index + 1) else { continue };
            // Where a block begins among them, those before the last are still there.
            let kept = index.checked_sub(1).map_or(0, |before| all[before].pc() + 1);
            for pc in OFFSETS.map(|offset| answer.pc() - offset).into_iter().filter(|pc| *pc >= kept) {
                // SAFETY: DynamoRIO has just decoded the instruction there; it is in no list yet.
                let instr = unsafe {
                    let instr = sys::instr_create(self.context);
                    decode(self.context, pc as *mut sys::byte, instr);
                    Instr(instr)
                };
                self.app(Some(*label), instr, pc);
            }
            self.remove(*answer);
            self.remove(*label);
        }
    }

    /// Adds the program's instruction at `pc` to the end of the block.
    ///
    /// # Safety
    /// There are readable bytes at `pc` up to the longest instruction's length.
    #[must_use]
    pub unsafe fn decode_app(&self, pc: u64) -> Instr {
        // SAFETY: see the crate's "Safety of the whole"; the caller vouches for the bytes.
        let instr = unsafe {
            let instr = sys::instr_create(self.context);
            decode(self.context, pc as *mut sys::byte, instr);
            Instr(instr)
        };
        self.app(None, instr, pc);
        instr
    }

    /// Takes an instruction out of the block for good; the handle must not be used afterwards.
    pub fn remove(&self, instr: Instr) {
        // SAFETY: see the crate's "Safety of the whole"; the instruction is in this list.
        unsafe {
            sys::instrlist_remove(self.list, instr.0);
            sys::instr_destroy(self.context, instr.0);
        }
    }

    /// Calls a function of the client's before `at`, all registers saved, with an argument that has to be valid as long as
    /// the block can be executed.
    pub fn clean_call<T>(&self, at: Option<Instr>, function: unsafe extern "C" fn(*const T), argument: *const T) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        let argument = argument as i64;
        // SAFETY: see the crate's "Safety of the whole"; makes an operand from a value.
        unsafe {
            let argument = sys::opnd_create_immed_int64(argument, sys::OPSZ_8 as u8);
            let function = function as *mut c_void;
            sys::dr_insert_clean_call(self.context, self.list.cast(), at.cast(), function, 0, 1, argument);
        }
    }

    /// A copy of an instruction, not yet in the block.
    #[must_use]
    pub fn clone_instr(&self, instr: Instr) -> Instr {
        // SAFETY: see the crate's "Safety of the whole".
        Instr(unsafe { sys::instr_clone(self.context, instr.0) })
    }

    /// A copy of an instruction that reads its only memory source from `memory` instead, not yet in the block; `None`
    /// if it has no such form.
    #[must_use]
    pub fn clone_reading(&self, instr: Instr, memory: Opnd) -> Option<Instr> {
        let copy = self.clone_instr(instr);
        if copy.redirect_read(memory) {
            return Some(copy);
        }
        // SAFETY: a copy of ours that is in no list.
        unsafe { sys::instr_destroy(self.context, copy.0) };
        None
    }

    /// A label, not yet in the block.
    #[must_use]
    pub fn label(&self) -> Instr {
        self.make(sys::OP_LABEL, &[], &[])
    }

    /// An instruction from its opcode, destinations and sources as DynamoRIO lists them, implicit ones included.
    ///
    /// # Panics
    /// For a shape that no instruction of the instrumentation has.
    #[must_use]
    pub fn make(&self, opcode: u32, dsts: &[Opnd], srcs: &[Opnd]) -> Instr {
        let (dc, op) = (self.context, opcode as i32);
        // SAFETY: makes an instruction from values, owned by nobody until it is inserted.
        Instr(unsafe {
            match (dsts, srcs) {
                ([], []) => sys::instr_create_0dst_0src(dc, op),
                ([], [a]) => sys::instr_create_0dst_1src(dc, op, a.0),
                ([], [a, b]) => sys::instr_create_0dst_2src(dc, op, a.0, b.0),
                ([d], []) => sys::instr_create_1dst_0src(dc, op, d.0),
                ([d], [a]) => sys::instr_create_1dst_1src(dc, op, d.0, a.0),
                ([d], [a, b]) => sys::instr_create_1dst_2src(dc, op, d.0, a.0, b.0),
                _ => unreachable!("instruction shape"),
            }
        })
    }

    /// Machine code of the instrumentation that DynamoRIO takes as it is, as if it were one instruction. It must not
    /// depend on its own address.
    #[must_use]
    pub fn raw(&self, code: &[u8]) -> Instr {
        // SAFETY: makes an instruction with room for as many bytes as are then copied, owned by nobody until inserted.
        unsafe {
            let instr = sys::instr_build_bits(self.context, sys::OP_nop as i32, code.len() as u32);
            sys::instr_set_raw_bytes(instr, code.as_ptr().cast_mut(), code.len() as u32);
            // Else DynamoRIO would decode the first of the instructions in the code, and forget the others.
            instr_set_operands_valid(instr, 1);
            Instr(instr)
        }
    }

    /// `mov reg, memory` of the operand's own size.
    #[must_use]
    pub fn load(&self, dst: Opnd, memory: Opnd) -> Instr {
        self.make(sys::OP_mov_ld, &[dst], &[memory])
    }

    /// `mov memory, reg-or-imm`.
    #[must_use]
    pub fn store(&self, memory: Opnd, src: Opnd) -> Instr {
        let opcode = if src.is_imm() { sys::OP_mov_imm } else { sys::OP_mov_st };
        self.make(opcode, &[memory], &[src])
    }

    /// `mov reg, imm64`.
    #[must_use]
    pub fn mov_imm64(&self, reg: Gpr, value: u64) -> Instr {
        self.make(sys::OP_mov_imm, &[Opnd::reg(reg, 8)], &[Opnd::imm(value as i64, 8)])
    }

    /// `lea reg, address`; the operand's size does not matter.
    #[must_use]
    pub fn lea(&self, reg: Gpr, address: Opnd) -> Instr {
        let mut address = address;
        // SAFETY: changes a value of ours.
        unsafe { sys::opnd_set_size(&raw mut address.0, sys::OPSZ_0 as sys::opnd_size_t) };
        self.make(sys::OP_lea, &[Opnd::reg(reg, 8)], &[address])
    }

    /// `jmp label`.
    #[must_use]
    pub fn jump(&self, label: Instr) -> Instr {
        self.make(sys::OP_jmp, &[], &[Opnd::label(label)])
    }

    /// A conditional jump with DynamoRIO's long-form opcode (`OP_jnz` ...).
    #[must_use]
    pub fn jump_if(&self, opcode: u32, label: Instr) -> Instr {
        self.make(opcode, &[], &[Opnd::label(label)])
    }

    /// A jump to one of the program's addresses, with which the block is left.
    #[must_use]
    pub fn leave(&self, target: u64) -> Instr {
        // SAFETY: makes an operand.
        let target = unsafe { sys::opnd_create_pc(target as sys::app_pc) };
        self.make(sys::OP_jmp, &[], &[Opnd(target)])
    }

    /// `jrcxz label`; the label must be near.
    #[must_use]
    pub fn jump_if_rcx_zero(&self, label: Instr) -> Instr {
        self.make(sys::OP_jecxz, &[], &[Opnd::label(label), Opnd::reg(Gpr::RCX, 8)])
    }

    /// Inserts the code that puts the base of the program's FS or GS into `reg`, before `at`.
    pub fn insert_segment_base(&self, at: Option<Instr>, segment: Segment, reg: Gpr) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        let segment = match segment {
            Segment::Fs => sys::DR_SEG_FS,
            Segment::Gs => sys::DR_SEG_GS,
        };
        // SAFETY: see the crate's "Safety of the whole".
        unsafe {
            sys::dr_insert_get_seg_base(self.context, self.list, at, segment as sys::reg_id_t, reg.id(8));
        }
    }
}

/// Offset, from DynamoRIO's own segment base, of the thread-local word in which it keeps the base of the program's FS
/// or GS; found in the code that DynamoRIO itself inserts to read it.
#[must_use]
pub fn segment_base_slot(segment: Segment) -> Option<u32> {
    // SAFETY: a list of our own, from its creation to its end.
    unsafe {
        let context = sys::dr_get_current_drcontext();
        let list = sys::instrlist_create(context);
        let block = Block::new(context, list);
        block.insert_segment_base(None, segment, Gpr::RAX);
        let first = sys::instrlist_first(list);
        let slot = (!first.is_null())
            .then(|| Instr(first).srcs().find(|o| o.is_memory()).and_then(Opnd::parts))
            .flatten()
            .filter(|parts| parts.segment.is_some() && parts.base == 0 && parts.index == 0)
            .and_then(|parts| u32::try_from(parts.disp).ok());
        sys::instrlist_clear_and_destroy(context, list);
        slot
    }
}
