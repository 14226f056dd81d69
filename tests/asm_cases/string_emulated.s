# String instructions that the recorder executes itself: nothing of what they read is in the log, only their results.
# EXPECT special gs_lods emulated
# EXPECT special gs_movs emulated
# EXPECT special repne_movs emulated
# EXPECT special repne_lods emulated
# EXPECT special short_stos emulated
# EXPECT load short_single 0 41
# EXPECT special short_cmps emulated
# EXPECT special none emulated
.include "case.inc"
_start:
    mov eax, 158
    mov edi, 0x1001
    mov rsi, offset words
    syscall
    mov rax, -1
    mov esi, 8
gs_lods:
    .byte 0x65, 0xad
    expect rax, 0x13121110
    expect rsi, 12
    mov rdi, offset sink
    mov ecx, 3
    mov esi, 2
gs_movs:
    .byte 0x65, 0xf3, 0x66, 0xa5
    mov rax, [sink]
    expect rax, 0x070605040302
    mov rsi, offset sink
    mov rdi, offset sink + 8
    mov ecx, 8
repne_movs:
    .byte 0xf2, 0xa4
    mov rax, [sink + 8]
    expect rax, 0x070605040302
    mov rsi, offset words
    mov ecx, 2
    # Not read before it is written, as far as operands tell.
repne_lods:
    .byte 0xf2, 0x48, 0xad
    mov rdx, rcx
    expect rdx, 0
    mov edi, offset sink + 64
    mov rcx, 0x100000004
    mov al, 0x5a
short_stos:
    .byte 0x67, 0xf3, 0xaa
    mov rax, [sink + 64]
    expect rax, 0x5a5a5a5a
    expect rcx, 0
    # Alone, it is executed.
    mov rsi, offset single
    bts rsi, 40
short_single:
    .byte 0x67, 0xac
    cmp al, 0x41
    jne failed
    mov rax, offset single + 1
    cmp rsi, rax
    jne failed
    mov rsi, offset words
    mov rdi, offset others
    mov ecx, 16
short_cmps:
    .byte 0x67, 0xf3, 0xa6
    je failed
    expect rcx, 11
    xor ecx, ecx
none:
    .byte 0x65, 0xf3, 0xa4
    finish
.data
words: .byte 0, 1, 2, 3, 4, 5, 6, 7, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17
.balign 64
others: .byte 0, 1, 2, 3, 9
.skip 59
single: .byte 0x41
.bss
.balign 4096
sink: .skip 128
