# AES, SHA and carry-less multiplication with memory operands. The processor's bits for them may be masked; the
# instructions run all the same.
# CPU aes pclmulqdq sha_ni
# EXPECT load aesenc 0 11*16
# EXPECT load clmul 0 22*16
# EXPECT load sha256 0 33*16
# EXPECT load sha1 0 44*16
.include "case.inc"
_start:
    pcmpeqd xmm0, xmm0
    pcmpeqd xmm1, xmm1
aesenc:
    aesenc xmm0, [a]
    aesenc xmm0, [a]
    aeskeygenassist xmm2, [a], 1
clmul:
    pclmulqdq xmm1, [b], 0x10
sha256:
    sha256rnds2 xmm1, [c]
    sha256msg1 xmm1, [c]
sha1:
    sha1rnds4 xmm1, [d], 1
    movq rax, xmm1
    mov [sink], rax
    mov rcx, [sink]
    finish
.data
.balign 64
a: .fill 16, 1, 0x11
.balign 64
b: .fill 16, 1, 0x22
.balign 64
c: .fill 16, 1, 0x33
.balign 64
d: .fill 16, 1, 0x44
.bss
.balign 4096
sink: .skip 64
