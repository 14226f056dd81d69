# MMX registers are the x87 registers' low parts: loads, stores, and their state over a system call.
# EXPECT load load64 0 11*8
# EXPECT load add 0 22*8
# EXPECT load load32 0 33*4
.include "case.inc"
_start:
load64:
    movq mm0, [a]
add:
    paddb mm0, [b]
load32:
    movd mm1, dword ptr [c]
    mov eax, 39
    syscall
    movq rax, mm0
    expect rax, 0x3333333333333333
    movntq [sink], mm0
    movq [sink + 8], mm1
    sfence
    mov rax, [sink]
    mov rax, [sink + 8]
    expect rax, 0x33333333
    cvtpi2ps xmm0, [sink]
    emms
    finish
.data
a: .fill 8, 1, 0x11
.balign 64
b: .fill 8, 1, 0x22
.balign 64
c: .fill 4, 1, 0x33
.bss
.balign 4096
sink: .skip 64
