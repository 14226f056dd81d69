//! Instructions.

use super::block::Block;
use super::operand::Opnd;
use crate::sys;

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
        /// Whether it is a jump, call or return whose target is a value.
        is_indirect_branch, instr_is_mbr
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

    /// How many bytes of the block's code come before it, in the code cache, once the block has been emitted.
    #[must_use]
    pub fn offset(self) -> u64 {
        // SAFETY: see the crate's "Safety of the whole".
        unsafe { sys::instr_get_offset(self.0) as u64 }
    }

    /// Its machine code, if it has been decoded from there and is still the same.
    #[must_use]
    pub fn raw_bytes(&self) -> Option<&[u8]> {
        // SAFETY: see the crate's "Safety of the whole"; while they are valid, there are as many bytes as the length says,
        // for which no context is needed then.
        unsafe {
            let valid = sys::instr_raw_bits_valid(self.0) != 0;
            valid.then(|| {
                let len = sys::instr_length(std::ptr::null_mut(), self.0);
                std::slice::from_raw_parts(sys::instr_get_raw_bits(self.0), len as usize)
            })
        }
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
