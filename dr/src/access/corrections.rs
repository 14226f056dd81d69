//! What DynamoRIO's operands do not tell about an instruction's memory, or tell wrongly.
//!
//! The test `decoder` compares what comes out with another decoder, for every instruction.

use super::prefixes::Prefixes;
use super::{Accesses, Place};
use crate::ir::{Gpr, Instr, Opnd, opsz, vector_from_id};
use crate::sys;

/// Why an instruction cannot be recorded exactly, if it cannot.
pub fn unsupported(instr: Instr) -> Option<&'static str> {
    let prefixes = Prefixes::of(instr);
    let registers = |first: u32, last: u32| {
        let mut named = instr.srcs().chain(instr.dsts()).filter_map(Opnd::get_reg);
        named.any(|id| (first..=last).contains(&id.into()))
    };
    if prefixes.evex || registers(sys::DR_REG_K0, sys::DR_REG_K7) {
        return Some("AVX-512");
    }
    Some(match instr.opcode() {
        sys::OP_call_far_ind | sys::OP_jmp_far_ind => "far calls and jumps with 64-bit offsets",
        sys::OP_xbegin => "transactional memory",
        sys::OP_enclu => "enclaves",
        // No checkpoint has the register.
        sys::OP_rdpkru | sys::OP_wrpkru => "memory protection keys",
        sys::OP_lss | sys::OP_lfs | sys::OP_lgs => "loads of segment registers and 64-bit offsets",
        sys::OP_enter if prefixes.short() => "enter with 16-bit operands",
        // Processors differ in how much they read.
        sys::OP_movsxd if prefixes.short() => "movsxd with 16-bit operands",
        sys::OP_xlat if prefixes.address_size => "xlat with 32-bit addresses",
        // Without 32-bit registers, nothing in the operand shows that the sum is cut.
        _ if instr.is_gather() && prefixes.address_size => "gathers with 32-bit addresses",
        _ if prefixes.address_size && negative_address(instr) => "32-bit addresses without a register",
        _ => return None,
    })
}

/// Whether a memory operand is an address below zero.
fn negative_address(instr: Instr) -> bool {
    instr.srcs().chain(instr.dsts()).filter(|o| o.is_memory()).any(|opnd| match (opnd.absolute(), opnd.parts()) {
        (Some(address), _) => address.cast_signed() < 0,
        (None, Some(parts)) => parts.base == 0 && parts.index == 0 && parts.disp < 0,
        _ => false,
    })
}

/// Whether the instruction's memory operands are addresses only.
pub fn touches_nothing(opcode: u32) -> bool {
    matches!(
        opcode,
        sys::OP_lea
            | sys::OP_nop_modrm
            | sys::OP_prefetchnta
            | sys::OP_prefetcht0
            | sys::OP_prefetcht1
            | sys::OP_prefetcht2
            | sys::OP_prefetch
            | sys::OP_prefetchw
            | sys::OP_clflush
            | sys::OP_clflushopt
            | sys::OP_clwb
            | sys::OP_cldemote
            | sys::OP_invlpg
            // Always an exception.
            | sys::OP_ud1
            // Linux does not enable MPX (any more): they do nothing.
            | sys::OP_bndcl
            | sys::OP_bndcn
            | sys::OP_bndcu
            | sys::OP_bndldx
            | sys::OP_bndmk
            | sys::OP_bndmov
            | sys::OP_bndstx
    )
}

/// Sizes that are wrong in DynamoRIO's tables.
fn bytes(instr: Instr) -> Option<u32> {
    let vector = || instr.dsts().find_map(Opnd::get_reg).and_then(vector_from_id).map(|(_, bytes)| bytes);
    let mmx = || {
        let mut named = instr.dsts().filter_map(Opnd::get_reg);
        named.any(|id| (sys::DR_REG_MM0..=sys::DR_REG_MM7).contains(&id.into()))
    };
    match instr.opcode() {
        sys::OP_mov_seg => Some(2),
        sys::OP_cvttps2pi => Some(8),
        sys::OP_punpcklbw | sys::OP_punpcklwd | sys::OP_punpckldq => mmx().then_some(4),
        sys::OP_vmovddup => vector().filter(|bytes| *bytes == 16).map(|_| 8),
        // The count has 128 bits, however many the operand has that is shifted.
        sys::OP_vpsllw
        | sys::OP_vpslld
        | sys::OP_vpsllq
        | sys::OP_vpsrlw
        | sys::OP_vpsrld
        | sys::OP_vpsrlq
        | sys::OP_vpsraw
        | sys::OP_vpsrad => Some(16),
        // REX.W goes before the operand size prefix.
        sys::OP_movbe => Prefixes::of(instr).wide.then_some(8),
        _ => None,
    }
}

/// Puts right what the operands say about memory.
pub fn adjust(instr: Instr, reads: &mut Accesses, writes: &mut Accesses) {
    if let Some(bytes) = bytes(instr) {
        reads.iter_mut().chain(writes.iter_mut()).for_each(|access| access.bytes = bytes);
    }
    match instr.opcode() {
        // The bit may lie outside the operand.
        sys::OP_bt | sys::OP_bts | sys::OP_btr | sys::OP_btc => {
            let index = instr.srcs().filter_map(Opnd::get_reg).find(|id| Gpr::from_id(*id).is_some());
            let Some(index) = index else { return };
            for access in reads.iter_mut().chain(writes) {
                let (base, absolute) = match access.place {
                    Place::Direct(opnd) => (opnd.parts(), 0),
                    Place::Segmented(parts, _) => (Some(parts), 0),
                    Place::Absolute(address) => (None, address),
                    _ => continue,
                };
                access.place = Place::Bit { base, absolute, index };
            }
        }
        // A memory operand relative to RSP is addressed with the value of RSP behind the pop.
        sys::OP_pop => {
            for access in writes.iter_mut() {
                let parts = match access.place {
                    Place::Direct(opnd) => opnd.parts(),
                    Place::Segmented(parts, _) => Some(parts),
                    _ => None,
                };
                let Some(mut parts) = parts else { continue };
                if !matches!(Gpr::from_id(parts.base), Some((Gpr::RSP, _))) {
                    continue;
                }
                parts.disp = parts.disp.wrapping_add(access.bytes as i32);
                access.place = match parts.segment {
                    Some(segment) => Place::Segmented(parts, segment),
                    None => Place::Direct(Opnd::from_parts(parts, opsz(access.bytes))),
                };
            }
        }
        // A load, which DynamoRIO's tables have as a store.
        sys::OP_movntdqa | sys::OP_vmovntdqa => std::mem::swap(reads, writes),
        // Bytes that the mask leaves alone keep what was there: as if they were read and written back.
        sys::OP_maskmovq
        | sys::OP_maskmovdqu
        | sys::OP_vmaskmovdqu
        | sys::OP_vmaskmovps
        | sys::OP_vmaskmovpd
        | sys::OP_vpmaskmovd
        | sys::OP_vpmaskmovq => {
            for access in reads.iter_mut().chain(writes.iter_mut()) {
                access.masked = true;
            }
            reads.extend(writes.iter().copied());
        }
        _ => {}
    }
}
