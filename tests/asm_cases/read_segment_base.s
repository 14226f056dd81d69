# rdfsbase and rdgsbase give the program's own bases, not the recorder's; exact replay ends at the first of them.
# CPU fsgsbase
# EXPECT end unsupported first
.include "case.inc"
_start:
    mov edi, 0x1002
    movabs rsi, 0x123456789000
    mov eax, 158
    syscall
    mov edi, 0x1001
    movabs rsi, 0x123456780000
    mov eax, 158
    syscall
first:
    rdfsbase rax
    expect rax, 0x123456789000
    rdgsbase rbx
    expect rbx, 0x123456780000
    rdfsbase ecx
    expect rcx, 0x56789000
    finish
