# movnti, movntdq, movntps and maskmovdqu store; the bytes that the
# mask leaves alone keep what was there, as if the instruction had read them and written them back.
# EXPECT load mask 0 80 00 80 00 80 00 80 00*9
# EXPECT load masked_store 0 22*16
# EXPECT load mask64 0 00 00 00 00 80 00 00 00
# EXPECT load masked_store64 0 33*8
.include "case.inc"
_start:
    mov eax, 0x12345678
    movnti [sink], eax
    pcmpeqd xmm0, xmm0
    movntdq [sink + 16], xmm0
    movntps [sink + 32], xmm0
    movntpd [sink + 48], xmm0
    sfence
    mov rax, [sink]
    expect rax, 0x12345678
    mov rax, [sink + 56]
    expect rax, -1
mask:
    movdqa xmm1, [selection]
    mov rdi, offset target
masked_store:
    maskmovdqu xmm0, xmm1
    movdqa xmm2, [target]
    movq rax, xmm2
    expect rax, 0x22ff22ff22ff22ff
mask64:
    movq mm1, [selection64]
    pxor mm0, mm0
    mov rdi, offset target64
masked_store64:
    maskmovq mm0, mm1
    mov rax, [target64]
    emms
    expect rax, 0x3333330033333333
    finish
.data
.balign 64
selection: .byte 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0
.balign 64
target: .fill 16, 1, 0x22
.balign 64
selection64: .byte 0, 0, 0, 0, 0x80, 0, 0, 0
.balign 64
target64: .fill 8, 1, 0x33
.bss
.balign 4096
sink: .skip 64
