# The XSAVE family: what is stored depends on the processor's in-use tracking, so replay does not execute it.
# What xrstor reads from an area that xsave filled is known.
# CPU xsave xsaveopt xsavec avx
# EXPECT special save opaquestore
# EXPECT special save_compact opaquestore
# EXPECT special save_optimized opaquestore
# EXPECT special save_sse_only opaquestore
.include "case.inc"
_start:
    vpcmpeqd ymm1, ymm1, ymm1
    mov eax, 7
    xor edx, edx
save:
    xsave [area]
    mov rcx, [area + 512]
    mov rcx, [area + 160 + 16]
    expect rcx, -1
    mov rcx, [area + 576 + 16]
    expect rcx, -1
    vpxor ymm1, ymm1, ymm1
    xrstor [area]
    vextracti128 xmm2, ymm1, 1
    vmovq rcx, xmm2
    expect rcx, -1
save_compact:
    xsavec [area + 4096]
    mov rcx, [area + 4096 + 520]
    vpxor ymm1, ymm1, ymm1
    xrstor [area + 4096]
    vmovq rcx, xmm1
    expect rcx, -1
save_optimized:
    xsaveopt [area]
    mov eax, 2
save_sse_only:
    xsave [area + 8192]
    mov rcx, [area + 8192 + 160 + 16]
    expect rcx, -1
    # Upper halves are not part of what was saved: restoring all makes them zero.
    mov eax, 6
    xrstor [area + 8192]
    vextracti128 xmm2, ymm1, 1
    vmovq rcx, xmm2
    expect rcx, 0
    vmovq rcx, xmm1
    expect rcx, -1
    finish
.bss
.balign 4096
area: .skip 16384
