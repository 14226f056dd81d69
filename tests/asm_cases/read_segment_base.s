# rdfsbase gives the program's own base, not the recorder's.
# CPU fsgsbase
# EXPECT special first segmentbase
# EXPECT special second segmentbase
.include "case.inc"
_start:
    mov edi, 0x1002
    movabs rsi, 0x123456789000
    mov eax, 158
    syscall
first:
    rdfsbase rax
    expect rax, 0x123456789000
second:
    rdfsbase ecx
    expect rcx, 0x56789000
    finish
