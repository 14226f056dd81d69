# Loads and stores through GS, whose base is set by arch_prctl.
# EXPECT load gs_load 0 22 00*7
# EXPECT load gs_add 0 44 00*7
.include "case.inc"
_start:
    # arch_prctl(ARCH_SET_GS, block)
    mov edi, 0x1001
    mov rsi, offset block
    mov eax, 158
    syscall
    test eax, eax
    jnz failed
    mov ecx, 8
gs_load:
    mov rax, gs:[rcx]
    expect rax, 0x22
gs_add:
    add qword ptr gs:[16], 5
    mov rax, [block + 16]
    expect rax, 0x49
    mov gs:[24], rcx
    mov rax, [block + 24]
    expect rax, 8
    finish
.data
block: .quad 0, 0x22, 0x44, 0
