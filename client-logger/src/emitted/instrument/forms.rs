//! What the form of an instruction says about it: which registers it writes, and whether it loads or stores plainly.

use bugnet_dr::access::Access;
use bugnet_dr::ir::{Gpr, Instr};
use bugnet_dr::sys;

/// The general purpose registers that an instruction writes, as bits of [`Gpr::bit`].
pub(super) fn written(instr: Instr) -> u16 {
    instr.dsts().filter(|opnd| opnd.is_reg()).fold(0, |mask, opnd| mask | opnd.gprs())
}

/// Whether the instruction stores a register, or a part of one, or a constant of so many bytes as it is.
pub(super) fn stores_as_is(instr: Instr, bytes: u32) -> bool {
    let mut srcs = instr.srcs();
    let Some(src) = srcs.next() else { return false };
    match instr.opcode() {
        sys::OP_mov_st | sys::OP_mov_imm => {
            let named = src.get_reg().and_then(|id| Gpr::from_id(id).map(|found| (id, found)));
            // AH to BH cannot be encoded together with R8 to R15.
            let plain = named.is_some_and(|(id, (reg, size))| size == bytes && id == reg.id(size));
            srcs.next().is_none() && (src.is_imm() || plain)
        }
        sys::OP_push => {
            let named = src.get_reg().and_then(Gpr::from_id);
            named.is_some_and(|(reg, size)| reg != Gpr::RSP && size == bytes)
        }
        sys::OP_movups
        | sys::OP_movaps
        | sys::OP_movupd
        | sys::OP_movapd
        | sys::OP_movdqu
        | sys::OP_movdqa
        | sys::OP_vmovups
        | sys::OP_vmovaps
        | sys::OP_vmovdqu
        | sys::OP_vmovdqa
        | sys::OP_movntps
        | sys::OP_movntpd
        | sys::OP_movntdq
        | sys::OP_vmovntps
        | sys::OP_vmovntpd
        | sys::OP_vmovntdq
        // Parts of a vector register.
        | sys::OP_movss
        | sys::OP_movsd
        | sys::OP_movd
        | sys::OP_movq
        | sys::OP_movlps
        | sys::OP_movlpd
        | sys::OP_movhps
        | sys::OP_movhpd
        | sys::OP_vmovss
        | sys::OP_vmovsd
        | sys::OP_vmovd
        | sys::OP_vmovq
        | sys::OP_vmovlps
        | sys::OP_vmovlpd
        | sys::OP_vmovhps
        | sys::OP_vmovhpd => true,
        _ => false,
    }
}

/// Whether the instruction's one memory source is an explicit operand of its own, which it does not write back to.
pub(super) fn reads_once(instr: Instr) -> bool {
    let implicit = matches!(
        instr.opcode(),
        sys::OP_pop
            | sys::OP_popf
            | sys::OP_ret
            | sys::OP_leave
            | sys::OP_enter
            | sys::OP_xlat
            | sys::OP_movs
            | sys::OP_cmps
            | sys::OP_scas
            | sys::OP_lods
            | sys::OP_maskmovq
            | sys::OP_maskmovdqu
            | sys::OP_vmaskmovdqu
    );
    let sources = instr.srcs().filter(|o| o.is_memory()).count();
    // A push writes elsewhere; any other memory destination is the source itself.
    let written = instr.dsts().any(|o| o.is_memory()) && instr.opcode() != sys::OP_push;
    !implicit && sources == 1 && !written
}

/// The register and size of a load that leaves the loaded bytes unchanged in a register.
pub(super) fn plain_load(instr: Instr, read: &Access) -> Option<(Gpr, u32)> {
    if !matches!(instr.opcode(), sys::OP_mov_ld | sys::OP_movzx | sys::OP_movsx | sys::OP_movsxd) {
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
