//! DynamoRIO's opcodes that the clients name.

pub use crate::sys::{
    OP_add, OP_and, OP_call, OP_call_ind, OP_cmp, OP_cmps, OP_dec, OP_enter, OP_inc, OP_jb, OP_jmp, OP_jnb, OP_jnbe,
    OP_jno, OP_jnz, OP_js, OP_jz, OP_lea, OP_leave, OP_lods, OP_maskmovdqu, OP_maskmovq, OP_mov_imm, OP_mov_ld,
    OP_mov_seg, OP_mov_st, OP_movapd, OP_movaps, OP_movd, OP_movdqa, OP_movdqu, OP_movhpd, OP_movhps, OP_movlpd,
    OP_movlps, OP_movntdq, OP_movntpd, OP_movntps, OP_movq, OP_movs, OP_movsd, OP_movss, OP_movsx, OP_movsxd,
    OP_movupd, OP_movups, OP_movzx, OP_nop, OP_pop, OP_popf, OP_ptest, OP_push, OP_push_imm, OP_pushf, OP_pxor,
    OP_rdfsbase, OP_rdgsbase, OP_repne_cmps, OP_repne_scas, OP_ret, OP_scas, OP_shr, OP_sub, OP_test, OP_vlddqu,
    OP_vmaskmovdqu, OP_vmovapd, OP_vmovaps, OP_vmovd, OP_vmovdqa, OP_vmovdqu, OP_vmovhpd, OP_vmovhps, OP_vmovlpd,
    OP_vmovlps, OP_vmovntdq, OP_vmovntpd, OP_vmovntps, OP_vmovq, OP_vmovsd, OP_vmovss, OP_vmovupd, OP_vmovups,
    OP_vptest, OP_vpxor, OP_wrfsbase, OP_wrgsbase, OP_xchg, OP_xlat, OP_xor,
};
