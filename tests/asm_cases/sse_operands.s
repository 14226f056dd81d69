# SSE arithmetic and moves with memory operands of 2 to 16 bytes.
# CPU sse4_1 ssse3
# EXPECT load addsd 0 00*6 f8 3f
# EXPECT load mulps 0 00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40
# EXPECT load cvt 0 2a 00 00 00
# EXPECT load movlps 0 11*8
# EXPECT load movhps 0 22*8
# EXPECT load movss 0 33*4
# EXPECT load movq 0 44*8
# EXPECT load movd 0 55*4
# EXPECT load pinsrw 0 66 66
# EXPECT load pshufb 0 0f 0e 0d 0c 0b 0a 09 08 07 06 05 04 03 02 01 00
# EXPECT load pmovzx 0 77*8
# EXPECT load compare 0 00*6 f8 3f
# EXPECT load lddqu 0 88*16
# EXPECT load ptest 0 99*16
# EXPECT load movntdqa 0 aa*16
# EXPECT load insertps 0 bb*4
.include "case.inc"
_start:
    pxor xmm0, xmm0
addsd:
    addsd xmm0, [a]
    movaps xmm1, [zeros]
mulps:
    mulps xmm1, [b]
cvt:
    cvtsi2sd xmm2, dword ptr [c]
movlps:
    movlps xmm3, [d]
movhps:
    movhps xmm3, [e]
movss:
    movss xmm4, [f]
movq:
    movq xmm5, qword ptr [g]
movd:
    movd xmm6, dword ptr [h]
pinsrw:
    pinsrw xmm6, [i], 3
pshufb:
    pshufb xmm3, [j]
    movq rax, xmm3
    expect rax, 0x2222222222222222
pmovzx:
    pmovzxbw xmm7, [k]
compare:
    ucomisd xmm0, [l]
    jne failed
lddqu:
    lddqu xmm8, [m]
ptest:
    ptest xmm0, [n]
movntdqa:
    movntdqa xmm9, [o]
insertps:
    insertps xmm9, [p], 0x10
    # Stores of part of a register; what was stored is known.
    movlps [sink], xmm3
    movhps [sink + 8], xmm3
    pextrd dword ptr [sink + 16], xmm9, 1
    movaps xmm10, [sink]
    movaps xmm11, [sink + 16]
    movd eax, xmm11
    expect rax, 0xbbbbbbbb
    finish
.macro slot name:req, value:vararg
    .balign 64
\name: \value
.endm
.data
    slot zeros, .skip 16
    slot a, .double 1.5
    slot b, .float 1, 2, 3, 4
    slot c, .long 42
    slot d, .fill 8, 1, 0x11
    slot e, .fill 8, 1, 0x22
    slot f, .fill 4, 1, 0x33
    slot g, .fill 8, 1, 0x44
    slot h, .fill 4, 1, 0x55
    slot i, .fill 2, 1, 0x66
    slot j, .byte 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
    slot k, .fill 8, 1, 0x77
    slot l, .double 1.5
    slot m, .fill 16, 1, 0x88
    slot n, .fill 16, 1, 0x99
    slot o, .fill 16, 1, 0xaa
    slot p, .fill 4, 1, 0xbb
.bss
.balign 4096
sink: .skip 64
