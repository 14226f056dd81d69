# Loads and stores through FS and GS, whose bases are set by arch_prctl in the middle of the run and read back.
# EXPECT load fs_load 0 11 00*7
# EXPECT load gs_load 0 22 00*7
# EXPECT load fs_push 0 33 00*7
# EXPECT load get_fs 0 q:block
.include "case.inc"
_start:
    # arch_prctl(ARCH_SET_FS, block)
    mov edi, 0x1002
    mov rsi, offset block
    mov eax, 158
    syscall
    # arch_prctl(ARCH_SET_GS, block2)
    mov edi, 0x1001
    mov rsi, offset block2
    mov eax, 158
    syscall
fs_load:
    mov rax, fs:[8]
    expect rax, 0x11
    mov ecx, 8
gs_load:
    mov rax, gs:[rcx]
    expect rax, 0x22
fs_push:
    push qword ptr fs:[16]
    pop rax
    expect rax, 0x33
    mov fs:[24], rcx
    mov rax, [block + 24]
    expect rax, 8
    add qword ptr gs:[rcx + 16], 5
    mov rax, [block2 + 24]
    expect rax, 5
    # arch_prctl(ARCH_GET_FS, answer)
    mov edi, 0x1003
    mov rsi, offset answer
    mov eax, 158
    syscall
get_fs:
    mov rax, [answer]
    cmp rax, offset block
    jne failed
    finish
.data
block: .quad 0, 0x11, 0x33, 0
.balign 64
block2: .quad 0, 0x22, 0x44, 0
.balign 64
answer: .quad 0
