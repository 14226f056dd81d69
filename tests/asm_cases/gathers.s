# Gathers read one element a lane, in lane order; lanes that the mask leaves out are not read. ORDINAL is the lane.
# CPU avx2
# EXPECT load indices 0 00*4 04 00 00 00 08 00 00 00 0c 00 00 00 10 00 00 00 14 00 00 00 18 00 00 00 1c 00 00 00
# EXPECT load gather 0 10 00 00 00
# EXPECT load gather 1 11 00 00 00
# EXPECT load gather 2 12 00 00 00
# EXPECT load gather 3 13 00 00 00
# EXPECT load gather 4 14 00 00 00
# EXPECT load gather 5 15 00 00 00
# EXPECT load gather 6 16 00 00 00
# EXPECT load gather 7 17 00 00 00
# EXPECT load mask 0 00*4 ff ff ff ff 00*4 ff ff ff ff
# EXPECT load partly 1 21 00 00 00
# EXPECT load partly 3 23 00 00 00
# EXPECT load wild_indices 0 00*4 00 00 00 40 00*8
# EXPECT load wide 0 31 00*7
# EXPECT load wide 1 32 00*7
.include "case.inc"
_start:
indices:
    vmovdqa ymm1, [steps]
    mov rbx, offset first
    vpcmpeqd ymm2, ymm2, ymm2
gather:
    vpgatherdd ymm0, [rbx + ymm1*1], ymm2
    vptest ymm2, ymm2
    jnz failed
    vmovd eax, xmm0
    expect rax, 0x10
    # The same again is known.
    vpcmpeqd ymm2, ymm2, ymm2
    vpgatherdd ymm0, [rbx + ymm1*1], ymm2
    mov rbx, offset second
mask:
    vmovdqa xmm2, [odd]
    vpcmpeqd xmm0, xmm0, xmm0
partly:
    vpgatherdd xmm0, [rbx + xmm1*1], xmm2
    vpextrd eax, xmm0, 3
    expect rax, 0x23
    vmovd eax, xmm0
    expect rax, 0xffffffff
    # An index that leads to unmapped memory, in a lane that is left out.
wild_indices:
    vmovdqa xmm1, [wild]
    vpxor xmm2, xmm2, xmm2
    vpgatherdd xmm0, [rbx + xmm1*4], xmm2
    vpxor xmm1, xmm1, xmm1
    mov eax, 1
    vpinsrq xmm1, xmm1, rax, 1
    mov rbx, offset third
    vpcmpeqd xmm2, xmm2, xmm2
wide:
    vpgatherqq xmm0, [rbx + xmm1*8], xmm2
    vpextrq rax, xmm0, 1
    expect rax, 0x32
    # All lanes at one place.
    vpxor ymm1, ymm1, ymm1
    vpcmpeqd ymm2, ymm2, ymm2
    vgatherdps ymm0, [rbx + ymm1*4], ymm2
    finish
.data
.balign 64
steps: .long 0, 4, 8, 12, 16, 20, 24, 28
.balign 64
first: .long 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17
.balign 64
odd: .long 0, -1, 0, -1
.balign 64
second: .long 0x20, 0x21, 0x22, 0x23
.balign 64
wild: .long 0, 0x40000000, 0, 0
.balign 64
third: .quad 0x31, 0x32
