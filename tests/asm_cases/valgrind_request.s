# The instructions by which programs talk to Valgrind, which do nothing: whole, and entered in the middle.
# EXPECT load behind 0 05 00*7
# EXPECT load behind2 0 06 00*7
.include "case.inc"
_start:
    movabs rdi, 0x1122334455667788
    mov edx, 77
    mov eax, 3
    rol rdi, 3
    rol rdi, 13
    rol rdi, 61
    rol rdi, 51
    xchg rbx, rbx
    mov r8, rdx
behind:
    mov rcx, [a]
    expect rdi, 0x1122334455667788
    expect r8, 77
    expect rcx, 5
    mov edx, 78
    jmp middle
    nop
middle:
    rol rdi, 3
    rol rdi, 13
    rol rdi, 61
    rol rdi, 51
    xchg rbx, rbx
behind2:
    mov rcx, [b]
    expect rdi, 0x1122334455667788
    expect rdx, 78
    finish
.data
a: .quad 5
.balign 64
b: .quad 6
