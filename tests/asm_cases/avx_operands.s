# AVX and AVX2 arithmetic, broadcasts, FMA and half precision with memory operands; upper halves are kept and cleared.
# CPU avx2 fma f16c
# EXPECT load vaddps 0 00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40 00 00 a0 40 00 00 c0 40 00 00 e0 40 00 00 00 41
# EXPECT load broadcast 0 11 00 00 00
# EXPECT load broadcast128 0 22*16
# EXPECT load insert128 0 33*16
# EXPECT load fma 0 00*6 f0 3f 00*6 00 40
# EXPECT load half 0 00 3c 00 40 00 42 00 44
# EXPECT load vpermd 0 07 00 00 00 06 00 00 00 05 00 00 00 04 00 00 00 03 00 00 00 02 00 00 00 01 00 00 00 00 00 00 00
# EXPECT load scalar 0 00*6 f8 3f
# EXPECT load aligned 0 44*32
.include "case.inc"
_start:
    vpxor ymm0, ymm0, ymm0
vaddps:
    vaddps ymm1, ymm0, [a]
broadcast:
    vpbroadcastd ymm2, [b]
broadcast128:
    vbroadcasti128 ymm3, [c]
insert128:
    vinserti128 ymm4, ymm3, [d], 1
fma:
    vfmadd231pd xmm5, xmm5, [e]
half:
    vcvtph2ps xmm6, [f]
vpermd:
    vmovdqu ymm7, [g]
    vpermd ymm8, ymm7, ymm4
scalar:
    vaddsd xmm9, xmm0, [h]
aligned:
    vmovdqa ymm10, [i]
    vmovdqu [sink], ymm10
    vmovdqu [sink + 32], ymm4
    vmovdqu ymm11, [sink + 16]
    vextracti128 [sink], ymm4, 1
    vmovdqa xmm12, [sink]
    vmovq rax, xmm12
    expect rax, 0x3333333333333333
    # A system call keeps the vector registers, and vzeroupper clears the upper halves only.
    mov eax, 39
    syscall
    vextracti128 xmm13, ymm10, 1
    vmovq rax, xmm13
    expect rax, 0x4444444444444444
    vzeroupper
    vextracti128 xmm13, ymm10, 1
    vmovq rax, xmm13
    expect rax, 0
    vmovq rax, xmm10
    expect rax, 0x4444444444444444
    finish
.macro slot name:req, value:vararg
    .balign 64
\name: \value
.endm
.data
    slot a, .float 1, 2, 3, 4, 5, 6, 7, 8
    slot b, .long 0x11
    slot c, .fill 16, 1, 0x22
    slot d, .fill 16, 1, 0x33
    slot e, .double 1, 2
    slot f, .short 0x3c00, 0x4000, 0x4200, 0x4400
    slot g, .long 7, 6, 5, 4, 3, 2, 1, 0
    slot h, .double 1.5
    slot i, .fill 32, 1, 0x44
.bss
.balign 4096
sink: .skip 128
