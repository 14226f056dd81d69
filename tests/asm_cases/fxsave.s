# fxsave is not executed by replay (it stores the last x87 instruction's address); fxrstor from it and from bytes that
# the thread never saw.
# EXPECT special save opaquestore
# EXPECT special save_again opaquestore
# EXPECT special save64 opaquestore
# EXPECT load restore_foreign 0 7f 02 00*22 80 1f 00*6 00*128 11*16 22*16 00*320
.include "case.inc"
_start:
    fninit
    fld1
    pcmpeqd xmm3, xmm3
    mov eax, 0x12345678
    movd xmm4, eax
save:
    fxsave [area]
    mov rax, [area]
    mov eax, [area + 24]
    movdqa xmm0, [area + 160 + 48]
    movq rax, xmm0
    expect rax, -1
    pxor xmm3, xmm3
save_again:
    fxsave [area]
    movdqa xmm0, [area + 160 + 48]
    movq rax, xmm0
    expect rax, 0
    mov eax, [area + 160 + 64]
    expect rax, 0x12345678
    fxrstor [area]
save64:
    fxsave64 [area + 512]
    fxrstor64 [area + 512]
    fstp qword ptr [sink]
    # An own store into the area, loaded by fxrstor.
    mov dword ptr [area + 160 + 64], 7
    fxrstor [area]
    movd eax, xmm4
    expect rax, 7
restore_foreign:
    fxrstor [foreign]
    movq rax, xmm1
    expect rax, 0x2222222222222222
    fnstcw [sink]
    mov ax, [sink]
    expect rax, 0x222222222222027f
    finish
.data
.balign 4096
foreign:
    .short 0x027f, 0, 0, 0
    .skip 16
    .long 0x1f80, 0
    .skip 128
    .fill 16, 1, 0x11
    .fill 16, 1, 0x22
    .skip 320
.bss
.balign 4096
area: .skip 1024
sink: .skip 64
