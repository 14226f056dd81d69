//! What the form of an instruction says about it: which registers it writes, and whether it loads or stores plainly.

use crate::picture::shadow::sizes::BIAS;
use bugnet_dr::access::{Access, Place};
use bugnet_dr::ir::{Gpr, Instr};
use bugnet_dr::opcode;

/// The general purpose registers that an instruction writes, as bits of [`Gpr::bit`].
pub(super) fn written(instr: Instr) -> u16 {
    instr.dsts().filter(|opnd| opnd.is_reg()).fold(0, |mask, opnd| mask | opnd.gprs())
}

/// Whether the instruction stores a register, or a part of one, or a constant of so many bytes as it is.
pub(super) fn stores_as_is(instr: Instr, bytes: u32) -> bool {
    let mut srcs = instr.srcs();
    let Some(src) = srcs.next() else { return false };
    match instr.opcode() {
        opcode::OP_mov_st | opcode::OP_mov_imm => {
            let named = src.get_reg().and_then(|id| Gpr::from_id(id).map(|found| (id, found)));
            // AH to BH cannot be encoded together with R8 to R15.
            let plain = named.is_some_and(|(id, (reg, size))| size == bytes && id == reg.id(size));
            srcs.next().is_none() && (src.is_imm() || plain)
        }
        opcode::OP_push => {
            let named = src.get_reg().and_then(Gpr::from_id);
            named.is_some_and(|(reg, size)| reg != Gpr::RSP && size == bytes)
        }
        opcode::OP_movups
        | opcode::OP_movaps
        | opcode::OP_movupd
        | opcode::OP_movapd
        | opcode::OP_movdqu
        | opcode::OP_movdqa
        | opcode::OP_vmovups
        | opcode::OP_vmovaps
        | opcode::OP_vmovdqu
        | opcode::OP_vmovdqa
        | opcode::OP_movntps
        | opcode::OP_movntpd
        | opcode::OP_movntdq
        | opcode::OP_vmovntps
        | opcode::OP_vmovntpd
        | opcode::OP_vmovntdq
        // Parts of a vector register.
        | opcode::OP_movss
        | opcode::OP_movsd
        | opcode::OP_movd
        | opcode::OP_movq
        | opcode::OP_movlps
        | opcode::OP_movlpd
        | opcode::OP_movhps
        | opcode::OP_movhpd
        | opcode::OP_vmovss
        | opcode::OP_vmovsd
        | opcode::OP_vmovd
        | opcode::OP_vmovq
        | opcode::OP_vmovlps
        | opcode::OP_vmovlpd
        | opcode::OP_vmovhps
        | opcode::OP_vmovhpd => true,
        _ => false,
    }
}

/// Whether the instruction's one memory source is an explicit operand of its own, which it does not write back to.
pub(super) fn reads_once(instr: Instr) -> bool {
    let implicit = matches!(
        instr.opcode(),
        opcode::OP_pop
            | opcode::OP_popf
            | opcode::OP_ret
            | opcode::OP_leave
            | opcode::OP_enter
            | opcode::OP_xlat
            | opcode::OP_movs
            | opcode::OP_cmps
            | opcode::OP_scas
            | opcode::OP_lods
            | opcode::OP_maskmovq
            | opcode::OP_maskmovdqu
            | opcode::OP_vmaskmovdqu
    );
    let sources = instr.srcs().filter(|o| o.is_memory()).count();
    // A push writes elsewhere; any other memory destination is the source itself.
    let written = instr.dsts().any(|o| o.is_memory()) && instr.opcode() != opcode::OP_push;
    !implicit && sources == 1 && !written
}

/// The register and size of a load that leaves the loaded bytes unchanged in a register.
pub(super) fn plain_load(instr: Instr, read: &Access) -> Option<(Gpr, u32)> {
    if !matches!(instr.opcode(), opcode::OP_mov_ld | opcode::OP_movzx | opcode::OP_movsx | opcode::OP_movsxd) {
        return None;
    }
    let id = instr.dsts().next()?.get_reg()?;
    let (reg, size) = Gpr::from_id(id)?;
    // AH to BH are not the low byte.
    (id == reg.id(size) && matches!(read.bytes, 1 | 2 | 4 | 8) && read.bytes <= size).then_some((reg, read.bytes))
}

/// Cuts a size into pieces of 8, 4, 2 and 1 bytes: offset and size of each.
pub(super) fn pieces(bytes: u32) -> impl Iterator<Item = (i32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|size| at + size <= bytes)?;
        let piece = (at as i32, size);
        at += size;
        Some(piece)
    })
}

/// Largest displacement that leaves room for offsets within an access.
pub(super) const MAX_DISP: i32 = i32::MAX - 64 - BIAS;

/// Whether the shadow can be reached with at most one scratch register.
pub(super) fn reachable(access: &Access) -> bool {
    let whole = |id| id == 0 || Gpr::from_id(id).is_some_and(|(_, bytes)| bytes == 8);
    match access.place {
        Place::Direct(opnd) => {
            opnd.parts().is_some_and(|parts| parts.disp <= MAX_DISP && whole(parts.base) && whole(parts.index))
        }
        Place::Absolute(_) => true,
        Place::Segmented(parts, _) => {
            // The segment's base takes the place of base or index.
            let room = parts.base == 0 && parts.scale <= 1 || parts.index == 0;
            room && whole(parts.base) && whole(parts.index) && parts.disp <= MAX_DISP
        }
        _ => false,
    }
}
