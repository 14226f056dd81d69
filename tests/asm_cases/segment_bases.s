# Loads and stores through FS, whose base is set by arch_prctl in the middle of the run and read back.
# EXPECT load fs_load 0 11 00*7
# EXPECT load fs_add 0 33 00*7
# EXPECT load get_fs 0 q:block
.include "case.inc"
_start:
    # arch_prctl(ARCH_SET_FS, block)
    mov edi, 0x1002
    mov rsi, offset block
    mov eax, 158
    syscall
fs_load:
    mov rax, fs:[8]
    expect rax, 0x11
    mov ecx, 24
fs_add:
    add qword ptr fs:[rcx - 8], 1
    push qword ptr fs:[16]
    pop rax
    expect rax, 0x34
    mov fs:[24], rcx
    mov rax, [block + 24]
    expect rax, 24
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
answer: .quad 0
